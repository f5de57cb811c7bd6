"""Signatures read from the source, errors in signatures, and the schema of every kind in the real registry."""

from __future__ import annotations

import inspect
from unittest import mock

import pytest

from attention_research import constraints, registry
from attention_research.config import (
    EXECUTION_LEAVES,
    REQUIRED,
    Config,
    ConfigError,
    SchemaError,
    build,
    load,
    resolve,
    settings,
)
from attention_research.config import schema as schemas
from attention_research.config.construction import build_experiment
from attention_research.signatures import Constructor


def test_settings(toy):
    assert settings("norm", "layer_norm") == [("width", "Positive", REQUIRED), ("epsilon", "PositiveFloat", 1e-6)]
    assert settings("norm", "scale") == [("rate", "NonNegativeFloat", 1.0)]
    assert [name for name, _, _ in settings("attention", "standard")] == ["width", "num_heads", "head_width", "scaled"]


def test_arguments_from_the_parent_are_not_settings(toy, tmp_path, monkeypatch):
    source = "class X:\n    def __init__(self, *, a: Positive = 3, input_width: Given[int], rngs): ..."
    (tmp_path / "toy_config" / "inner.py").write_text(source)
    monkeypatch.setitem(registry.FAMILIES, "inner", {"inner": "toy_config.inner:X"})
    assert settings("inner", "inner") == [("a", "Positive", 3)]


BASES = """
class Base:
    def __init__(self, *, width: Positive, num_heads: Positive = 2, use_bias: bool = True, given: Given[int], rngs): ...
class Middle(Base):
    pass
class Other:
    def __init__(self, *, a: int): ...
class Plain: ...
"""
INHERITING = {
    "own settings last": (
        "class X(Middle):\n    def __init__(self, *, a: int = 3, rngs, **inherited: Any):\n"
        "        super().__init__(rngs=rngs, **inherited)",
        [("width", REQUIRED), ("num_heads", 2), ("use_bias", True), ("a", 3)],
    ),
    "another default, a fixed setting": (
        "class X(Base):\n    def __init__(self, *, num_heads: Positive = 5, rngs, **inherited: Any):\n"
        "        super().__init__(num_heads=num_heads, use_bias=False, rngs=rngs, **inherited)\n        self.a = 1",
        [("width", REQUIRED), ("num_heads", 5)],
    ),
    "two steps": (
        "class Y(Base):\n    def __init__(self, *, a: int = 3, **inherited: Any):\n"
        "        super().__init__(use_bias=False, **inherited)\n"
        "class X(Y, Plain):\n    def __init__(self, *, b: int = 4, **inherited: Any):\n"
        "        super().__init__(num_heads=b, **inherited)",
        [("width", REQUIRED), ("a", 3), ("b", 4)],
    ),
}


@pytest.mark.parametrize("name", INHERITING)
def test_inherited_settings(toy, tmp_path, monkeypatch, name):
    source, want = INHERITING[name]
    (tmp_path / "toy_config" / "heirs.py").write_text(f"{BASES}\n{source}")
    monkeypatch.setitem(registry.FAMILIES, "heirs", {"heirs": "toy_config.heirs:X"})
    assert [(setting, default) for setting, _, default in settings("heirs", "heirs")] == want


