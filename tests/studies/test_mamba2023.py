"""The verdicts of mamba2023/induction on the printed numbers and on others, and the accuracy by length of a run."""

import csv

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from results_of import results_of

from attention_research.config import load
from attention_research.studies.loading import load_study
from attention_research.studies.verdicts import FAILED, HELD, UNTESTED
from attention_research.training.evaluation import Trained
from attention_research.training.run import train

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)


def printed():
    """The printed cells as three seeds, a tenth of a percent apart."""
    with open(load_study("mamba2023/induction").file("induction.csv"), encoding="utf-8", newline="") as file:
        lines = {line["row"]: line for line in csv.DictReader(file)}
    seeds = lambda cell: [float(cell) - more for more in (0.0, 0.1, 0.2)]
    return {
        row: {f"measure.length_{n}": seeds(line[f"accuracy at {n}, %"]) for n in LENGTHS} for row, line in lines.items()
    }


def status(claim, numbers):
    study = load_study("mamba2023/induction")
    results = results_of(numbers, scale="paper", competence=study.competence, verdicts=study.verdicts)
    return study.verdicts[claim](results).status


def test_the_printed_numbers_hold():
    claims = load_study("mamba2023/induction").verdicts
    assert len(claims) == 4 and {status(claim, printed()) for claim in claims} == {HELD}


@pytest.mark.parametrize(
    ("claim", "row", "key", "value"),
    [
        ("induction-is-learned", "abs", "length_256", 98.0),
        ("induction-xpos-reaches-further", "rotary", "length_1024", 99.0),
        ("induction-attention-does-not-extrapolate", "xpos", "length_4096", 60.0),
        ("induction-mamba-extrapolates", "mamba", "length_4096", 98.0),
    ],
)
def test_other_numbers_fail(claim, row, key, value):
    numbers = printed()
    numbers[row][f"measure.{key}"] = [value] * 3
    assert status(claim, numbers) == FAILED


def test_a_code_that_was_not_learned_says_nothing_about_longer_rows():
    numbers = printed()
    numbers["xpos"] = {key: [5.0] * 3 for key in numbers["xpos"]}
    assert status("induction-attention-does-not-extrapolate", numbers) == UNTESTED


@pytest.mark.slow
def test_the_accuracy_by_length_is_that_of_the_most_probable_tokens(tmp_path):
    config = load(
        "configs/language_modelling/induction.py:smoke", [("training.steps", 40), ("training.batch_size", 32)]
    )
    train(config, tmp_path)
    (stage,) = (one for one in load_study("mamba2023/induction").stages if one.kind == "measure")
    found = stage.function(workdir=tmp_path, seed=0, lengths=(8, 19), examples=37, tokens=76)
    assert found["updates"] == 40
    trained = Trained(tmp_path)
    parameters, statistics = jax.tree.map(jnp.asarray, trained.model())
    model = trained.trainer.structure.merge(parameters, statistics)
    for length in (8, 19):
        made = stage.function.__globals__["rows"](np.random.default_rng([2314, length]), 37, length, 16)
        values, _ = model.log_likelihood(jax.tree.map(jnp.asarray, made))
        share = np.mean(np.asarray(values["predicted"])[:, -1] == made["target"][:, -1])
        assert found[f"length_{length}"] == pytest.approx(100 * share)
