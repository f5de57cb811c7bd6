"""Why dot products are divided by the square root of the width: logits, entropy and gradients by width.

    attention-research reproduce lectures/scaling --scale=cpu

The study has three parts:

- Random vectors, without training: queries and keys are standard normal, and there are 64 keys. Scores are dot
  products, scaled or not, and an additive score at initialization. Measured by width are the variance of the logits,
  the entropy, the largest weight and the norm of the softmax Jacobian. At one width the latter is also measured by a
  factor on the logits.
- Heads, without training: a width of 512 divided into 1 to 64 heads.
- Copying (`data.copying`, generated text): a Transformer with one head as wide as the model, scaled or not, and a
  vanilla RNN with a dot, scaled dot or additive score, narrow and wide. Measured are recall, and the same quantities
  for the weights of the decoder over the source, before and after training.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attention_research.studies import Row, Scale, Study, measure, train
from attention_research.studies.columns import Column, exponent, fixed, significant
from attention_research.studies.competence import Competence

from .figures import draw_by_width
from .verdicts import VERDICTS

CONFIG = "configs/copying/recurrent.py"
SCORES = {"dot": "dot product", "scaled_dot": "scaled dot product", "additive": "additive"}
LARGE = ("cpu", "gpu")
FACTS = ("logit_variance", "entropy", "largest", "jacobian")


def measure_random(
    *, score: str, random_widths: Sequence[int], keys: int, rows: int, factors: Sequence[float], seed: int, **_: Any
) -> dict[str, Any]:
    """Measures `saturation` on random vectors.

    Returns lists by width, the power of the width with which the variance grows, the values at the largest width, and
    "jacobian_by_factor" by a factor on the logits of the first width.
    """
    import jax
    import numpy as np
    from flax import nnx

    from attention_research.registry import lookup

    from .saturation import saturation

    found: list[dict[str, float]] = []
    by_factor = []
    for number, width in enumerate(random_widths):
        draws = jax.random.split(jax.random.fold_in(jax.random.key(seed), number), 3)
        query, key = (
            jax.random.normal(draw, (rows, length, width)) for draw, length in ((draws[0], 1), (draws[1], keys))
        )
        scored = lookup("score", score)(query_width=width, key_width=width, rngs=nnx.Rngs(draws[2]))
        logits = np.asarray(scored(query, scored.prepare(key)), np.float64)[:, 0]
        found.append({**saturation(_softmax(logits)), "logit_variance": float(logits.var(axis=1).mean())})
        if not number:
            by_factor = [saturation(_softmax(logits * factor / logits.std()))["jacobian"] for factor in factors]
    lists = {name: [facts[name] for facts in found] for name in FACTS}
    return {
        **{f"{name}s": values for name, values in lists.items()},
        **{name: values[-1] for name, values in lists.items()},
        "variance_power": exponent(random_widths, lists["logit_variance"]),
        "jacobian_power": exponent(random_widths, lists["jacobian"]),
        "jacobian_by_factor": by_factor,
    }


def _softmax(logits: Any) -> Any:
    import numpy as np

    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def measure_heads(
    *, divisor: str, model_width: int, heads: Sequence[int], keys: int, rows: int, seed: int, **_: Any
) -> dict[str, Any]:
    """Measures the variance of a head's logits by the number of heads at one model width, as lists.

    "agreement" is the largest difference between the weights of the kernel with its default scale and the formula with
    the given divisor in float64.
    """
    import jax
    import numpy as np

    from attention_research.kernels import attention_weights

    variances, differences = [], []
    for number, count in enumerate(heads):
        width = model_width // count
        draws = jax.random.split(jax.random.fold_in(jax.random.key(seed), number))
        query, key = (
            jax.random.normal(draw, (rows, length, count, width)) for draw, length in zip(draws, (1, keys), strict=True)
        )
        scale = (width if divisor == "head" else model_width) ** -0.5
        logits = np.einsum("btnh,bsnh->bnts", *(np.asarray(x, np.float64) for x in (query, key))) * scale
        variances.append(float(logits.var(axis=-1).mean()))
        differences.append(float(np.abs(_softmax(logits) - np.asarray(attention_weights(query, key))).max()))
    return {"variances": variances, "logit_variance": variances[-1], "agreement": max(differences)}


def measure_trained(*, workdir: Path, seed: int, examples: int | None = None, **_: Any) -> dict[str, Any]:
    """Measures recall of a trained run, and `saturation` of the decoder's weights over the source, after training and
    ("start_...") before."""
    from attention_research.analysis.example_maps import example_maps
    from attention_research.analysis.teacher_forced import untrained
    from attention_research.training.evaluation import Trained

    from ..recall import by_delay, thirds
    from .saturation import of_maps

    del seed
    trained = Trained(workdir)
    recurrent = trained.config.resolved["model"]["kind"] == "recurrent"
    place = ("decoder", "alignment" if recurrent else "cross_attention")
    rows = lambda arrays: (head for _, maps in example_maps(trained, place, arrays, examples=examples)
                           for layer in maps for head in layer)  # fmt: skip
    after, before = (of_maps(rows(arrays)) for arrays in (trained.model(), untrained(trained)))
    recalled = thirds(by_delay(trained, examples=examples))
    return {**recalled, **after, **{f"start_{name}": value for name, value in before.items()}}


def transformer(width: int, attention: str) -> dict[str, Any]:
    """The overrides of a Transformer with one head as wide as the model, on the data of the study."""
    model = {"kind": "transformer", "num_layers": 2, "width": width, "num_heads": 1, "dropout_rate": 0.0}
    model |= {"feed_forward": {"kind": "dense", "hidden_width": 2 * width}, "self_attention": {"kind": attention}}
    model |= {"encoder": {"unroll": True}, "decoder": {"unroll": True}}
    schedule = {"kind": "noam", "warmup_steps": 200}
    return {"model": model, "training.learning_rate": 0.5, "training.schedule": schedule}


def recurrent(width: int, score: str) -> dict[str, Any]:
    """The overrides of a vanilla RNN with Luong's decoder. Without attention such an RNN does not learn to copy."""
    return {"model.width": width, "model.cell": {"kind": "vanilla"},
            "model.alignment": {"kind": "global", "score": {"kind": score}}}  # fmt: skip


