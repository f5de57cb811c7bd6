"""Every file of `benchmarks/` prints one JSON document with all numbers that its targets need."""

from __future__ import annotations

import copy
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.accounting.flops import count_flops
from attention_research.kernels import causal_mask, window_mask
from attention_research.studies.loading import load_study
from benchmarks import _joeynmt, accelerator, scaling, translate
from benchmarks._where import kinds
from tests.catalogue import mechanisms


def document(root, name: str, *arguments: str, optimised: bool = True) -> dict:
    """The document that the benchmark prints. `optimised`: compile with XLA's optimisations, else as the tests do."""
    environment = dict(os.environ)
    if optimised:
        environment.pop("JAX_DISABLE_MOST_OPTIMIZATIONS", None)
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", "--json", *arguments],
        cwd=root, capture_output=True, text=True, check=True, env=environment,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert {"git_revision", "date", "processor", "cores", "versions"} <= set(found)
    return found


def promised(targets: list[dict]) -> set[str]:
    """The names that the targets are about. Checks that each target was judged."""
    assert all(isinstance(row["met"], bool) for row in targets)
    return {row["what"] for row in targets}


def ordered(row: dict) -> bool:
    return 0 < row["low_ms"] <= row["median_ms"] <= row["high_ms"]


@pytest.mark.long
def test_the_attention_benchmark_prints_one_document(root):
    found = document(root, "attention", "--lengths=509", "--rounds=2", "--cases=plain,bias")
    assert found["malloc"]["memory"]["MALLOC_TOP_PAD_"] and found["malloc"]["time"] != found["malloc"]["memory"]
    result = found["lengths"]["509"]
    for name in ("forward", "forward+backward", "forward, causal", "forward+backward, causal"):
        assert all(ordered(result["times"][name][form]) for form in ("blockwise", "reference", "jax.nn"))
    assert all(ordered(result["layers"]["forward"][form]) for form in ("blockwise layer", "nnx.MultiHeadAttention"))
    structures = result["structures"]["forward+backward"]
    assert set(structures) >= {"plain", "causal", "window", "segments", "distance", "relative", "groups"}
    assert set(result["memory"]) == {"plain", "bias"}
    for peaks in result["memory"].values():
        assert 0 < peaks["blockwise"] and 0 < peaks["reference"]
    assert promised(result["targets"]) >= {
        "forward: jax.nn / blockwise",
        "forward+backward: causal / full",
    }


@pytest.mark.long
def test_the_training_benchmark_trains_the_same_model_in_every_form(root):
    found = document(root, "train", "--layers=1", "--rounds=1", "--batch=3", "--forms=unrolled,remat,eager")
    forms = {"unrolled", "scan, remat"}  # the plain scan is part of the malloc comparison
    losses = found["times"]["first_loss"]
    assert {*forms, "torch eager"} == set(losses) and max(losses.values()) - min(losses.values()) <= 1e-3
    assert all(ordered(found["times"]["step"][form]) for form in losses)
    assert all(row["warm"] > 0 and row["cold"] > 0 for row in found["first_step_seconds"].values())
    for form in forms:
        program = found["programs"][form]
        assert program["milliseconds"]["products"] > 0 and found["memory"][form] > 0
    kept, plain = found["allocator"]["kept pages"], found["allocator"]["plain malloc"]
    assert kept["page_faults"] < plain["page_faults"] and min(kept["peak_bytes"], plain["peak_bytes"]) > 0
    assert found["programs"]["scan, remat"]["step_gflop"] > found["programs"]["unrolled"]["step_gflop"]
    assert promised(found["targets"]) == {f"step: {form} / torch eager" for form in forms}


@pytest.mark.long
def test_the_decoding_benchmark_finds_equal_tokens(root):
    found = document(root, "decode", "--length=8", "--layers=2", "--rounds=1", optimised=False)
    assert set(found["times"]) == {f"{search}, B={batch}" for search in ("greedy", "beam 4") for batch in (1, 32)}
    for name, row in found["times"].items():
        assert ordered(row["ours"]) and ordered(row["generate"])
        assert row["equal_tokens"] or name.startswith("beam")  # ours treats the last token of a beam as the end
    assert promised(found["targets"]) == {f"{name}: ours / generate" for name in found["times"]}


