"""Every setting that must divide by a mesh axis: a mistake is one line with its key, and exit status 2."""

import jax
import jax.numpy as jnp
import pytest

from attention_research.config import ConfigError, build_model
from attention_research.constraints.execution import ON_A_SHARE, ROW_AXES
from attention_research.layers.structure import abstract
from attention_research.parallel.rules import ROWS, SEQUENCE
from attention_research.registry import FAMILIES
from tests.parallel.programs import on_devices

TRANSLATION = "translation/transformer:smoke"
VISION, CLASS_TOKEN = "images/vision_transformer:smoke", ["model.pooling=class_token", "model.max_length=17"]
MEMORY = {"kind": "product_key_memory", "num_keys": 8, "key_width": 8, "knn": 4}
PERCEIVER = {"kind": "perceiver", "num_latents": 6, "feed_forward": MEMORY}
FUNNEL = {"kind": "funnel", "blocks": 3, "num_layers": 3, "feed_forward": MEMORY}
RING_FUNNEL = {"kind": "funnel", "blocks": 3, "num_layers": 6, "self_attention": "ring"}
SLOTS = {"kind": "slots", "num_slots": 6, "feed_forward": MEMORY}
SIX = "training.batch_size=6"
ROWS_OF_BATCH = "config.training.batch_size: expected a multiple of "
#: Case -> (config, overrides, the error on four devices). Devices that the config does not count are the machine's.
MISTAKES = {
    "data": (
        TRANSLATION, [SIX, "parallel.mesh.data=4"],
        f"{ROWS_OF_BATCH}4, because parallel.mesh.data is 4; got 6; did you mean 4 or 8?"),
    "data of the machine": (
        TRANSLATION, [SIX], f"{ROWS_OF_BATCH}4, because parallel.mesh.data is 4; got 6; did you mean 4 or 8?"),
    "fsdp": (
        TRANSLATION, [SIX, "parallel.mesh.fsdp=4"],
        f"{ROWS_OF_BATCH}4, because parallel.mesh.fsdp is 4; got 6; did you mean 4 or 8?"),
    "expert": (
        TRANSLATION, ["training.batch_size=3", "parallel.mesh.expert=4"],
        f"{ROWS_OF_BATCH}4, because parallel.mesh.expert is 4; got 3; did you mean 4?"),
    "two axes": (
        TRANSLATION, [SIX, "parallel.mesh.fsdp=2"],
        f"{ROWS_OF_BATCH}4, because parallel.mesh.data is 2 and parallel.mesh.fsdp is 2; got 6; did you mean 4 or 8?"),
    "a part of a batch": (
        TRANSLATION, ["training.batch_size=12", "training.accumulation_steps=2"],
        f"{ROWS_OF_BATCH}8, because parallel.mesh.data is 4 and training.accumulation_steps is 2; got 12; "
        "did you mean 8 or 16?"),
    "replicas": (
        TRANSLATION, [SIX, "training.replicas=2"],
        f"{ROWS_OF_BATCH}4, because parallel.mesh.data is 4; got 6; did you mean 4 or 8?"),
    "pmap": (
        TRANSLATION, [SIX, "parallel.strategy=pmap"],
        f"{ROWS_OF_BATCH}4, because pmap splits the rows over 4 devices; got 6; did you mean 4 or 8?"),
    "a part of a batch under pmap": (
        TRANSLATION, ["training.batch_size=12", "training.accumulation_steps=2", "parallel.strategy=pmap"],
        f"{ROWS_OF_BATCH}8, because pmap splits the rows over 4 devices and training.accumulation_steps is 2; got 12; "
        "did you mean 8 or 16?"),
    "length": (
        TRANSLATION, ["max_length=30", "data.batching.boundaries=30,", "parallel.mesh.sequence=4"],
        "config.parallel.mesh.sequence: expected a divisor of the length of batches, 30; got 4; did you mean 3 or 5?"),
    "lengths of buckets": (
        TRANSLATION, ["max_length=30", "data.batching.boundaries=12,30", "parallel.mesh.sequence=4"],
        "config.parallel.mesh.sequence: expected a divisor of the lengths of batches, 12 and 30; got 4; "
        "did you mean 3 or 6?"),
    "patches": (
        VISION, [*CLASS_TOKEN, "model.self_attention.kind=ring", "parallel.mesh.sequence=4"],
        "config.parallel.mesh.sequence: expected a divisor of the length of config.model (max_length), which ring "
        "splits, 17; got 4; did you mean 1 or 17?"),
    "latents": (
        TRANSLATION, [f"model.encoder={PERCEIVER}", "parallel.mesh.sequence=4"],
        "config.parallel.mesh.sequence: expected a divisor of the length of config.model.encoder (num_latents), which "
        "product_key_memory splits, 6; got 4; did you mean 3 or 6?"),
    "slots": (
        TRANSLATION, [f"model.encoder={SLOTS}", "parallel.mesh.sequence=4"],
        "config.parallel.mesh.sequence: expected a divisor of the length of config.model.encoder (num_slots), which "
        "product_key_memory splits, 6; got 4; did you mean 3 or 6?"),
    "pooled states": (
        TRANSLATION, [f"model.encoder={FUNNEL}", "max_length=60", "data.batching.boundaries=60,",
                      "parallel.mesh.sequence=4"],
        "config.parallel.mesh.sequence: expected a divisor of the lengths of config.model.encoder (blocks), which "
        "product_key_memory splits, 15 and 30; got 4; did you mean 3 or 5?"),
    "pooled patches": (
        VISION, ["model.pooling=mean", "model.max_length=16", f"model.encoder={RING_FUNNEL}",
                 "parallel.mesh.sequence=8"],
        "config.parallel.mesh.sequence: expected a divisor of the lengths of config.model.encoder (blocks), which "
        "ring splits, 4 and 8; got 8; did you mean 4?"),
    "parameters": (
        "compositional/scan:smoke", ["parallel.mesh.tensor=4"],
        "config.parallel.mesh.tensor: 4 divides no parameter of the model, so that 4 devices would do the same work; "
        "choose a divisor of its widths, or give the devices to data"),
    "devices": (
        TRANSLATION, ["parallel.mesh.sequence=3"],
        "config.parallel.mesh: data -1 x sequence 3 does not fit 4 device(s): 3 does not divide 4"),
}  # fmt: skip


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    commands = [[config, overrides] for config, overrides, _ in MISTAKES.values()]
    found = on_devices(4, "mistakes", str(tmp_path_factory.mktemp("division")), commands)
    return dict(zip(MISTAKES, found, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("case", MISTAKES)
def test_what_a_mesh_does_not_divide_is_one_line(case, said):
    status, errors = said[case]
    *_, last = errors.splitlines()  # after the line of the config's name, if the devices are those of the machine
    assert (status, last) == (2, f"error: {MISTAKES[case][2]}")


def test_the_rows_of_a_batch_have_the_axes_of_the_rules():
    assert ROW_AXES == ROWS


TEXT = {"source": jnp.full((2, 12), 5, jnp.int32), "target": jnp.full((2, 12), 5, jnp.int32)}
PICTURES = {"image": jnp.zeros((2, 10, 10, 3), jnp.uint8), "target": TEXT["target"]}
CELLS = {"features": {"kind": "cnn", "width": 3, "num_layers": 2, "halvings": 1}}
#: Layers that split states whose number only the model knows -> (its section, a batch, the message).
WITHIN = {
    "memory of pooled states": (
        {"kind": "transformer", "encoder": {**FUNNEL, "blocks": 2, "num_layers": 2}}, TEXT,
        "ProductKeyMemory splits, 6;"),
    "ring of pooled states": (
        {"kind": "transformer", "encoder": {**RING_FUNNEL, "blocks": 2, "num_layers": 4}}, TEXT,
        "RingAttention splits, 6;"),
    "memory of cells": (
        {"kind": "transformer_captioner", **CELLS, "encoder": {"feed_forward": MEMORY}}, PICTURES,
        "ProductKeyMemory splits, 25;"),
    "ring of cells": (
        {"kind": "transformer_captioner", **CELLS, "encoder": {"self_attention": "ring"}}, PICTURES,
        "RingAttention splits, 25;"),
}  # fmt: skip


#: Kinds of feed-forwards with the settings that they need. The kinds that split states have cases above.
FEED_FORWARDS = {
    **{kind: {"kind": kind} for kind in FAMILIES["feed_forward"]},
    **{kind: {"kind": kind, "hidden_width": 5} for kind in ("dense", "gated", "shifted")},
    **{kind: {"kind": kind, "num_experts": 4, "expert": {"kind": "dense", "hidden_width": 5}}
       for kind in ("switch", "switch_released", "mixture_of_experts")},
}  # fmt: skip


def traced(section, batch):
    """Traces the log-likelihood of a model on a mesh with four devices along `sequence`, without these devices."""
    sizes = {"width": 8, "num_heads": 2, "num_layers": 1, "feed_forward": {"hidden_width": 5}}
    make = build_model({**sizes, **section}, max_length=32, vocabulary_size=11, side=10, channels=3)
    structure, *arrays = abstract(lambda rngs: make(rngs=rngs))
    axes = (*ROWS, "tensor", SEQUENCE)
    mesh = jax.sharding.AbstractMesh((*[1] * (len(axes) - 1), 4), axes, (jax.sharding.AxisType.Auto,) * len(axes))
    with jax.sharding.use_abstract_mesh(mesh):
        jax.eval_shape(lambda arrays: structure.merge(*arrays).log_likelihood(batch), arrays)


@pytest.mark.parametrize("case", WITHIN)
def test_states_within_a_model_that_a_mesh_does_not_divide_are_named(case):
    section, batch, message = WITHIN[case]
    with pytest.raises(ConfigError, match=rf"^config.parallel.mesh.sequence: expected a divisor of .* {message}"):
        traced(section, batch)


@pytest.mark.parametrize("kind", [kind for kind in FAMILIES["feed_forward"] if kind not in ON_A_SHARE])
def test_other_feed_forwards_take_any_number_of_pooled_states(kind):
    traced({"kind": "transformer", "encoder": {**RING_FUNNEL, "self_attention": "standard", "blocks": 2,
                                               "feed_forward": FEED_FORWARDS[kind]}}, TEXT)  # fmt: skip
