"""`list kinds FAMILY`: the settings of kinds, as text and as JSON, and the errors for misspelt names."""

import json

import pytest

from attention_research import registry
from attention_research.cli import main

RMS_NORM = """\
norm.rms_norm  RMS normalization, Zhang & Sennrich 2019, used in T5: y = gamma x / sqrt(mean(x^2) + epsilon).
  width: an int at least 1; inherited. The width of the hidden states (d_model).
  epsilon: a float above 0; default 1e-06. A small number that is added to a denominator, for numerical
      stability.

inherited: without a value of its own, the setting has that of the nearest enclosing section
"""


@pytest.mark.parametrize("name", ["norm.rms_norm", "norm/rms_norm"])
def test_the_settings_of_one_kind(name, capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)  # pytest-xdist sets it
    assert main(["list", "kinds", name]) == 0
    assert capsys.readouterr().out == RMS_NORM


def test_the_settings_of_all_kinds_of_a_family(capsys):
    assert main(["list", "kinds", "attention"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("attention.standard  ") and "\n\nattention.linformer  " in text and "alibi" in text
    assert "  rank: an int at least 1; required. `rank` is R" in text and max(map(len, text.splitlines())) <= 160
    assert main(["list", "kinds", "shortcut.none"]) == 0
    assert capsys.readouterr().out.count("\n") < 6


def test_the_settings_as_json(capsys):
    assert main(["list", "kinds", "attention.linformer", "--json"]) == 0
    (kind,) = json.loads(capsys.readouterr().out)
    settings = {one.pop("name"): one for one in kind["settings"]}
    assert kind["name"] == "attention.linformer" and settings["rank"]["required"] and settings["width"]["inherited"]
    assert settings["sharing"] == {
        "type": "one of none, headwise, key_value, layerwise",
        "required": False,
        "inherited": False,
        "default": "headwise",
        "meaning": "`sharing` says which parts of the model share a projection.",
    }


def test_the_facts_of_every_kind_and_mechanism_as_json(capsys):
    """By hand: Linformer, ALiBi's state a token, a mechanism with a kind, and one without."""
    assert main(["list", "kinds", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    kinds = {one["name"]: one for one in entries if one["sort"] == "kind"}
    mechanisms = {one["name"]: one for one in entries if one["sort"] == "mechanism"}
    assert len(kinds) + len(mechanisms) == len(entries)
    assert list(kinds) == [f"{family}.{kind}" for family, found in registry.FAMILIES.items() for kind in found]
    linformer = kinds["encoder_attention.linformer"]
    assert (linformer["family"], linformer["kind"]) == ("encoder_attention", "linformer")
    assert linformer["paper"].startswith("Wang et al. 2020") and linformer["year"] == 2020
    assert {"encoder_attention", "cross_attention"} < set(linformer["families"])
    assert "cannot be causal" in linformer["refused"]["causal_attention"]
    assert "transformer" in linformer["models"] and "transformer_decoder" not in linformer["models"]
    assert "linformer2020/table2" in linformer["studies"] and "linformer_headwise" in linformer["mechanisms"]
    assert linformer["state"] is None and linformer["exponent"] == 1
    assert (
        kinds["causal_attention.alibi"]["state"] == "S*K*(H + Hv)" and kinds["causal_attention.alibi"]["exponent"] == 2
    )
    assert "transformer_decoder" in kinds["causal_attention.retnet"]["models"]
    assert kinds["optimizer.adafactor"]["paper"] == "Shazeer & Stern 2018" and kinds["data.recall"]["year"] == 2023
    headwise = mechanisms["linformer_headwise"]
    assert headwise["kinds"] == ["attention.linformer"] and headwise["reason"] is None and headwise["exponent"] == 1
    assert headwise["studies"] == linformer["studies"] and headwise["models"] == linformer["models"]
    without = mechanisms["structural_depths"]
    assert without["kinds"] == without["models"] == [] and "depths of a tree" in without["reason"]


@pytest.mark.parametrize("what", ["kinds", "variants", "studies", "datasets", "claims"])
@pytest.mark.parametrize("width", [60, 80])
def test_lists_fit_the_terminal(what, width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["list", what]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width and len(lines) > 10


def test_in_a_pipe_each_entry_is_one_line(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert main(["list", "kinds"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == sum(map(len, registry.FAMILIES.values()))
    assert not [line for line in lines if "module docstring" in line or "(see `" in line]


def test_a_claim_has_its_text_study_and_verdict(capsys):
    assert main(["list", "claims", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    (claim,) = (one for one in entries if one["id"] == "alignment-for-free")
    assert claim["claim"].endswith(".") and claim["study"] == "bahdanau2015/figure3"
    assert main(["list", "claims"]) == 0
    paragraphs = [" ".join(one.split()) for one in capsys.readouterr().out.split("\n\n")]
    (shown,) = (one for one in paragraphs if one.startswith("alignment-for-free: "))
    assert len(paragraphs) == len(entries)
    assert shown.startswith(
        f"alignment-for-free: {claim['verdict']} {claim['claim']} study {claim['study']} · learned: "
    )


WRONG = {
    "a family": (["kinds", "atention"], "atention: no such family of kinds; did you mean attention?"),
    "a kind": (["kinds", "norm.rms_nrm"], "norm.rms_nrm: no such kind of norm; did you mean rms_norm?"),
    "a kind alone": (["kinds", "adam"], "adam: no such family, but a kind of optimizer; did you mean optimizer.adam?"),
    "a misspelt kind alone": (
        ["kinds", "linfomer"], "linfomer: no such family of kinds; did you mean attention.linformer?"),
    "another list": (["studies", "ablation"], "list studies ablation: only list kinds takes a name"),
}  # fmt: skip


@pytest.mark.parametrize(("words", "expected"), WRONG.values(), ids=WRONG)
def test_a_wrong_name_is_one_line_with_the_nearest(words, expected, capsys):
    assert main(["list", *words]) == 2
    assert capsys.readouterr() == ("", f"error: {expected}\n")
