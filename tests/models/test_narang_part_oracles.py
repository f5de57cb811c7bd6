"""Oracle: Hugging Face's Switch layer, Funnel pooling and ALBERT with random weights that are converted here.

The tests compare outputs, balance losses and gradients. Where the two definitions differ, each test says how they are
compared.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.config import build
from attention_research.layers.feed_forward.dense import DenseFeedForward
from attention_research.layers.pair_mean import PairMean, halved
from attention_research.layers.structure import abstract
from attention_research.registry import lookup

torch = pytest.importorskip("torch", reason="PyTorch's CPU wheel is for Python 3.11 only")
transformers = pytest.importorskip("transformers", reason="Hugging Face Transformers is not installed")


def close(got, want, name=""):
    """Within 1e-5 of the largest value, or of 1."""
    want = want.detach().numpy() if isinstance(want, torch.Tensor) else want
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * max(1.0, np.abs(want).max()), err_msg=name)


def randomised(module, seed):
    """No parameter keeps its initial 0 or 1. The norms' gains are near 1."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, x in module.named_parameters():
            mean, std = float(x.ndim == 1 and "norm" in name.lower() and name.endswith("weight")), x.shape[-1] ** -0.5
            x.normal_(mean=mean, std=0.3 if x.ndim == 1 else std)
    return module.eval()


# The Switch layer.

ROWS, LENGTH, WIDTH, EXPERTS, HIDDEN = 4, 22, 7, 3, 11
#: Kind and settings of our layer, whether a random key is given, and the groups of tokens and places of an expert.
SWITCHES = {
    "switch_drops": ("switch", {"capacity_factor": 0.9}, False, ROWS, 6),
    "switch_with_places_for_all": ("switch", {"capacity_factor": 3.0}, False, ROWS, 22),
    "released_in_training": ("switch_released", {"group_size": 44, "capacity_factor": 0.9}, True, 2, 13),
    "released_in_evaluation": ("switch_released", {"evaluation_capacity_factor": 0.8}, False, 1, 23),
    "released_on_four_replicas": ("switch_released", {"num_replicas": 4}, True, 4, 9),
}


