"""Lowers and hashes the programs that a run of a config computes. Nothing is allocated or compiled.

start     initial parameters and optimizer state, from a seed
train     one update, for the smallest and for the largest batch shape of the data
evaluate  losses of a batch, as in validation and evaluation, and the model outputs that the evaluation reads
decode    the search that generates texts, if an evaluation scores texts

The shapes are a function of the config (`train_shapes` of its data). Shapes between the two extremes are left out, so a
change that affects only these lengths is not detected. Evaluation and decoding use the largest batch. All programs are
those of one seed on one device. They do not depend on the mesh, the replicas, the seed or the logging.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attention_research.config import Config
from attention_research.models.sequences import source
from attention_research.tasks.evaluation_protocol import ReadsOutputs, ScoresTexts
from attention_research.training.generating import output_reader, translator
from attention_research.training.program_text import digest, program_text
from attention_research.training.replicas import member_configs
from attention_research.training.trainer import Trainer

Program = tuple[Callable[..., Any], tuple[Any, ...]]


def program_hashes(config: Config, *, evaluated: bool = True) -> dict[str, str]:
    """Part -> a hash of its programs (12 hex digits), or the reason why it cannot be lowered.

    If `evaluated` is false, the run is only trained and validated.
    """
    return {name: _digest(make) for name, make in _parts(config, evaluated=evaluated)}


def _digest(make: Callable[[], Iterator[Program]]) -> str:
    try:
        return digest(*(program_text(function, *shapes) for function, shapes in make()))
    except Exception as error:  # the other parts are recorded nevertheless
        return f"not lowered ({type(error).__name__}: {' '.join(str(error).split())[:80]})"


def _parts(config: Config, *, evaluated: bool = True) -> Iterator[tuple[str, Callable[[], Iterator[Program]]]]:
    trainer = Trainer(member_configs(config)[0], alone=True)
    step, start = trainer.step_and_start
    state = jax.eval_shape(start, 0)
    model = state["parameters"], state["statistics"]
    evaluation = trainer.parts.evaluation()
    evaluations = [evaluation, *(make() for make in trainer.parts.evaluations.values())]

    def started() -> Iterator[Program]:
        yield start, (jax.ShapeDtypeStruct((), jnp.int32),)

    def trained() -> Iterator[Program]:
        shapes = sorted(trainer.data.train_shapes(trainer.settings.batch_size), key=_size)
        for extreme in shapes[:: max(len(shapes) - 1, 1)]:
            yield step, (state, trainer.arrays(extreme))

    def largest() -> dict[str, jax.ShapeDtypeStruct]:
        return trainer.largest_evaluation_batch(evaluation.batch_size)

    def losses() -> Iterator[Program]:
        yield trainer.losses, (model, largest())
        for one in evaluations if evaluated else ():
            if isinstance(one, ReadsOutputs):
                yield output_reader(trainer, one), (model, largest())

    def decoded() -> Iterator[Program]:
        yield translator(trainer, trainer.parts.decoding()), (model, dict(source(largest())))

    yield "start", started
    yield "train", trained
    yield "evaluate", losses
    if evaluated and any(isinstance(one, ScoresTexts) for one in evaluations):
        yield "decode", decoded


def _size(shapes: Mapping[str, tuple[int, ...]]) -> int:
    return sum(int(np.prod(shape)) for shape in shapes.values())
