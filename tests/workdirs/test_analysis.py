"""`analyze` on a tiny language model: its numbers equal those of the analyses, and its page needs no network access."""

import json

import numpy as np
import pytest

from attention_research.analysis.example_maps import example_maps
from attention_research.analysis.head_statistics import head_statistics
from attention_research.analysis.rollout import rollout
from attention_research.cli.program import main
from attention_research.config import load
from attention_research.training.evaluation import Trained
from attention_research.training.run import train

pytestmark = [pytest.mark.data, pytest.mark.slow]
PLACE = ("decoder", "self_attention")


@pytest.fixture(scope="module")
def workdir(root, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        folder = tmp_path_factory.mktemp("analysis") / "run"
        train(load("configs/language_modelling/transformer.py:smoke"), folder, lambda line: None)
    return folder


def test_its_numbers_are_those_of_the_analyses(workdir, capsys):
    assert main(["analyze", f"--workdir={workdir}", "--examples=5", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    folder = workdir / "analysis"
    assert printed == json.loads((folder / "analysis.json").read_text())
    sample = [maps for _, maps in example_maps(Trained(workdir), PLACE, examples=5)]
    for name, heads in head_statistics(sample, is_causal=True).items():
        np.testing.assert_allclose(printed["heads"]["decoder_self_attention"][name], heads, rtol=1e-5)
    last = rollout(sample[0])[-1]
    np.testing.assert_allclose(printed["rollout"]["decoder_self_attention"]["last_layer"], last, atol=6e-5)
    assert len(printed["probe"]["errors"]) == 3
    page = (folder / "analysis.html").read_text()
    assert page.count('src="data:image/png;base64') == 5
    assert not any(asks in page for asks in ('src="http', "<script", 'rel="stylesheet"', "@import", "url(http"))


def test_what_is_asked_for_is_done_alone(workdir, tmp_path, capsys):
    assert main(["analyze", f"--workdir={workdir}", "--examples=3", "--what=spectra", f"--output={tmp_path}"]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "analysis.html", "analysis.json", "spectra_decoder_self_attention.png",
    }  # fmt: skip
    assert f"page {tmp_path}/analysis.html" in capsys.readouterr().out


def test_an_unknown_analysis_is_one_line(workdir, capsys):
    assert main(["analyze", f"--workdir={workdir}", "--what=head"]) == 2
    line = "error: --what=head: expected some of maps, heads, rollout, spectra, probe"
    assert capsys.readouterr().err.splitlines()[-1] == line