@pytest.mark.long
def test_the_recurrent_benchmark_runs_the_same_networks_in_every_form(root):
    found = document(root, "recurrent", "--batch=3", "--length=5", "--width=16", "--rounds=1", "--peers=eager")
    for kind in ("gru", "lstm"):
        for which in ("forward", "forward+backward"):
            forms = {"ours", "plain scan", "torch eager"}
            assert all(ordered(found["times"][kind][which][form]) for form in forms)
        assert found["largest_difference"][kind] <= 1e-4 and found["programs"][kind]["milliseconds"]["products"] >= 0
        assert set(found["first_call_seconds"][kind]) >= {"ours", "torch eager"}
    losses = found["rnnsearch"]["first_loss"]
    assert abs(losses["ours"] - losses["torch eager"]) <= 1e-3
    assert all(rate > 0 for rate in found["rnnsearch"]["words_per_second"].values())
    of_cells = {f"{kind}, forward+backward: ours / torch eager" for kind in ("gru", "lstm")}
    assert promised(found["targets"]) == {*of_cells, "RNNsearch, training step: ours / torch eager"}


@pytest.mark.slow
def test_the_scaling_benchmark_fits_exponents_and_draws_them(root, tmp_path):
    found = document(root, "scaling", "--lengths=2048,3001", "--rounds=1", "--names=blockwise,linear_attention")
    for length in ("2048", "3001"):
        for which in ("forward", "forward+backward"):
            assert all(ordered(found["times"][length][which][name]) for name in ("blockwise", "linear_attention"))
        assert all(size > 0 for size in found["memory"][length].values())
    for name, powers in found["exponents"].items():
        times = [found["times"][length]["forward+backward"][name]["median_ms"] for length in ("2048", "3001")]
        assert powers["time"] == pytest.approx(math.log(times[1] / times[0]) / math.log(3001 / 2048), abs=2e-3)
    scaling.draw(found, tmp_path / "scaling.png")
    assert (tmp_path / "scaling.png").stat().st_size > 10_000


def test_every_mechanism_that_is_measured_against_length_is_in_the_catalogue():
    known = {mechanism.name for mechanism in mechanisms()}
    assert set(scaling.SIZES) <= known
    for name in scaling.SIZES:
        axes, settings = scaling.SIZES[name](4096)
        (found,) = (mechanism for mechanism in mechanisms() if mechanism.name == name)
        assert set(axes) <= {axis for argument in found.inputs for axis in found.axes(argument)}


def test_slopes_and_crossings_are_those_of_powers():
    lengths = [1000, 2000, 8000]
    assert scaling.slope(lengths, [3e-6 * length**1.7 for length in lengths]) == pytest.approx(1.7)
    ratios = [3000 / length for length in lengths]  # a linear cost against a quadratic one, equal at 3,000
    assert scaling.crossing(lengths, ratios) == pytest.approx(3000)
    assert scaling.crossing(lengths, [0.5, 0.4, 0.1]) == 1000 and scaling.crossing(lengths, [0.5, 2.0, 1.5]) is None


def test_operations_of_a_compiled_program_are_classified():
    def f(table, index, kernel):
        rows = jnp.tanh(table[index]) @ kernel
        return jnp.sum(jnp.exp(rows), axis=-1), table * 2

    arrays = jnp.ones((50, 40)), jnp.arange(30), jnp.ones((40, 30))
    program = jax.jit(f).lower(*arrays).compile()
    assert {"products", "gathers", "reductions", "elementwise"} <= set(kinds(program.as_text()).values())
    only = jax.jit(lambda x: x * 2 + 1).lower(arrays[0]).compile()
    assert set(kinds(only.as_text()).values()) == {"elementwise"}