HEIR = "    def __init__(self, **inherited: Any): "
BAD = {
    "inherited and read": (
        f"{BASES}class X(Base):\n{HEIR}\n        super().__init__(**inherited)\n        self.a = inherited['width']",
        "**inherited is for one call",
    ),
    "inherited and not passed on": (f"{BASES}class X(Base):\n{HEIR}...", "**inherited is for one call"),
    "inherited without a base": (
        f"{BASES}class X(Plain):\n{HEIR}super().__init__(**inherited)",
        "no base has an __init__ that can be read",
    ),
    "inherited from two bases": (
        f"{BASES}class X(Base, Other):\n{HEIR}super().__init__(**inherited)",
        "Base and Other have an __init__ each",
    ),
    "**kwargs": ("class X:\n    def __init__(self, **settings): ...", "cannot be a schema"),
    "decorator": ("class X:\n    @wrap\n    def __init__(self, *, a: int): ...", "cannot be a schema"),
    "positional": ("class X:\n    def __init__(self, a: int): ...", "the parameter a is positional"),
    "bare": ("class X:\n    def __init__(self, *, a): ...", "the parameter a has no annotation"),
    "vocabulary": ("class X:\n    def __init__(self, *, a: dict): ...", "annotation dict is not in the vocabulary"),
    "union": ("class X:\n    def __init__(self, *, a: int | str): ...", "not in the vocabulary"),
    "name": ("class X:\n    def __init__(self, *, a: int = TEN): ...", "the default TEN is not a literal"),
    "default": ("class X:\n    def __init__(self, *, a: Positive = 0): ...", "its default: expected an int at least 1"),
    "family": ('class X:\n    def __init__(self, *, a: Child["nrom"]): ...', "no family 'nrom'"),
    "kind": (
        'class X:\n    def __init__(self, *, a: Child["norm"] = "no"): ...',
        "its default 'no' is not a kind of norm",
    ),
    "dataclass": ("@dataclasses.dataclass(frozen=True)\nclass X:\n    a: int = 3", "a dataclass has no __init__"),
    "class": ("class Y: ...", "no class X in it"),
    "module": (None, "is not there"),
}


@pytest.mark.parametrize("name", BAD)
def test_an_invalid_signature_is_refused(toy, tmp_path, monkeypatch, name):
    source, message = BAD[name]
    if source is not None:
        (tmp_path / "toy_config" / "bad.py").write_text(source)
    monkeypatch.setitem(registry.FAMILIES, "bad", {"bad": "toy_config.bad:X"})
    with pytest.raises(SchemaError) as caught:
        settings("bad", "bad")
    assert message in str(caught.value) and "toy_config.bad" in str(caught.value) and "\n" not in str(caught.value)


def test_build(toy, tmp_path):
    (tmp_path / "toy_config" / "__init__.py").write_text("")
    source = (tmp_path / "toy_config" / "toy.py").read_text().replace("import a_module_that", "# import")
    (tmp_path / "toy_config" / "toy.py").write_text(source)
    (tmp_path / "toy_config" / "base.py").write_text(
        "class Attention:\n    def __init__(self, *, width: int, rngs): ..."
    )
    config = resolve(toy, [("training.betas", "0.5,1"), ("model.adapter", "scale")])
    model = build(config.resolved["model"], "model")
    assert model.target.__name__ == "Model" and model.settings["width"] == 8
    assert model.settings["adapter"].target.__name__ == "Scale"
    block = model.settings["encoder"].settings["block"]
    assert [part.target.__name__ for part in block.settings["parts"]] == ["LayerNorm", "Scale"]
    assert block.settings["adapter"].settings == {"rate": 1.0}
    assert isinstance(model(rngs=0), model.target)
    assert build(config.resolved["training"], "training").settings["betas"] == (0.5, 1.0)


def test_build_refuses_configs_of_another_version(toy):
    section = resolve(toy).resolved["training"]
    less = {name: value for name, value in section.items() if name != "steps"}
    for changed in ({**section, "old": 1}, less, {**section, "kind": "older"}):
        with pytest.raises(ConfigError, match=r"^config.training.(old: no such|steps: missing|kind: no kind)"):
            build(changed, "training", "config.training")


# The real registry.

KINDS = [(family, kind) for family, kinds in registry.FAMILIES.items() for kind in kinds]


def some(parameter):
    """A value that a constructor takes."""
    if parameter.default is not parameter.empty:
        return parameter.default
    return Constructor(object, {}) if "Child" in str(parameter.annotation) else 5


