"""How Mesh TensorFlow's Transformer starts where attention itself divides its logits by sqrt(H).

What the released configurations of Narang et al. 2021 have with Adam (ReZero): `fold_scaling_into_initializer` False.
The function is the same as with `mesh_tensorflow`, not so its gradient by the queries, to whose size Adam is blind.
"""

from __future__ import annotations

from flax import nnx
from jaxtyping import Array

from attention_research.layers.initialization.mesh_tensorflow import start
from attention_research.layers.initialization.redraw import redraw


class MeshTFScaled:
    """`mesh_tensorflow` for scaled attention: queries N(0, D^-1/2) as the keys."""

    def __call__(self, module: nnx.Module, rngs: nnx.Rngs) -> None:
        """Draws the parameters of the module anew."""

        def draw(name: str, value: Array, key: Array) -> Array:
            return start(module, name, value, key, dense_variance=1.0, query_scaled=False)

        redraw(module, draw, rngs)