def test_a_mechanism_measured_anew_replaces_its_numbers_alone(root):
    """Without recorded numbers of the baseline no crossing is computed; with them it is."""
    before = json.loads(next((root / "benchmarks/results").glob("scaling-*.json")).read_text())
    anew = copy.deepcopy(before)
    anew["shape"]["mechanisms"] = ["bigbird"]
    for length, result in anew["times"].items():
        result["forward+backward"]["bigbird"]["median_ms"] = 1e-3 * int(length)
    assert scaling.fitted(anew)[1] == {}
    after = scaling.replaced(copy.deepcopy(before), anew)
    assert after["exponents"]["bigbird"]["time"] == pytest.approx(1.0) and after["measured_anew"]
    changed = {name for name, power in after["exponents"].items() if power != before["exponents"][name]}
    assert changed == {"bigbird"} and after["crossings"]["bigbird"] == 1024
    fewer = copy.deepcopy(before)
    fewer["shape"]["mechanisms"].remove("bigbird")
    after = scaling.replaced(fewer, anew)  # a mechanism that the record lacks
    assert after["exponents"]["bigbird"]["time"] == pytest.approx(1.0) and after["crossings"]["bigbird"] == 1024


@pytest.mark.long
@pytest.mark.data
def test_the_replicas_benchmark_compares_every_seed_with_its_own_run(root):
    asked = ("--config=configs/translation/transformer.py:smoke", "--seeds=2", "--steps=10")
    found = document(root, "replicas", *asked, optimised=False)
    assert len(found["alone_s"]) == 2 and found["together_s"] > 0
    assert found["largest_difference"] < 1e-4
    assert promised(found["targets"]) == {"seeds in one program / one after the other"}


@pytest.mark.slow
@pytest.mark.data
def test_the_benchmark_of_nanogpt_trains_the_same_model_in_both(root):
    found = document(root, "nanogpt", "--steps=5", "--every=2", "--smoke", optimised=False)
    assert found["parameters"]["ours"] == found["parameters"]["torch"]
    ours, same, other = (found["validation"][name] for name in ("ours", "torch", "torch, own start"))
    np.testing.assert_allclose(ours, same, rtol=2e-5)
    assert len(ours) == 4 and abs(other[0] - same[0]) > 1e-4
    assert all(ordered(row) for row in found["milliseconds_a_step"].values())
    what = {"largest difference at a check, ours and torch", "a step: ours / torch"}
    assert promised(found["targets"]) == what


@pytest.mark.slow
def test_the_rows_of_narang2021_are_interleaved(root):
    rows = ("vanilla_transformer", "geglu", "rezero", "block_sharing")
    found = document(root, "narang2021", "--scale=smoke", "--rounds=2", f"--rows={','.join(rows)}", optimised=False)
    assert tuple(found["steps_per_second"]) == rows and all(ordered(found["times"][row]) for row in rows)
    assert found["paper_steps_per_second"]["geglu"] == 3.55 and "4 rows" in found["rank_correlation"]


class Pairs:
    """Three pairs in each split, with words as tokens. The second pair is too long."""

    name, languages, max_length = "words", ("fr", "en"), 4
    words = ("▁a", "▁b", "c")
    tokenizer = SimpleNamespace(size=7, pieces=lambda tokens: [Pairs.words[token - 4] for token in tokens])

    def prepare(self, report):
        pass

    def sizes(self):
        return dict.fromkeys(("train", "validation", "test"), 3)

    def text(self, split):
        return ["a b", "a a a a", "bc"], ["b a", "a", "a bc"]

    def read(self, texts):
        return [[4 + "abc".index(letter) for letter in text.replace(" ", "")] + [2] for text in texts]


