"""`analyze` on a tiny language model and a tiny encoder-decoder.

Its numbers equal those of the analyses, its pages need no network access, and it labels the reference and the model's
output.
"""

import json
import re
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.analysis import position_probe
from attention_research.analysis.attention import attention_maps, labels
from attention_research.analysis.example_maps import example_maps
from attention_research.analysis.head_statistics import head_statistics
from attention_research.analysis.rollout import rollout
from attention_research.cli.program import main
from attention_research.config import ConfigError, load
from attention_research.training.evaluation import Trained
from attention_research.training.run import train
from attention_research.workdirs import analysis_figures
from attention_research.workdirs.analysis import analyze

pytestmark = [pytest.mark.data, pytest.mark.slow]
PLACE = ("decoder", "self_attention")


def trained_run(root, tmp_path_factory, config):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        folder = tmp_path_factory.mktemp("analysis") / "run"
        train(load(config), folder, lambda line: None)
    return folder


@pytest.fixture(scope="module")
def workdir(root, tmp_path_factory):
    return trained_run(root, tmp_path_factory, "configs/language_modelling/transformer.py:smoke")


@pytest.fixture(scope="module")
def sounds(root, tmp_path_factory):
    return trained_run(root, tmp_path_factory, "configs/pronunciation/transformer.py:smoke")


def passes(folder):
    text = (folder / "attention.html").read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])["passes"]


def test_the_probe_is_tested_on_the_split_that_is_named(root, tmp_path, monkeypatch):
    asked = []

    def batches(split, batch_size, examples):
        asked.append((split, examples))
        yield np.arange(2), {"target": np.ones((2, 5), np.int32)}

    monkeypatch.setattr(position_probe, "layer_states", lambda model, batch: jnp.zeros((1, 2, 5, 3)))
    monkeypatch.setattr(position_probe, "untrained", lambda trained: ({}, {}))
    monkeypatch.setattr(position_probe, "errors", lambda *given: np.ones(1))
    run = SimpleNamespace(
        config=load(root / "configs/language_modelling/transformer.py:smoke"), settings=SimpleNamespace(seed=0),
        trainer=SimpleNamespace(structure=SimpleNamespace(merge=lambda *arrays: None)), model=lambda: ({}, {}),
        data=SimpleNamespace(evaluation_batches=batches), workdir=tmp_path, selection="checkpoint 3",
    )  # fmt: skip
    analyze(run, tmp_path, ["probe"], split="validation", examples=2)
    assert asked == [("validation", 1), ("train", 4), ("validation", 2)]  # the first asks whether the split is there


def test_a_split_that_is_not_there_is_named_before_anything_is_written(root, tmp_path):
    def batches(split, batch_size, examples):
        if split != "train":
            raise ConfigError(f"plays has no split {split!r}; it has train")
        yield from ()

    run = SimpleNamespace(
        config=load(root / "configs/language_modelling/transformer.py:smoke"),
        data=SimpleNamespace(evaluation_batches=batches, name="plays"),
    )
    for split, line in (
        ("foo", "plays has no split 'foo'; it has train"),
        ("train", "the train split of plays is empty"),
    ):
        with pytest.raises(ConfigError, match=f"^--split={split}: {line}$"):
            analyze(run, tmp_path / "analysis", ["maps"], split=split)
    assert not (tmp_path / "analysis").exists()


