"""The headers of the files in configs/: the command, every variant, and the counted and recorded numbers."""

import ast
import json
import re
from pathlib import Path

import numpy as np
import pytest

from attention_research.config import variants
from attention_research.studies import records

ROOT = Path(__file__).parents[2]
FILES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "configs").rglob("*.py"))
TRANSFORMER, RECURRENT = "configs/translation/transformer.py", "configs/translation/recurrent.py"
LANGUAGE_MODEL = "configs/language_modelling/transformer.py"
GOLDENS = {one["config"]: one for one in map(json.loads, (ROOT / "tests/cli/goldens.jsonl").read_text().splitlines())}


def header(file):
    return ast.get_docstring(ast.parse((ROOT / file).read_text(encoding="utf-8")))


def line_of(variant, file=TRANSFORMER):
    return next(line for line in header(file).splitlines() if line.startswith(f"{variant} "))


def recorded(results, row):
    """The trials of a row in a study's recorded results."""
    trials = records.read(ROOT / "experiments" / results)
    return [trial for trial in trials.values() if trial["row"] == row]


@pytest.mark.parametrize("file", FILES)
def test_a_header_has_its_command_and_says_what_to_expect_of_every_variant(file):
    said = header(file)
    assert f"attention-research train --config={file}:" in re.sub(" +", " ", said)
    assert {name for name in variants(ROOT / file) if not re.search(rf"\b{name}\b", said)} == set()
    assert re.search(r"\b(BLEU|F1|[Ee]rror rate|squared error|perplexity|accuracy|precision)\b", said)
    assert re.search(r"\b(seconds|minutes|hours|time)\b", said)


@pytest.mark.parametrize("variant", variants(ROOT / TRANSFORMER))
def test_counts_are_those_of_inspect(variant):
    golden = GOLDENS[f"translation/transformer:{variant}"]
    flops = golden["flops"] / 1e9
    counts = [f"{golden['parameters']:,}", f"{flops:,.0f}" if flops > 1000 else f"{flops:.1f}"]
    assert line_of(variant).split()[1:3] == counts


@pytest.mark.parametrize("variant", variants(ROOT / RECURRENT))
def test_weights_without_biases_are_those_of_inspect(variant):
    arrays = GOLDENS[f"translation/recurrent:{variant}"]["arrays"]
    weights = sum(np.prod(shape, dtype=int) for name, shape in arrays.items() if not name.endswith("bias"))
    assert line_of(variant, RECURRENT).split()[1] == f"{weights:,}"


def test_bleu_and_time_are_the_recorded_ones():
    """The numbers of the newest record of the whole job."""
    newest = max((ROOT / "benchmarks/results").glob("translate-*.json"), key=lambda path: path.stem[-10:])
    ours = json.loads(newest.read_text(encoding="utf-8"))["systems"]["ours"]
    assert f"{ours['minutes']:.1f} minutes" in line_of("cpu") and line_of("cpu").endswith(f" {ours['bleu']:.1f}")


def test_the_masked_language_models_perplexity_is_the_recorded_one():
    record = recorded("lectures/results/masking/cpu", "two_sided")
    own = [trial["stages"]["evaluate"]["perplexity"] for trial in record]
    said = f"{np.mean(own):.2f} +- {np.std(own, ddof=1):.2f} of hidden characters" if own else "not recorded"
    assert said in line_of("masked", LANGUAGE_MODEL)
