"""What the tests of whole runs share."""

import copy
import functools

import pytest

from attention_research.training import evaluation, initial, run
from attention_research.training.trainer import Trainer


@pytest.fixture(scope="module")
def programs_once():
    """Runs of one config share the programs that the first one traces and compiles; data and state are each run's own.

    The fingerprint of the sources, which takes as long as a run does, is computed once.
    """
    made = {}

    def shared(config, *, alone=False):
        if (config, alone) not in made:
            made[config, alone] = Trainer(config, alone=alone)
            assert callable(made[config, alone]._evaluation_step)  # a cached property: the copies hold it
        trainer = copy.copy(made[config, alone])
        trainer.config, trainer.data = config, trainer.parts.data()
        return trainer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "describe", functools.cache(run.describe))
        for module in (run, evaluation, initial):
            patch.setattr(module, "Trainer", shared)
        yield
