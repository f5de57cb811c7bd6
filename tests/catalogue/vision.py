"""Attention over the channels and positions of images, and convolution as hard attention."""

from __future__ import annotations

from functools import partial

from attention_research.kernels.vision import (
    cbam,
    channel_attention,
    convolution_as_attention,
    sca,
    spatial_attention,
    squeeze_excitation,
)
from tests.catalogue.mechanism import Mechanism

_SIZES = {"Y": 5, "X": 7, "C": 11, "R": 3, "Ky": 7, "Kx": 3, "2": 2, "D": 13, "A": 17, "E": 19, "F": 2}
_gate = partial(Mechanism, first="x mask", sizes=_SIZES, oracle="vision::gates_are_those_of_pytorch_image_by_image")
_sca = partial(
    Mechanism,
    sca,
    first="x mask",
    sizes=_SIZES,
    permutable=("Y", "X", "C", "D", "A", "E"),
    oracle="vision::sca_is_the_equations_image_by_image",
)

MECHANISMS = (
    _gate(squeeze_excitation, permutable=("Y", "X", "C", "R")),
    _gate(channel_attention, permutable=("Y", "X", "C", "R")),
    _gate(spatial_attention, permutable=("C",)),
    _gate(cbam, first="x mask reduce_kernel expand_kernel reduce_bias expand_bias", permutable=("C", "R")),
    _sca("sca_channel_spatial", settings={"order": "channel-spatial", "rescaled": False}),
    _sca("sca_spatial_channel", settings={"order": "spatial-channel", "rescaled": True}),
    *(
        Mechanism(
            convolution_as_attention,
            f"convolution_by_{mode}",
            first="x mask",
            settings={"mode": mode},
            sizes={**_SIZES, "Ky": 3, "Kx": 2, "F": 13},
            permutable=("C", "F"),
            oracle="convolution_as_attention::a_convolution_is_one_head_per_tap",
        )
        for mode in ("gather", "weights")
    ),
)