@pytest.mark.parametrize("case", SWITCHES)
def test_switch_layers_are_theirs(case):
    """Compares outputs, balance losses, and gradients of router, experts and input.

    Outputs show which tokens are dropped.

    Their capacity is a number of places for a group of tokens, which is a row. They therefore get our groups as rows
    and our numbers. The balance loss is their auxiliary loss times `balance_weight`, for each group, while theirs is
    the mean. Jitter is off, since theirs reaches the experts too and ours only the router. Both route padding.
    """
    kind, settings, with_key, groups, places = SWITCHES[case]
    expert = functools.partial(DenseFeedForward, width=WIDTH, hidden_width=HIDDEN, use_bias=False)
    settings = {**settings, **({"jitter": 0.0} if kind == "switch_released" else {}), "balance_weight": 0.5}
    make = functools.partial(lookup("feed_forward", kind), width=WIDTH, num_experts=EXPERTS, expert=expert, **settings)
    structure, shapes, _ = abstract(lambda rngs: make(rngs=rngs))
    modeling = transformers.models.switch_transformers.modeling_switch_transformers
    config = transformers.SwitchTransformersConfig(
        d_model=WIDTH, d_ff=HIDDEN, num_experts=EXPERTS, expert_capacity=places, dropout_rate=0.0
    )
    layer = randomised(modeling.SwitchTransformersSparseMLP(config), seed=0)
    rng = np.random.default_rng(0)
    x, cotangent = rng.standard_normal((2, ROWS, LENGTH, WIDTH)).astype(np.float32)

    # Theirs, run for every group separately, so that each has its own balance.
    read = torch.tensor(x).reshape(groups, -1, WIDTH).requires_grad_()
    y, (dispatched, _, logits) = layer(read), layer.router(read)
    balance = torch.stack(
        [modeling.load_balancing_loss_func(p, p.argmax(-1)) for p in torch.softmax(logits, -1)[:, None]]
    )
    ((y * torch.tensor(cotangent).reshape(y.shape)).sum() + balance.sum()).backward()
    dropped = 1 - dispatched.sum(-1).float().mean(-1)
    assert ("for_all" in case) == (dropped.max() == 0), "the number of places should be that of the case"
    assert dispatched.sum((0, 1)).min() > 0, "every expert should be chosen"

    def weights(of):
        wide = {"hidden": "wi", "output": "wo"}
        experts = {
            f"experts.{ours}.kernel": np.stack([of(getattr(e, theirs).weight).T for e in layer.experts.values()])
            for ours, theirs in wide.items()
        }
        return {"router.kernel": of(layer.router.classifier.weight).T, **experts}

    parameters = weights(lambda weight: weight.detach().numpy())
    assert {name: p.shape for name, p in parameters.items()} == {name: s.shape for name, s in shapes.items()}

    def ours(parameters, x):
        key = {"key": jax.random.key(0)} if with_key else {}
        y, aux = structure.merge(parameters)(x, **key)
        balance = aux["loss"]["balance"] / 0.5
        # A row's balance is that of its group, so the sum over groups is the sum over rows divided by the rows in a
        # group.
        return jnp.sum(y * cotangent) + jnp.sum(balance) * groups / ROWS, (y, balance, aux["metrics"]["dropped"])

    run = jax.jit(jax.value_and_grad(ours, argnums=(0, 1), has_aux=True))
    (_, (got, got_balance, got_dropped)), (gradients, of_x) = run(jax.tree.map(jnp.asarray, parameters), jnp.asarray(x))
    close(got, y.reshape(x.shape))
    close(got_balance, balance.repeat_interleave(ROWS // groups))
    close(got_dropped, dropped.repeat_interleave(ROWS // groups))
    close(of_x, read.grad.reshape(x.shape))
    for name, want in weights(lambda weight: weight.grad.numpy()).items():
        close(gradients[name], want, name)


# The Funnel's pooling.


@pytest.mark.parametrize("length", [14, 13, 1])
def test_pooling_is_theirs(length):
    """The pooling of states and masks in pairs, without a separate <cls>. A single last state is its own mean.

    If one of a pair is padding, our result is the real one. Theirs is the mean of both, which they then hide (they pool
    the mask by "min", we by "max"). The mean of the real ones is therefore their mean of (state times real) divided by
    their mean of (real). Their encoder pools the query of a block's first attention. The release of Narang et al. pools
    the output of that attention with its residual. Their attention is Transformer-XL's. test_narang_oracles tests the
    pooling between T5's layers.
    """
    modeling = transformers.models.funnel.modeling_funnel
    pool = modeling.FunnelAttentionStructure(transformers.FunnelConfig(separate_cls=False)).pool_tensor
    rng, rows = np.random.default_rng(length), 5
    x, cotangent = rng.standard_normal((rows, length, 3)), rng.standard_normal((rows, (length + 1) // 2, 3))
    real = np.arange(length) < np.array([length, 7, 8, 1, 0])[:, None]
    means = functools.partial(PairMean(rngs=nnx.Rngs(0)), real=jnp.asarray(real))
    whole = functools.partial(PairMean(rngs=nnx.Rngs(0)), real=jnp.ones_like(real))
    ours, there = jnp.asarray(x, jnp.float32), torch.tensor(real).float()
    theirs = torch.tensor(x, dtype=torch.float32, requires_grad=True)

    close(whole(ours)[0], pool(theirs, mode="mean"))
    of_real = pool(theirs * there[..., None], mode="mean") / pool(there, mode="mean").clamp(min=0.5)[..., None]
    close(means(ours)[0], of_real)
    np.testing.assert_array_equal(halved(jnp.asarray(real)), pool(there, mode="max").numpy() > 0)
    (of_real * torch.tensor(cotangent)).sum().backward()
    close(jax.grad(lambda x: jnp.sum(means(x)[0] * jnp.asarray(cotangent, jnp.float32)))(ours), theirs.grad)


# ALBERT.

POSITIONS, PROJECTION = "encoder.positions.table", "vocabulary.factors.projection_kernel"


def albert():
    """Their model without the norm between the factors, which our vocabularies do not have."""
    config = transformers.AlbertConfig(
        vocab_size=31, embedding_size=5, hidden_size=15, num_hidden_layers=3, num_hidden_groups=1, inner_group_num=1,
        num_attention_heads=3, intermediate_size=19, max_position_embeddings=13, pad_token_id=0,
    )  # fmt: skip
    model = transformers.AlbertModel(config, add_pooling_layer=False)
    model.embeddings.LayerNorm = torch.nn.Identity()
    return randomised(model, seed=0)


def from_albert(of):
    """Our name -> `of` their parameter, for all arrays except the positions."""
    layer = "encoder.albert_layer_groups.0.albert_layers.0."
    linear = {
        **{f"self_attention.{ours}": f"attention.{ours}" for ours in ("query", "key", "value")},
        "self_attention.output": "attention.dense", "feed_forward.hidden": "ffn", "feed_forward.output": "ffn_output",
    }  # fmt: skip
    norms = {"norm": "attention.LayerNorm", "norm_2": "full_layer_layer_norm"}
    kernels = {f"{ours}.kernel": of(f"{layer}{theirs}.weight").T for ours, theirs in linear.items()}
    scales = {f"{ours}.scale": of(f"{layer}{theirs}.weight") for ours, theirs in norms.items()}
    biases = {f"{ours}.bias": of(f"{layer}{theirs}.bias") for ours, theirs in (linear | norms).items()}
    shared = {f"encoder.stack.segments.0.{name}": x[None] for name, x in {**kernels, **scales, **biases}.items()}
    return {**shared, "vocabulary.factors.table": of("embeddings.word_embeddings.weight")}


@pytest.mark.slow
def test_one_layers_weights_three_times_are_alberts(small_config):
    """Hidden states and gradients of `stack` "shared" behind factorized embeddings, with some padded rows.

    Their positions and token types are added before the projection W and its bias b: (E1[ids] + P + t) W + b. Ours are
    added after it, as a table (P + t) W + b. By the chain rule the gradients of P, t, b and W follow from those of that
    table and of E2 = W. The gradient of a shared weight is the sum over its three applications.
    """
    section = small_config(
        kind="transformer_encoder", vocabulary_size=31, max_length=13, width=15, num_heads=3, num_layers=3,
        dropout_rate=0.0, feed_forward={"hidden_width": 19, "activation": "gelu"}, positions={"kind": "learned"},
        norm={"kind": "layer_norm", "epsilon": 1e-12}, vocabulary={"kind": "factorized_shared", "rank": 5},
        encoder={"stack": {"kind": "shared"}},
    ).resolved["model"]  # fmt: skip
    constructor, model = build(section, "model"), albert()
    structure, shapes, _ = abstract(lambda rngs: constructor(rngs=rngs))
    theirs = {name: x.detach().numpy() for name, x in model.named_parameters()}
    into, positions, types = (
        theirs[name] for name in ("encoder.embedding_hidden_mapping_in.weight",
                                  "embeddings.position_embeddings.weight", "embeddings.token_type_embeddings.weight")
    )  # fmt: skip
    inside = positions + types[0]
    parameters = {
        **from_albert(theirs.__getitem__),
        PROJECTION: into.T,
        POSITIONS: inside @ into.T + theirs["encoder.embedding_hidden_mapping_in.bias"],
    }
    assert {name: x.shape for name, x in parameters.items()} == {name: x.shape for name, x in shapes.items()}

    rng = np.random.default_rng(0)
    tokens, cotangent = rng.integers(4, 31, (4, 11)), rng.standard_normal((4, 11, 15)).astype(np.float32)
    padding = np.arange(11) >= np.array([11, 7, 2, 10])[:, None]
    tokens[padding], cotangent[padding] = 0, 0  # their table gets no gradient from padding
    hidden = model(torch.tensor(tokens), attention_mask=torch.tensor(tokens != 0).long()).last_hidden_state
    (hidden * torch.tensor(cotangent)).sum().backward()
    wanted = {name: x.grad.numpy() for name, x in model.named_parameters()}

    def loss(parameters):
        memory = structure.merge(parameters).encode({"tokens": jnp.asarray(tokens, jnp.int32)})
        return jnp.sum(memory["hidden"] * cotangent), memory["hidden"]

    (_, ours), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(jax.tree.map(jnp.asarray, parameters))
    close(ours, hidden)
    for name, want in from_albert(wanted.__getitem__).items():
        close(np.asarray(gradients[name]), want, name)
    of_table, of_kernel = (np.asarray(gradients[name]) for name in (POSITIONS, PROJECTION))
    close(of_table @ into, wanted["embeddings.position_embeddings.weight"], "positions")
    close(of_table.sum(0) @ into, wanted["embeddings.token_type_embeddings.weight"][0], "token types")
    close(of_table.sum(0), wanted["encoder.embedding_hidden_mapping_in.bias"], "bias")
    close((of_kernel + inside.T @ of_table).T, wanted["encoder.embedding_hidden_mapping_in.weight"], "projection")
