"""The compiled step contains the expected collectives and no others."""

import jax
import numpy as np
import pytest

from attention_research.config import build_experiment, resolve
from attention_research.errors import ConfigError
from attention_research.layers.structure import abstract
from attention_research.parallel.execution import make_mesh
from attention_research.parallel.rules import spec
from tests.layers.test_registry import SETTINGS, VARIANTS, maker
from tests.parallel.losses import AXES, MEMORY, MIXTURE, TRANSFORMER, config
from tests.parallel.programs import on_devices


def bytes_of(found, *kinds):
    return sum(one["bytes"] for one in found["partition"]["collectives"] if one["kind"] in kinds)


MISFITS = {
    "data 2 does not fit 1 device(s): the product is 2; set parallel.mesh.data=-1 for the rest": {"data": 2},
    "data 1 x fsdp 2 does not fit 1 device(s): the product is 2": {"fsdp": 2},
    "data -1 x fsdp 2 x tensor 3 does not fit 1 device(s): 6 does not divide 1": {"data": -1, "fsdp": 2, "tensor": 3},
}


@pytest.mark.parametrize("line", MISFITS)
def test_a_mesh_that_does_not_fit_the_devices_says_what_would(line):
    """`data=-1` is no advice for a mesh that has it, nor if the other axes do not divide the devices."""
    with pytest.raises(ConfigError) as caught:
        make_mesh({**dict.fromkeys(AXES, 1), **MISFITS[line]}, jax.devices()[:1])
    assert str(caught.value) == f"config.parallel.mesh: {line}"


#: The sums of the losses, and the gradients of the tied table, which are summed once for each of its three uses.
LITTLE = 200 + 2 * (32 * 16 * 4)


@pytest.fixture(scope="module")
def transformer():
    meshes = {
        "data": {"data": 8}, "chunks": {"data": 8, "batch_size": 1024}, "fsdp": {"fsdp": 8},
        "both": {"data": 2, "fsdp": 4}, "sequence": {"sequence": 8},
    }  # fmt: skip
    return on_devices(8, "partitions", "transformer", meshes)


def parameters(found, split):
    """Bytes of the parameters that are (or are not) sharded."""
    return sum(
        4 * int(np.prod(array["shape"]))
        for array in found["arrays"]
        if (array["bytes_per_device"] < 4 * np.prod(array["shape"])) == split
    )


@pytest.mark.slow
@pytest.mark.parametrize("mesh", ("data", "chunks"))
def test_data_parallel_sums_the_gradients_once_and_gathers_nothing(transformer, mesh):
    """This also holds if a device computes its logits in two chunks, each with a gradient of the whole table."""
    found = transformer[mesh]
    whole = parameters(found, split=False)
    assert parameters(found, split=True) == 0 and found["partition"]["bytes_per_device"] == found["state_bytes"]
    assert whole <= bytes_of(found, "all-reduce") <= whole + LITTLE
    assert bytes_of(found, "all-gather", "all-to-all", "collective-permute") == 0


@pytest.mark.slow
@pytest.mark.parametrize("mesh", ("fsdp", "both"))
def test_fsdp_gathers_parameters_and_no_activations(transformer, mesh):
    """Each sharded parameter is gathered once in the forward pass and at most once in the backward pass.

    The sums of the gradients, on two axes in two turns, correspond to the reduce-scatters of other backends. A single
    activation has 16 x 16 x 16 floats.
    """
    found = transformer[mesh]
    split, whole = parameters(found, split=True), parameters(found, split=False)
    assert split > 4 * whole
    assert split <= bytes_of(found, "all-gather") <= 2 * split
    turns = {"fsdp": 1.0, "both": 1.0 + 1 / 4}[mesh]
    assert bytes_of(found, "all-reduce") <= turns * (split + whole) + LITTLE
    assert found["partition"]["bytes_per_device"] < found["state_bytes"] / 2
    assert bytes_of(found, "all-to-all", "collective-permute") < 16 * 16 * 16 * 4


@pytest.mark.slow
def test_a_split_sequence_is_gathered_by_standard_attention_and_not_by_the_ring(transformer):
    ring = on_devices(8, "partitions", "ring", {"sequence": {"sequence": 8}})["sequence"]
    whole = parameters(ring, split=False)
    assert bytes_of(transformer["sequence"], "all-gather") > 3 * whole
    assert bytes_of(ring, "all-gather", "all-to-all") == 0
    assert bytes_of(ring, "collective-permute") > whole
    assert bytes_of(ring, "all-reduce") <= whole + LITTLE


