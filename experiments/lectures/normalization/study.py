"""Layer normalization: its formula, a comparison with batch norm, and its effect on gradients and training.

    attention-research reproduce lectures/normalization --scale=cpu

The study has four parts:

- Exact (`formulas`): the formula against common mistakes, and the change of a sample's output when the other samples of
  its batch change.
- The error of a small network by batch size with either norm (`batch_sizes`).
- Random networks (`amplification`): the growth of a relative change of the first weights through 32 dense layers, with
  and without layer norm, by activation and gain.
- Trained causal language models of the characters of film reviews with eight layers: without norm, with layer norm,
  with RMS norm, with layer norm without gain and bias, and with layer norm whose statistics are detached from the
  gradient (Xu et al. 2019); pre-norm and post-norm, each with and without a warm-up (Xiong et al. 2020); without norm
  and with layer norm at three learning rates. Gradients by layer are measured before and after training.
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import LOSS, PARAMETERS, PERPLEXITY, Column, significant
from attention_research.studies.competence import Competence

from ...haviv2022.schemes import CHARACTERS, CONFIG, UNROLLED
from . import changes, verdicts
from .amplification import ACTIVATIONS, measure_amplification
from .batch_sizes import measure_batch_sizes
from .figures import draw_amplification, draw_batch_sizes, draw_gradients, draw_training
from .formulas import NORMS, SLIPS, measure_formula, measure_neighbours
from .layer_gradients import measure_gradients

LARGE = ("cpu", "gpu")
LAYERS = ("self_attention", "feed_forward")
NO_WARMUP: dict[str, Any] = {"training.schedule.warmup_steps": 0}
#: x + f(x) and N(x + f(x)) for each layer f.
NONE = {
    "model.decoder.steps": tuple((layer, "dropout", "residual") for layer in LAYERS),
    "model.decoder.final_norm": False,
}
POST = {
    "model.decoder.steps": tuple((layer, "dropout", "residual", "norm") for layer in LAYERS),
    "model.decoder.final_norm": False,
}
SAID = {"right": "formula", "sum": "mean without 1/D", "root": "root taken twice", "both": "both slips"}
#: Row -> name, overrides. The learning rate is that of the scale unless a row sets it.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "none": ("no norm", NONE),
    "layer_norm": ("layer norm", {}),
    "rms_norm": ("RMS norm", {"model.norm.kind": "rms_norm"}),
    "simple": ("no gain, no bias", {"model.norm.kind": "layer_norm_simple"}),
    "detached": ("statistics detached", {"model.norm.kind": "detach_norm"}),
    "post": ("norm after the residual", POST),
    "post_no_warmup": ("after, no warm-up", {**POST, **NO_WARMUP}),
    "pre_no_warmup": ("layer norm, no warm-up", NO_WARMUP),
}
#: Further learning rates for the first two rows.
RATES = {"low": 0.001, "high": 0.01}


def models() -> tuple[Row, ...]:
    """The trained rows."""
    stages = (train, evaluate, measure(measure_gradients))
    found = [
        Row(
            id,
            name,
            overrides,
            at={"cpu": {**CHARACTERS, **overrides}},
            scales=None if id == "detached" else LARGE,
            stages=stages,
        )
        for id, (name, overrides) in MODELS.items()
    ]
    for speed, rate in RATES.items():
        for id in ("none", "layer_norm"):
            name, overrides = MODELS[id]
            changed = {**overrides, "training.learning_rate": rate}
            at = {"cpu": {**CHARACTERS, **changed}}
            found.append(Row(f"{id}_{speed}", f"{name}, rate {rate}", changed, at=at, scales=LARGE, stages=stages))
    return tuple(found)


SIZES = {
    "scales": (0.1, 1.0, 10.0, 100.0),
    "samples": 64,
    "batch_sizes": (2, 4, 16, 64),
    "draws": 32,
    "gains": (1.0, 2.0),
    "depth": 32,
    "width": 128,
    "rates": (0.001, 0.003, 0.01),
    "trained_samples": 65_536,
}
#: The width of the networks that are fitted with batch norm or layer norm.
FITTED = 32
SHORT = {
    **UNROLLED,
    "max_length": 64,
    "model.num_layers": 8,
    "model.width": 32,
    "model.num_heads": 2,
    "model.feed_forward.hidden_width": 128,
    "training.steps": 400,
    "training.checkpoint_every": 400,
    "training.eval_every": 400,
    "training.log_every": 10,
    "training.schedule.warmup_steps": 50,
}
STUDY = Study(
    rows=(
        *(Row(f"formula_{slip}", SAID[slip], settings={"formula_name": slip}, stages=(measure(measure_formula),),
              scales=None if slip == "both" else LARGE)
          for slip in SLIPS),
        *(Row(f"batch_{norm}", f"{norm.replace('_', ' ')}, neighbours changed", settings={"norm": norm},
              stages=(measure(measure_neighbours),), scales=LARGE)
          for norm in NORMS),
        *(Row(f"loss_{norm}", f"{norm.replace('_', ' ')}, by batch size", settings={"norm": norm, "width": FITTED},
              stages=(measure(measure_batch_sizes),), scales=LARGE)
          for norm in NORMS),
        *(Row(f"changes_{activation}{'_norm' * normalised}", f"{activation}{', layer norm' * normalised}",
              settings={"activation": activation, "normalised": normalised},
              stages=(measure(measure_amplification),), scales=None if activation == "tanh" and normalised else LARGE)
          for activation in ACTIVATIONS for normalised in (False, True)),
        *models(),
    ),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", {"training.schedule.warmup_steps": 2}, seeds=1, jobs=2,
                       settings={**SIZES, "depth": 4, "width": 16, "samples": 4}),
        "cpu": Scale(f"{CONFIG}:cpu", SHORT, seeds=3, jobs=2, replicas=True, settings=SIZES),
        "gpu": Scale(f"{CONFIG}:cpu", {"model.num_layers": 12, "training.steps": 10_000}, seeds=3, settings=SIZES),
    },
    columns=(
        Column("measure.mean", "mean", significant(2), spread=False),
        Column("measure.deviation", "standard deviation", significant(3), spread=False),
        Column("measure.change", "change by other samples", significant(2)),
        Column("measure.loss_ratio", "error at batch 2 / 64", significant(2)),
        Column("measure.amplification", "amplification", significant(2)),
        Column("measure.range", "growth of range", significant(2)),
        PARAMETERS,
        Column("measure.start_last", "gradient, last layer", significant(2)),
        Column("measure.start_ratio", "gradient, last / first", significant(2)),
        LOSS,
        PERPLEXITY,
    ),
    claims="../../claims.csv",
    competence=(Competence("layer_norm", "evaluate.perplexity", "trigram"),),
    untrained=("small-changes-amplified",),
    verdicts={**verdicts.VERDICTS, **changes.VERDICTS},
    figures=(draw_training, draw_gradients, draw_amplification, draw_batch_sizes),
    notes=(
        "Mean and standard deviation: those of the outputs of the formula, for vectors of 128 numbers with mean 200 "
        "and standard deviation 100. Change by other samples: the largest relative change of a sample's output when "
        "the other samples of its batch are replaced. Amplification and growth of range: values of the last of 32 "
        "dense layers divided by those of the first, at gain 2.",
        "Error at batch 2 / 64: the error of a network trained with batches of 2 samples, divided by that with 64.",
        "Gradients: norms for each layer's second feed-forward matrix, before training.",
        "The seeds of a trained row were trained together on the same batches.",
    ),
)  # fmt: skip
