"""Defaults, flowing settings, inherited sections: each is compared with the resolved value written out by hand."""

from __future__ import annotations

import copy

import pytest

from attention_research.config import ConfigError, resolve


def at(config, path):
    node = config.resolved
    for name in path.split("."):
        node = node[int(name) if isinstance(node, list) else name]
    return node


def test_the_whole_of_a_small_config(toy):
    resolved = resolve(toy).resolved
    attention = {"kind": "standard", "width": 8, "num_heads": 2, "head_width": None, "scaled": True}
    parts = [{"kind": "layer_norm", "width": 8, "epsilon": 1e-6}, {"kind": "scale", "rate": 1.0}]
    block = {"kind": "block", "self_attention": attention, "adapter": None, "parts": parts}
    assert resolved == {
        "kind": "experiment",
        "max_length": 16,
        "vocabulary_size": 100,
        "model": {
            "kind": "transformer",
            "vocabulary_size": 100,
            "max_length": 16,
            "width": 8,
            "num_heads": 2,
            "head_width": None,
            "dropout_rate": 0.1,
            "dtype": "float32",
            "self_attention": attention,
            "norm": {"kind": "layer_norm", "width": 8, "epsilon": 1e-6},
            "adapter": None,
            "encoder": {
                "kind": "transformer", "width": 8, "dropout_rate": 0.1, "self_attention": attention, "block": block,
                "depth": 2,
            },
            "decoder": {"kind": "transformer", "width": 8, "self_attention": attention, "cross_attention": attention},
        },
        "training": {
            "kind": "standard", "steps": 5, "batch_size": 8, "learning_rate": 1.0, "warm": False, "seed": 0,
            "log_every": 10, "note": "", "tag": None, "betas": [0.9, 0.98], "lengths": [], "names": ["a"], "shift": -1,
            "replicas": 1,
        },
        "parallel": {"kind": "mesh", "strategy": "jit"},
    }  # fmt: skip


def test_order_is_kind_first_then_the_signature(toy):
    toy["model"] = {"encoder": {}, "num_heads": 2, "width": 8}
    resolved = resolve(toy).resolved
    assert list(resolved) == ["kind", "max_length", "vocabulary_size", "model", "training", "parallel"]
    assert list(resolved["model"])[:4] == ["kind", "vocabulary_size", "max_length", "width"]


def test_a_flowing_setting_comes_from_the_nearest_section_given_or_defaulted(toy):
    toy["model"]["encoder"] = {"width": 4}
    config = resolve(toy, [("model.decoder.cross_attention.num_heads", "1"), ("model.dropout_rate", 0.3)])
    assert at(config, "model.encoder.self_attention.width") == 4
    assert at(config, "model.encoder.block.self_attention.width") == 4
    assert at(config, "model.decoder.self_attention.width") == 8
    assert at(config, "model.decoder.cross_attention.num_heads") == 1
    assert at(config, "model.decoder.self_attention.num_heads") == 2
    assert at(config, "model.encoder.dropout_rate") == 0.3


def test_a_default_does_not_inherit(toy):
    config = resolve(toy, [("model.encoder.block.parts", ({"kind": "scale", "rate": 3},))])
    assert at(config, "model.encoder.block.parts") == [{"kind": "scale", "rate": 3.0}]
    assert at(config, "model.norm.kind") == "layer_norm"


def test_a_section_is_inherited_where_its_kind_is_defined(toy):
    config = resolve(toy, [("model.self_attention", {"kind": "linformer", "rank": 4})])
    assert at(config, "model.encoder.self_attention") == at(config, "model.self_attention")
    assert at(config, "model.encoder.block.self_attention.rank") == 4
    assert at(config, "model.decoder.cross_attention.rank") == 4
    assert at(config, "model.decoder.self_attention.kind") == "standard"


def test_an_inherited_section_is_resolved_in_its_new_place(toy):
    overrides = [("model.self_attention", {"kind": "linformer", "rank": 4}), ("model.encoder.width", 6)]
    config = resolve(toy, overrides)
    assert at(config, "model.self_attention.width") == 8
    assert at(config, "model.encoder.self_attention.width") == 6


def test_the_nearest_section_of_the_name_is_inherited(toy):
    overrides = [("model.encoder.self_attention.kind", "relative"), ("model.encoder.self_attention.distance", "3")]
    config = resolve(toy, overrides)
    assert at(config, "model.encoder.block.self_attention.distance") == 3
    assert at(config, "model.decoder.self_attention.kind") == "standard"
    assert at(config, "model.self_attention.kind") == "standard"


def test_the_own_name_has_precedence_over_the_second(toy, tmp_path):
    path = tmp_path / "toy_config" / "toy.py"
    here = 'cross_attention: Child["cross_attention"], encoder: Child["encoder"], decoder'
    path.write_text(path.read_text().replace('encoder: Child["encoder"], decoder', here))
    toy["model"] |= {"self_attention": "standard", "cross_attention": {"kind": "linformer", "rank": 3}}
    config = resolve(toy)
    assert at(config, "model.decoder.self_attention.kind") == "standard"
    assert at(config, "model.decoder.cross_attention.rank") == 3


