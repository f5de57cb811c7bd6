"""Britz et al. 2017, attention: multiplicative and additive scores by width, and two decoders without attention.

    attention-research reproduce britz2017/attention --scale=cpu
    attention-research inspect   --study=britz2017/attention --scale=paper

Rows are named by the paper's widths. Below `paper` these and the model's widths are a quarter of the paper's, and the
systems write the sounds of English words from their letters (the task and the recipe of
`configs/pronunciation/recurrent.py`). Mul-k is the reduced-rank product `<W_1 h_j, W_2 s_i>` of width k.
"None-State" starts the decoder from a projection of the backward state at the first letter, so that its forward states
are not used; "None-Input" feeds the last states of both directions to every step.

Four claims of the lectures about the scores are computed from the score functions, without training.
"""

from __future__ import annotations

from attention_research.analysis.parameter_counts import weights_without_biases
from attention_research.errors import ConfigError
from attention_research.studies import Budget, Row, Scale, Study, evaluate, train
from attention_research.studies.columns import FLOPS, LOSS, PARAMETERS, PERPLEXITY, STEPS_PER_SECOND
from attention_research.studies.results import Results
from attention_research.studies.verdicts import FAILED, HELD, UNTESTED, Verdict, apart, compare, conclude

from ..luong2015.systems import CONFIG
from ..raffel2017.systems import CONFIG as SOUNDS
from ..raffel2017.systems import ERROR_RATE, SEQUENCES_WRONG, pronounces

OURS = ("smoke", "cpu")
WIDTHS = (128, 256, 512, 1024)
#: The model width at each scale; that of the paper is 512.
MODEL_WIDTH = {"smoke": 16, "cpu": 128, "paper": 512}
#: The tolerance for sums of some tens of terms in float32.
TOLERANCE = 1e-5


