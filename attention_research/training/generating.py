"""The functions that evaluation and generation compute with a trained model, ready to be traced.

`training.evaluation` runs them and `training.programs` hashes them, so the hashed program is the program that runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax

from attention_research.decoding.continuation import Continued
from attention_research.models.protocol import Continues, Generates
from attention_research.training.named_arrays import NamedArrays
from attention_research.training.trainer import Trainer


def continues(trainer: Trainer) -> bool:
    """Whether the model is a language model without a source, which continues a prompt."""
    model = trainer.parts.model.target
    return issubclass(model, Continues) and not issubclass(model, Generates)


def most_tokens(trainer: Trainer) -> int:
    """The maximum output length in tokens, by the model and the data. Unused for image-only models."""
    said = trainer.config.resolved
    max_length = said["model"].get("max_length") or said["max_length"]
    return min(max_length, trainer.data.target_length or max_length)


def translator(trainer: Trainer, decoding: Any) -> Callable[[tuple[Any, Any], Mapping[str, jax.Array]], Any]:
    """The function (parameters and statistics, source) -> the result of `decoding`."""
    written_by = Continued if continues(trainer) else lambda model: model

    def translate(model: tuple[Any, Any], source: Mapping[str, jax.Array]) -> Any:
        return decoding(written_by(trainer.structure.merge(*model)), source, max_length=most_tokens(trainer))

    return translate


def output_reader(trainer: Trainer, evaluation: Any) -> Callable[[tuple[Any, Any], Mapping[str, jax.Array]], Any]:
    """The function (parameters and statistics, batch) -> the model outputs that the evaluation scores."""
    return lambda model, batch: evaluation.outputs(trainer.structure.merge(*model), NamedArrays(batch))
