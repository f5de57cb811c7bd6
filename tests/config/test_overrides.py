"""Overrides: what they set, the order in which they apply, and how text is parsed."""

from __future__ import annotations

import ast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_research.config import ConfigError, annotations, resolve
from attention_research.config.annotations import MOST, Mismatch, read
from attention_research.config.values import spell


def training(toy, *overrides):
    return resolve(toy, overrides).resolved["training"]


PARSED = [
    ("steps", "7", 7),
    ("steps", " 1_000 ", 1000),
    ("steps", "1e3", 1000),
    ("steps", "1E3", 1000),
    ("steps", "1000.0", 1000),
    ("shift", "-3", -3),
    ("shift", "-2.50e1", -25),
    ("learning_rate", "1e-4", 1e-4),
    ("learning_rate", "3", 3.0),
    ("warm", "true", True),
    ("warm", "False", False),
    ("note", "7", "7"),
    ("note", "none", "none"),
    ("note", "{1}", "{1}"),
    ("note", "{}", "{}"),
    ("tag", "none", None),
    ("tag", "None", None),
    ("tag", "x", "x"),
    ("betas", "(0.5, 1)", [0.5, 1.0]),
    ("betas", "0.5,0.75", [0.5, 0.75]),
    ("lengths", "8,16", [8, 16]),
    ("lengths", "[8, 16]", [8, 16]),
    ("lengths", "8", [8]),
    ("lengths", "8,1.6e1", [8, 16]),
    ("lengths", "(8.0, 16)", [8, 16]),
    ("lengths", "()", []),
    ("names", "b,c", ["b", "c"]),
    ("names", "('b', 'c')", ["b", "c"]),
    ("names", "0,1", ["0", "1"]),
    ("names", "True,False", ["True", "False"]),
]


@pytest.mark.parametrize(("name", "text", "value"), PARSED, ids=[f"{name}={text}" for name, text, _ in PARSED])
def test_text_is_parsed_by_the_annotation(toy, name, text, value):
    found = training(toy, (f"training.{name}", text))[name]
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize("value", ["1.5", "1e-1", "1e20", "1e999", "inf", "nan", 1.5, 1e20, float("nan"), True])
def test_fractions_and_inexact_numbers_are_not_ints(toy, value):
    with pytest.raises(ConfigError, match=r"^config.training.steps: expected an int"):
        training(toy, ("training.steps", value))


@pytest.mark.parametrize("value", [1e5, np.float64(1e5), np.int64(100_000)])
def test_an_integral_float_of_a_config_file_is_an_int(toy, value):
    found = training(toy, ("training.steps", value))["steps"]
    assert found == 100_000 and type(found) is int
    toy["training"]["steps"] = value
    assert resolve(toy).resolved["training"]["steps"] == 100_000


def test_the_prefix_of_the_command_line_is_optional(toy):
    assert training(toy, ("config.training.steps", "7"))["steps"] == 7


def test_a_leaf_that_only_a_signature_has(toy):
    overrides = [("parallel.strategy", "pmap"), ("model.encoder.block.self_attention.scaled", "false")]
    resolved = resolve(toy, overrides).resolved
    assert resolved["parallel"]["strategy"] == "pmap"
    assert resolved["model"]["encoder"]["block"]["self_attention"]["scaled"] is False
    assert resolved["model"]["encoder"]["self_attention"]["scaled"] is True


def test_the_last_override_counts(toy):
    assert training(toy, ("training.steps", 3), ("training.steps", "4"))["steps"] == 4


def test_kinds_are_set_first_the_outermost_first(toy):
    overrides = [
        ("model.self_attention.inner.rate", "2"),
        ("model.self_attention.inner.kind", "scale"),
        ("model.self_attention.kind", "relative"),
    ]
    attention = resolve(toy, overrides).resolved["model"]["self_attention"]
    assert attention["inner"] == {"kind": "scale", "rate": 2.0}


def test_a_section_set_to_a_name_is_short_for_kind(toy):
    overrides = [("model.self_attention.rank", "4"), ("model.self_attention", "linformer")]
    long = [("model.self_attention.kind", "linformer"), ("model.self_attention.rank", "4")]
    assert resolve(toy, overrides).resolved == resolve(toy, long).resolved


