"""Bahdanau et al. 2015, Table 1: translation with attention (RNNsearch) and without (RNNencdec), two training lengths.

    attention-research reproduce bahdanau2015/table1 --scale=cpu
    attention-research inspect   --study=bahdanau2015/table1 --scale=paper    # 80,401,000 weights without biases

Rows ending in -30 are trained on short sentences, rows ending in -50 on longer ones too. Below `paper` these are
strings of user interfaces (`strings.py`). RNNencdec is the same decoder with the last state of the encoder as the
context of every step. Then a part of the trained model's input from the source is removed: its initial state, or the
differences between contexts.
"""

from __future__ import annotations

from typing import Any

from attention_research.analysis.parameter_counts import shapes, weights_without_biases
from attention_research.analysis.teacher_forced import measure_maps
from attention_research.studies import Budget, Row, Scale, Study, measure
from attention_research.studies.columns import FLOPS, LOSS, PARAMETERS, PERPLEXITY, STEPS_PER_SECOND, Column, fixed
from attention_research.studies.results import Results
from attention_research.studies.trials import configuration
from attention_research.studies.verdicts import FAILED, HELD, UNTESTED, Verdict, compare, conclude

from .strings import ENCDEC, LONG, NOTE, SHORT, STAGES, at_scales, criteria

CONFIG = "configs/translation/recurrent.py"
OURS = ("smoke", "cpu", "gpu")
#: Weights without biases at the paper's sizes: embeddings 37.2M, encoder 9.72M, decoder 10.86M, s_0 1M, alignment
#: 3.001M, readout 18.62M. The paper does not report a count.
RNNSEARCH = 80_401_000

FORWARD = {"model.encoder": {"kind": "unidirectional"}}
START = {
    "model.encoder": {"kind": "unidirectional"},
    "model.alignment": {"kind": "none"},
    "model.decoder": {"kind": "fixed_vector"},
}


def row(id: str, name: str, changes: dict, length: int, words: int = 50, updates: int = 0, **more: Any) -> Row:
    """A row that is trained on strings of at most `length` pieces and, at `paper`, on sentences of at most `words`
    words for `updates` updates."""
    paper = {"max_length": words + 1, "training.steps": updates, **changes}
    return Row(id, name, at={**at_scales(changes, length), "paper": paper}, **more)


ROWS = (
    row("encdec_30", "RNNencdec-30", ENCDEC, SHORT, 30, 846_000),
    row("search_30", "RNNsearch-30", {}, SHORT, 30, 471_000),
    row("encdec", "RNNencdec-50", ENCDEC, LONG, 50, 600_000),
    row("search", "RNNsearch-50", {}, LONG, 50, 288_000, stages=(*STAGES, measure(measure_maps))),
    row("search_long", "RNNsearch-50*, trained longer", {}, LONG, 50, 667_000, scales=("paper",)),
    Row("moses", "Moses", scales=()),
    row("forward", "RNNsearch-50, forward annotations", FORWARD, LONG, scales=OURS),
    row("start_only", "the last state as the decoder's start alone", START, LONG, scales=OURS),
)


def three_recurrences(results: Results) -> Verdict:
    """RNNsearch-50 at the paper's sizes has three recurrent cells and the expected number of weights."""
    config = configuration(results.study, "paper", next(one for one in results.study.rows if one.id == "search"))
    cells = sorted(name.removesuffix(".state_kernel") for name in shapes(config) if name.endswith("state_kernel"))
    count = weights_without_biases(config)["weights_without_biases"]
    because = f"recurrent cells: {', '.join(cells)}; {count:,} weights without biases, expected {RNNSEARCH:,}"
    directions = [name.split(".")[1] for name in cells if name.startswith("encoder.")]
    decoders = [name for name in cells if name.startswith("decoder.")]
    held = sorted(directions) == ["backward", "forward"] and len(decoders) == 1 and count == RNNSEARCH
    return Verdict(HELD if held and len(cells) == 3 else FAILED, because)


def quality(results: Results, better: str, worse: str, name: str) -> dict:
    """Compares perplexity and BLEU of two rows, under a name."""
    return {
        f"perplexity, {name}": compare(results, better, worse, "evaluate.perplexity"),
        f"BLEU, {name}": compare(results, better, worse, "measure.bleu_fitting", higher=True),
    }


def both_directions(results: Results) -> Verdict:
    """Annotations of both directions give a higher BLEU than those of the forward direction, with equal width per
    direction. The text also gives the perplexities.
    """
    found = quality(results, "search", "forward", "both directions")
    perplexity = found.pop("perplexity, both directions")
    return conclude(found).beside(perplexity.text)


def attention_improves(results: Results) -> Verdict:
    """The model with attention is better than that without, at both training lengths, also on sentences of any
    length."""
    every = {
        f"BLEU of the whole test, {name}": compare(
            results, f"search{end}", f"encdec{end}", "measure.bleu_every_length", higher=True
        )
        for end, name in (("_30", "short"), ("", "long"))
    }
    short, long = quality(results, "search_30", "encdec_30", "short"), quality(results, "search", "encdec", "long")
    return conclude({**short, **long, **every})


