"""`generate --attention=FILE` from the command line: refused arguments, and the page of a trained run."""

import importlib.util
import json
import os
import re
from types import SimpleNamespace

import numpy as np
import pytest

from attention_research.analysis import attention
from attention_research.analysis.attention_file import check, write
from attention_research.cli import main
from attention_research.config import ConfigError, load
from attention_research.errors import RunError
from attention_research.tokens import EOS
from attention_research.training.selection import Selection

SMALL = (
    ("data.name", "wmt14_translate/fr-en"), ("data.source_language", "fr"), ("data.target_language", "en"),
    ("max_length", 61), ("vocabulary_size", 8000), ("model.width", 8), ("model.num_heads", 2), ("model.num_layers", 1),
    ("model.feed_forward.hidden_width", 8), ("training.batch_size", 4), ("training.log_every", 1),
    ("training.eval_batches", 1), ("training.steps", 1),
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "sentences", "message"),
    [
        ("a.jpg", 1, "expected a name that ends in .html or .png"),
        ("a", 1, "expected a name that ends in .html or .png"),
        ("a.html", 2, "one sentence is drawn, but --input gives 2"),
        ("a.png", 0, "one sentence is drawn, but --input gives 0"),
        ("nowhere/a.html", 1, "there is no folder .*nowhere; make it first"),
        ("folder.html", 1, "this is a folder"),
        ("closed/a.html", 1, "closed cannot be written to"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path, monkeypatch, name, sentences, message):
    for folder in ("folder.html", "closed"):
        (tmp_path / folder).mkdir()
    access = os.access  # needed since root may write anywhere
    monkeypatch.setattr(os, "access", lambda path, mode: "closed" not in str(path) and access(path, mode))
    with pytest.raises(ConfigError, match=message):
        check(tmp_path / name, sentences)


def test_without_matplotlib_pictures_are_refused_and_pages_work(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RunError, match="pip install 'attention_research\\[report\\]'; an .html file does not need it"):
        check(tmp_path / "a.png", 1)
    check(tmp_path / "a.html", 1)


def test_a_file_that_cannot_be_written_is_one_line(tmp_path, awkward):
    with pytest.raises(RunError, match="not written: No such file or directory"):
        write(tmp_path / "gone" / "a.html", awkward)


def test_the_page_names_the_criterion_of_the_best_checkpoint(monkeypatch):
    monkeypatch.setattr(attention, "attention_maps", lambda *_: ("a map",))
    trained = SimpleNamespace(
        hypotheses=lambda sentences: [([5, EOS], [6, EOS])], trainer=SimpleNamespace(structure=None), continues=False,
        data=SimpleNamespace(tokenizer=SimpleNamespace(decode=lambda rows: ["six"])), model=lambda: ({}, {}),
        averaged=[800], selection=Selection("best", [800], "highest written.bleu"), config=SimpleNamespace(hash="h"),
    )  # fmt: skip
    facts = attention.of_sentence(trained, "five", "a run").facts
    assert facts == {"run": "a run", "step of the highest written.bleu": "800", "config": "h"}


def test_the_page_names_the_hash_of_the_run_and_the_overrides(tmp_path, monkeypatch, awkward, root):
    """Overrides of decoding give a config with another hash, which no run has."""
    config = load(root / "configs/translation/transformer.py:smoke")
    (tmp_path / "config.json").write_text(config.to_json())
    written = []
    generate = importlib.import_module("attention_research.cli.generate")
    monkeypatch.setattr(generate, "_trained", lambda *_: None)
    monkeypatch.setattr("attention_research.workdirs.generation.generate", lambda *_: ["six"])
    monkeypatch.setattr(attention, "of_sentence", lambda *_: awkward)
    monkeypatch.setattr(generate.attention_file, "write", lambda path, attention: written.append(attention.facts))
    words = ["generate", f"--workdir={tmp_path}", "--input=a b", f"--attention={tmp_path}/a.html"]
    assert main([*words, "--config.decoding.beam_size=3"]) == 0
    assert written == [{**awkward.facts, "config": config.hash, "decoding.beam_size": "3"}]


def test_the_suffix_selects_the_format(tmp_path, awkward):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (the extra `report`)")
    write(tmp_path / "a.html", awkward)
    write(tmp_path / "a.png", awkward)
    assert (tmp_path / "a.html").read_bytes().startswith(b"<!doctype html>")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_the_command_refuses_before_it_reads_a_model(tmp_path, capsys):
    (tmp_path / "config.json").write_text("{}")
    words = ["generate", f"--workdir={tmp_path}", "--input=un", f"--attention={tmp_path}/a.pdf"]
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"error: --attention={tmp_path}/a.pdf: expected") and err.count("\n") == 1


