"""The share of attention in the compute of a Transformer, by width and depth, at published sizes.

    attention-research inspect --study=narang2021/compute --scale=paper --json

The sizes are those of T5 (Raffel et al. 2020, arXiv 1910.10683, section 3.7) and the four shapes of Narang et al. 2021,
Table 1, with sequences of 512 and 114 tokens. `operations` are counted as in `narang2021/table1`. `outside_attention`
is the share of operations that remains when attention with its projections is removed from every block. `scores` is the
share that grows with the square of the length, from the operations that are saved when the same tokens come in twice as
many sequences of half the length.
"""

from __future__ import annotations

from typing import Any

from attention_research.config import Config
from attention_research.studies import Row, Scale, Study
from attention_research.studies.columns import PARAMETERS

from .changes import Overrides, shape
from .sizes import PAPER
from .table1 import CONFIG, INPUTS, TARGETS, counted

#: Width, hidden width, layers per stack, heads, and head width.
T5 = {
    "T5 small": (512, 2048, 6, 8, 64),
    "T5 base": (768, 3072, 12, 12, 64),
    "T5 large": (1024, 4096, 24, 16, 64),
    "T5 3B": (1024, 16384, 24, 32, 128),
    "T5 11B": (1024, 65536, 24, 128, 128),
}
SHAPES = ("24 layers of 1536", "18 layers of 2048", "8 layers of 4608", "6 layers of 6144")


def sized(width: int, hidden: int, layers: int, heads: int, head_width: int) -> Overrides:
    """The overrides of one of T5's sizes."""
    return {
        "model.width": width,
        "model.feed_forward.hidden_width": hidden,
        "model.num_layers": layers,
        "model.num_heads": heads,
        "model.head_width": head_width,
    }


def without_attention(config: Config) -> Config:
    """The same config without the attention branches of its blocks."""
    model = config.resolved["model"]
    kept = {
        side: tuple(tuple(branch) for branch in model[side]["steps"] if not any("attention" in step for step in branch))
        for side in ("encoder", "decoder")
    }
    return config.override([(f"model.{side}.steps", steps) for side, steps in kept.items()])


def counts(config: Config) -> dict[str, Any]:
    """Returns the counts that `inspect` shows for a size in addition to parameters and FLOPs."""
    rows = config.resolved["training"]["batch_size"]
    whole = counted(config, rows, INPUTS, TARGETS)[0].products
    outside = counted(without_attention(config), rows, INPUTS, TARGETS)[0].products
    halved = counted(config, 2 * rows, INPUTS // 2, TARGETS // 2)[0].products
    return {
        "operations": whole / 1e12,
        "outside_attention": outside / whole,
        "scores": 2 * (whole - halved) / whole,
    }


STUDY = Study(
    rows=(
        *(Row(name.lower().replace(" ", "_"), name, sized(*sizes)) for name, sizes in T5.items()),
        *(Row(name.replace(" ", "_"), name, shape(number, PAPER)) for number, name in enumerate(SHAPES)),
    ),
    scales={"paper": Scale(f"{CONFIG}:paper", seeds=1)},
    # Nothing is trained; everything is counted at the published sizes.
    competence=(),
    columns=(PARAMETERS,),
    counts=counts,
)
