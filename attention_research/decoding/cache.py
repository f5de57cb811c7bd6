"""Rows of an opaque cache: a search repeats and reorders them without knowing what they hold.

Which axis of a leaf is the batch is asked, not agreed: the shapes of the cache are computed for two batch sizes, and
the axis that follows is the batch axis (-1: the leaf has none and is the same for all rows, as a position index is).
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

NO_BATCH_AXIS = -1


def batch_axes(start: Callable[[Mapping[str, Array]], PyTree], source: Mapping[str, Array]) -> PyTree[int]:
    """The batch axis of every leaf of ``start(source)``: a tree of ints, -1 for leaves without one.

    `start` is traced only (`jax.eval_shape`), on batches of B and 2B rows. Raises where a leaf's batch axis is not
    single and of the batch's size (heads folded into the batch, say): such rows could not be reordered.
    """
    batch = jax.tree.leaves(source)[0].shape[0]

    def shapes(rows: int) -> PyTree:
        resized = {name: jax.ShapeDtypeStruct((rows, *x.shape[1:]), x.dtype) for name, x in source.items()}
        return jax.eval_shape(start, resized)

    def axis(path: tuple, one: Any, two: Any) -> int:
        found = [i for i, (m, n) in enumerate(zip(one.shape, two.shape, strict=True)) if m != n]
        if not found:
            return NO_BATCH_AXIS
        if len(found) > 1 or (one.shape[found[0]], two.shape[found[0]]) != (batch, 2 * batch):
            raise ValueError(
                f"cache{jax.tree_util.keystr(path)}: expected one axis as long as the batch, but its shape is "
                f"{one.shape} for {batch} rows and {two.shape} for {2 * batch}"
            )
        return found[0]

    return jax.tree_util.tree_map_with_path(axis, shapes(batch), shapes(2 * batch))


def repeat(cache: PyTree, axes: PyTree[int], times: int) -> PyTree:
    """Every batch row `times` times in a row: row b becomes rows b * times ... b * times + times - 1."""
    return jax.tree.map(
        lambda leaf, axis: leaf if axis == NO_BATCH_AXIS else jnp.repeat(leaf, times, axis=axis), cache, axes
    )


def reorder(cache: PyTree, axes: PyTree[int], indices: Int[Array, "B K"]) -> PyTree:
    """Of each group of K consecutive batch rows, the rows that `indices` (0 to K - 1) names, in its order.

    Only the batch axis is gathered, and only within a group: on a mesh that splits the batch nothing moves.
    """
    groups, size = indices.shape

    def gather(leaf: Array, axis: int) -> Array:
        if axis == NO_BATCH_AXIS:
            return leaf
        grouped = leaf.reshape(*leaf.shape[:axis], groups, size, *leaf.shape[axis + 1 :])
        take = lambda rows, chosen: jnp.take(rows, chosen, axis=axis, mode="clip")
        return jax.vmap(take, in_axes=(axis, 0), out_axes=axis)(grouped, indices).reshape(leaf.shape)

    return jax.tree.map(gather, cache, axes)