def test_joeynmt_reads_our_tokens_and_its_output_becomes_text(tmp_path):
    counts = _joeynmt.write_data(Pairs(), tmp_path / "data")
    assert counts == {"train": 2, "validation": 3, "test": 3}
    read = lambda name: (tmp_path / "data" / name).read_text().splitlines()
    assert read("train.fr") == ["▁a ▁b", "▁b c"] and read("train.en") == ["▁b ▁a", "▁a ▁b c"]
    assert read("pieces.txt") == list(Pairs.words)
    assert _joeynmt.translations(tmp_path / "data" / "test.en") == Pairs().text("test")[1]
    ours = translate.resolved(20).resolved
    train, test = (json.loads(path.read_text()) for path in _joeynmt.write_configs(ours, tmp_path / "data"))
    assert set(test["data"]) == set(train["data"]) - {"train", "dev"}
    assert train["training"]["updates"] == train["training"]["validation_freq"] == 20
    assert train["model"]["decoder"]["ff_size"] == ours["model"]["feed_forward"]["hidden_width"]


def test_the_translation_benchmark_compares_with_joeynmt_or_reports_it_missing(monkeypatch, capsys):
    """Both libraries' commands are faked. Checks the commands' inputs and the document made from their results."""

    def measured(commands, core, folder, settings):
        if folder.name == "ours":
            (folder / "run").mkdir()
            (folder / "run" / "evaluation.json").write_text('{"bleu": 28.1, "sentences": 3}')
        else:
            written = Path(commands["test"][-1])
            written.with_name("translations.test").write_text("▁b ▁a\n▁a\n▁a ▁b c\n")
        assert list(commands) == ["train", "test"]
        used = dict.fromkeys(("user_s", "system_s", "peak_mb"), 1.0)
        return {"seconds": {"train": 200.0, "test": 40.0}, "minutes": 4.0, **used}

    monkeypatch.setattr(translate, "measured", measured)
    monkeypatch.setattr(translate, "made", dict)
    monkeypatch.setattr("attention_research.config.build_experiment", lambda config: SimpleNamespace(data=Pairs))
    monkeypatch.setattr(translate, "peer", lambda python, environment: python and Path(python))
    translate.main(json=True, joeynmt=sys.executable)
    both = json.loads(capsys.readouterr().out)
    assert both["systems"]["joeynmt"]["sentences"] == 3 and both["systems"]["ours"]["updates_per_s"] == 20.0
    assert promised(both["targets"]) == {"ours: minutes", "BLEU: ours less JoeyNMT's"} and both["targets"][0]["met"]
    translate.main(json=True, updates=20)
    said = capsys.readouterr()
    alone = json.loads(said.out)
    assert set(alone["systems"]) == {"ours"} and alone["targets"] == [] and "measured alone" in said.err


def test_a_command_that_fails_in_the_translation_benchmark_is_named_with_its_last_lines(tmp_path):
    fails = {"train": [sys.executable, "-c", "raise SystemExit('no such thing')"]}
    with pytest.raises(SystemExit, match="train of .*: exit status 1\nno such thing"):
        translate.measured(fails, translate.cores()[0], tmp_path, {})


@pytest.fixture
def standard_promotion():
    """Standard dtype promotion in all threads, as the benchmark runs: jax.nn mixes bfloat16 and float32."""
    jax.config.update("jax_numpy_dtype_promotion", "standard")
    yield
    jax.config.update("jax_numpy_dtype_promotion", "strict")


@pytest.mark.slow
def test_without_a_gpu_it_ends_with_one_line(root):
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.accelerator", "--json"], cwd=root, capture_output=True, text=True
    )
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == "error: benchmarks.accelerator needs a GPU; JAX's default backend here is cpu\n"


@pytest.mark.parametrize("case", accelerator.CASES)
def test_operations_are_counted_by_visible_pairs(case, monkeypatch):
    monkeypatch.setattr(accelerator, "WINDOW", (4, 0))
    for length in (3, 13):
        seen = {"causal": causal_mask(length, length), "window": window_mask(length, length, (4, 0))}
        pairs = int(np.sum(seen[case])) if case in seen else length**2
        assert accelerator.visible_pairs(case, length) == pairs
        assert accelerator.operations(case, "forward", (2, length, 3, 5)) == 2 * 2 * 5 * 2 * 3 * pairs


