"""Shape checks for the arguments of kernels. Errors name the argument and the axis."""

from __future__ import annotations

from jaxtyping import Array


def check_shapes(**arguments: tuple[Array | None, str]) -> dict[str, int]:
    """Checks arrays given as name=(array, "B T D") and returns {axis letter: size}. Arrays that are None are skipped.

    An axis must have the same size in all arguments; earlier arguments determine the size. A number stands for that
    size; "#T" stands for T or 1 (broadcasting). Raises ValueError naming the argument and the axis.

    >>> import jax.numpy as jnp
    >>> check_shapes(query=(jnp.ones((2, 5, 3)), "B T D"), keys=(jnp.ones((2, 7, 4)), "B S D"))
    Traceback (most recent call last):
    ValueError: keys: axis D of [B S D]: expected 3 as in query, got 4 ([2, 7, 4])
    """
    sizes: dict[str, int] = {}
    first: dict[str, str] = {}
    for name, (array, axes) in arguments.items():
        if array is None:
            continue
        letters = axes.split()
        if array.ndim != len(letters):
            raise ValueError(f"{name}: expected {len(letters)} axes [{axes}], got shape {list(array.shape)}")
        for letter, got in zip(letters, array.shape, strict=True):
            broadcast, axis = letter.startswith("#"), letter.lstrip("#")
            if broadcast and got == 1:
                continue
            expected = int(axis) if axis.isdigit() else sizes.setdefault(axis, got)
            if got != expected:
                one = "1 or " if broadcast else ""
                where = f" as in {first[axis]}" if axis in first else ""
                raise ValueError(
                    f"{name}: axis {axis} of [{axes}]: expected {one}{expected}{where}, got {got} ({list(array.shape)})"
                )
            first.setdefault(axis, name)
    return sizes
