"""The record of a resolved config: JSON, hash, identity, differences."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import pytest

from attention_research.config import Config, ConfigError, difference, resolve


def test_json_round_trip(toy):
    toy["training"] |= {"betas": (0.5, 0.75), "names": ("ä", "b")}
    config = resolve(toy, [("model.adapter", "scale")], spec="file.py:small")
    again = Config.from_json(config.to_json())
    assert again == config and again.hash == config.hash and again.identity == config.identity
    assert (again.given, again.resolved, again.spec) == (config.given, config.resolved, "file.py:small")
    assert resolve(again.given) == config == resolve(again.resolved)
    assert len({config, again}) == 1


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"given": {}}', "nonsense"])
def test_what_is_no_saved_config(text):
    with pytest.raises(ConfigError, match="^config.json: not a saved config"):
        Config.from_json(text)


def test_the_hash_is_of_the_canonical_json(toy):
    config = resolve(toy)
    text = json.dumps(config.resolved, sort_keys=True, separators=(",", ":"))
    assert config.hash == hashlib.sha256(text.encode()).hexdigest()[:12]


def test_what_was_said_and_what_was_left_to_default_hash_alike(toy):
    said = resolve(toy, [("training.batch_size", "8"), ("model.self_attention.kind", "standard")])
    assert said.hash == resolve(toy).hash and said.given != resolve(toy).given


@pytest.mark.parametrize(
    ("path", "value", "same"),
    [
        ("parallel.strategy", "pmap", True),
        ("training.log_every", 3, True),
        ("training.replicas", 4, True),
        ("training.seed", 1, False),
        ("training.steps", 6, False),
        ("model.width", 16, False),
    ],
)
def test_execution_leaves_change_the_hash_and_not_the_identity(toy, path, value, same):
    config, other = resolve(toy), resolve(toy, [(path, value)])
    assert config.hash != other.hash
    assert (config.identity == other.identity) is same


def test_a_later_setting_changes_the_identity_only_where_it_is_used(toy, monkeypatch):
    """The identity is what it was before there was the setting, until somebody sets it."""
    from attention_research.config import record

    config, other = resolve(toy), resolve(toy, [("training.shift", 3)])
    without = {**config.resolved, "training": {k: v for k, v in config.resolved["training"].items() if k != "shift"}}
    before = Config(given={}, resolved=without).identity
    assert before != config.identity
    config, other = Config.from_json(config.to_json()), Config.from_json(other.to_json())
    monkeypatch.setattr(record, "LATER_LEAVES", {"training.shift": -1, "no.such": 1})
    assert config.identity == before != other.identity
    config = resolve(toy)
    monkeypatch.setattr(record, "LATER_LEAVES", {f"training:{config.resolved['training']['kind']}.shift": -1})
    assert config.identity == before
    monkeypatch.setattr(record, "LATER_LEAVES", {"training:another_kind.shift": -1})
    assert resolve(toy).identity != before


def test_the_hash_is_the_same_in_every_process(root):
    program = (
        "from attention_research.config import load\n"
        "config = load('configs/translation/transformer.py:cpu', [('model.self_attention.kind', 'relative')])\n"
        "print(config.hash, config.identity)"
    )

    def run(seed):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", program]
        return subprocess.run(
            command, capture_output=True, text=True, cwd=root, env=environment, timeout=300, check=True
        )

    first, second = run("1").stdout, run("2").stdout
    assert first == second and len(first.split()[0]) == 12


def test_difference(toy):
    old = resolve(toy)
    new = resolve(toy, [("training.steps", 9), ("training.tag", "x"), ("model.encoder.block.parts", ("scale",))])
    assert difference(old, new) == [
        "model.encoder.block.parts.0.kind: layer_norm -> scale",
        "model.encoder.block.parts.0.width: 8 -> (absent)",
        "model.encoder.block.parts.0.epsilon: 1e-06 -> (absent)",
        "model.encoder.block.parts.1.kind: scale -> (absent)",
        "model.encoder.block.parts.1.rate: 1.0 -> (absent)",
        "training.steps: 5 -> 9",
        "training.tag: none -> x",
        "model.encoder.block.parts.0.rate: (absent) -> 1.0",
    ]
    assert difference(old, old) == [] and difference(old.resolved, new.resolved) == difference(old, new)
    assert difference({"a": 1}, {"a": True}) == ["a: 1 -> true"]


def test_printed_lines_are_overrides_that_give_the_config_back(toy):
    config = resolve(toy, [("model.self_attention", {"kind": "linformer", "rank": 4}), ("training.lengths", "3,4")])
    overrides = [tuple(line.split("=", 1)) for line in str(config).splitlines()]
    assert ("training.lengths", "[3, 4]") in overrides and ("model.head_width", "none") in overrides
    assert resolve(toy, overrides) == config


def test_a_config_is_overridden_from_what_was_given(toy):
    config = resolve(toy, spec="x.py:a").override([("model.width", "16")])
    assert config.resolved["model"]["encoder"]["self_attention"]["width"] == 16 and config.spec == "x.py:a"