@pytest.mark.slow
@pytest.mark.parametrize("model", ("experts", "mixture", "released"))
def test_experts_use_all_to_all_and_no_gathers(model):
    found = on_devices(8, "partitions", model, {"expert": {"data": 2, "expert": 4}})["expert"]
    kinds = {(one["kind"], *one["axes"]) for one in found["partition"]["collectives"]}
    assert ("all-to-all", "expert") in kinds and not any(kind == "all-gather" for kind, *_ in kinds)
    (experts,) = {
        array["sharding"] for array in found["arrays"] if array["name"].endswith("feed_forward.experts.hidden.kernel")
    }
    assert experts == "P(None, 'expert', None, None)"


@pytest.mark.slow
def test_memory_tokens_and_cluster_logits_are_not_communicated():
    """Each device searches for its own tokens, and logits of different clusters are never concatenated."""
    found = on_devices(8, "partitions", "clusters", {"tensor": {"data": 4, "tensor": 2}})["tensor"]
    kinds = {(one["kind"], *one["axes"]) for one in found["partition"]["collectives"]}
    assert ("all-reduce", "data") in kinds and not any(kind == "all-to-all" for kind, *_ in kinds)
    assert not any("data" in axes for kind, *axes in kinds if kind == "all-gather")


#: Family -> the name of its module in a model, which rules may read.
PLACES = {
    "encoder_attention": "encoder.stack.segments.0.self_attention",
    "causal_attention": "decoder.stack.segments.0.self_attention",
    "cross_attention": "decoder.stack.segments.0.cross_attention",
    "feed_forward": "encoder.stack.segments.0.feed_forward",
    "vocabulary": "vocabulary",
}
#: The sizes of a small model in use. Parameters with fewer elements may be on every device.
SIZES = {
    "width": 256, "num_heads": 4, "max_length": 512, "rank": 64, "hidden_width": 1024, "vocabulary_size": 4096,
    "input_width": 256, "query_width": 256, "key_width": 256, "embedding_width": 256, "output_width": 256,
    "attention_width": 256, "latent_width": 64, "cluster_sizes": (1024, 1024, 2048), "cluster_widths": (256, 64, 16),
}  # fmt: skip
FEW = 10_000


@pytest.mark.slow
def test_every_large_parameter_of_every_mechanism_is_split_by_fsdp(monkeypatch):
    for name, size in SIZES.items():
        monkeypatch.setitem(SETTINGS, name, size)
    mesh, whole = dict.fromkeys(AXES, 1) | {"fsdp": 2}, []
    for family, kind in VARIANTS:
        for name, x in abstract(maker(family, kind))[1].items():
            if len(x.shape) > 1 and x.size > FEW:
                axes = spec(f"{PLACES.get(family, family)}.{name}", x.shape, mesh)
                whole += [] if "fsdp" in axes else [(family, kind, name, x.shape)]
    assert not whole


BY_TOKEN, BY_COLUMN, ROWS_OF_FSDP = ("tensor", "fsdp"), ("fsdp", "tensor"), ("fsdp", None)
#: Name -> its axes. A gate is split like the values that it multiplies; those of other parts are not.
NAMED = {
    "self_attention.key_projection": ROWS_OF_FSDP,
    "cross_attention.value_projection": ROWS_OF_FSDP,
    "feed_forward.keys": ROWS_OF_FSDP,
    "alignment.score.query_factor": ROWS_OF_FSDP,
    "self_attention.gate.kernel": BY_COLUMN,
    "self_attention_2.gate.kernel": BY_COLUMN,
    "cross_attention.gate.kernel": BY_COLUMN,
    "feed_forward.gate.kernel": BY_COLUMN,
    "self_attention.linear.kernel": BY_COLUMN,
    "self_attention.decay_up.kernel": BY_COLUMN,
    "self_attention.decay.up_kernel": BY_COLUMN,
    "self_attention.decay_down.kernel": ROWS_OF_FSDP,
    "self_attention.projection.kernel": ROWS_OF_FSDP,  # Hyena's parts side by side, which a split would separate
    "residual.gate.kernel": ROWS_OF_FSDP,
    "self_attention.query.bias": (None, None),
}


