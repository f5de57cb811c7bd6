"""Wang et al. 2020 (Linformer), Figure 3: perplexity of a masked language model by projected length and by sharing.

    attention-research reproduce linformer2020/figure3 --scale=cpu

The model is the masked language model of film reviews of `haviv2022/nopos`, which reads 128 characters at `cpu`. Its
positions are conditional (Chu et al. 2021): a projection of keys leaves no distances for relative positions, and with
the paper's learned vectors a model of this size stays for thousands of updates at the frequencies of the characters.
The rows have full attention, keys and values projected to length k, and, at one k, the four ways to share the
projections. The paper uses 512 to 4,096 tokens and 250,000 updates.
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Row, Scale, Study
from attention_research.studies.columns import LOSS, PARAMETERS, PERPLEXITY, STEPS_PER_SECOND
from attention_research.studies.competence import Competence

from ..haviv2022.nopos import SMOKE, masked
from ..haviv2022.schemes import CONFIG, MASKED_CHARACTERS
from .figure3_verdicts import draw, near

RANKS = (8, 16, 32, 64)
SHARINGS = ("none", "key_value", "layerwise")
LARGE = ("cpu", "gpu")


#: The overrides of all rows. Three seeds together train a third faster on a CPU if the layers are not scanned.
PLACED: dict[str, Any] = {"model.positions": {"kind": "conditional"}, "model.encoder.unroll": True}


def linformer(rank: int, sharing: str = "headwise") -> dict[str, Any]:
    """The overrides of the masked language model with Linformer in its encoder."""
    return masked({**PLACED, "model.self_attention": {"kind": "linformer", "rank": rank, "sharing": sharing}})


GPU = {"max_length": 512, "vocabulary_size": 8192, "model.num_layers": 12, "model.width": 768, "model.num_heads": 12,
       "model.feed_forward.hidden_width": 3072, "training.steps": 20_000, "training.batch_size": 64,
       "training.learning_rate": 0.0003, "training.schedule": {"kind": "linear", "warmup_steps": 1000}}  # fmt: skip
STUDY = Study(
    rows=(
        Row("full", "full attention", masked(PLACED), scales=LARGE),
        *(Row(f"k_{rank}", f"k = {rank}", linformer(rank), at={"smoke": {**linformer(rank), **SMOKE}},
              scales=None if rank == 8 else LARGE) for rank in RANKS),
        *(Row(f"{sharing}", f"k = 32, sharing {sharing.replace('_', '-')}", linformer(32, sharing), scales=LARGE)
          for sharing in SHARINGS),
    ),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2),
        "cpu": Scale(f"{CONFIG}:cpu", MASKED_CHARACTERS, seeds=3, jobs=2, replicas=True),
        "gpu": Scale(f"{CONFIG}:cpu", GPU, seeds=3),
    },
    columns=(PARAMETERS, STEPS_PER_SECOND, LOSS, PERPLEXITY),
    claims="../claims.csv",
    competence=(Competence("full", "evaluate.perplexity", "trigram"),),
    verdicts={"linformer-quality": near},
    figures=(draw,),
    notes=(
        "Perplexity: that of the masked tokens of test reviews. The rows of k share headwise: one projection for keys "
        "and one for values in each layer. The seeds of a row were trained together on the same batches.",
    ),
)  # fmt: skip
