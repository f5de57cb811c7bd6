"""A Transformer decoder whose sequence begins with a given source, followed by the target."""

from __future__ import annotations

from typing import Any

from jaxtyping import Array, Bool, Float, Int, Key

from attention_research.models.causal_stack import CausalStack
from attention_research.signatures import Child, Constructor


class PromptedStack(CausalStack):
    """A `CausalStack` that processes the positions of the source at once (`prefill`). Source position t attends to
    positions 0..t."""

    reads = "source embedding, then the target's, shifted right"

    def __init__(self, *, self_attention: Child["prompted_attention"], positions: Child["positions"], **inherited: Any):
        super().__init__(self_attention=twice_as_long(self_attention), positions=twice_as_long(positions), **inherited)

    def __call__(  # type: ignore[override]  # receives the length of the source
        self,
        x: Float[Array, "B T D"],
        positions: Int[Array, "#B T"],
        mask: Bool[Array, "B 1 1 T"],
        *,
        prompt: int,
        real: Bool[Array, "B T"] | None = None,
        key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """(hidden states, aux of the stack). `mask` is False at padding of the source. The first `prompt` positions
        are the source. Experts process only the `real` tokens."""
        return self._run(x, positions, {"self_attention": self._seen(mask, prompt)}, key, real=real)

    def _seen(self, mask: Bool[Array, "B 1 1 T"], prompt: int) -> dict[str, Any]:
        """The inputs of the self-attention."""
        del prompt
        return {"mask": mask, "is_causal": True, "shared": self.shared}

    def prefill(
        self, x: Float[Array, "B P D"], positions: Int[Array, "B P"], mask: Bool[Array, "B 1 1 P"], length: int
    ) -> list[dict[str, Any]]:
        """Runs the source and returns the caches for `length` positions. The source is the first P of them. Raises
        ValueError if a table of positions has fewer."""
        self._expect_length(length)
        real = {"real": mask[:, 0, 0]}
        inputs = {"self_attention": self._seen(mask, x.shape[1]), "padding": real, "tokens": real}
        return self.stack.prefill(self._enter(x, positions, None), length, inputs)[1]

    def step(  # type: ignore[override]  # receives the position of the token in its text
        self, x: Float[Array, "B 1 D"], caches: list[dict[str, Any]], index: Int[Array, ""],
        positions: Int[Array, "B 1"],
    ) -> tuple[Float[Array, "B 1 D"], list[dict[str, Any]], dict[str, Any]]:  # fmt: skip
        """(hidden state, caches, aux) of the token at `index` of the cache, whose position in its text is
        `positions`."""
        return self._run_step(x, caches, index, {"self_attention": self.shared}, positions)


def twice_as_long(child: Constructor) -> Constructor:
    """The child with twice the `max_length`: for a source and a target of at most `max_length` tokens each."""
    given = child.settings
    double = {"max_length": 2 * given["max_length"]} if "max_length" in given else {}
    return child.of(child.target, {**given, **double})
