"""Bai, Kolter & Koltun 2018, Table 1: recurrence, convolution and causal attention on problems of long memory.

    attention-research reproduce bai2018/table1 --scale=paper

The rows are the adding problem with 600 positions (models of 70,000 parameters) and copy memory over 1,000 positions
(16,000 parameters). The paper has recurrent networks and a temporal convolutional network (TCN). An LSTM whose forget
gate is open at first and causal Transformers are added here.
"""

from __future__ import annotations

import math
from typing import Any

from attention_research.studies import Row, Scale, Study
from attention_research.studies.columns import PARAMETERS, Column, fixed, significant
from attention_research.studies.competence import Competence
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Case, Verdict, compare, conclude, decide, every_seed

CONFIG = "configs/series/memory.py"
ERROR, LOSS = "evaluate.squared_error", "evaluate.position_loss"
MEMORYLESS = "evaluate.memoryless_loss"
#: A recurrent model has no memory of the symbols if its loss is at least this share of the loss without a memory.
SHARE = 0.95
TCN = {"kind": "temporal_convolution", "num_layers": 8, "kernel_width": 8}
SMALL_TCN = {"kind": "temporal_convolution", "num_layers": 2, "kernel_width": 3}
#: Gradients of a recurrence and of a Transformer are clipped; the released code of the TCN clips nothing.
ADAM, RMSPROP = {"kind": "adam", "b2": 0.999, "epsilon": 1e-8}, {"kind": "rmsprop"}
CLIPPED = {"training.clip_norm": 1.0}


def recurrent(cell: str) -> dict[str, Any]:
    """One layer of a cell."""
    return {"kind": "recurrent", "cell": {"kind": cell}}


def transformer(width: int, attention: str) -> dict[str, Any]:
    """Two pre-norm layers with 4 heads. The feed-forward has twice the width."""
    return {
        "kind": "transformer", "num_layers": 2, "num_heads": 4, "self_attention": {"kind": attention},
        "feed_forward": {"kind": "dense", "hidden_width": 2 * width},
    }  # fmt: skip


#: Id -> (name, width on the adding problem, width on copy memory, network).
MODELS: dict[str, tuple[str, int, int, Any]] = {
    "lstm": ("LSTM", 130, 60, recurrent("lstm")),
    "lstm_open": ("LSTM, forget bias 1", 130, 60, recurrent("lstm_forget_bias")),
    "gru": ("GRU", 151, 70, recurrent("gru")),
    "rnn": ("RNN", 263, 119, recurrent("vanilla")),
    "tcn": ("TCN", 24, 10, TCN),
    "rotary": ("Transformer, rotary", 64, 32, "rotary"),
    "no_positions": ("Transformer, no positions", 64, 32, "standard"),
}
RECURRENT = ("lstm", "lstm_open", "gru", "rnn")
#: Task -> kind of network -> learning rate. Other networks have 0.001.
RATES = {
    "adding": {"temporal_convolution": 0.004, "recurrent": 0.002},
    "copy": {"temporal_convolution": 0.0005},
}
#: Copy memory as in the config's variant of that name. A smoke test has the small data of its scale.
COPY = {"channels": 1, "task": {"kind": "position_classes"}}
COPY_DATA = {"kind": "copy_memory", "train_examples": 10_000, "held_out": 1000}
SMOKE_DATA = {"kind": "copy_memory", "length": 3, "train_examples": 64, "held_out": 32}


def row(task: str, id: str, *, copying: bool) -> Row:
    """A model on a task."""
    name, wide, narrow, network = MODELS[id]
    width = narrow if copying else wide
    network = transformer(width, network) if isinstance(network, str) else network
    model: dict[str, Any] = {"kind": "series", "width": width, "network": network}
    small = {**model, "width": 8, "network": SMALL_TCN if network is TCN else network}
    changes: dict[str, Any] = {}
    if copying:
        model, small = {**model, "outputs": 10}, {**small, "outputs": 10}
        changes |= {**COPY, "training.optimizer": RMSPROP}
        changes["evaluation"] = {"kind": "position_classes", "split": "test", "batch_size": 100}
    changes |= {"training.learning_rate": RATES[task].get(network["kind"], 0.001), **({} if id == "tcn" else CLIPPED)}
    sized = {"data": COPY_DATA, **lasting(3000)} if copying else lasting(7000)
    smoke = {"data": SMOKE_DATA} if copying else {}
    full = {**changes, "model": model, **sized}
    at = {"quick": {**full, "max_length": 120 if copying else 60}, "smoke": {**changes, "model": small, **smoke}}
    longest = {"max_length": 1020} if copying else {}
    return Row(f"{task}_{id}", f"{'copy' if copying else 'adding'}: {name}", {**full, **longest}, at=at)


