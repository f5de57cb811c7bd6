"""A Transformer decoder without a memory (Radford et al. 2018): the decoder-only stack of a language model."""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from attention_research.layers.attention.multi_head import owned_by_stack
from attention_research.models.layered import Layered
from attention_research.signatures import Child, Positive, Rate


class CausalStack(Layered):
    """Embeddings [B T D] -> hidden states [B T D]. Position t attends to positions 0..t. The default is pre-norm, as in
    GPT-2."""

    writes = True

    def __init__(
        self,
        *,
        width: Positive,
        num_layers: Positive,
        dropout_rate: Rate,
        self_attention: Child["causal_attention"],
        feed_forward: Child["feed_forward"],
        norm: Child["norm"],
        positions: Child["positions"],
        steps: tuple[tuple[str, ...], ...] = (
            ("norm", "self_attention", "dropout", "residual"),
            ("norm", "feed_forward", "dropout", "residual"),
        ),
        final_norm: bool = True,
        unroll: bool = False,
        remat: bool = False,
        rngs: nnx.Rngs,
    ):
        del width  # the children inherit it from the section
        children = {"self_attention": self_attention, "feed_forward": feed_forward, "norm": norm}
        self._build(
            children,
            num_layers=num_layers,
            steps=steps,
            dropout_rate=dropout_rate,
            positions=positions,
            final_norm=final_norm,
            unroll=unroll,
            remat=remat,
            rngs=rngs,
        )
        self.shared = owned_by_stack(self_attention, rngs)

    def __call__(
        self,
        x: Float[Array, "B T D"],
        positions: Int[Array, "#B T"],
        mask: Bool[Array, "B 1 #T T"] | None,
        *,
        real: Bool[Array, "B T"] | None = None,
        key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:
        """(hidden states, aux of the stack). Experts process only the `real` tokens."""
        inputs = {"self_attention": {"mask": mask, "is_causal": True, "shared": self.shared}}
        return self._run(x, positions, inputs, key, real=real)

    def start(self, batch: int, length: int, dtype: Any) -> list[dict[str, Any]]:
        """Empty caches for `length` positions. Raises ValueError if a table of positions has fewer."""
        self._expect_length(length)
        return self.stack.start(batch, length, dtype, {})

    def step(
        self, x: Float[Array, "B 1 D"], caches: list[dict[str, Any]], index: Int[Array, ""]
    ) -> tuple[Float[Array, "B 1 D"], list[dict[str, Any]], dict[str, Any]]:
        """(hidden state, caches, aux) of position `index`."""
        return self._run_step(x, caches, index, {"self_attention": self.shared})
