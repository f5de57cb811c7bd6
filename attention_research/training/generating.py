"""What evaluation and generation compute with a trained model, as functions to trace.

`training.evaluation` runs them and `training.programs` hashes them, so that the program that is hashed is the one that
is run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax

from attention_research.decoding.continuation import Continued
from attention_research.models.protocol import Continues, Generates
from attention_research.training.trainer import Trainer


def continues(trainer: Trainer) -> bool:
    """Whether the model is a language model without a source, which goes on with what it is given."""
    model = trainer.parts.model.target
    return issubclass(model, Continues) and not issubclass(model, Generates)


def most_tokens(trainer: Trainer) -> int:
    """As many tokens as the model can write and the data ask for; unused for image-only models."""
    said = trainer.config.resolved
    max_length = said["model"].get("max_length") or said["max_length"]
    return min(max_length, trainer.data.target_length or max_length)


def translator(trainer: Trainer, decoding: Any) -> Callable[[tuple[Any, Any], Mapping[str, jax.Array]], Any]:
    """(parameters and statistics, source) -> what `decoding` finds."""
    written_by = Continued if continues(trainer) else lambda model: model

    def translate(model: tuple[Any, Any], source: Mapping[str, jax.Array]) -> Any:
        return decoding(written_by(trainer.structure.merge(*model)), source, max_length=most_tokens(trainer))

    return translate


def output_reader(trainer: Trainer, evaluation: Any) -> Callable[[tuple[Any, Any], Mapping[str, jax.Array]], Any]:
    """(parameters and statistics, batch) -> what an evaluation that decodes nothing scores."""
    return lambda model, batch: evaluation.outputs(trainer.structure.merge(*model), batch)
