"""A cluster's own settings, and what they make of a request."""

from __future__ import annotations

from pathlib import Path

import pytest

from deeploop.cluster.request import Request
from deeploop.cluster.settings import SETTINGS_FILE, Cluster, read_cluster
from deeploop.document import read_document
from deeploop.errors import UserError

REPOSITORY = Path(__file__).parents[2]


def test_without_a_file_nothing_is_said() -> None:
    assert read_cluster(Path("/nonexistent")) == Cluster()
    options = Request(cpus=2, memory_mb=100, minutes=30).options(Cluster())
    assert not [o for o in options if o.startswith(("--partition", "--account", "--gres"))]


def test_the_example_is_the_defaults_key_for_key() -> None:
    example = REPOSITORY / SETTINGS_FILE.with_name("local.example.yaml")
    values, _ = read_document(example)
    assert set(values) == set(Cluster.model_fields)
    assert Cluster.model_validate(values) == Cluster()


def test_a_mistake_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / SETTINGS_FILE
    path.parent.mkdir(parents=True)
    path.write_text("partition: gpu\npoll_seconds: 0\n")
    with pytest.raises(UserError, match=r"local\.yaml:2: poll_seconds: .*greater than 0"):
        read_cluster(tmp_path)


def test_a_job_must_have_time_to_work() -> None:
    with pytest.raises(ValueError, match="less than half of max_minutes"):
        Cluster(max_minutes=4, stop_seconds=120)


def test_gpus_decide_the_partition_and_limits_are_kept() -> None:
    cluster = Cluster(partition="gpu", cpu_partition="cpu", gpu_type="h200", max_minutes=60)
    on_gpus = Request(8, 1024, 600, nodes=2, gpus_per_node=4).options(cluster)
    assert {"--partition=gpu", "--gres=gpu:h200:4", "--nodes=2", "--time=60"} <= set(on_gpus)
    assert "--partition=cpu" in Request(1, 1024, 10).options(cluster)