@pytest.fixture(scope="module")
def workdir(tmp_path_factory, mock_data):
    """A run of one step on TFDS's mock of wmt14_translate/fr-en."""

    from attention_research.training.run import train

    folder = tmp_path_factory.mktemp("runs") / "one-step"
    train(load("configs/translation/transformer.py:cpu", SMALL), folder)
    yield folder


@pytest.mark.slow
def test_the_page_of_a_run_holds_its_models_numbers(workdir, tmp_path, capsys):
    """The translation equals that of `generate`. Every number is the model's own, and each row sums to 1."""
    from attention_research.training.evaluation import Trained

    assert main(["generate", f"--workdir={workdir}", "--input=bad cafe dig", f"--attention={tmp_path}/a.html"]) == 0
    out, err = capsys.readouterr()
    assert err.endswith(f"attention {tmp_path}/a.html\n")
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "run one-step · step 1 · config" in text and "bad cafe dig" in text

    import jax
    import jax.numpy as jnp

    trained = Trained(workdir)
    assert [out.removesuffix("\n")] == trained.translate(["bad cafe dig"])
    [(source, target)] = trained.hypotheses(["bad cafe dig"])
    text_of = "".join(trained.data.tokenizer.pieces(source[:-1]))
    assert text_of.replace("\N{LOWER ONE EIGHTH BLOCK}", " ") == " bad cafe dig"
    batch = {"source": jnp.asarray([source], jnp.int32), "target": jnp.asarray([target], jnp.int32)}
    merge = trained.trainer.structure.merge
    aux = jax.device_get(jax.jit(lambda arrays: merge(*arrays).log_likelihood(batch)[1])(trained.model()))
    own = [aux["decoder"], aux["encoder"], aux["decoder"]]
    kinds = ("cross_attention", "self_attention", "self_attention")
    maps = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])["passes"][0]["maps"]
    assert len(maps) == 3
    for drawn, part, kind in zip(maps, own, kinds, strict=True):
        weights = np.asarray(drawn["weights"], np.float32)
        np.testing.assert_array_equal(weights, part["segment_0"][kind]["attention_weights"][:, 0])
        np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-5)
    assert len(maps[0]["queries"]) == len(target) and len(maps[0]["keys"]) == len(source)


@pytest.mark.slow
def test_a_file_gives_the_same_as_its_lines_separately(workdir, tmp_path, capsys):
    from attention_research.training.evaluation import Trained
    from attention_research.workdirs.generation import generate

    lines = ["bad cafe dig", "", "dig " * 200, "a\u2028b\x85c\fbad", " \t", "\u00e9\u0301\U0001f642 dig"]
    path = tmp_path / "lines.txt"
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    assert main(["generate", f"--workdir={workdir}", f"--input={path}"]) == 0
    out, err = capsys.readouterr()
    outputs = out.split("\n")[:-1]
    trained = Trained(workdir)
    assert outputs == [text for line in lines for text in generate(trained, [line], lambda remark: None)]
    assert outputs[1] == outputs[4] == ""  # an untrained model may give empty lines for the others too
    assert "blank, and left blank: lines 2, 5\n" in err and "(max_length): line 3 (" in err
    assert main(["generate", f"--workdir={workdir}", f"--input={path}s"]) == 2
    assert capsys.readouterr().err.endswith(
        f"did you mean {path}?; to have it read as text, give it to --input=- on standard input\n"
    )
