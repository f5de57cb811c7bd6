"""Fine-tuning after pre-training, in place of the columns SGLUE, XSum and WebQ of Narang et al. 2021, Table 1.

    name      data           task                                  replaces       metrics
    topic     news/bbc       from a story to one of five classes   SuperGLUE      accuracy
    headline  headlines/bbc  from a story to its headline          XSum           ROUGE-2, perplexity per word piece
    trivia    trivia/red     from a question to its answer         WebQuestions   exact match, perplexity

A trivia question includes its topic. Each fine-tuning starts from the last checkpoint of the trial, with the optimizer
and the learning rate of the row; the learning rate decays to 0. Long stories are truncated. The perplexity of the
references distinguishes models that give no correct answers. SuperGLUE's eight tasks and WebQuestions are in no
registry package. The study `narang2021/translation`, which trains from scratch, replaces the column WMT.
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Stage, finetune, text_to_text
from attention_research.studies.columns import Column, fixed

SETS: dict[str, dict[str, Any]] = {
    "topic": {"name": "news/bbc", "prefix": "topic: ", "source": ("text",), "target": "label"},
    "headline": {"name": "headlines/bbc", "prefix": "summarize: ", "source": ("document",), "target": "summary"},
    "trivia": {"name": "trivia/red", "prefix": "trivia ", "source": ("topic", "question"), "target": "answer"},
}
METRICS = {"topic": ("accuracy",), "headline": ("rouge1", "rouge2", "rougeL"), "trivia": ("exact_match", "token_f1")}
#: Scale -> data set -> longest source, longest target, steps.
SIZES = {
    "paper": {"topic": (512, 8, 262_144), "headline": (512, 178, 262_144), "trivia": (512, 32, 30_000)},
    "gpu": {"topic": (512, 8, 2000), "headline": (512, 64, 2000), "trivia": (128, 32, 2000)},
    "smoke": {"topic": (32, 4, 2), "headline": (32, 8, 2), "trivia": (32, 8, 2)},
}
BATCH_SIZES = {"paper": 128, "gpu": 128, "smoke": 4}
#: The number of test examples that are scored, where it is not all of them.
EXAMPLES = {"smoke": 8}


def settings(task: str, scale: str) -> dict[str, Any]:
    """The overrides of a fine-tuning at a scale."""
    *lengths, steps = SIZES[scale][task]
    return text_to_text(
        SETS[task],
        tuple(lengths),
        METRICS[task],
        steps=steps,
        batch_size=BATCH_SIZES[scale],
        examples=EXAMPLES.get(scale),
        scored_together=16 if scale == "smoke" else 64,
    )


STAGES: tuple[Stage, ...] = tuple(
    finetune(task, settings(task, "paper"), at={scale: settings(task, scale) for scale in SIZES}) for task in SETS
)
COLUMNS = (
    Column("topic.accuracy", "topic, accuracy", fixed(1), better="higher"),
    Column("headline.perplexity", "headline, perplexity", fixed(1), better="lower"),
    Column("headline.rouge2", "headline, ROUGE-2", fixed(2), better="higher"),
    Column("trivia.perplexity", "trivia, perplexity", fixed(1), better="lower"),
    Column("trivia.exact_match", "trivia, exact match", fixed(2), better="higher"),
)