def test_its_numbers_are_those_of_the_analyses(workdir, capsys):
    assert main(["analyze", f"--workdir={workdir}", "--examples=5", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    folder = workdir / "analysis"
    assert printed == json.loads((folder / "analysis.json").read_text())
    sample = [maps for _, maps in example_maps(Trained(workdir), PLACE, examples=5)]
    for name, heads in head_statistics(sample, is_causal=True).items():
        np.testing.assert_allclose(printed["heads"]["decoder_self_attention"][name], heads, rtol=1e-5)
    (one,) = (m for m in passes(folder)[0]["maps"] if m["title"] == "decoder self-attention")
    length = len(one["queries"])
    last = rollout(sample[len(sample) // 2][:, :, :length, :length])[-1]  # the example of median length
    np.testing.assert_allclose(printed["rollout"]["decoder_self_attention"]["last_layer"], last, atol=6e-5)
    assert len(printed["probe"]["errors"]) == 3
    page = (folder / "analysis.html").read_text()
    assert page.count('src="data:image/png;base64') == 6
    assert not any(asks in page for asks in ('src="http', "<script", 'rel="stylesheet"', "@import", "url(http"))


def test_a_language_model_shows_the_text_and_its_own_continuation(workdir, tmp_path):
    assert main(["analyze", f"--workdir={workdir}", "--examples=5", "--what=maps", f"--output={tmp_path}"]) == 0
    trained, shown = Trained(workdir), passes(tmp_path)
    assert [one["of"] for one in shown] == ["text", "continuation"] * 3
    assert all(one["source"] is None for one in shown)
    text, continuation = (one["maps"][0] for one in shown[:2])
    assert (text["rows"], continuation["rows"]) == ("text tokens", "continuation tokens")
    half, length = text["queries"].index("</s>") // 2, len(text["queries"])  # of the first sentence
    assert (
        half and continuation["queries"][:half] == text["queries"][:half] and text["keys"][1:] == text["queries"][:-1]
    )
    tokens, maps = [*example_maps(trained, PLACE, examples=5)][2]
    [prompt] = trained.data.tokenizer.decode([tokens["target"][:half].tolist()])
    assert shown[0]["text"].startswith(prompt) and shown[1]["text"].startswith(prompt)
    np.testing.assert_allclose(np.float32(text["weights"]), maps[:, :, :length, :length], atol=2e-6)
    assert text["queries"] == labels(trained.data.tokenizer, tokens["target"][: len(text["queries"])].tolist())


@pytest.mark.long
def test_an_encoder_decoder_shows_the_reference_and_its_own_output(sounds, capsys):
    """Page, JSON and terminal name both. The weights are those of the model on each of the two alone."""
    assert main(["analyze", f"--workdir={sounds}", "--examples=5", "--what=maps"]) == 0
    out = capsys.readouterr().out.splitlines()
    trained, shown = Trained(sounds), passes(sounds / "analysis")
    assert [one["of"] for one in shown] == ["reference", "model output"] * 3
    reference, output = shown[:2]
    assert out[:3] == [f"source        {reference['source']}", f"reference     {reference['text']}",
                       f"model output  {output['text']}"]  # fmt: skip
    assert out[3].startswith("page ") and "examples " in out[3] and len(out) == 4
    sources, targets = trained.data.text("test")
    known = dict(zip(sources, targets, strict=True))
    for one in shown:
        text = known[one["source"]] if one["of"] == "reference" else trained.translate([one["source"]])[0]
        assert one["text"] == text
        assert {m["rows"] for m in one["maps"]} == {f"{one['of']} tokens", "source tokens"}
        [source], [target] = trained.data.tokenizer.encode([one["source"]]), trained.data.tokenizer.encode([text])
        if one["of"] == "model output":
            [(source, target)] = trained.hypotheses([one["source"]])
        alone = attention_maps(trained.trainer.structure, trained.model(), source, target, labels_of(trained))
        for drawn, expected in zip(one["maps"], alone, strict=True):
            assert (tuple(drawn["queries"]), tuple(drawn["keys"])) == (expected.queries[:48], expected.keys[:48])
            np.testing.assert_allclose(np.float32(drawn["weights"]), expected.weights[:, :, :48, :48], atol=2e-6)
    numbers = json.loads((sounds / "analysis" / "analysis.json").read_text())["maps"]
    assert [one["sentences"] for one in numbers[:2]] == [
        {"source": one["source"], one["of"]: one["text"]} for one in shown[:2]
    ]
    page = (sounds / "analysis" / "analysis.html").read_text()
    assert '<a href="attention.html">All weights of 3 examples</a>' in page
    assert "with the reference</figcaption>" in page and "with the model output</figcaption>" in page


def labels_of(trained):
    return lambda tokens: labels(trained.data.tokenizer, tokens)


def test_only_requested_analyses_run(workdir, tmp_path, capsys, monkeypatch):
    """The line below the figure names the run, the config, the seed, the checkpoint and the examples."""
    saved, save = [], analysis_figures.save
    keep = lambda figure, path, line: (saved.append(line), save(figure, path, line))
    monkeypatch.setattr(analysis_figures, "save", keep)
    assert main(["analyze", f"--workdir={workdir}", "--examples=3", "--what=spectra", f"--output={tmp_path}"]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "analysis.html", "analysis.json", "spectra_decoder_self_attention.png",
    }  # fmt: skip
    assert f"page {tmp_path}/analysis.html" in capsys.readouterr().out
    (line,) = saved
    name = "run, configs/language_modelling/transformer.py:smoke, seed 0"
    assert re.fullmatch(rf"{re.escape(name)}, .*checkpoint.* \d+.*; 3 examples of test", line)


def test_an_unknown_analysis_is_one_line(workdir, capsys):
    assert main(["analyze", f"--workdir={workdir}", "--what=head"]) == 2
    line = "error: --what=head: expected some of maps, heads, rollout, spectra, probe; did you mean heads?"
    assert capsys.readouterr().err.splitlines()[-1] == line
