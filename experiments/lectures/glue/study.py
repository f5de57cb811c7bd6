"""A small version of GLUE: average scores of a Transformer and LSTMs, pre-trained and from scratch, on labelled text.

    attention-research reproduce lectures/glue --scale=cpu

The data sets of GLUE (Wang et al. 2018, arXiv 1804.07461) are in no registry package. They are replaced by other
labelled data sets, as text to text: sentiment of sentences and of reviews (the sentences are the source of SST-2), and
topics of news and of quiz questions. Nothing replaces the pairs of sentences (NLI, paraphrase, similarity), which are
the larger part of GLUE. Pre-training is span corruption on film reviews without their labels. A model chooses the label
with the largest likelihood. The score of a task is the mean of its metrics, as in GLUE.
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Row, Scale, Stage, Study, finetune, text_to_text, train
from attention_research.studies.columns import FLOPS, LOSS, PARAMETERS, STEPS_PER_SECOND, Column, fixed
from attention_research.studies.competence import Competence

from ...t5_2020.labels import SCRATCH
from .verdicts import ROWS, TASKS, VERDICTS, draw

CONFIG = "configs/text_to_text/t5_2020.py"
#: Task -> data, metrics.
SETS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "sentence": ({"name": "reviews/rotten_tomatoes", "prefix": "sentence: ", "source": ("text",), "target": "label"},
                 ("accuracy",)),
    "review": ({"name": "reviews/imdb", "prefix": "sentiment: ", "source": ("text",), "target": "label"},
               ("accuracy",)),
    "news": ({"name": "news/bbc", "prefix": "topic: ", "source": ("text",), "target": "label"},
             ("accuracy", "f1_macro")),
    "quiz": ({"name": "trivia/red", "prefix": "subject: ", "source": ("question",), "target": "topic"},
             ("accuracy", "matthews")),
}  # fmt: skip
#: The largest number of tokens of a label, at every scale.
LONGEST_LABEL = 16
#: Scale -> longest source, updates, batch size, number of scored test examples (None: all).
SIZES = {"gpu": (128, 2000, 64, None), "cpu": (128, 800, 16, 1000), "smoke": (32, 2, 4, 8)}
#: The learning rates of fine-tuning, for the optimizer of each architecture.
RATES = {"transformer": 0.01, "lstm": 0.002}
WIDTH = {"gpu": 512, "cpu": 96, "smoke": 16}


def lstm(scale: str) -> dict[str, Any]:
    """The overrides of a bidirectional LSTM encoder and an LSTM decoder with attention (Luong et al. 2015) and Adam."""
    model = {"kind": "recurrent", "width": WIDTH[scale], "num_layers": 1, "cell": {"kind": "lstm"}}
    model |= {"encoder": {"kind": "bidirectional"}, "decoder": {"kind": "luong", "start": {"kind": "projected"}}}
    training = {"training.optimizer": {"kind": "adam"}, "training.learning_rate": 0.003, "training.clip_norm": 1.0}
    return {"model": model, **training, "training.schedule": {"kind": "linear", "warmup_steps": 10}}


def tuned(task: str, rate: float, scale: str) -> dict[str, Any]:
    """The overrides of a fine-tuning at a scale."""
    (data, metrics), (longest, steps, batch_size, examples) = SETS[task], SIZES[scale]
    more = {"steps": steps, "batch_size": batch_size, "examples": examples}
    made = text_to_text(data, (longest, LONGEST_LABEL), metrics, scored_together=8 if scale == "smoke" else 64, **more)
    return {**made, "training.learning_rate": rate, "evaluation": {**made["evaluation"], "kind": "label_likelihood"}}


def stages(model: str) -> tuple[Stage, ...]:
    """The stages: pre-training, then a fine-tuning for each task."""
    made = lambda task, scale: tuned(task, RATES[model], scale)
    tunings = (finetune(task, made(task, "gpu"), at={scale: made(task, scale) for scale in SIZES}) for task in TASKS)
    return (train, *tunings)


def row(id: str) -> Row:
    """The row with the given id, which names the model and whether it is trained from scratch."""
    model, scratch = id.split("_")[0], id.endswith("_scratch")
    given = lambda scale: {**(lstm(scale) if model == "lstm" else {}), **(SCRATCH if scratch else {})}
    scales = ("cpu", "gpu") if scratch else None
    return Row(id, ROWS[id], given("cpu"), at={scale: given(scale) for scale in SIZES}, scales=scales,
               stages=stages(model))  # fmt: skip


LONG = {
    "max_length": 128, "training.steps": 6000, "training.checkpoint_every": 3000, "training.eval_every": 2000,
    "training.schedule.warmup_steps": 600,
}  # fmt: skip
LARGE = {
    "max_length": 512, "vocabulary_size": 8192, "data.sentinels": 100, "model.num_layers": 6, "model.width": 512,
    "model.num_heads": 8, "model.head_width": 64, "model.feed_forward.hidden_width": 2048, "training.steps": 20_000,
    "training.batch_size": 64,
}  # fmt: skip
STUDY = Study(
    rows=tuple(map(row, ROWS)),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1),
        "cpu": Scale(f"{CONFIG}:cpu", LONG, seeds=3, replicas=True),
        "gpu": Scale(f"{CONFIG}:cpu", {**LONG, **LARGE}, seeds=3),
    },
    columns=(
        PARAMETERS,
        FLOPS,
        STEPS_PER_SECOND,
        LOSS,
        *(Column(f"{task}.score", name, fixed(1), better="higher") for task, name in TASKS.items()),
        *(Column(f"{task}.majority_accuracy", f"{name}, majority class", fixed(1), spread=False)
          for task, name in TASKS.items()),
    ),
    claims="../../claims.csv",
    competence=(
        Competence("transformer", "sentence.accuracy", "majority", margin=15, higher=True),
        Competence("transformer", "review.accuracy", "majority", margin=15, higher=True),
        Competence("transformer", "news.accuracy", "majority", margin=15, higher=True),
        Competence("transformer", "quiz.accuracy", "majority", margin=15, higher=True),
    ),
    verdicts=VERDICTS,
    figures=(draw,),
    notes=(
        "Scores are in percent on our own test splits: accuracy; for news the mean of accuracy and macro-F1; for quiz "
        "questions (39 subjects) the mean of accuracy and Matthews correlation. A model chooses the label with the "
        "largest likelihood.",
        "GLUE's pairs of sentences have no counterpart here, so the average is over single texts only. At cpu "
        "pre-training reads only 12 million word pieces of film reviews, far less than models that lead a benchmark.",
    ),
)  # fmt: skip
