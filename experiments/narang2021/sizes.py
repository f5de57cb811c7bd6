"""The sizes of the rows of Narang et al. 2021, Table 1, in addition to those of the baseline's config."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of the rows. The defaults are the paper's; widths and depths of the baseline are in its config."""

    width: int = 768
    max_length: int = 512
    hidden: int = 3072
    #: The hidden width of a gated feed-forward layer, which has two input matrices instead of one.
    gated: int = 2048
    #: Layers, hidden width and heads of the four other shapes with the same number of parameters.
    shapes: tuple[tuple[int, int, int], ...] = ((24, 1536, 6), (18, 2048, 8), (8, 4608, 18), (6, 6144, 24))
    rank: int = 128
    input_clusters: tuple[int, ...] = (2500, 6000, 23628)
    input_widths: tuple[int, ...] = (768, 256, 64)
    #: The clusters of the adaptive softmax: the head, two tails, and the sentinels.
    output_clusters: tuple[int, ...] = (2500, 6000, 23500, 128)
    output_widths: tuple[int, ...] = (768, 256, 64, 768)
    #: The share of a row's targets for which a tail of the adaptive softmax has room.
    tail_share: float = 0.25
    softmaxes: int = 15
    taps: int = 9
    #: The number of filters of a convolution whose channels share filters, as in the text of the paper.
    filters: int = 2
    #: The hidden width of the feed-forward layers with dynamic convolutions, which have more parameters than
    #: self-attention.
    dynamic_hidden: int = 512
    #: The number of heads of a Synthesizer, and their width.
    synthesizer: tuple[int, int] = (8, 128)
    #: The blocks of the Evolved Transformer, and the heads of the wide attention of its decoder.
    evolved: tuple[int, int] = (6, 24)
    #: Layers before, during and after the recurrence of the Universal Transformer.
    universal: tuple[int, int, int] = (2, 24, 2)
    #: Every how many layers a layer has experts, and the number of devices for a batch.
    expert_interval: int = 4
    num_experts: int = 32
    replicas: int = 32
    expert_hidden: int = 1536
    #: The capacity of an expert in evaluation, as a multiple of its share of the tokens.
    evaluation_capacity: float = 2.0
    blocks: int = 3
    #: The decoder layer that has the memory, the number of keys in each half, their width, the heads, and the number of
    #: values that are read.
    memory: tuple[int, int, int, int, int] = (11, 512, 128, 4, 32)
    #: The peak learning rate of Adam (scaled as the entries of a kernel, D^-0.5, at smaller widths), the step at which
    #: it begins to decay, and the number of warm-up steps.
    adam: tuple[float, int, int] = (5e-4, 10_000, 4000)


PAPER = Sizes()
#: The sizes for `narang2021.py:cpu`: an eighth of the width, a third of the depth, experts and heads in proportion.
CPU = Sizes(
    width=96,
    max_length=128,
    hidden=384,
    gated=256,
    shapes=((8, 192, 3), (6, 256, 4), (3, 512, 8), (2, 768, 12)),
    rank=16,
    input_clusters=(32, 48, 112),
    input_widths=(96, 32, 8),
    output_clusters=(32, 48, 95, 17),
    output_widths=(96, 32, 8, 96),
    dynamic_hidden=64,
    synthesizer=(4, 32),
    evolved=(2, 12),
    universal=(1, 8, 1),
    expert_interval=2,
    num_experts=8,
    replicas=1,
    expert_hidden=192,
    blocks=2,
    memory=(3, 128, 32, 4, 32),
    adam=(4.2e-3, 120, 48),
)
#: The sizes for `narang2021.py:gpu`: two thirds of the width, half of the depth.
GPU = Sizes(
    width=512,
    hidden=2048,
    gated=1365,
    shapes=((12, 1024, 4), (9, 1365, 5), (4, 3072, 12), (3, 4096, 16)),
    rank=85,
    input_clusters=(640, 1536, 6016),
    input_widths=(512, 170, 42),
    output_clusters=(640, 1536, 5916, 100),
    output_widths=(512, 170, 42, 512),
    dynamic_hidden=341,
    synthesizer=(8, 85),
    evolved=(3, 16),
    universal=(1, 12, 1),
    expert_interval=2,
    num_experts=16,
    replicas=1,
    expert_hidden=1024,
    memory=(5, 256, 85, 4, 32),
    adam=(6.1e-4, 1000, 400),
)
#: The sizes for `narang2021.py:smoke`: every part at a minimal size.
SMOKE = Sizes(
    width=16,
    max_length=64,
    hidden=32,
    gated=20,
    shapes=((4, 16, 1), (3, 20, 2), (2, 44, 3), (1, 64, 4)),
    rank=5,
    input_clusters=(11, 17, 183),
    input_widths=(16, 8, 4),
    output_clusters=(7, 13, 175, 16),
    output_widths=(16, 8, 4, 16),
    tail_share=1.0,
    softmaxes=3,
    taps=5,
    dynamic_hidden=12,
    synthesizer=(3, 4),
    evolved=(1, 4),
    universal=(1, 3, 1),
    expert_interval=2,
    num_experts=3,
    replicas=1,
    expert_hidden=20,
    evaluation_capacity=3.0,  # no token is dropped
    blocks=2,
    memory=(1, 7, 6, 2, 3),
)