def contexts_differ(results: Results) -> Verdict:
    """The contexts of a sentence differ, and replacing them by one shared context reduces BLEU."""
    distances, shared = (results.values("search", f"measure.{key}") for key in ("context_distance", "context_share"))
    if not distances or not shared:
        return Verdict(UNTESTED, "contexts were not measured")
    because = (
        f"distance between the contexts of two steps, divided by their length: {_many(distances)}; share of BLEU lost "
        f"with one shared context: {_many(shared, percent=True)}"
    )
    return Verdict(HELD if min(distances) > 0.1 and min(shared) > 0 and len(shared) > 1 else FAILED, because)


def looks_back(results: Results) -> Verdict:
    """Without the initial state of the decoder, the model with attention loses a smaller share of BLEU than the models
    without attention."""
    return conclude({
        f"share of BLEU lost, {name}": compare(results, "search", row, "measure.start_share")
        for row, name in (("encdec", "the last state at every step"), ("start_only", "the last state as the start"))
    })  # fmt: skip


def previous_state(results: Results) -> Verdict:
    """The attention weights of a step depend on the state before the step, not on the state after it.

    Measured are Jacobians in a small RNNsearch with random parameters (the scale smoke): of the weights with respect to
    the state before the step and the previous word, and of the state after the step with respect to that word.
    """
    import jax
    import jax.numpy as jnp
    import numpy as np

    from attention_research.config import build_experiment
    from attention_research.layers.structure import abstract

    config = configuration(results.study, "smoke", next(one for one in results.study.rows if one.id == "search"))
    parts = build_experiment(config)
    structure, names, _ = abstract(lambda rngs: parts.model(rngs=rngs))
    rng = np.random.default_rng(1409)
    parameters = {name: jnp.asarray(rng.normal(0, 0.5, x.shape), x.dtype) for name, x in sorted(names.items())}
    decoder = structure.merge(parameters).decoder
    width, keys = config.resolved["model"]["width"], 5
    memory = {
        "hidden": jnp.asarray(rng.normal(size=(1, keys, 2 * width)), jnp.float32),
        "summary": jnp.asarray(rng.normal(size=(1, width)), jnp.float32),
        "real": jnp.ones((1, keys), bool),
    }
    cache = decoder.start({**memory, "last": memory["hidden"][:, -1]})
    word = jnp.asarray(rng.normal(size=(1, config.resolved["model"]["embedding_width"])), jnp.float32)

    def step(before: jax.Array, word: jax.Array) -> tuple[jax.Array, jax.Array]:
        state = {**cache["state"], "layers": ({"hidden": before},)}
        after, given = decoder.advance(word, cache["fixed"], state, None)
        return given["alignment"], after["layers"][0]["hidden"]

    before = cache["state"]["layers"][0]["hidden"]
    jacobians = jax.jit(jax.jacrev(step, argnums=(0, 1)))(before, word)
    (by_state, by_word), (_, after_by_word) = ([float(jnp.abs(x).max()) for x in pair] for pair in jacobians)
    because = (
        f"largest entry of d weights / d state before the step: {by_state:.3g}; / d word before it: {by_word:.3g}, "
        f"though d state after the step / d that word is {after_by_word:.3g}: the weights cannot depend on that state"
    )
    return Verdict(HELD if by_state > 0 and by_word == 0 and after_by_word > 0 else FAILED, because)


def short_beats_long(results: Results) -> Verdict:
    """RNNsearch-30 is better than RNNencdec-50, although the latter is trained on longer sentences too, as the paper
    remarks."""
    return conclude(
        {"BLEU of the whole test": compare(results, "search_30", "encdec", "measure.bleu_every_length", higher=True)}
    )


def _many(values: tuple[float, ...], *, percent: bool = False) -> str:
    return ", ".join(f"{value:.0%}" if percent else f"{value:.2f}" for value in values)


NOTE = f"{NOTE} The column BLEU is that of test strings of at most {LONG} pieces. Decoding is greedy."
STUDY = Study(
    rows=ROWS,
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2, settings={"examples": 8}, note=NOTE),
        "cpu": Scale(f"{CONFIG}:cpu", seeds=3, jobs=2, settings={"examples": 600}, note=NOTE),
        "gpu": Scale(
            f"{CONFIG}:cpu",
            {"model.width": 512, "model.embedding_width": 512},
            seeds=3,
            note=NOTE,
        ),
        "paper": Scale(f"{CONFIG}:bahdanau_50", seeds=1, note="Only counted; training needs your own copy of WMT14."),
    },
    stages=STAGES,
    columns=(
        PARAMETERS, FLOPS, STEPS_PER_SECOND, LOSS, PERPLEXITY,
        Column("measure.bleu_fitting", "BLEU", fixed(1), better="higher"),
        Column("measure.bleu_every_length", "BLEU, whole test", fixed(1), better="higher"),
        Column("measure.start_share", "BLEU lost without initial state, %", fixed(0, 100)),
        Column("measure.context_share", "BLEU lost with one context, %", fixed(0, 100)),
    ),
    budgets=(Budget("search", {"encdec": ("encdec_30", "start_only")}),),
    published="table1.csv",
    compared={"measure.bleu_fitting": "BLEU all"},
    claims="../claims.csv",
    counts=weights_without_biases,
    competence=criteria("search*", "encdec*", "forward", "start_only"),
    verdicts={
        "rnnsearch-three-rnns": three_recurrences,
        "annotations-join-both-directions": both_directions,
        "attention-improves-translation": attention_improves,
        "context-differs-each-step": contexts_differ,
        "look-back-instead-of-remembering": looks_back,
        "score-uses-previous-state": previous_state,
        "must-hold-short-search-above-long-encdec": short_beats_long,
    },
)  # fmt: skip
