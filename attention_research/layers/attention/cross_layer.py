"""Cross-layer attention, Brandon et al. 2024 (arXiv 2405.12981), section 3: neighbouring layers share keys and values.

Of every `interval` layers, the first computes keys and values, and the others have only a query and an output
projection: softmax(Q_l K^T / sqrt(H)) V with the K and V of the layer below. The cache is smaller by the factor
`interval`. Positions are rotary, as in the paper's models.
"""

from __future__ import annotations

from typing import Any

from flax import nnx
from jaxtyping import Array, Float, Int

from attention_research.layers.attention.multi_head import Where, seen_at
from attention_research.layers.attention.rotary import RotaryAttention
from attention_research.signatures import Constructor, Positive


class HandsOverKeys(RotaryAttention):
    """Rotary attention that hands its keys and values, before the rotation, to the layers above."""

    def hand_over(self, key: Array, value: Array) -> dict[str, Array]:
        """All keys and values so far."""
        return {"key": key, "value": value}


class ReadsKeys(RotaryAttention):
    """Rotary attention over keys and values of a lower layer. It has no cache of its own."""

    projected = ("query",)
    takes_handed = True

    def keys_values(self, x: Array) -> tuple[Array, Array]:
        """There are none of this layer."""
        raise NotImplementedError("the keys and values are those of a lower layer")

    def __call__(
        self, x: Float[Array, "B T D"], memory: Array | None = None, *, mask: Array | None = None,
        is_causal: bool = False, shared: nnx.Module | None = None, **given: Any,
    ) -> tuple[Float[Array, "B T D"], dict[str, Any]]:  # fmt: skip
        """Attention of x over the keys and values in `handed`."""
        del memory
        return self._attend(x, Where(mask, is_causal, shared=shared, x=x, **given))

    def start(self, batch: int, length: int, dtype: Any) -> dict[str, Array]:
        """Nothing."""
        del batch, length, dtype
        return {}

    def step(
        self, x: Float[Array, "B 1 D"], cache: dict[str, Array], index: Int[Array, ""], *,
        shared: nnx.Module | None = None, **given: Any,
    ) -> tuple[Float[Array, "B 1 D"], dict[str, Array], dict[str, Any]]:  # fmt: skip
        """Attends to positions 0 to index of the lower layer's cache."""
        visible = seen_at(index, given["handed"]["key"].shape[1])
        y, aux = self._attend(x, Where(visible, offset=index, shared=shared, x=x, **given))
        return y, cache, aux

    def _attend(self, x: Array, where: Where) -> tuple[Array, dict[str, Any]]:
        context, weights = self.mix(self.queries(x), where.handed["key"], where.handed["value"], where)
        return self.finish(context, where), {"attention_weights": weights}


class CrossLayerAttention(HandsOverKeys):
    """The layer that computes the keys and values of `interval` layers."""

    def __init__(self, *, interval: Positive = 2, **inherited: Any):
        del interval  # it belongs to the stack
        super().__init__(**inherited)

    @classmethod
    def by_layer(cls, attention: Constructor, num_layers: int) -> list[tuple[Constructor, int]]:
        """Groups of one layer with keys and values and `interval` - 1 layers without."""
        settings = dict(attention.settings)
        interval = settings.pop("interval")
        reader = attention.of(ReadsKeys, settings)
        return [(reader if layer % interval else attention, 1) for layer in range(num_layers)]