def test_an_undefined_kind_falls_back_to_the_first_without_inheritance(toy):
    toy["model"]["self_attention"] = {"kind": "relative", "width": 6}
    config = resolve(toy)
    assert at(config, "model.decoder.self_attention.width") == 6
    assert at(config, "model.decoder.cross_attention") == at(
        resolve({**toy, "model": {"width": 8, "num_heads": 2}}), "model.decoder.cross_attention"
    )


def test_a_partial_section_is_merged_over_the_inherited_one(toy):
    toy["model"]["self_attention"] = {"kind": "linformer", "rank": 4, "sharing": "none"}
    for partial in ({"rank": 2}, {"kind": "linformer", "rank": 2}):
        toy["model"]["encoder"] = {"self_attention": partial}
        encoder = at(resolve(toy), "model.encoder.self_attention")
        assert (encoder["rank"], encoder["sharing"]) == (2, "none")


def test_another_kind_inherits_nothing(toy):
    toy["model"]["self_attention"] = {"kind": "linformer", "rank": 4}
    toy["model"]["encoder"] = {"self_attention": {"kind": "standard", "scaled": False}}
    assert "rank" not in at(resolve(toy), "model.encoder.self_attention")


def test_nested_sections_merge_by_the_same_rule(toy):
    toy["model"]["self_attention"] = {"kind": "relative", "inner": {"kind": "layer_norm", "epsilon": 1e-3}}
    toy["model"]["encoder"] = {"self_attention": {"inner": {"width": 3}}}
    toy["model"]["decoder"] = {"self_attention": {"inner": {"kind": "scale"}}}
    config = resolve(toy)
    inner = at(config, "model.encoder.self_attention.inner")
    assert inner == {"kind": "layer_norm", "width": 3, "epsilon": 1e-3}
    assert at(config, "model.decoder.self_attention.inner") == {"kind": "scale", "rate": 1.0}


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        ("scale", {"rate": 2.0}, {"kind": "scale", "rate": 2.0}),
        ({"kind": "scale", "rate": 3.0}, "scale", {"kind": "scale", "rate": 3.0}),
        ("scale", "layer_norm", {"kind": "layer_norm", "width": 8, "epsilon": 1e-6}),
        ({"epsilon": 0.5}, {"kind": "layer_norm", "width": 3}, {"kind": "layer_norm", "width": 3, "epsilon": 0.5}),
        ({"epsilon": 0.5}, {"kind": "scale"}, {"kind": "scale", "rate": 1.0}),
    ],
)
def test_a_nested_section_may_be_written_as_its_kind(toy, outer, inner, expected):
    toy["model"]["self_attention"] = {"kind": "relative", "inner": outer}
    toy["model"]["encoder"] = {"self_attention": {"inner": inner}}
    assert at(resolve(toy), "model.encoder.self_attention.inner") == expected


def test_a_child_without_default_and_without_a_namesake_is_the_first_kind(toy):
    toy["model"]["self_attention"] = "relative"
    assert at(resolve(toy), "model.self_attention.inner.kind") == "layer_norm"


def test_an_optional_section(toy):
    assert at(resolve(toy), "model.adapter") is None
    config = resolve(toy, [("model.adapter", "scale")])
    assert at(config, "model.adapter") == {"kind": "scale", "rate": 1.0}
    assert at(config, "model.encoder.block.adapter") == {"kind": "scale", "rate": 1.0}  # inherited
    config = resolve(toy, [("model.adapter", "scale"), ("model.encoder.block.adapter", "none")])
    assert at(config, "model.encoder.block.adapter") is None
    assert at(resolve(toy, [("model.adapter.epsilon", "0.5")]), "model.adapter.epsilon") == 0.5  # switched on


def test_values_are_normalised(toy):
    numpy = pytest.importorskip("numpy")
    toy["training"] |= {"learning_rate": 2, "betas": (0, 1), "lengths": (numpy.int32(3),), "steps": numpy.int64(5)}
    training = at(resolve(toy), "training")
    assert training["betas"] == [0.0, 1.0] and training["lengths"] == [3] and training["steps"] == 5
    assert [type(training[name]) for name in ("learning_rate", "steps")] == [float, int]
    same = copy.deepcopy(toy) | {"training": {**toy["training"], "learning_rate": 2.0}}
    assert resolve(same).hash == resolve(toy).hash


def test_the_given_dict_is_not_changed(toy):
    before = copy.deepcopy(toy)
    config = resolve(toy, [("model.encoder.width", "4"), ("training.steps", 7)])
    assert toy == before
    assert config.given["model"]["encoder"] == {"width": 4} and config.given["training"]["steps"] == 7


def test_resolving_is_idempotent(toy):
    toy["model"]["self_attention"] = {"kind": "linformer", "rank": 4}
    toy["model"]["encoder"] = {"width": 4, "block": {"adapter": "scale", "parts": ("scale",)}}
    config = resolve(toy)
    again = resolve(config.resolved)
    assert again.resolved == config.resolved and list(again.resolved["model"]) == list(config.resolved["model"])


def test_a_flow_that_does_not_fit_names_both_ends(toy, tmp_path):
    path = tmp_path / "toy_config" / "base.py"
    path.write_text(path.read_text().replace("head_width: Positive | None", "head_width: Positive"))
    with pytest.raises(
        ConfigError, match=r"^config.model.self_attention.head_width: from config.model.head_width: exp"
    ):
        resolve(toy)
