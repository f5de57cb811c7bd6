"""Fixtures shared by the tests of whole runs."""

import copy
import functools

import pytest

from attention_research.config import Config, build_experiment
from attention_research.training import evaluation, initial, run
from attention_research.training.trainer import Trainer

#: Settings of `training` that do not affect the compiled programs. `steps` affects those of some schedules only.
OUTSIDE = {"seed", "data_seed", "log_every", "eval_every", "checkpoint_every", "eval_batches", "keep", "keep_best"}
CONSTANT = {"noam", "constant"}


def computed(config):
    """A key for the programs of a config: a hash of everything that they depend on."""
    settings = config.resolved["training"]
    left_out = OUTSIDE if settings["replicas"] == 1 else OUTSIDE - {"seed"}
    left_out = left_out | ({"steps"} if settings["schedule"]["kind"] in CONSTANT else set())
    kept = {name: section for name, section in config.resolved.items() if name not in ("evaluation", "decoding")}
    return Config({}, {**kept, "training": {name: x for name, x in settings.items() if name not in left_out}}).hash


@pytest.fixture(scope="module")
def programs_once():
    """Runs with the same programs trace and compile them once. Data, state and settings belong to each run.

    The fingerprint of the sources takes as long as a run does, so it is computed once.
    """
    made = {}

    def shared(config, *, alone=False):
        key = computed(config), alone
        if key not in made:
            made[key] = Trainer(config, alone=alone)
            assert callable(made[key]._evaluation_step)  # a cached property, which the copies then share
        trainer = copy.copy(made[key])
        parts = build_experiment(config)
        trainer.config, trainer.parts, trainer.settings, trainer.data = config, parts, parts.training(), parts.data()
        if trainer.replicas > 1:
            return trainer
        trainer.seeds, trainer.execution = [trainer.settings.seed], copy.copy(trainer.execution)
        start = trainer.step_and_start[1]
        trainer.execution.start = lambda: trainer.execution.made(start, trainer.settings.seed)
        return trainer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "describe", functools.cache(run.describe))
        for module in (run, evaluation, initial):
            patch.setattr(module, "Trainer", shared)
        yield
