"""The methods `start` and `step` of models with a recurrent decoder, for any kind of source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flax import nnx
from jaxtyping import Array, Float, Int


class RecurrentWriter(nnx.Module):
    """The base class of models with a `decoder` (`models.recurrent.stepwise`) and a `vocabulary`."""

    decoder: Any
    vocabulary: Any

    def start(self, memory: Mapping[str, Any], length: int | None = None) -> dict[str, Any]:
        """The cache before the first token. `length` is unused, since targets can have any length."""
        del length
        return self.decoder.start(memory)

    def step(
        self, cache: Mapping[str, Any], tokens: Int[Array, "B"]
    ) -> tuple[dict[str, Any], Float[Array, "B V"], dict[str, Any]]:
        """(cache, log p of the next token, {"decoder": {"alignment": [B S]}}), given the previous token (BOS first)."""
        hidden, cache, aux = self.decoder.step(self.vocabulary.target(tokens), cache)
        return cache, self.vocabulary.log_probabilities(hidden), {"decoder": aux}
