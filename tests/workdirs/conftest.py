"""Hand-written folders of runs and of a study's trials, so that the output of the commands is known exactly."""

import json
from pathlib import Path

import pytest

from attention_research.config import load

ENVIRONMENT = {
    "git_revision": "0123abc",
    "date": "2026-11-21T16:00:00+00:00",
    "python": "3.11.7",
    "versions": {"jax": "0.10.2", "flax": "0.12.8"},
    "devices": ["cpu"],
    "strategy": "jit",
    "mesh": {"data": 1},
    "command": ["/a/b/attention-research", "train", "--config=x <y>", "--workdir=runs/first run"],
}
EVALUATION = {
    "bleu": 12.5,
    "signature": "nrefs:1|tok:13a",
    "perplexity": 20.0,
    "sentences": 19,
    "split": "test",
    "step": 6,
    "seed": 0,
    "seconds": 3.0,
    "samples": [{"source": "<b>un</b>", "reference": "one", "translation": "two"}],
}


@pytest.fixture(scope="session")
def evaluation():
    """What `evaluate` writes for a run."""
    return EVALUATION


@pytest.fixture(scope="session")
def make_run(root):
    """make_run(folder, upto, steps=6, ...): a run of `steps` steps that has logged `upto` of them."""

    def make(folder: Path, upto: int, *, steps=6, seeds=(0,), overrides=(), environment=None, evaluation=None):
        config = load(root / "configs/translation/transformer.py:smoke", [("training.steps", steps), *overrides])
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(config.to_json())
        (folder / "environment.json").write_text(json.dumps({**ENVIRONMENT, **(environment or {})}))
        lines = []
        for step in range(1, upto + 1):
            # 100 tokens a step at 200 and later 400 tokens/s: half a second, then a quarter. The first step includes
            # compilation.
            speed = None if step == 1 else 200.0 if step == 2 else 400.0
            for seed in seeds:
                line = {"step": step, "seed": seed, "tokens": 100.0, "loss": 10.0 - step + 2 * seed}
                lines.append({**line, "split": "train", "tokens_per_second": speed, "learning_rate": 0.1 * step})
                if step % 2 == 0:
                    lines.append({**line, "split": "validation", "loss": 20.0 + abs(step - 4) + 2 * seed})
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        if evaluation:
            (folder / "evaluation.json").write_text(json.dumps(evaluation))
        if upto == steps:
            (folder / "checkpoints" / str(steps)).mkdir(parents=True)
        return folder

    return make