def accepted(kind):
    """Name -> default of the arguments that a class's constructor accepts, as Python sees them.

    These are the keyword-only parameters. For ``**inherited`` they include those of the next class, except the
    arguments that this class passes to it itself.
    """
    place = next(i for i, c in enumerate(kind.__mro__) if "__init__" in vars(c))
    there, rest = kind.__mro__[place], kind.__mro__[place + 1 :]
    parameters = inspect.signature(there.__init__).parameters.values()
    own = {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY}
    if not any(p.name == schemas.INHERITED for p in parameters):
        return own
    above = next(c for c in rest if "__init__" in vars(c))
    handed = {}

    def note(self, **given):
        handed.update(given)
        raise InterruptedError

    plain = mock.patch.object(there, "__setattr__", object.__setattr__)  # a constructor may set attributes before
    with plain, mock.patch.object(above, "__init__", note), pytest.raises(InterruptedError):
        inspect.unwrap(there.__init__)(object.__new__(there), **{name: some(p) for name, p in own.items()})
    inherited = accepted(type("Above", (above,), {}))
    return {**{name: p for name, p in inherited.items() if name not in handed}, **own}


@pytest.mark.parametrize(("family", "kind"), KINDS, ids=[f"{family}-{kind}" for family, kind in KINDS])
def test_every_registered_kind_has_a_schema_equal_to_its_signature(family, kind):
    read = {name: default for name, _, default in settings(family, kind)}
    given = lambda p: p.name in schemas.NOT_SETTINGS or str(p.annotation).startswith("Given[")
    there = {name: p for name, p in accepted(registry.lookup(family, kind)).items() if not given(p)}
    assert list(read) == list(there)
    for name, default in read.items():
        setting, real = schemas.signature(family, kind)[name], there[name].default
        assert (default is REQUIRED) == (real is inspect.Parameter.empty)
        if default is not REQUIRED:
            assert setting.annotation.check(list(real) if isinstance(real, tuple) else real) == default


def test_refusals_name_kinds_of_other_families():
    for family, kind in registry.REFUSED:
        assert kind not in registry.FAMILIES[family] and kind in registry.ATTENTION


def test_execution_leaves_exist(root, monkeypatch):
    monkeypatch.chdir(root)
    resolved = load("configs/translation/transformer.py:cpu").resolved
    for path in EXECUTION_LEAVES:
        node = resolved
        for name in path.split("."):
            assert name in node, path
            node = node[name]


def test_constraints_name_families_of_the_registry():
    from fnmatch import filter as matching

    for families, kinds, _ in constraints.CONSTRAINTS:
        found = matching(registry.FAMILIES, families)
        assert found and any(matching(registry.FAMILIES[family], kinds) for family in found), (families, kinds)