def attention(kind: str, width: int) -> dict[str, dict]:
    """By scale, the section of a global alignment whose score width is scaled down from the paper's."""
    return {
        scale: {
            "model.alignment": {
                "kind": "global", "score": {"kind": kind, "attention_width": max(1, width * ours // 512)}
            }
        }
        for scale, ours in MODEL_WIDTH.items()
    }  # fmt: skip


def without(*, every_step: bool) -> dict:
    """The overrides of a decoder without attention: it gets the last states of both directions at every step, or a
    projection of the backward state at the first letter at the start.
    """
    start = {"kind": "zeros" if every_step else "projected"}
    decoder = {"kind": "fixed_vector", "context_every_step": every_step, "start": start}
    return {"model.alignment": {"kind": "none"}, "model.decoder": decoder}


ROWS = (
    *(Row(f"mul_{width}", f"Mul-{width}", at=attention("reduced_rank", width)) for width in WIDTHS),
    *(Row(f"add_{width}", f"Add-{width}", at=attention("additive", width)) for width in WIDTHS),
    Row("none_state", "None-State", without(every_step=False)),
    Row("none_input", "None-Input", without(every_step=True)),
)


#: The paper's baseline with one decoder layer, in place of the RNNsearch of the configuration.
BASE = {
    "model.cell": {"kind": "gru"},
    "model.decoder": {"kind": "luong", "input_feeding": True, "start": {"kind": "projected"}},
}


def dot_needs_equal_widths(results: Results) -> Verdict:
    """For queries of width 3 and keys of width 5, the dot score raises an error and the bilinear score works."""
    import jax.numpy as jnp
    from flax import nnx

    from attention_research.registry import lookup

    made = lambda kind, keys: lookup("score", kind)(query_width=3, key_width=keys, rngs=nnx.Rngs(0))
    query, keys = jnp.ones((1, 2, 3)), jnp.ones((1, 4, 5))
    try:
        made("dot", 5)
        said = ""
    except ConfigError as error:
        said = str(error)
    equal = made("dot", 3)
    same = bool(jnp.all(equal(query, equal.prepare(keys[..., :3])) == 3.0))
    general = made("general", 5)
    scores = general(query, general.prepare(keys))
    valid = scores.shape == (1, 2, 4) and bool(jnp.allclose(scores, general.weight[...].sum(), atol=TOLERANCE))
    because = f"dot: {said or 'no error'}; bilinear: scores {list(scores.shape)}, {'right' if valid else 'wrong'}"
    return Verdict(HELD if "3" in said and "5" in said and same and valid else FAILED, because)


def bilinear(results: Results) -> Verdict:
    """The general score is linear in the query and in the keys, and equals the dot product for the identity matrix."""
    import jax.numpy as jnp

    from attention_research.kernels import dot_scores, general_scores

    x, z, keys, other, weight = _normal((2, 3, 7), (2, 3, 7), (2, 5, 11), (2, 5, 11), (7, 11))
    a, b = 0.7, -1.9
    score = lambda query, keys: general_scores(query, keys, weight)
    in_query = _largest(score(a * x + b * z, keys) - (a * score(x, keys) + b * score(z, keys)))
    in_keys = _largest(score(x, a * keys + b * other) - (a * score(x, keys) + b * score(x, other)))
    identity = _largest(general_scores(x, z, jnp.eye(7)) - dot_scores(x, z))
    because = (
        f"largest differences: linearity in the query {in_query:.1e}, in the keys {in_keys:.1e}; identity matrix and "
        f"dot product {identity:.1e}; tolerance {TOLERANCE:.0e}"
    )
    return Verdict(HELD if max(in_query, in_keys, identity) < TOLERANCE else FAILED, because)


def reduced_rank(results: Results) -> Verdict:
    """The kernel's `(U q)^T (V k)` equals the dot product of the projections and the bilinear form with U^T V."""
    import jax.numpy as jnp

    from attention_research.kernels import dot_scores, general_scores, reduced_rank_scores

    rank, query_width, key_width = 3, 7, 11
    query, keys, u, v = _normal((2, 5, query_width), (2, 6, key_width), (rank, query_width), (rank, key_width))
    ours = reduced_rank_scores(query, keys, u, v)
    projected = dot_scores(jnp.einsum("BTD,RD->BTR", query, u), jnp.einsum("BSD,RD->BSR", keys, v))
    largest = max(_largest(ours - projected), _largest(ours - general_scores(query, keys, u.T @ v)))
    few, many = rank * (query_width + key_width), query_width * key_width
    because = (
        f"largest difference {largest:.1e} (tolerance {TOLERANCE:.0e}); k(d1 + d2) = {few} parameters against d1 d2 = "
        f"{many} at k = {rank}, d1 = {query_width}, d2 = {key_width}"
    )
    return Verdict(HELD if largest < TOLERANCE and few < many else FAILED, because)


def additive_is_feed_forward(results: Results) -> Verdict:
    """The additive score equals `v^T tanh(W x)` in NumPy, where x is the concatenation of query and key."""
    import numpy as np

    from attention_research.kernels import additive_scores

    query, keys, w, u, v = _normal((2, 3, 7), (2, 5, 11), (13, 7), (13, 11), (13,))
    exact = lambda x: np.asarray(x, np.float64)
    every_query = np.broadcast_to(exact(query)[:, :, None], (2, 3, 5, 7))
    every_key = np.broadcast_to(exact(keys)[:, None], (2, 3, 5, 11))
    joined, layer = np.concatenate([every_query, every_key], -1), np.concatenate([exact(w), exact(u)], 1)
    network = np.tanh(joined @ layer.T) @ exact(v)
    largest = float(np.abs(exact(additive_scores(query, keys, w, u, v)) - network).max())
    because = f"largest difference {largest:.1e} from 13 tanh units on 7 + 11 inputs (tolerance {TOLERANCE:.0e})"
    return Verdict(HELD if largest < TOLERANCE else FAILED, because)


def width_has_to_be_chosen(results: Results) -> Verdict:
    """The best and the worst width of the additive score differ clearly in perplexity, so that the width has to be
    chosen. The text has the multiplicative score, too."""
    cases, said = {}, []
    for kind, name in (("add", "additive"), ("mul", "multiplicative")):
        rows = [f"{kind}_{width}" for width in WIDTHS]
        found = {row: values for row in rows if (values := results.values(row, "evaluate.perplexity"))}
        said += [f"{row} {sum(v) / len(v):.2f}" for row, v in found.items()]
        if len(found) > 1:
            cases[name] = apart(results, [*found], "evaluate.perplexity")
    if "additive" not in cases:
        return Verdict(UNTESTED, "fewer than two widths were measured")
    verdict = conclude({"perplexity, additive, best against worst": cases.pop("additive")})
    beside = (f"perplexity, {name}, best against worst: {other.said}" for name, other in cases.items())
    return verdict.beside(*beside, f"perplexities: {', '.join(said)}")


def wide_products_fall_behind(results: Results) -> Verdict:
    """Mul-1024 is worse than Mul-512, and Add-512 is better than both decoders without attention."""
    fewer = lambda better, worse: compare(results, better, worse, "evaluate.error_rate")
    return conclude({
        "wrong sounds, Mul-512 against Mul-1024": fewer("mul_512", "mul_1024"),
        "wrong sounds, Add-512 against None-State": fewer("add_512", "none_state"),
        "wrong sounds, Add-512 against None-Input": fewer("add_512", "none_input"),
    })  # fmt: skip


def _normal(*shapes: tuple[int, ...]) -> list:
    import jax.numpy as jnp
    import numpy as np

    rng = np.random.default_rng(1703)
    return [jnp.asarray(rng.normal(0, 0.3, shape), jnp.float32) for shape in shapes]


def _largest(x) -> float:
    import jax.numpy as jnp

    return float(jnp.max(jnp.abs(x)))


NOTE = (
    "Letters of English words to their sounds, greedy. Widths are a quarter of those in the names, and there is one "
    "decoder layer instead of two. The better row has a lower error rate and a higher BLEU, so that a correlation of "
    "-1 is agreement."
)
STUDY = Study(
    rows=ROWS,
    scales={
        "smoke": Scale(f"{SOUNDS}:smoke", BASE, seeds=1, jobs=2, note=NOTE),
        "cpu": Scale(f"{SOUNDS}:cpu", BASE, seeds=3, jobs=2, note=NOTE),
        "paper": Scale(f"{CONFIG}:britz", seeds=1, note="Only counted; training needs your own copy of WMT15."),
    },
    stages=(train, evaluate),
    columns=(PARAMETERS, FLOPS, STEPS_PER_SECOND, LOSS, PERPLEXITY, ERROR_RATE, SEQUENCES_WRONG),
    budgets=(
        Budget("add_512", {"mul_512": ("mul_128", "mul_256", "mul_1024"), "none_state": ("none_input",)}),
    ),
    published="attention.csv",
    compared={"evaluate.error_rate": "BLEU"},
    claims="../claims.csv",
    counts=weights_without_biases,
    competence=(pronounces("add_512"),),
    verdicts={
        "dot-needs-equal-widths": dot_needs_equal_widths,
        "bilinear-score": bilinear,
        "reduced-rank-identity": reduced_rank,
        "additive-is-feed-forward": additive_is_feed_forward,
        "additive-width-is-hyperparameter": width_has_to_be_chosen,
        "must-hold-wide-products-fall-behind": wide_products_fall_behind,
    },
)  # fmt: skip
