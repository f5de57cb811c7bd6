"""A Transformer decoder that is given the beginning of its sequence: a source, then what is written after it."""

from __future__ import annotations

from typing import Any

from jaxtyping import Array, Bool, Float, Int, Key

from attention_research.models.causal_stack import CausalStack
from attention_research.signatures import Child, Constructor


class PromptedStack(CausalStack):
    """A `CausalStack` that reads its first positions at once (`prefill`), position t of them seeing 0..t too."""

    reads = "source embedding, then the target's, shifted right"

    def __init__(self, *, self_attention: Child["prompted_attention"], positions: Child["positions"], **inherited: Any):
        super().__init__(self_attention=self_attention, positions=twice_as_long(positions), **inherited)

    def __call__(  # type: ignore[override]  # is told where the source ends
        self,
        x: Float[Array, "B T D"],
        positions: Int[Array, "#B T"],
        mask: Bool[Array, "B 1 1 T"],
        *,
        prompt: int,
        key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """(hidden states, aux of the stack); `mask` is False at padding; the first `prompt` are the source."""
        return self._run(x, positions, {"self_attention": self._seen(mask, prompt)}, key)

    def _seen(self, mask: Bool[Array, "B 1 1 T"], prompt: int) -> dict[str, Any]:
        """What the self-attention is given."""
        del prompt
        return {"mask": mask, "is_causal": True, "shared": self.shared}

    def prefill(
        self, x: Float[Array, "B P D"], positions: Int[Array, "B P"], mask: Bool[Array, "B 1 1 P"], length: int
    ) -> list[dict[str, Any]]:
        """The caches for `length` positions, of which the source is the first P."""
        real = {"real": mask[:, 0, 0]}
        inputs = {"self_attention": self._seen(mask, x.shape[1]), "padding": real, "tokens": real}
        return self.stack.prefill(self._enter(x, positions, None), length, inputs)[1]

    def step(  # type: ignore[override]  # is told the token's place in its text
        self, x: Float[Array, "B 1 D"], caches: list[dict[str, Any]], index: Int[Array, ""],
        positions: Int[Array, "B 1"],
    ) -> tuple[Float[Array, "B 1 D"], list[dict[str, Any]], dict[str, Any]]:  # fmt: skip
        """The token at `index`, which stands at `positions` of its row's text: (hidden state, caches, aux)."""
        return self._run_step(x, caches, index, {"self_attention": self.shared}, positions)


def twice_as_long(positions: Constructor) -> Constructor:
    """Positions for a source and a target, each of at most `max_length`."""
    given = positions.settings
    double = {"max_length": 2 * given["max_length"]} if "max_length" in given else {}
    return Constructor(positions.target, {**given, **double})
