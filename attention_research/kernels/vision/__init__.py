"""Attention over the channels and positions of images [B Y X C], and convolution as hard attention."""

from attention_research.kernels.vision.cbam import cbam
from attention_research.kernels.vision.channel_attention import channel_attention
from attention_research.kernels.vision.convolution_as_attention import (
    convolution_as_attention,
    head_offsets,
    offset_scores,
    offset_weights,
)
from attention_research.kernels.vision.sca import sca, sca_channel_weights, sca_spatial_weights
from attention_research.kernels.vision.spatial_attention import spatial_attention
from attention_research.kernels.vision.squeeze_excitation import squeeze_excitation
