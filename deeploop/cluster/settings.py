"""A cluster's own settings: `workflow/profiles/slurm/local.yaml`, which git ignores."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, ValidationError, model_validator

from deeploop.document import line_of, read_document
from deeploop.errors import UserError, nearest
from deeploop.stage import Section

SETTINGS_FILE = Path("workflow", "profiles", "slurm", "local.yaml")


class Cluster(Section):
    """What differs from one Slurm cluster to the next; every field has a default."""

    partition: str | None = None
    """Of jobs with GPUs; Slurm's default when absent."""
    cpu_partition: str | None = None
    """Of jobs without; as `partition` when absent."""
    account: str | None = None
    """The user's default when absent."""
    gpu_type: str | None = None
    """Between `gpu:` and the number in --gres, e.g. `h200`."""
    options: tuple[str, ...] = ()
    """Further sbatch options of every job, e.g. `--qos=long`, `--constraint=nvlink`."""
    setup: tuple[str, ...] = ()
    """Shell lines before the job's program, e.g. `module load cuda`."""
    container: str | None = None
    """Command that the program is started with, e.g. `apptainer exec --nv deeploop.sif`."""
    python: str | None = None
    """The interpreter on the nodes; the one that submits when absent."""
    max_minutes: int = Field(default=24 * 60, gt=0)
    """Longest time limit to ask for; a longer training is requeued and resumes."""
    stop_seconds: int = Field(default=120, gt=0)
    """How long before its time limit a job is asked to save."""
    attempts_without_progress: int = Field(default=3, gt=0)
    """After so many requeues in a row that did not get any further, a job fails."""
    poll_seconds: float = Field(default=30.0, gt=0)
    """How often the queue is looked at."""
    patience_minutes: float = Field(default=60.0, ge=0)
    """How long a submission is tried again while Slurm does not answer or is full."""

    @model_validator(mode="after")
    def _time_to_work(self) -> Cluster:
        if self.stop_seconds >= 30 * self.max_minutes:
            raise ValueError("stop_seconds leaves less than half of max_minutes to work in")
        return self


def read_cluster(root: Path) -> Cluster:
    """Return the project's cluster settings; the defaults when there is no file.

    Raises:
        UserError: naming file, line, key and remedy.
    """
    path = root / SETTINGS_FILE
    if not path.is_file():
        return Cluster()
    values, text = read_document(path)
    try:
        return Cluster.model_validate(values)
    except ValidationError as error:
        raise UserError(_mistake(error, text)) from None


def _mistake(error: ValidationError, text: str) -> str:
    first = error.errors()[0]
    keys = first["loc"]
    message = first["msg"]
    if first["type"] == "extra_forbidden":
        message = f"unknown key{nearest(str(keys[-1]), list(Cluster.model_fields))}"
    line = line_of(text, keys) if keys else 0
    place = ": ".join((f"{SETTINGS_FILE}{f':{line}' if line else ''}", *map(str, keys)))
    return f"{place}: {message.removeprefix('Value error, ')}"
