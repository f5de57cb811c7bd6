"""Exact dot-product attention in its implementations."""

from __future__ import annotations

import numpy as np

from attention_research.catalogue.mechanism import Empty, Mechanism
from attention_research.kernels import dot_product_attention

_HEADS = {"query": "B T N H", "key": "B S K H", "value": "B S K Hv", "mask": "bool B 1 1 S"}
_SIZES = {"N": 6, "K": 3, "Hv": 7}
_ORACLE = "tests/kernels/test_attention.py::test_reference_and_blockwise_are_the_equation_and_gradients_agree"
_LAWS = dict(
    outputs=("B T N Hv",),
    sizes=_SIZES,
    permutable=("T", "S"),
    padding=("mask", "S"),
    empty=Empty("mask", np.s_[0], np.s_[0]),
    oracle=_ORACLE,
    grows=("T", "S"),
)

MECHANISMS = (
    Mechanism("reference", dot_product_attention, _HEADS, settings={"implementation": "reference"}, **_LAWS),
    Mechanism(
        "blockwise", dot_product_attention, _HEADS, settings={"implementation": "blockwise"}, blockwise=True, **_LAWS
    ),
    Mechanism(
        "causal",
        dot_product_attention,
        {"query": "B T N H", "key": "B T K H", "value": "B T K Hv"},
        settings={"implementation": "blockwise", "is_causal": True},
        outputs=("B T N Hv",),
        sizes=_SIZES,
        causal="T",
        loose=(("query", "T"),),
        blockwise=True,
        oracle=_ORACLE,
        grows=("T",),
    ),
)
