"""The errors of constructors name the setting with its full path in the config."""

import ast
import re
from pathlib import Path

import pytest

import attention_research
from attention_research.config import build, build_experiment, build_model, resolve, schema
from attention_research.errors import ConfigError
from attention_research.layers.structure import abstract
from attention_research.registry import FAMILIES

ROOT = Path(attention_research.__file__).parent
MODEL = {"kind": "transformer", "width": 12, "num_heads": 3, "num_layers": 2, "feed_forward": {"hidden_width": 17}}
#: Entries of the model's section -> the beginning of the message, without "config.".
WRONG = {
    "one of several attentions": (
        {"decoder": {"cross_attention": {"kind": "standard", "num_key_value_heads": 2}}},
        "model.decoder.cross_attention.num_key_value_heads: expected a divisor of num_heads 3, got 2"),
    "a setting of a stack": (
        {"decoder": {"self_attention": {"kind": "yoco", "lower": "alibi"}, "num_layers": 1}},
        "model.decoder.num_layers: 1; this self-attention expects at least 2 layers"),
    "some layers of a stack": (
        {"decoder": {"self_attention": {"kind": "interleaved", "interval": 2, "first": "alibi",
                                        "last": "value_residual"}}},
        "model.decoder.self_attention.last: this kind expects at least 2 layers; 1 of 2 layers has it"),
    "some layers of some layers": (
        {"decoder": {"num_layers": 3, "self_attention": {"kind": "interleaved", "interval": 3, "last": "alibi",
                                                         "first": {"kind": "yoco", "lower": "value_residual"}}}},
        "model.decoder.self_attention.first.lower: this kind expects at least 2 layers; 1 of 2 layers has it"),
    "the name of the section itself": (
        {"encoder": {"layout": {"kind": "one", "layer": 7, "feed_forward": {"hidden_width": 5}}}},
        "model.encoder.layout.layer: expected at most 2, the number of layers, got 7"),
    "the name of a child": (
        {"decoder": {"self_attention": {"kind": "interleaved", "interval": 7, "first": "alibi", "last": "sink"}}},
        "model.decoder.self_attention.interval: expected at most 2, the number of layers, got 7"),
    "a child of a child": (
        {"encoder": {"feed_forward": {"kind": "switch", "num_experts": 2, "expert": {
            "kind": "product_key_memory", "num_keys": 8, "key_width": 7, "num_heads": 2, "knn": 4}}}},
        "model.encoder.feed_forward.expert.key_width: expected an even number, got 7"),
    "layers above the first": (
        {"decoder": {"self_attention": {"kind": "cross_layer", "num_key_value_heads": 2}}},
        "model.decoder.self_attention.num_key_value_heads: expected a divisor of num_heads 3, got 2"),
    "layers without a path of their own": (
        {"decoder": {"self_attention": {"kind": "value_residual", "num_key_value_heads": 2}}},
        "model.decoder.self_attention.num_key_value_heads: expected a divisor of num_heads 3, got 2"),
    "a model": (
        {"kind": "shared_transformer", "decoder": {"norm": "rms_norm"}},
        "model.decoder.norm: RMSNorm; the stacks of shared_transformer share their layers"),
}  # fmt: skip


def of(model):
    """A config, as given, of a translation model with these changes."""
    return {
        "max_length": 13, "vocabulary_size": 29, "model": {**MODEL, **model},
        "data": {"name": "bible_translate/fr-en", "source_language": "fr", "target_language": "en",
                 "batching": {"boundaries": (13,)}},
        "training": {"steps": 5, "batch_size": 4, "learning_rate": 1.0},
    }  # fmt: skip


#: Part of the model, its buckets, its largest distance -> the message. Both directions of an encoder have buckets.
BUCKETS = {
    ("encoder", 3, 9): "num_buckets: expected at least 4, got 3",
    ("encoder", 8, 2): "max_distance: expected more than 2, got 2; 8 buckets have 2 exact distances",
    ("encoder", 8, 3): None,
    ("decoder", 1, 9): "num_buckets: expected at least 2, got 1",
    ("decoder", 8, 4): "max_distance: expected more than 4, got 4; 8 buckets have 4 exact distances",
    ("decoder", 8, 5): None,
}


@pytest.mark.parametrize("kind", ["t5", "t5_scaled", "branched_t5", "dense_synthesizer_plus"])
def test_buckets_that_do_not_fit_are_found_before_the_model_is_built(kind):
    """The table belongs to the stack, whose error would not have the path of the attention."""
    for (part, buckets, distance), message in BUCKETS.items():
        attention = {"kind": kind, "num_buckets": buckets, "max_distance": distance}
        given = of({part: {"self_attention": attention}})
        if message is None:
            resolve(given)
            continue
        with pytest.raises(ConfigError) as caught:
            resolve(given)
        assert str(caught.value) == f"config.model.{part}.self_attention.{message}"


@pytest.mark.parametrize("case", WRONG)
def test_the_message_begins_with_the_full_path(case):
    changes, message = WRONG[case]
    given = of(changes)
    config = resolve(given)
    makers = {
        "config.": build_experiment(config).model,
        "config. ": build(config.resolved["model"], "model"),
        "": build_model(given["model"], max_length=13, vocabulary_size=29),
    }
    for before, make in makers.items():
        with pytest.raises(ConfigError) as caught:
            abstract(lambda rngs, make=make: make(rngs=rngs))
        assert str(caught.value).startswith(before.strip() + message)


def first_words(tree):
    """The beginning of each literal message of a ConfigError."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "ConfigError" and node.args:
            text = node.args[0].values[0] if isinstance(node.args[0], ast.JoinedStr) else node.args[0]
            if isinstance(text, ast.Constant):
                yield node.lineno, text.value


def test_the_name_at_the_beginning_is_that_of_a_setting():
    """Otherwise its path is not found. A setting comes first in the message, or the path of one."""
    settings = {name for family, kinds in FAMILIES.items() for kind in kinds for name in schema.signature(family, kind)}
    found = 0
    for part in ("layers", "models"):
        for path in (ROOT / part).rglob("*.py"):
            for line, text in first_words(ast.parse(path.read_text(encoding="utf-8"))):
                name = re.match(r"(\w+)[.:]", text)
                assert name is None or name[1] in settings, f"{path}:{line}: {text}"
                found += name is not None
    assert found > 30
