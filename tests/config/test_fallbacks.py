"""Inherited sections whose kind does not exist in their place are named: another kind is used there."""

import pytest

from attention_research.cli import main
from attention_research.config import load
from attention_research.config.fallbacks import fallbacks

LINFORMER = [("model.self_attention", "linformer"), ("model.self_attention.rank", "4")]
PERFORMER = "config.model.self_attention.kind=performer: config.model.decoder.cross_attention is standard; "
#: Overrides of translation/transformer:smoke -> the lines.
CASES = {
    "every part has it": ([("model.self_attention", "unscaled")], ()),
    "the decoder lacks it": (
        LINFORMER,
        ("config.model.self_attention.kind=linformer: config.model.decoder.self_attention is standard; Linformer ",),
    ),
    "the cross-attention lacks it": ([("model.self_attention", "performer")], (PERFORMER,)),
    "the decoder has its own": ([*LINFORMER, ("model.decoder.self_attention", "standard")], ()),
    "given where it belongs": (
        [("model.encoder.self_attention", "linformer"), ("model.encoder.self_attention.rank", "4")], (),
    ),
    "a setting of the fallback is given": (
        [("model.self_attention", "performer"), ("model.decoder.cross_attention.use_bias", "false")], (PERFORMER,),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("overrides", "expected"), CASES.values(), ids=CASES)
def test_each_fallback_is_one_line(overrides, expected):
    found = fallbacks(load("translation/transformer:smoke", overrides))
    assert len(found) == len(expected)
    assert all(line.startswith(start) for line, start in zip(found, expected, strict=True))


def test_a_command_prints_it(capsys, monkeypatch):
    """`inspect` would count an encoder of another kind than the decoder."""
    monkeypatch.setattr("attention_research.training.inspection.inspect", lambda config: {})
    words = [f"--config.{path}={value}" for path, value in LINFORMER]
    assert main(["inspect", "--config=translation/transformer:smoke", *words, "--json"]) == 0
    err = capsys.readouterr().err
    assert err.startswith("note: config.model.self_attention.kind=linformer: config.model.decoder.self_attention is ")