@pytest.mark.parametrize("name", NAMED)
def test_axes_by_name(name):
    found = spec(f"decoder.stack.segments.0.{name}", (8, 8), dict.fromkeys(AXES, 2))
    assert tuple(found) == NAMED[name]


CLUSTERS = {"cluster_sizes": (6, 9, 17), "cluster_widths": (16, 8, 4)}
#: Model settings -> array -> its axes if they divide. A head has one more row for each tail; 9 and 17 are odd.
SPLIT = {
    "factorized": (
        {"vocabulary": {"kind": "factorized", "rank": 8}},
        {"factors.table": BY_TOKEN, "factors.projection_kernel": ROWS_OF_FSDP, "output_kernel": BY_COLUMN},
    ),
    "factorized_shared": (
        {"vocabulary": {"kind": "factorized_shared", "rank": 8}},
        {"factors.table": BY_TOKEN, "factors.projection_kernel": ROWS_OF_FSDP},
    ),
    "mixture_of_softmaxes": (
        {"vocabulary": {"kind": "mixture_of_softmaxes", "num_softmaxes": 3}},
        {"table": BY_TOKEN, "mixture_kernel": ROWS_OF_FSDP, "context_kernel": (None, *ROWS_OF_FSDP)},
    ),
} | {
    kind: (
        {"vocabulary": {"kind": kind, **CLUSTERS}},
        {f"clusters.{c}.table": axes for c, axes in enumerate((BY_TOKEN, (None, "fsdp"), (None, "fsdp")))}
        | {f"clusters.{c}.projection_kernel": ROWS_OF_FSDP for c in (1, 2)},
    )
    for kind in ("adaptive_input", "adaptive_softmax")
}  # fmt: skip


def pieces(model):
    """Array -> its axes, for a model with these settings on a mesh with `fsdp` 2 and `tensor` 2."""
    parts = build_experiment(resolve({**config("transformer", 0.0).given, "model": {**TRANSFORMER, **model}}))
    shapes = abstract(lambda rngs: parts.model(rngs=rngs))[1]
    sizes = {**dict.fromkeys(AXES, 1), "fsdp": 2, "tensor": 2}
    return {name: tuple(spec(name, x.shape, sizes)) for name, x in shapes.items()}


def test_a_layers_first_kernels_are_split_by_column_and_its_last_by_row():
    kernels = {n.split(".")[-2]: axes[-2:] for n, axes in pieces({}).items() if ".stack." in n and n.endswith("kernel")}
    first = dict.fromkeys(("query", "key", "value", "hidden"), BY_COLUMN)
    assert kernels == {**first, "output": ("tensor", "fsdp")}


@pytest.mark.parametrize("kind", SPLIT)
def test_vocabularies_are_split_by_token(kind):
    model, wanted = SPLIT[kind]
    of_vocabulary = {f"vocabulary.{name}": axes for name, axes in wanted.items()}
    assert {name: axes for name, axes in pieces(model).items() if name.startswith("vocabulary.")} == of_vocabulary


def test_a_memorys_values_are_split_both_ways():
    """They are most of the model's parameters. Every expert's kernels are split like those of a dense layer."""
    found = pieces({"encoder": {"feed_forward": MEMORY}, "decoder": {"feed_forward": MIXTURE}})
    assert found["encoder.stack.segments.0.feed_forward.table"] == (None, *BY_COLUMN)
    experts = {name: axes[-2:] for name, axes in found.items() if ".experts." in name and name.endswith("kernel")}
    assert sorted(experts.values()) == [BY_COLUMN, BY_TOKEN]


@pytest.mark.long
def test_a_sequence_of_32768_trains_and_memory_follows_the_share_of_a_device():
    """4,096 positions on each of 2, 4 and 8 devices: one device's temporaries stay the same within a twentieth."""
    found = on_devices(8, "long_sequence", 4096, [2, 4, 8], 2)
    assert found["8"]["length"] == 32768
    held = [found[devices]["bytes"] for devices in ("2", "4", "8")]
    assert max(held) < 1.05 * min(held) and min(held) > 4096 * 1024 * 4, held
    losses = found["8"]["losses"]
    assert losses[-1] < losses[0] - 0.1, losses