def test_operations_of_a_plain_pass_are_those_of_the_program(standard_promotion):
    """The dense gradient keeps the probabilities, so it takes six products. A tiled one recomputes the scores."""
    shape = (2, 13, 3, 5)
    arrays = [jax.ShapeDtypeStruct(shape, np.float32)] * 3
    attend = lambda *arrays: jax.nn.dot_product_attention(*arrays)
    gradient = jax.grad(lambda *arrays: (attend(*arrays) ** 2).sum(), (0, 1, 2))
    assert count_flops(attend, *arrays).matmul == accelerator.operations("plain", "forward", shape)
    dense = count_flops(gradient, *arrays).matmul
    assert dense * 7 == accelerator.operations("plain", "forward+backward", shape) * 6


def test_calls_run_and_blank_cells_have_reasons(standard_promotion, monkeypatch):
    monkeypatch.setattr(accelerator, "WINDOW", (4, 0))
    monkeypatch.setitem(accelerator.CASES, "window", {"is_causal": True, "local_window_size": (4, 0)})
    for case, gradients in (("window", 3), ("bias", 4)):
        calls = accelerator.jax_calls("xla", case, (1, 13, 2, 8))
        assert calls["forward"]().shape == (1, 13, 2, 8) and len(calls["forward+backward"]()) == gradients
    monkeypatch.setattr(accelerator, "FORMS", ("xla", "cudnn", "torch"))
    monkeypatch.setattr(accelerator, "LONG_ENOUGH", 1e-4)
    found = accelerator.cells("plain", (1, 13, 2, 8), 2, best=0.5)
    assert [(cell["form"], cell["pass"]) for cell in found[:3]] == [
        ("xla", "forward"), ("cudnn", "forward"), ("torch", "forward")
    ]  # fmt: skip
    assert all(cell["tflops"] >= 0 and cell["low_ms"] <= cell["median_ms"] for cell in found if cell["form"] == "xla")
    assert "cuDNN needs a GPU" in found[1]["why_not"] and "PyTorch" in found[2]["why_not"]


def test_the_table_has_rates_and_reasons():
    times = {"median_ms": 2.0, "low_ms": 1.0, "high_ms": 3.0, "samples": 4}
    shape = accelerator.shape_of(2048, 64)
    assert shape == (8, 2048, 32, 64)
    cell = accelerator.judged("plain", "forward", shape, times, best=500.0)
    assert cell["tflops"] == pytest.approx(4 * 64 * 8 * 32 * 2048**2 / 2e-3 / 1e12, abs=0.05)
    assert cell["share"] == pytest.approx(cell["tflops"] / 500, abs=1e-3)
    place = {"length": 2048, "width": 64, "case": "plain", "pass": "forward"}
    cells = [{**place, "form": "pallas", **cell}]
    cells += [{**place, "form": form, "why_not": "no memory"} for form in accelerator.FORMS[1:]]
    text = accelerator.table({"card": "a card", "matmul_tflops": 500.0, "cells": cells})
    assert "| 64 | 2048 | plain | forward | 137 (0.28) |  |  |  |" in text.splitlines()
    assert "torch, plain, H = 64, T = 2048: no memory" in text.splitlines()


def test_a_study_gives_the_recorded_errors_of_phonetisaurus(root):
    """In a note, because the row of the program has published numbers only."""
    newest = max((root / "benchmarks/results").glob("pronunciation-*.json"), key=lambda path: path.stem[-10:])
    record = json.loads(newest.read_text(encoding="utf-8"))
    words, lines, phonemes = (record[f"{kind}_errors"] for kind in ("word", "line", "phoneme"))
    said = f"has {words} % word errors, {lines} % line errors and {phonemes} % phoneme errors."
    program = f"Phonetisaurus {record['versions']['phonetisaurus']} "
    assert any(note.startswith(program) and note.endswith(said) for note in load_study("g2p2018/table1").notes)
    source = (root / "experiments/g2p2018/table1.csv").read_text(encoding="utf-8")
    assert f"our own run of Phonetisaurus has {words} (" in source
