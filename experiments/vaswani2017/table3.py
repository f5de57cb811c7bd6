"""Vaswani et al. 2017, Table 3: sizes, dropout, label smoothing and positions of the Transformer, changed one at a
time.

    attention-research inspect   --study=vaswani2017/table3 --scale=paper     # parameters; allocates nothing
    attention-research reproduce vaswani2017/table3 --scale=cpu

At `paper` newstest2013 is scored without checkpoint averaging, as in the paper. Parameters: the paper says that the
vocabulary has 37,000 word pieces, but with this number of rows in the tied embedding none of its 11 published counts is
obtained. The first published code had 40,960 rows for that vocabulary. With these, and a bias in every projection, 10
of the 11 counts round to the published number. `big` then has 218M instead of 213M, and 37,000 rows do not fit either.
`parameters` has 40,960 rows at `paper`, and `parameters_at_37000` gives the other count.

Below `paper` every size is a fraction of the paper's (see the last line of the table). At `cpu` the text is strings of
user interfaces, and the recipe is that of the configuration for small budgets (pre-norm blocks, AdamW, a linear decay).
At `gpu` the text is Bible verses.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from attention_research.config import Config, resolve
from attention_research.studies import Budget, Row, Scale, Study
from attention_research.studies.columns import BLEU, FAR_BLEU, FLOPS, LOSS, PARAMETERS, PERPLEXITY
from attention_research.studies.competence import translates
from attention_research.studies.results import Results, published
from attention_research.studies.trials import configuration
from attention_research.studies.verdicts import FAILED, HELD, Verdict, compare, conclude, margin_of, no_worse

from .figure1 import architecture_figure, built

CONFIG = "configs/translation/transformer.py"
EMBEDDING_ROWS, PIECES = 40_960, 37_000


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The base model at a scale."""

    num_layers: int
    width: int
    hidden_width: int
    num_heads: int
    steps: int
    big_steps: int | None = None  # the updates of `big`; None: three times as many, as in the paper

    def changes(self) -> dict[str, dict[str, Any]]:
        """Maps each row id to its overrides. The ids have the paper's sizes."""
        key_width = self.width // self.num_heads
        keys = lambda width: {
            "model.head_width": width,
            "model.self_attention": {"kind": "standard", "value_head_width": key_width},
        }
        hidden = "model.feed_forward.hidden_width"
        return {
            "base": {},
            "heads_1": {"model.num_heads": 1},
            "heads_4": {"model.num_heads": self.num_heads // 2},
            "heads_16": {"model.num_heads": 2 * self.num_heads},
            "heads_32": {"model.num_heads": 4 * self.num_heads},
            "key_16": keys(key_width // 4),
            "key_32": keys(key_width // 2),
            "layers_2": {"model.num_layers": self.num_layers // 3},
            "layers_4": {"model.num_layers": 2 * self.num_layers // 3},
            "layers_8": {"model.num_layers": 4 * self.num_layers // 3},
            "width_256": {"model.width": self.width // 2},
            "width_1024": {"model.width": 2 * self.width},
            "hidden_1024": {hidden: self.hidden_width // 2},
            "hidden_4096": {hidden: 2 * self.hidden_width},
            "dropout_0": {"model.dropout_rate": 0.0},
            "dropout_0.2": {"model.dropout_rate": 0.2},
            "smoothing_0": {"task.label_smoothing": 0.0},
            "smoothing_0.2": {"task.label_smoothing": 0.2},
            "learned": {"model.positions.kind": "learned"},
            "big": {
                "model.width": 2 * self.width,
                hidden: 2 * self.hidden_width,
                "model.num_heads": 2 * self.num_heads,
                "model.dropout_rate": 0.3,
                "training.steps": self.big_steps or 3 * self.steps,
            },
        }  # fmt: skip

    def base(self) -> dict[str, Any]:
        """The overrides of all rows."""
        return {
            "model.num_layers": self.num_layers,
            "model.width": self.width,
            "model.feed_forward.hidden_width": self.hidden_width,
            "model.num_heads": self.num_heads,
            "training.steps": self.steps,
            "evaluation.split": "validation",
            "evaluation.average": 1,
        }


SIZES = {
    "smoke": Sizes(num_layers=3, width=32, hidden_width=64, num_heads=8, steps=2),
    "cpu": Sizes(num_layers=3, width=128, hidden_width=512, num_heads=8, steps=4000, big_steps=4000),
    "gpu": Sizes(num_layers=6, width=256, hidden_width=1024, num_heads=8, steps=20_000),
    "paper": Sizes(num_layers=6, width=512, hidden_width=2048, num_heads=8, steps=100_000),
}
NAMES = {
    "base": "base",
    "heads_1": "(A) h = 1, dk = dv = 512",
    "heads_4": "(A) h = 4, dk = dv = 128",
    "heads_16": "(A) h = 16, dk = dv = 32",
    "heads_32": "(A) h = 32, dk = dv = 16",
    "key_16": "(B) dk = 16",
    "key_32": "(B) dk = 32",
    "layers_2": "(C) N = 2",
    "layers_4": "(C) N = 4",
    "layers_8": "(C) N = 8",
    "width_256": "(C) d = 256, dk = dv = 32",
    "width_1024": "(C) d = 1024, dk = dv = 128",
    "hidden_1024": "(C) dff = 1024",
    "hidden_4096": "(C) dff = 4096",
    "dropout_0": "(D) dropout 0",
    "dropout_0.2": "(D) dropout 0.2",
    "smoothing_0": "(D) label smoothing 0",
    "smoothing_0.2": "(D) label smoothing 0.2",
    "learned": "(E) learned positions",
    "big": "big",
}
ROWS = tuple(
    Row(id, name, SIZES["paper"].changes()[id], at={scale: sizes.changes()[id] for scale, sizes in SIZES.items()})
    for id, name in NAMES.items()
)

#: The rows of the claims.
CLAIMED = ("base", "heads_1", "heads_4", "heads_16", "heads_32", "key_16", "key_32", "layers_2", "layers_4", "learned")
#: The settings of `cpu`. After 2,000 updates, `base` had 16.6 BLEU on validation strings that are unlike all training
#: strings, and 18 is required, so it has 4,000.
STRINGS = {
    "vocabulary_size": 2000,
    "training.schedule.warmup_steps": 400,
    "training.checkpoint_every": 4000,
    "training.eval_every": 500,
}
GPU = {
    "data.name": "bible_translate/fr-en",
    "data.source_language": "fr",
    "data.target_language": "en",
    "max_length": 64,
    "vocabulary_size": 8000,
    "data.batching": {"kind": "buckets", "boundaries": (32, 64)},
    "training.batch_size": 256,
}


def fraction(scale: str) -> str:
    """Explains the names of the rows at a smaller scale."""
    ours, paper = SIZES[scale], SIZES["paper"]
    sizes = {"num_layers": "N", "width": "d", "hidden_width": "dff", "num_heads": "h", "steps": "updates"}
    parts = [f"{name} {getattr(ours, key)} for {getattr(paper, key):,}" for key, name in sizes.items()]
    return (
        f"Rows are named by the paper's sizes; here base has {', '.join(parts)}, and the others change in proportion."
    )


def parameters_at_37000(config: Config) -> dict[str, int]:
    """The number of parameters with one embedding row for each of the paper's word pieces."""
    if config.resolved["vocabulary_size"] != EMBEDDING_ROWS:
        return {}
    return {"parameters_at_37000": built(resolve(config.given, [("vocabulary_size", PIECES)]))[1]}


def base_sizes(results: Results) -> Verdict:
    """At the paper's sizes, base and big have the published number of blocks, width and heads, and base the published
    number of parameters. The text says whether big has the published number too."""
    said, shaped, rounded = [], [], []
    for row, expected in (("base", (6, 6, 512, 8)), ("big", (6, 6, 1024, 16))):
        config = configuration(results.study, "paper", next(one for one in results.study.rows if one.id == row))
        model, count = built(config)
        stacks = (model.encoder.stack, model.decoder.stack)
        heads = {block.self_attention.num_heads for stack in stacks for block in stack.segments}
        shape = (*(sum(stack.repeats) for stack in stacks), model.vocabulary.table.shape[1], max(heads))
        fewer = parameters_at_37000(config)["parameters_at_37000"]
        million = int(published(results.study)[row]["parameters M"])
        shaped.append(shape == expected and len(heads) == 1)
        rounded.append(round(count / 1e6) == million)
        said.append(
            f"{row}: {shape[0]} + {shape[1]} blocks of width {shape[2]} with {shape[3]} heads; {count:,} parameters "
            f"with {EMBEDDING_ROWS:,} embedding rows, {fewer:,} with {PIECES:,}, published {million}M"
        )
    differs = [] if rounded[1] else ["the count of big differs from the published one"]
    return Verdict(HELD if all(shaped) and rounded[0] else FAILED, [*differs, *said])


def _worse(results: Results, *rows: str) -> dict:
    """Compares perplexity and BLEU of the base model with those of each row."""
    cases = {}
    for row in rows:
        cases[f"perplexity, {NAMES[row]}"] = compare(results, "base", row, "evaluate.perplexity")
        cases[f"BLEU, {NAMES[row]}"] = compare(results, "base", row, "evaluate.bleu", higher=True)
    return cases


def ablations(results: Results) -> Verdict:
    """The base model is better than other numbers of heads, key widths and depths (the paper's rows A, B and C), where
    the paper has a worse perplexity and BLEU than its base model."""
    return conclude(_worse(results, "heads_1", "heads_4", "heads_32", "key_16", "key_32", "layers_2", "layers_4"))


def many_heads(results: Results) -> Verdict:
    """Eight heads are better than one at equal width."""
    return conclude(_worse(results, "heads_1"))


def learned_positions(results: Results) -> Verdict:
    """Within the training length, learned positions are worse than sinusoids by less than the margin of the claim.

    In the paper, both have a perplexity of 4.92, and BLEU is 25.7 with learned positions and 25.8 with sinusoids.
    """
    margin = margin_of(results, "learned-positions-fit-data")
    return conclude({
        "perplexity": no_worse(results, "learned", "base", "evaluate.perplexity", margin),
        "BLEU": no_worse(results, "learned", "base", "evaluate.bleu", margin, higher=True),
    })  # fmt: skip


STUDY = Study(
    rows=ROWS,
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", SIZES["smoke"].base(), seeds=1, jobs=2, note=fraction("smoke")),
        "cpu": Scale(
            f"{CONFIG}:cpu",
            SIZES["cpu"].base() | STRINGS,
            seeds=1,
            more_seeds=dict.fromkeys(CLAIMED, 3),
            note=f"{fraction('cpu')} All rows, big included, have the same updates, of 64 strings each.",
        ),
        "gpu": Scale(f"{CONFIG}:vaswani_base", SIZES["gpu"].base() | GPU, seeds=2, replicas=True, note=fraction("gpu")),
        "paper": Scale(f"{CONFIG}:vaswani_base", SIZES["paper"].base() | {"vocabulary_size": EMBEDDING_ROWS}, seeds=1),
    },
    columns=(
        PARAMETERS,
        FLOPS,
        LOSS,
        PERPLEXITY,
        BLEU,
        FAR_BLEU,
    ),
    budgets=(Budget("base", {"width_1024": ("big",)}),),
    published="table3.csv",
    compared={"evaluate.perplexity": "perplexity", "evaluate.bleu": "BLEU"},
    claims="../claims.csv",
    counts=parameters_at_37000,
    competence=translates("base"),
    untrained=("transformer-architecture-figure",),
    verdicts={
        "transformer-base-sizes": base_sizes,
        "transformer-architecture-figure": architecture_figure,
        "transformer-ablations": ablations,
        "many-heads-against-one": many_heads,
        "learned-positions-fit-data": learned_positions,
    },
)
