"""Every setting of the image models matters: changing it changes the start or the loss of the training program."""

import re

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

from attention_research import registry
from attention_research.config import ConfigError, build_experiment, resolve
from attention_research.config.annotations import Choice, Optional, Scalar
from attention_research.config.schema import signature
from attention_research.config.scope import FLOWS
from attention_research.layers.structure import abstract, initializer

TRAINING = {"steps": 5, "batch_size": 2, "learning_rate": 1.0}
IMAGES = {"kind": "images", "side": 9, "data": {"kind": "placed_digits", "grid": 1}, "training": TRAINING}
WORDS = {
    "kind": "images_and_words", "side": 9, "max_length": 12, "vocabulary_size": 29, "training": TRAINING,
    "data": {"kind": "captions", "name": "emoji_names/en"},
}  # fmt: skip
CNN = {"kind": "cnn", "width": 3, "num_layers": 2, "halvings": 1}
TRANSFORMER = {"width": 12, "num_layers": 1, "num_heads": 3, "feed_forward": {"hidden_width": 17}, "features": CNN}
#: The sections that are checked in each config: families of image modules, and the models themselves.
WALKED = {
    "image_features", "image_gate", "shortcut", "image_reader", "image_alignment", "caption_decoder",
    "caption_vocabulary",
}  # fmt: skip
#: Gates with a bottleneck. A reduction of 16 leaves them only one channel, since these models have few.
REDUCED = {gate: {"reduction": 3} for gate in ("squeeze_excitation", "channel", "cbam", "normalized_cbam")}


def classifier(**features):
    return {**IMAGES, "model": {"kind": "image_classifier", "width": 5, "num_classes": 7, "features": features}}


def captioner(**model):
    return {**WORDS, "model": {"kind": "recurrent_captioner", "width": 12, "features": CNN, **model}}


CONFIGS = {
    "resnet": classifier(kind="resnet", depth=14),
    "cnn": classifier(**CNN),
    "mobilenet_v2": classifier(kind="mobilenet_v2", stride=8),
    "projection": classifier(kind="resnet", depth=14, shortcut={"kind": "projection"}),
    "plain": classifier(kind="resnet", depth=14, shortcut={"kind": "none"}),
    **{f"gate_{gate}": classifier(kind="resnet", depth=8, gate={"kind": gate, **REDUCED.get(gate, {})})
       for gate in registry.FAMILIES["image_gate"] if gate != "none"},
    "soft": captioner(),
    "hard": {**captioner(alignment={"kind": "hard"}), "task": {"kind": "captioning", "doubly_stochastic": 1.0}},
    "sca": captioner(alignment={"kind": "sca", "attention_width": 5}),
    "last_state": captioner(alignment={"kind": "last_state"}),
    "fixed_vector": captioner(num_layers=2, decoder={"kind": "fixed_vector", "start": {"kind": "projected"}}),
    "transformer": {**WORDS, "model": {"kind": "transformer_captioner", **TRANSFORMER,
                                       "encoder": {"positions": {"kind": "sinusoidal", "max_length": 25}}}},
    **{reader: {**WORDS, "task": {"kind": "classification"},
                "model": {"kind": "image_question_classifier", **TRANSFORMER, "num_classes": 5, "readout_width": 7,
                          "places": {"kind": "learned", "max_length": 25}, "reader": {"kind": reader}}}
       for reader in registry.FAMILIES["image_reader"]},
}  # fmt: skip
#: Settings that the model hands on to sections which may set them too, and how blocks are run.
APART = {*(f"model.{name}" for name in FLOWS), "model.features.unroll"}
BATCH = {
    "image": jax.ShapeDtypeStruct((2, 9, 9, 3), jnp.uint8),
    "label": jax.ShapeDtypeStruct((2,), jnp.int32),
    "source": jax.ShapeDtypeStruct((2, 6), jnp.int32),
    "target": jax.ShapeDtypeStruct((2, 6), jnp.int32),
}


def probe(config):
    """(start, loss) of a config as text, or the error's name if tracing fails."""
    parts = build_experiment(config)
    task, make = parts.task(), lambda rngs: parts.model(rngs=rngs)
    try:
        structure, *model = abstract(make)
        start = str(jax.make_jaxpr(initializer(make))(jax.random.key(0)))
        loss = lambda model, batch, key: task.loss(structure.merge(*model), batch, key)
        return re.sub(r"0x[0-9a-f]+", "", start + str(jax.make_jaxpr(loss)(model, BATCH, jax.random.key(0))))
    except Exception as error:
        return f"raises {type(error).__name__}"


def leaves(section, family, path):
    """(path, annotation, value) of the scalars in sections of the checked families, and of the model's own scalars."""
    for name, setting in signature(family, section["kind"]).items():
        here = f"{path}.{name}"
        if setting.section is None:
            if family in WALKED or path in ("model", "task"):
                yield here, setting.annotation, section[name]
        elif section[name] is not None and not setting.many:
            yield from leaves(section[name], setting.section.family, here)


def other(annotation, value):
    """Another value of a scalar, or None if there is no other."""
    match annotation:
        case Optional(inner):
            return 3 if value is None else other(inner, value)
        case Choice(values):
            return next((one for one in values if one != value), None)
        case Scalar(base) if base is bool:
            return not value
        case Scalar(base) if base is int:
            return {14: 20, 8: 14}.get(value, value + 2)
        case Scalar(base) if base is float:
            return value / 2 + 0.25
    return None


@pytest.fixture(autouse=True)
def unchecked(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # for speed; other tests check shapes


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n == "cnn" else [pytest.mark.slow]) for n in CONFIGS])
def test_every_setting_matters(name):
    config = resolve(CONFIGS[name])
    first, dead = probe(config), []
    assert not first.startswith("raises"), first
    for section in ("model", "task") if "task" in CONFIGS[name] else ("model",):
        for path, annotation, value in leaves(config.resolved[section], section, section):
            changed = other(annotation, value)
            if changed is None or path in APART:
                continue
            try:
                if probe(config.override([(path, changed)])) == first:
                    dead.append(path)
            except ConfigError:
                continue
    assert dead == []


def test_every_image_kind_occurs_in_a_config():
    there = set()

    def walk(section, family):
        there.add((family, section["kind"]))
        for name, setting in signature(family, section["kind"]).items():
            if setting.section is not None and section[name] is not None and not setting.many:
                walk(section[name], setting.section.family)

    for given in CONFIGS.values():
        walk(resolve(given).resolved, "experiment")
    assert {(family, kind) for family in WALKED for kind in registry.FAMILIES[family]} <= there
    assert {("experiment", "images"), ("experiment", "images_and_words")} <= there


@pytest.mark.parametrize("kind", ["images", "images_and_words"])
def test_settings_flow_into_the_sections_below(kind):
    given = IMAGES if kind == "images" else WORDS
    model = classifier(**CNN)["model"] if kind == "images" else captioner()["model"]
    config = resolve({**given, "model": model, "channels": 1, "data": {"kind": "images", "name": "fashion_images"}})
    data, features = config.resolved["data"], config.resolved["model"]["features"]
    assert (data["side"], data["channels"], features["channels"]) == (9, 1, 1)
    assert np.all([name in config.resolved for name in ("side", "channels")])
