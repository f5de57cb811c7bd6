"""Attention over the channels and positions of images, and convolution as hard attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from attention_research.kernels import channel_attention, spatial_attention
from attention_research.kernels.vision import cbam, convolution_as_attention, sca, squeeze_excitation
from tests.catalogue.mechanism import Empty, Mechanism

_GATES = "tests/kernels/test_vision.py::test_gates_are_those_of_pytorch_image_by_image"
_SCA = "tests/kernels/test_vision.py::test_sca_is_the_equations_image_by_image"
_CONVOLUTION = "tests/kernels/test_convolution_as_attention.py::test_a_convolution_is_one_head_a_tap"
_IMAGE = {"x": "B Y X C", "mask": "bool B Y X"}
_CHANNELS = {"reduce_kernel": "C R", "expand_kernel": "R C", "reduce_bias": "R", "expand_bias": "C"}
_POSITIONS = {"kernel": "Ky Kx 2 1", "bias": ""}
_SIZES = {"Y": 5, "X": 7, "C": 11, "R": 3, "Ky": 7, "Kx": 3, "2": 2, "D": 13, "A": 17, "E": 19, "F": 2}
_LAWS: dict[str, Any] = dict(sizes=_SIZES, padding=("mask", "Y"), empty=Empty("mask", np.s_[0], np.s_[0]), grows=("Y",))

MECHANISMS = (
    *(
        Mechanism(
            function.__name__,
            function,
            {**_IMAGE, **_CHANNELS},
            ("B Y X C", "B C"),
            _GATES,
            permutable=("Y", "X", "C", "R"),
            **_LAWS,
        )
        for function in (squeeze_excitation, channel_attention)
    ),
    Mechanism(
        "spatial_attention",
        spatial_attention,
        {**_IMAGE, **_POSITIONS},
        ("B Y X C", "B Y X"),
        _GATES,
        permutable=("C",),
        **_LAWS,
    ),
    Mechanism(
        "cbam",
        cbam,
        {**_IMAGE, **_CHANNELS, **_POSITIONS},
        ("B Y X C", "B C", "B Y X"),
        _GATES,
        permutable=("C", "R"),
        **_LAWS,
    ),
    *(
        Mechanism(
            name,
            sca,
            {
                **_IMAGE,
                "state": "B D",
                "spatial_kernel": "C A",
                "spatial_bias": "A",
                "spatial_state_kernel": "D A",
                "spatial_vector": "A",
                "channel_kernel": "E",
                "channel_bias": "E",
                "channel_state_kernel": "D E",
                "channel_vector": "E",
            },
            ("B Y X C", "B Y X", "B C"),
            _SCA,
            settings={"order": order, "rescaled": rescaled},
            permutable=("Y", "X", "C", "D", "A", "E"),
            **_LAWS,
        )
        for name, order, rescaled in (
            ("sca_channel_spatial", "channel-spatial", False),
            ("sca_spatial_channel", "spatial-channel", True),
        )
    ),
    *(
        Mechanism(
            f"convolution_by_{mode}",
            convolution_as_attention,
            {**_IMAGE, "kernel": "Ky Kx C F"},
            ("B Y X F",),
            _CONVOLUTION,
            settings={"mode": mode},
            permutable=("C", "F"),
            **{**_LAWS, "sizes": {**_SIZES, "Ky": 3, "Kx": 2, "F": 13}},
        )
        for mode in ("gather", "weights")
    ),
)
