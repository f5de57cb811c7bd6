"""The initialization of Mesh TensorFlow's Transformer for attention that divides its logits by sqrt(H).

The released configurations of Narang et al. 2021 use it with Adam (ReZero): `fold_scaling_into_initializer` is False.
The model computes the same function as with `mesh_tensorflow`, but the gradient with respect to the query kernels
differs, and the step size of Adam does not depend on the scale of the parameters.
"""

from __future__ import annotations

from flax import nnx
from jaxtyping import Array

from attention_research.layers.initialization.mesh_tensorflow import start
from attention_research.layers.initialization.redraw import redraw


class MeshTFScaled:
    """The same as `mesh_tensorflow`, but for scaled attention: queries are N(0, D^-1/2), like the keys."""

    def __call__(self, module: nnx.Module, rngs: nnx.Rngs) -> None:
        """Replaces the values of the parameters of the module."""

        def draw(name: str, value: Array, key: Array) -> Array:
            return start(module, name, value, key, dense_variance=1.0, query_scaled=False)

        redraw(module, draw, rngs)