def test_changing_the_kind_drops_defaults_but_no_key_that_was_written(toy):
    override = ("model.self_attention", "relative")
    for written in ({}, {"self_attention": {"kind": "linformer"}}):
        toy["model"].update(written)
        assert resolve(toy, [override]).resolved["model"]["self_attention"]["kind"] == "relative"
    toy["model"]["self_attention"] = {"scaled": False}
    with pytest.raises(ConfigError, match=r"^config.model.self_attention.scaled: no such setting of relative; stand"):
        resolve(toy, [override])


def test_a_dict_replaces_a_section(toy):
    toy["model"]["self_attention"] = {"kind": "linformer", "rank": 4, "sharing": "none"}
    for dictionary in ({"kind": "standard"}, {"scaled": True}, "{'kind': 'standard'}"):
        config = resolve(toy, [("model.self_attention", dictionary)])
        assert config.resolved["model"]["self_attention"]["kind"] == "standard"


def test_kinds_do_not_cross_a_dict(toy):
    row = ("model.self_attention", {"kind": "linformer", "rank": 4})
    config = resolve(toy, [row, ("model.self_attention.rank", "2")])
    assert config.resolved["model"]["self_attention"]["rank"] == 2
    config = resolve(toy, [("model.self_attention.kind", "relative"), row])
    assert config.resolved["model"]["self_attention"]["kind"] == "linformer"
    with pytest.raises(ConfigError, match=r"^config.model.self_attention.rank: no such setting of standard; linf"):
        resolve(toy, [row, ("model.self_attention.kind", "standard")])


def test_items_of_a_tuple_of_sections(toy):
    overrides = [("model.encoder.block.parts.1.rate", "4"), ("model.encoder.block.parts.0", "scale")]
    parts = resolve(toy, overrides).resolved["model"]["encoder"]["block"]["parts"]
    assert parts == [{"kind": "scale", "rate": 1.0}, {"kind": "scale", "rate": 4.0}]
    parts = resolve(toy, [("model.encoder.block.parts", "scale,layer_norm")]).resolved["model"]["encoder"]["block"][
        "parts"
    ]
    assert [part["kind"] for part in parts] == ["scale", "layer_norm"]


def values(source: str) -> st.SearchStrategy:
    """Valid Python values of an annotation."""
    floats = st.floats(allow_nan=False, allow_infinity=False)
    word = st.text("abcdefgh_", min_size=1, max_size=5)
    ints = st.integers(max_value=MOST)
    return {
        "int": ints,
        "Positive": st.integers(1, MOST),
        "float": floats,
        "Rate": st.floats(0, 1, exclude_max=True),
        "bool": st.booleans(),
        "str": st.text(max_size=20),
        "int | None": st.none() | ints,
        'Literal["a", "b"]': st.sampled_from(["a", "b"]),
        "tuple[int, ...]": st.lists(ints, max_size=4),
        "tuple[float, int]": st.tuples(floats, ints),
        "tuple[tuple[str, ...], ...]": st.lists(st.lists(word, max_size=3), max_size=3),
        "tuple[int, ...] | None": st.none() | st.lists(ints, max_size=4),
    }[source]


ANNOTATIONS = [
    "int", "Positive", "float", "Rate", "bool", "str", "int | None", 'Literal["a", "b"]', "tuple[int, ...]",
    "tuple[float, int]", "tuple[tuple[str, ...], ...]", "tuple[int, ...] | None",
]  # fmt: skip


@pytest.mark.parametrize("source", ANNOTATIONS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_parse_undoes_spell_and_check_is_idempotent(source, data):
    annotation = read(ast.parse(source, mode="eval").body)
    value = annotation.check(data.draw(values(source)))
    assert annotation.check(value) == value
    assert annotation.parse(spell(value)) == value


@pytest.mark.parametrize("source", ANNOTATIONS)
@settings(max_examples=60, deadline=None)
@given(text=st.text("0123456789.,-+eEinfa()[]{}'\" none", max_size=12))
def test_any_text_is_parsed_or_refused_in_words(source, text):
    annotation = read(ast.parse(source, mode="eval").body)
    try:
        value = annotation.parse(text)
    except Mismatch as error:
        assert str(error).startswith("expected ")
    else:
        assert annotation.check(value) == value


def test_every_range_of_the_signatures_is_enforced():
    from typing import get_args

    from attention_research import signatures

    words = {get_args(value)[1] for value in vars(signatures).values() if get_args(value)[:1] in ((int,), (float,))}
    assert words == set(annotations.RANGES) - {""}
