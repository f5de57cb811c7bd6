"""Every mechanism of the kernels, by family. Used by the tests, a benchmark and docs/catalogue.md."""

from __future__ import annotations

import importlib

from tests.catalogue.mechanism import SIZES, Mechanism

#: family -> its title. The module with the family's name in this package has its MECHANISMS.
FAMILIES = {
    "exact": "Exact dot-product attention",
    "scores": "Alignment scores",
    "selection": "Soft, hard, local and monotonic selection",
    "copying": "Copying and coverage",
    "positions": "Position encodings and biases",
    "efficient": "Sub-quadratic attention",
    "state": "Attention with a state of constant size",
    "no_dot_product": "Mixing without dot products",
    "vision": "Attention over images",
    "variants": "Variants of dot-product attention",
    "sets": "Attention over sets",
}


def mechanisms(family: str | None = None) -> tuple[Mechanism, ...]:
    """The mechanisms of a family, or of all families."""
    if family is None:
        return tuple(one for name in FAMILIES for one in mechanisms(name))
    return importlib.import_module(f"tests.catalogue.{family}").MECHANISMS


__all__ = ["FAMILIES", "SIZES", "Mechanism", "mechanisms"]