VARIANTS = ["vaswani_base", "vaswani_big", "cpu", "quick"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_translation_configs_build(root, monkeypatch, variant):
    monkeypatch.chdir(root)
    config = load(f"configs/translation/transformer.py:{variant}")
    assert Config.from_json(config.to_json()) == config == resolve(config.resolved)
    experiment = build_experiment(config)
    assert experiment.max_length == config.resolved["max_length"]
    for section in ("task", "data", "model", "training", "parallel", "decoding", "evaluation"):
        assert isinstance(getattr(experiment, section), Constructor), section
    decoder = experiment.model.settings["decoder"].settings
    assert decoder["self_attention"].target is registry.lookup("causal_attention", "standard")
    assert all(isinstance(branch, tuple) for branch in decoder["steps"])


REFUSED = {
    "packed linformer": (
        ("model.self_attention", {"kind": "linformer", "rank": 16}),
        "config.data.batching.kind: packed rows hold several sentences and Linformer "
        "(config.model.encoder.self_attention) projects keys over the whole row, which would mix them; use buckets",
    ),
    "packed encoder of the Long Range Arena": (
        ("model.encoder.self_attention", {"kind": "bigbird"}),
        "config.data.batching.kind: packed rows hold several sentences and bigbird "
        "(config.model.encoder.self_attention) connects blocks of the whole row, which would mix them; use buckets",
    ),
    "packed attention to pooled cells": (
        ("model.decoder.cross_attention", {"kind": "linformer_pooled", "cell_width": 4}),
        "config.data.batching.kind: packed rows hold several sentences and linformer_pooled "
        "(config.model.decoder.cross_attention) pools keys over the whole row, which would mix them; use buckets",
    ),
    "packed distances to a source": (
        ("model.decoder.cross_attention", {"kind": "cross_relative_keys", "max_distance": 4}),
        "config.data.batching.kind: packed rows hold several sentences and cross_relative_keys "
        "(config.model.decoder.cross_attention) counts distances in the whole row, which would mix them; use buckets",
    ),
    "a diagonal of two sequences": (
        ("model.decoder.cross_attention", {"kind": "temperature", "masks_diagonal": True}),
        "config.model.decoder.cross_attention.masks_diagonal: only the self-attention of an encoder can hide a",
    ),
    "packed sinks": (
        ("model.decoder.self_attention", {"kind": "streaming", "window": 4}),
        "config.data.batching.kind: packed rows hold several sentences and streaming "
        "(config.model.decoder.self_attention) keeps the first tokens of the whole row, which would mix them",
    ),
    "packed rows under a table of scores": (
        ("model.self_attention", {"kind": "random_synthesizer"}),
        "config.data.batching.kind: packed rows hold several sentences and random_synthesizer "
        "(config.model.encoder.self_attention) counts positions in the whole row, which would mix them",
    ),
    "packed blocks of a decoder": (
        ("model.decoder.self_attention", {"kind": "block_local", "block_size": 4}),
        "config.data.batching.kind: packed rows hold several sentences and block_local "
        "(config.model.decoder.self_attention) has blocks of the whole row, which would mix them",
    ),
    "packed rows of a ring": (
        [("model.decoder.self_attention.kind", "ring"), ("parallel.mesh.sequence", 2)],
        "config.data.batching.kind: packed rows hold several sentences, and ring "
        "(config.model.decoder.self_attention) over parallel.mesh.sequence 2 does not hide them from each other",
    ),
    "packed rows of a copying model": (
        ("model", {"kind": "pointer_generator", "width": 12, "cell": {"kind": "lstm", "width": 12}}),
        "config.data.batching.kind: packed rows hold several sentences and pointer_generator reads a row as one",
    ),
    "packed rows of a language model with a source": (
        ("model.kind", "language_model"),
        "config.data.batching.kind: packed rows hold several sentences and language_model reads a row as one",
    ),
    "an unknown step": (
        ("model.encoder.steps", "(('norm', 'self_atention', 'residual'),)"),
        "config.model.encoder.steps: no step 'self_atention' in a block of this section; did you mean 'self_attention'",
    ),
    "a mesh without data": (
        ("parallel.mesh.data", "0"),
        "config.parallel.mesh.data: expected an int at least 1, or -1 (the rest); got 0",
    ),
    "a mesh under pmap": (
        ("parallel", {"strategy": "pmap", "mesh": {"tensor": 2}}),
        "config.parallel.mesh.tensor: 2 has no effect under pmap, which splits the rows of a batch over all devices; "
        "set config.parallel.strategy=jit",
    ),
    "some devices under pmap": (
        ("parallel", {"strategy": "pmap", "mesh": {"data": 2}}),
        "config.parallel.mesh.data: 2 has no effect under pmap, which splits the rows of a batch over all devices; ",
    ),
    "replicas under pmap": (
        [("parallel.strategy", "pmap"), ("training.replicas", 2)],
        "config.training.replicas: replicas run under parallel.strategy=jit, not pmap",
    ),
    "top_p above one": (
        ("decoding", {"kind": "sampling", "top_p": 1.5}),
        "config.decoding.top_p: expected a float above 0 and at most 1; got 1.5",
    ),
    "causal linformer": (
        ("model.decoder.self_attention.kind", "linformer"),
        "config.model.decoder.self_attention.kind: linformer is not defined here: Linformer projects keys and",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_real_config_is_refused(root, monkeypatch, name):
    monkeypatch.chdir(root)
    override, message = REFUSED[name]
    with pytest.raises(ConfigError) as caught:
        load("configs/translation/transformer.py:vaswani_base", override if isinstance(override, list) else [override])
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


@pytest.mark.parametrize("config", ["images/vision_transformer", "classification/long_range"])
def test_memories_of_layers_need_a_decoder(root, monkeypatch, config):
    monkeypatch.chdir(root)
    with pytest.raises(ConfigError, match="transparent gives a state for each layer of a decoder; "):
        load(f"configs/{config}.py:smoke", [("model.encoder.kind", "transparent")])


TINY = {"width": 8, "num_heads": 2, "num_layers": 1, "feed_forward": {"hidden_width": 8}}
#: Config, override -> the error message. States are not those of words, layers are missing, a table is
#: too small, or the data have words or text that the model does not read.
UNREAD = {
    "words of latents": ("classification/long_range", {"encoder": {"kind": "perceiver"}, "pooling": {"kind": "tf_idf"}},
                         "config.model.pooling.kind: tf_idf weighs words, and perceiver gives latents"),
    "words of slots": ("classification/long_range", {"encoder": {"kind": "slots"}, "pooling": {"kind": "idf"}},
                       "config.model.pooling.kind: idf weighs words, and slots gives slots"),
    "words of pairs": ("classification/long_range", {"encoder": {"kind": "funnel", "num_layers": 2, "blocks": 2},
                                                     "pooling": {"kind": "token_weight"}},
                       "config.model.pooling.kind: token_weight weighs words, and funnel gives pooled positions"),
    "words of two texts": ("classification/long_range:retrieval", {"encoder": {"kind": "perceiver"},
                                                                   "pooling": {"kind": "idf"}},
                           "config.model.pooling.kind: idf weighs words, and perceiver gives latents"),
    "documents of pairs": ("classification/long_range:retrieval", {"pooling": {"kind": "idf"}},
                           "config.model.pooling.kind: idf weighs words by their documents, which pairs of sequences "
                           "lack"),
    "words of a picture": ("images/residual", {"pooling": {"kind": "idf"}},
                           "config.model.pooling.kind: idf weighs words, and a picture has none"),
    "a class token among latents": ("images/vision_transformer", {"encoder": {"kind": "perceiver"}},
                                    "config.model.pooling: class_token reads its own state, and perceiver gives "
                                    "latents; use mean"),
    "rows of a source": ("translation/recurrent", {"vocabulary.source_vocabulary_size": 10},
                         "config.model.vocabulary.source_vocabulary_size: 10 rows are too few; both languages share a "
                         "tokenizer of 1000 words"),
    "shared slots": ("translation/transformer", {"kind": "shared_transformer", "encoder": {"kind": "slots"}},
                     "config.model.encoder.kind: slots has no layers that the decoder of shared_transformer could use"),
    "a Perceiver without input": ("classification/long_range", {"encoder": {
        "kind": "perceiver", "steps": (("norm", "feed_forward", "residual"),)}},
        "config.model.encoder.steps: the latents of a Perceiver read the input in the step self_attention, which is "
        "missing"),
    "a decoder without context": ("translation/recurrent", {"decoder": {
        "kind": "bahdanau", "readout_width": 8, "alignment": {"kind": "none"}}},
        "config.model.decoder.alignment.kind: none has no context, which bahdanau reads; use last_state, or the "
        "decoder luong"),
    "words to copy": ("naming/allamanis", {"": {"kind": "transformer", **TINY}},
                      "config.data.extended: transformer has no words beyond its vocabulary; set it to false"),
    "text before a row": ("language_modelling/brown", {"": {"kind": "transformer_decoder", **TINY}},
                          "config.data.context: transformer_decoder does not read the 5 tokens before a row; set it "
                          "to 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREAD)
def test_states_that_a_model_cannot_read_are_refused(root, monkeypatch, name):
    monkeypatch.chdir(root)
    config, model, message = UNREAD[name]
    file, _, variant = config.partition(":")
    changes = [(f"model.{key}".rstrip("."), value) for key, value in model.items()]
    with pytest.raises(ConfigError) as caught:
        load(f"configs/{file}.py:{variant or 'smoke'}", changes)
    assert str(caught.value) == message


def test_linformer_with_buckets_is_accepted(root, monkeypatch):
    monkeypatch.chdir(root)
    row = ("model.self_attention", {"kind": "linformer", "rank": 16})
    config = load("configs/translation/transformer.py:cpu", [row])
    decoder = config.resolved["model"]["decoder"]
    assert (decoder["self_attention"]["kind"], decoder["cross_attention"]["kind"]) == ("standard", "linformer")