def lasting(steps: int) -> dict[str, int]:
    """The updates of a trial, with a validation after each twentieth of them."""
    return {
        "training.steps": steps,
        "training.eval_every": steps // 20,
        "training.checkpoint_every": steps // 4,
        "training.log_every": steps // 100,
    }


ROWS = (
    *(row("adding", id, copying=False) for id in MODELS),
    *(row("copy", id, copying=True) for id in MODELS if id != "no_positions"),
)


def convolution_remembers(results: Results) -> Verdict:
    """On copy memory, the TCN has a lower loss than each recurrent network."""
    return conclude({MODELS[one][0]: compare(results, "copy_tcn", f"copy_{one}", LOSS) for one in RECURRENT})


def recurrent_networks_forget(results: Results) -> Verdict:
    """Every recurrent network has, in every seed, at least 95 % of the loss of the best answer without a memory."""
    rows = {f"copy_{one}": MODELS[one][0] for one in RECURRENT}
    without = next((mean for row in rows if (mean := results.mean(row, MEMORYLESS)) is not None), math.nan)
    said = lambda losses: f"{min(losses):.4f} to {max(losses):.4f}, without a memory {without:.4f}"
    rule = lambda losses: Case.ruled(min(losses) >= SHARE * without, said(losses))
    return decide(every_seed(results, rows, LOSS, rule))


def gru_and_convolution_add(results: Results) -> Verdict:
    """On the adding problem, the GRU and the TCN have a lower error than the LSTM and the simple network."""
    return conclude(
        {f"{MODELS[better][0]} against {MODELS[worse][0]}":
         compare(results, f"adding_{better}", f"adding_{worse}", ERROR)
         for better in ("gru", "tcn") for worse in ("lstm", "rnn")}
    )  # fmt: skip


def attention_remembers(results: Results) -> Verdict:
    """Causal attention with rotary positions has a lower loss than each recurrent network on copy memory, and a lower
    error than the LSTM and the simple network on the adding problem."""
    copying = {f"copy, {MODELS[one][0]}": compare(results, "copy_rotary", f"copy_{one}", LOSS) for one in RECURRENT}
    adding = {
        f"adding, {MODELS[one][0]}": compare(results, "adding_rotary", f"adding_{one}", ERROR)
        for one in ("lstm", "rnn")
    }  # fmt: skip
    return conclude({**copying, **adding})


STUDY = Study(
    rows=ROWS,
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2),
        "quick": Scale(f"{CONFIG}:adding", seeds=1, note="A tenth of the lengths, with the same numbers of updates."),
        "paper": Scale(
            f"{CONFIG}:adding",
            seeds=3,
            note="The checkpoint with the least validation loss counts. The rates of the added rows and of the "
            "recurrent networks are ours.",
        ),
    },
    columns=(
        PARAMETERS,
        Column(ERROR, "mean squared error", significant(3), better="lower"),
        Column(LOSS, "loss a position", significant(3), better="lower"),
        Column("evaluate.recalled", "recalled symbols, %", fixed(1), better="higher"),
    ),
    published="table1.csv",
    compared={ERROR: "mean squared error", LOSS: "loss a position"},
    claims="../claims.csv",
    competence=(
        Competence(
            "adding_tcn",
            ERROR,
            floor="constant",
            margin=0.1,
            rows=("adding_*",),
            claims=("gru-and-convolution-add", "attention-remembers"),
        ),
        Competence(
            "copy_tcn",
            LOSS,
            floor="memoryless",
            margin=0.005,
            rows=("copy_*",),
            claims=("convolution-remembers", "recurrent-networks-forget", "attention-remembers"),
        ),
    ),
    verdicts={
        "convolution-remembers": convolution_remembers,
        "recurrent-networks-forget": recurrent_networks_forget,
        "gru-and-convolution-add": gru_and_convolution_add,
        "attention-remembers": attention_remembers,
    },
    notes=(
        "A constant answer has a mean squared error of 1/6 = 0.167 on the adding problem. The best answer to copy "
        "memory without a memory has the loss 10 ln 8 / 1,020 = 0.0204.",
    ),
)
