"""A training: steps that are saved, and can be slow, or held as long as a file is there."""

import os
import time
from pathlib import Path

from deeploop.errors import Interrupted
from deeploop.stage import Draft, Section, Stage, StageSection
from stages.model import step


class Recipe(Section):
    momentum: float = 0.5


class Settings(Section):
    learning_rate: float
    weight_decay: float
    seed: int = 0
    version: int = 1


class Execution(Section):
    gpus: int = 1
    micro_batch: int = 1
    workers: int = 1


class TrainSection(StageSection):
    runs: dict[str, Settings]
    recipe: Recipe = Recipe()
    execution: Execution = Execution()


def expand(section, plan):
    for name, settings in section.runs.items():
        params = settings.model_dump(exclude={"version"}) | section.recipe.model_dump()
        yield Draft(
            name,
            params,
            inputs=(("tokenize", "text"),),
            execution=section.execution.model_dump(),
            version=section.version + settings.version - 1,
        )


def run(job):
    """Hash for twenty steps, saving each."""
    tokens = (job.input("tokenize").folder / "tokens.txt").read_text()
    saved = job.work / "state.txt"
    number, state = saved.read_text().split() if saved.exists() else ("0", "start")
    with job.telemetry.open("a") as log:
        log.write(f'{{"first_step": {number}}}\n')
    for index in range(int(number), 20):
        state = step(state, f"{tokens}{sorted(job.params.items())}", index)
        part = saved.with_suffix(".part")
        part.write_text(f"{index + 1} {state}")
        part.replace(saved)
        time.sleep(float(os.environ.get("TOY_STEP_SECONDS", "0")))
        while "TOY_HOLD" in os.environ and Path(os.environ["TOY_HOLD"]).exists() and not job.stop():
            time.sleep(0.05)
        if job.stop():
            raise Interrupted(job.run)
    (job.folder / "weights.txt").write_text(state)


STAGE = Stage("train", "trainings", TrainSection, expand, pinned=True)
