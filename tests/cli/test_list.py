"""`list kinds FAMILY`: the settings of kinds, as text and as JSON, and the errors for misspelt names."""

import json

import pytest

from attention_research.cli import main

RMS_NORM = """\
norm.rms_norm  RMS normalization, Zhang & Sennrich 2019, used in T5: y = gamma x / sqrt(mean(x^2) + epsilon).
  width: an int at least 1; inherited. The width of the hidden states (d_model).
  epsilon: a float above 0; default 1e-06. A small number that is added to a denominator, for numerical
      stability.

inherited: without a value of its own, the setting has that of the nearest enclosing section
"""


@pytest.mark.parametrize("name", ["norm.rms_norm", "norm/rms_norm"])
def test_the_settings_of_one_kind(name, capsys):
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


WRONG = {
    "a family": (["kinds", "atention"], "atention: no such family of kinds; did you mean attention?"),
    "a kind": (["kinds", "norm.rms_nrm"], "norm.rms_nrm: no such kind of norm; did you mean rms_norm?"),
    "a kind alone": (["kinds", "adam"], "adam: no such family, but a kind of optimizer; did you mean optimizer.adam?"),
    "another list": (["studies", "ablation"], "list studies ablation: only list kinds takes a name"),
}  # fmt: skip


@pytest.mark.parametrize(("words", "expected"), WRONG.values(), ids=WRONG)
def test_a_wrong_name_is_one_line_with_the_nearest(words, expected, capsys):
    assert main(["list", *words]) == 2
    assert capsys.readouterr() == ("", f"error: {expected}\n")
