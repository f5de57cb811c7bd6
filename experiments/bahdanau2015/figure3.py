"""Bahdanau et al. 2015, Figure 3: alignments of RNNsearch, as heat maps on strings, and against gold on generated text.

    attention-research reproduce bahdanau2015/figure3 --scale=cpu

The row of real text and its trials are those of `search` in `bahdanau2015/table1`. Real text has no gold word
alignments; generated sentences have them. The generated rows use the same sentences with three word orders of the
target: the order of the source, a local reordering (adjectives and adverbs change places), and the reversed order.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from attention_research.analysis.teacher_forced import measure_gold, measure_maps
from attention_research.studies import Budget, Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import PARAMETERS, PERPLEXITY, Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.figures import Figure, heat_maps
from attention_research.studies.results import Results
from attention_research.studies.trials import configuration
from attention_research.studies.verdicts import FAILED, HELD, UNTESTED, Verdict, against, compare, conclude

from .strings import LONG, STAGES, criteria
from .strings import row as of_strings

CONFIG = "configs/translation/recurrent.py"
#: The maximum length of generated sentences in words, with the end-of-sentence symbol.
GENERATED_LENGTH = 32
ORDERS = {"monotone": "the same order", "local": "a local reordering", "reversed": "the opposite order"}
GENERATED = (train, evaluate, measure(measure_gold), measure(measure_maps, count=2))


def generated(order: str) -> Row:
    """A row on generated sentences with one of the three word orders."""
    data = {
        "name": f"generated_translation/{order}",
        "source_language": "source",
        "target_language": "target",
        "tokenizer": {"kind": "words"},
        "batching": {"kind": "buckets", "boundaries": (GENERATED_LENGTH,)},
    }
    changes = {"max_length": GENERATED_LENGTH, "vocabulary_size": 300, "data": data}
    return Row(order, f"generated, {ORDERS[order]}", changes, stages=GENERATED)


ROWS = (
    of_strings("search", "strings of user interfaces", {}, LONG, stages=(*STAGES, measure(measure_maps))),
    *map(generated, ORDERS),
)


def differentiable(results: Results) -> Verdict:
    """The gradient of the translation loss equals central differences and is not zero, for every parameter of the
    alignment of a small RNNsearch (the scale smoke, random parameters, float64), along one random direction each."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from attention_research.config import build_experiment
    from attention_research.layers.structure import abstract

    config = configuration(results.study, "smoke", ROWS[0])
    parts = build_experiment(config)
    structure, shapes, _ = abstract(lambda rngs: parts.model(rngs=rngs))
    rng = np.random.default_rng(1409)
    parameters = {name: rng.normal(0, 0.3, x.shape) for name, x in sorted(shapes.items())}
    looking = [name for name in parameters if ".alignment." in name]
    directions = {name: rng.normal(size=parameters[name].shape) for name in looking}
    source, target = rng.integers(4, 50, (2, 7)), rng.integers(4, 50, (2, 5))
    real = jnp.asarray(np.arange(7)[None] < np.asarray([[7], [4]]))

    def loss(parameters: dict) -> jax.Array:
        """The loss of `log_likelihood`, with embeddings in float64."""
        model = structure.merge(parameters)
        embedded = lambda table, tokens: table[...][tokens]
        memory = {**model.encoder(embedded(model.vocabulary.source_table, source), real), "real": real}
        read = jnp.pad(jnp.asarray(target[:, :-1]), ((0, 0), (1, 0)), constant_values=1)
        hidden, _ = model.decoder(embedded(model.vocabulary.target_table, read), memory)
        log_p = jax.nn.log_softmax(model.vocabulary.logits(hidden))
        return -jnp.take_along_axis(log_p, jnp.asarray(target)[..., None], axis=-1).mean()

    errors, largest, step = {}, 0.0, 1e-6
    with jax.enable_x64(True):
        exact = {name: jnp.asarray(value, jnp.float64) for name, value in parameters.items()}
        value, gradient = jax.jit(loss), jax.jit(jax.grad(loss))(exact)
        for name in looking:
            along = float(jnp.sum(gradient[name] * directions[name]))
            moved = [value({**exact, name: exact[name] + sign * step * directions[name]}) for sign in (1, -1)]
            numeric = float(moved[0] - moved[1]) / (2 * step)
            errors[name] = abs(along - numeric) / max(abs(numeric), 1e-12)
            largest = max(largest, errors[name])
    nonzero = all(float(np.abs(np.asarray(gradient[name])).max()) > 0 for name in looking)
    because = (
        f"{len(looking)} arrays ({', '.join(name.split('.', 1)[1] for name in looking)}): relative difference between "
        f"gradient and central differences at most {largest:.1e}; all gradients nonzero: {nonzero}"
    )
    return Verdict(HELD if looking and nonzero and largest < 1e-5 else FAILED, because)


