"""Repeats and reorders the batch rows of a model's cache without knowing its content.

The batch axis of each leaf is found by computing the shapes of the cache for two batch sizes: it is the axis whose
length changes. -1 means that a leaf has no batch axis and is the same for all rows, like a position index.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

NO_BATCH_AXIS = -1


def batch_axes(start: Callable[[Mapping[str, Array]], PyTree], source: Mapping[str, Array]) -> PyTree[int]:
    """The batch axis of every leaf of ``start(source)``: a tree of ints, -1 for leaves without one.

    `start` is only traced (`jax.eval_shape`), with B and 2B rows. Raises ValueError unless each leaf has at most one
    batch axis, of the size of the batch (not, for example, with heads folded into it); other rows cannot be reordered.

    >>> start = lambda source: {"key": jnp.zeros((3, len(source["source"]), 4)), "position": jnp.array(0)}
    >>> batch_axes(start, {"source": jnp.zeros((2, 5), int)})
    {'key': 1, 'position': -1}
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
    """Repeats each batch row `times` times: row b becomes rows b * times ... b * times + times - 1.

    >>> repeat({"key": jnp.array([[1.0], [2.0]])}, {"key": 0}, 2)["key"].ravel().tolist()
    [1.0, 1.0, 2.0, 2.0]
    """
    return jax.tree.map(
        lambda leaf, axis: leaf if axis == NO_BATCH_AXIS else jnp.repeat(leaf, times, axis=axis), cache, axes
    )


def reorder(cache: PyTree, axes: PyTree[int], indices: Int[Array, "B K"]) -> PyTree:
    """Reorders the rows within each group of K consecutive batch rows by `indices` (0 to K - 1).

    Rows move only within a group, so that no data move between devices that split the batch.

    >>> cache = {"key": jnp.array([[1.0], [2.0], [3.0], [4.0]])}  # two sentences with two hypotheses each
    >>> reorder(cache, {"key": 0}, jnp.array([[1, 1], [0, 1]]))["key"].ravel().tolist()
    [2.0, 2.0, 3.0, 4.0]
    """
    groups, size = indices.shape

    def gather(leaf: Array, axis: int) -> Array:
        if axis == NO_BATCH_AXIS:
            return leaf
        grouped = leaf.reshape(*leaf.shape[:axis], groups, size, *leaf.shape[axis + 1 :])
        take = lambda rows, chosen: jnp.take(rows, chosen, axis=axis, mode="clip")
        return jax.vmap(take, in_axes=(axis, 0), out_axes=axis)(grouped, indices).reshape(leaf.shape)

    return jax.tree.map(gather, cache, axes)