TRAINED = (train, measure(measure_trained))
NARROW, WIDE = 32, 256
SMOKE_WIDTH = {"model.width": 16}
ROWS = (
    *(Row(f"random_{score}", f"random vectors, {name}", settings={"score": score}, stages=(measure(measure_random),))
      for score, name in SCORES.items()),
    *(Row(f"heads_{divisor}", f"width 512 in heads, by the root of the {name}", settings={"divisor": divisor},
          stages=(measure(measure_heads),))
      for divisor, name in (("head", "head's width"), ("model", "model's width"))),
    *(Row(f"transformer_{kind}_{width}", f"Transformer, head of {width}, {name}", transformer(width, attention),
          scales=None if (kind, width) == ("scaled", NARROW) else LARGE, stages=TRAINED)
      for width in (NARROW, WIDE) for kind, attention, name in
      (("scaled", "standard", "scaled"), ("unscaled", "unscaled", "unscaled"))),
    *(Row(f"rnn_{score}_{width}", f"RNN of {width}, {name}", recurrent(width, score),
          at={"smoke": {**recurrent(width, score), **SMOKE_WIDTH}},
          scales=None if (score, width) == ("additive", NARROW) else LARGE, stages=TRAINED)
      for width in (NARROW, WIDE) for score, name in SCORES.items()),
)  # fmt: skip
SIZES = {
    "random_widths": (4, 16, 64, 256, 1024),
    "keys": 64,
    "rows": 256,
    "factors": (0.1, 0.3, 1.0, 3.0, 10.0, 30.0),
    "model_width": 512,
    "heads": (1, 2, 4, 8, 16, 32, 64),
}
STUDY = Study(
    rows=ROWS,
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2, settings={**SIZES, "random_widths": (4, 16), "rows": 8}),
        "cpu": Scale(f"{CONFIG}:cpu", seeds=3, jobs=2, settings=SIZES),
        "gpu": Scale(f"{CONFIG}:cpu", {"training.steps": 5000}, seeds=3, settings=SIZES),
    },
    columns=(
        Column("measure.variance_power", "logit variance ~ H^", fixed(2)),
        Column("measure.jacobian_power", "Jacobian ~ H^", fixed(2)),
        Column("measure.logit_variance", "logit variance", significant(3)),
        Column("measure.entropy", "entropy / log S", fixed(2)),
        Column("measure.largest", "largest weight", fixed(2)),
        Column("measure.jacobian", "norm of Jacobian", significant(2)),
        Column("measure.start_entropy", "entropy before training", fixed(2)),
        Column("measure.start_jacobian", "Jacobian before training", significant(2)),
        Column("measure.recall", "recall", fixed(2), better="higher"),
        Column("train.loss", "loss", significant(2), better="lower"),
    ),
    claims="../../claims.csv",
    # The claims are judged on random vectors; the trained models are shown for comparison.
    competence=(
        Competence("transformer_scaled_32", "measure.recall", line=0.9, higher=True, rows=("transformer_*",)),
        Competence("rnn_dot_32", "measure.recall", line=0.9, higher=True, rows=("rnn_*",)),
    ),
    untrained=("logit-variance-grows", "softmax-entropy-falls", "softmax-gradient-shrinks"),
    verdicts=VERDICTS,
    figures=(draw_by_width,),
    notes=(
        "Rows with random vectors: values at the largest width, 1,024, with 64 keys. Rows with heads: values at 64 "
        "heads of width 8. Trained rows: values of the decoder's weights over the source, on test examples with "
        "teacher forcing.",
        "Copying uses generated text; chance is 1/512.",
    ),
)