def aligned_for_free(results: Results) -> Verdict:
    """The alignment error rate of the trained weights is below that of each baseline, in every word order."""
    # With the same word order the diagonal is nearly the gold alignment, so it is not a baseline there.
    rivals = {row: ("untrained", "even") + ("diagonal",) * (row != "monotone") for row in ORDERS}
    return conclude({
        f"{ORDERS[row]}, {rival}": against(
            results, row, "measure.alignment_error_rate", f"measure.aer_{rival}", higher=False
        )
        for row, others in rivals.items()
        for rival in others
    })  # fmt: skip


def heat_map(results: Results) -> Verdict:
    """Maps of held-out strings are drawn. The text says how sharp they are."""
    found = [one for seed in results.values("search", "measure.maps") for one in seed]
    if not found:
        return Verdict(UNTESTED, "no map is recorded")
    peaks = statistics.fmean(max(row) for one in found for row in one["weights"])
    even = statistics.fmean(1 / len(one["source"]) for one in found)
    said = f"{len(found)} maps of test strings; mean largest weight of a row {peaks:.2f}, uniform weights {even:.2f}"
    return Verdict(HELD if peaks > 2 * even else FAILED, said)


def diagonal(results: Results) -> Verdict:
    """Alignments are more diagonal if source and target have the same word order."""
    return conclude({
        f"diagonality against {ORDERS[row]}": compare(results, "monotone", row, "measure.diagonality", higher=True)
        for row in ("local", "reversed")
    })  # fmt: skip


def finds_reordering(results: Results) -> Verdict:
    """Attention aligns more words inside reordered spans correctly than the diagonal does."""
    return conclude({
        ORDERS[row]: against(results, row, "measure.reordered_recall", "measure.reordered_diagonal")
        for row in ("local", "reversed")
    })  # fmt: skip


def string_maps(results: Results, folder: Path) -> Figure | None:
    """Draws the maps of four held-out strings by the first finished seed."""
    maps = [one for seed in results.values("search", "measure.maps")[:1] for one in seed]
    return heat_maps(results, folder / "alignments.png", maps, "strings of user interfaces, with teacher forcing")


def generated_maps(results: Results, folder: Path) -> Figure | None:
    """Draws the maps of two generated sentences in each of the three word orders."""
    maps = [
        {**one, "title": ORDERS[row]}
        for row in ORDERS
        for seed in results.values(row, "measure.maps")[:1]
        for one in seed
    ]
    return heat_maps(results, folder / "generated_alignments.png", maps, "generated sentences")


NOTE = "Real text has no gold alignment. Generated sentences do, but they are not French."
STUDY = Study(
    rows=ROWS,
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2, settings={"examples": 8}, note=NOTE),
        "cpu": Scale(f"{CONFIG}:cpu", seeds=3, jobs=2, settings={"examples": 600}, note=NOTE),
    },
    stages=STAGES,
    columns=(
        PARAMETERS, PERPLEXITY,
        Column("measure.alignment_error_rate", "AER", fixed(2), better="lower"),
        Column("measure.aer_untrained", "AER, untrained", fixed(2)),
        Column("measure.aer_even", "AER, uniform", fixed(2), spread=False),
        Column("measure.aer_diagonal", "AER, diagonal", fixed(2), spread=False),
        Column("measure.alignment_accuracy", "alignment accuracy", fixed(2), better="higher"),
        Column("measure.diagonality", "diagonality", fixed(2)),
        Column("measure.monotone_steps", "monotone steps", fixed(2)),
        Column("measure.reordered_recall", "recall in reordered spans", fixed(2), better="higher"),
        Column("measure.reordered_diagonal", "recall of the diagonal", fixed(2), spread=False),
    ),
    budgets=(Budget("search"), Budget("local", {"local": ("monotone", "reversed")})),
    claims="../claims.csv",
    # A generated sentence has exactly one correct translation.
    competence=(
        Competence(
            "local",
            "evaluate.bleu",
            line=90,
            higher=True,
            claims=("alignment-for-free", "diagonal-when-order-agrees", "attention-finds-reordering"),
            rows=tuple(ORDERS),
        ),
        *criteria("search", claims=("alignment-heat-map",)),
    ),
    verdicts={
        "no-alignment-supervision": differentiable,
        "alignment-for-free": aligned_for_free,
        "alignment-heat-map": heat_map,
        "diagonal-when-order-agrees": diagonal,
        "attention-finds-reordering": finds_reordering,
    },
    figures=(string_maps, generated_maps),
)  # fmt: skip
