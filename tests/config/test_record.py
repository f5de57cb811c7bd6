"""The record of a resolved config: JSON, hash, identity, differences."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attention_research import registry
from attention_research.config import (
    REQUIRED,
    Config,
    ConfigError,
    changes,
    difference,
    identity,
    load,
    resolve,
    settings,
    variants,
)


def test_json_round_trip(toy):
    toy["training"] |= {"betas": (0.5, 0.75), "names": ("ä", "b")}
    config = resolve(toy, [("model.adapter", "scale")], spec="file.py:small")
    again = Config.from_json(config.to_json())
    assert again == config and again.hash == config.hash and again.identity == config.identity
    assert (again.given, again.resolved, again.spec) == (config.given, config.resolved, "file.py:small")
    assert resolve(again.given) == config == resolve(again.resolved)
    assert len({config, again}) == 1


def test_a_saved_config_of_an_older_version_gets_the_defaults_of_newer_settings():
    config = load("translation/transformer:smoke")
    older = json.loads(config.to_json())
    del older["resolved"]["evaluations"], older["resolved"]["training"]["best_by"]
    del older["resolved"]["model"]["encoder"]["self_attention"]["use_bias"]
    found = Config.from_json(json.dumps(older))
    assert found != config == found.completed() and found.identity == config.identity
    older["resolved"]["training"]["no_such_setting"] = 3
    unknown = Config.from_json(json.dumps(older))
    assert unknown.completed() == unknown


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"given": {}}', "nonsense"])
def test_a_file_that_is_not_a_saved_config_is_refused(text):
    with pytest.raises(ConfigError, match="^config.json: not a saved config"):
        Config.from_json(text)


def test_the_hash_is_of_the_canonical_json(toy):
    config = resolve(toy)
    text = json.dumps(config.resolved, sort_keys=True, separators=(",", ":"))
    assert config.hash == hashlib.sha256(text.encode()).hexdigest()[:12]


def test_explicit_and_default_settings_hash_alike(toy):
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


@pytest.mark.parametrize(("variant", "same"), [("cpu", True), ("vaswani_base", False)])
def test_the_interval_of_checkpoints_is_in_the_identity_where_they_are_averaged(variant, same):
    """`vaswani_base` averages five checkpoints, so their interval decides which parameters are scored."""
    spec = f"translation/transformer:{variant}"
    assert (load(spec).identity == load(spec, [("training.checkpoint_every", "7")]).identity) is same


def test_the_identity_leaves_out_what_resolution_fills_in(toy, monkeypatch):
    """Compared by hand: defaults of signatures, inherited settings and inherited sections are left out."""
    linformer = {"kind": "linformer", "rank": 4}
    config = resolve(toy, [("model.self_attention", linformer), ("model.encoder.block.self_attention", "standard")])
    want = {
        "kind": "experiment",
        "max_length": 16,
        "model": {
            "kind": "transformer", "width": 8, "num_heads": 2, "self_attention": linformer,
            "encoder": {"kind": "transformer", "block": {"kind": "block", "self_attention": {"kind": "standard"}}},
        },
        "training": {"kind": "standard", "steps": 5},
    }  # fmt: skip
    assert identity.without_defaults(config.resolved) == want
    text = json.dumps({"config": want, "version": 1}, sort_keys=True, separators=(",", ":"))
    assert config.identity == hashlib.sha256(text.encode()).hexdigest()[:12]
    monkeypatch.setattr(identity, "VERSION", 2)
    assert resolve(toy, [("model.self_attention", linformer)]).identity != config.identity


SAID = [
    [],
    [("model.encoder.width", 16)],  # a setting that inherits the width then has two origins
    [("model.encoder.block.parts", ("scale", {"kind": "layer_norm", "width": 4}))],
    [("model.adapter", "scale"), ("model.encoder.block.adapter", "layer_norm")],
    [("model.adapter", "scale"), ("model.encoder.block.adapter", None)],
    [("model.self_attention", {"kind": "relative", "inner": {"kind": "layer_norm", "width": 3}})],
    [("model.decoder.cross_attention", {"kind": "linformer", "rank": 3, "max_length": 9})],
    [("training.betas", (0.5, 0.75)), ("training.warm", True)],
]


@pytest.mark.parametrize("overrides", SAID, ids=str)
def test_the_reduced_config_resolves_to_the_same(toy, overrides):
    resolved = resolve(toy, overrides).resolved
    assert resolve(identity.without_defaults(resolved)).resolved == resolved


def test_configs_that_differ_have_different_identities(toy):
    assert len({resolve(toy, overrides).identity for overrides in SAID}) == len(SAID)


@pytest.mark.slow
def test_the_reduced_config_of_every_variant_resolves_to_the_same(root):
    for file in sorted((root / "configs").glob("*/*.py")):
        for variant in variants(file):
            resolved = load(f"{file}:{variant}").resolved
            assert resolve(identity.without_defaults(resolved)).resolved == resolved, (file, variant)


def older(config, *paths):
    """The config as saved by an older version that did not have these settings."""
    resolved = json.loads(json.dumps(config.resolved))
    for path in paths:
        *sections, leaf = path.split(".")
        functools.reduce(lambda node, name: node[int(name) if name.isdecimal() else name], sections, resolved).pop(leaf)
    return Config(given={}, resolved=resolved)


@pytest.mark.parametrize(
    "path", ["training.shift", "model.adapter", "model.encoder", "model.encoder.block.parts.1.rate", "model.norm.width"]
)
def test_a_new_setting_changes_neither_identities_nor_runs_until_it_is_used(toy, path):
    config = resolve(toy)
    before = older(config, path)
    assert before.identity == config.identity and changes(before, config) == [] != difference(before, config)


def test_a_new_setting_that_is_used_is_a_change(toy):
    config = resolve(toy, [("training.shift", 3)])
    before = older(config, "training.shift")
    assert before.identity != config.identity and changes(before, config) == ["training.shift: (absent) -> 3"]


def test_other_differences_of_an_old_config_are_changes(toy):
    """A removed setting, a shorter tuple and another kind are changes, not new settings."""
    config = resolve(toy)
    gone = Config(given={}, resolved={**config.resolved, "old": 1})
    assert gone.identity != config.identity and changes(gone, config) == ["old: 1 -> (absent)"]
    shorter = resolve(toy, [("model.encoder.block.parts", ("layer_norm",))])
    assert changes(shorter, config) == difference(shorter, config) != []
    other = older(resolve(toy, [("model.norm", "scale")]), "model.norm.rate")
    assert changes(other, config) == difference(other, config) != []
    unknown = Config(given={}, resolved={**config.resolved, "parallel": None, "training": {"kind": "older", "a": 1}})
    assert unknown.identity != config.identity and changes(unknown, config)


DEFAULTS = Path(__file__).with_name("defaults.jsonl")


def test_a_changed_default_raises_the_version_of_the_identity(request):
    """Checks all defaults of all kinds, which identities leave out. The first kind of a family is its default.

    `--rewrite-goldens -n 0` adds new settings. It replaces changed ones only if `identity.VERSION` is raised.
    """
    now = {
        family: {
            kind: {name: default for name, _, default in settings(family, kind) if default is not REQUIRED}
            for kind in kinds
        }
        for family, kinds in registry.FAMILIES.items()
    }
    version, *known = map(json.loads, DEFAULTS.read_text(encoding="utf-8").splitlines())
    if version == {"version": identity.VERSION}:
        assert changed_defaults({line["family"]: line["kinds"] for line in known}, now) == []
    if request.config.getoption("--rewrite-goldens"):
        lines = [{"version": identity.VERSION}, *({"family": name, "kinds": kinds} for name, kinds in now.items())]
        DEFAULTS.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
        version, *known = map(json.loads, DEFAULTS.read_text(encoding="utf-8").splitlines())
    assert version == {"version": identity.VERSION}
    assert {line["family"]: line["kinds"] for line in known} == now


def changed_defaults(known, now):
    """Settings whose default has changed or that have become required. New and removed settings do not count."""
    found = []
    for family, kinds in known.items():
        there = now.get(family, {})
        if there and next(iter(kinds)) != next(iter(there)):
            found.append(family)
        for kind in (kind for kind in kinds if kind in there):
            names = kinds[kind].keys() & {name for name, _, _ in settings(family, kind)}
            differs = lambda name, old=kinds[kind], new=there[kind]: (
                name not in new or not identity.same(old[name], new[name])
            )
            found += [f"{family}.{kind}.{name}" for name in sorted(names) if differs(name)]
    return found


def test_changed_defaults_are_found(toy):
    known = {"norm": {"layer_norm": {"epsilon": 1e-6, "gone": 1}, "scale": {"rate": 1.0}}, "gone": {"a": {"b": 1}}}
    now = {"norm": {"layer_norm": {"epsilon": 1e-6, "new": 2}, "scale": {"rate": 1.0}, "new": {}}}
    assert changed_defaults(known, now) == []
    assert changed_defaults(known, {"norm": {"layer_norm": {"epsilon": 1e-5}, "scale": {"rate": 1}}}) == [
        "norm.layer_norm.epsilon",
        "norm.scale.rate",
    ]
    assert changed_defaults(known, {"norm": {"scale": {}, "layer_norm": {"epsilon": 1e-6}}}) == [
        "norm",
        "norm.scale.rate",
    ]


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
