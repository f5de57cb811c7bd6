"""Oracle: rows of Narang et al. 2021, Table 1, as Hugging Face's T5 and Switch Transformer with random weights.

The weights are converted here. The tests compare logits, log-likelihoods, balance losses, every gradient, and greedy
decoding through our cache.

Ours are the study's rows over the config's `smoke`, at other sizes. Theirs compute in float64. T5 differs from the
paper's baseline in RMS norms and in feed-forwards without biases: these modules are replaced by PyTorch's LayerNorm and
Linear. Shared layers are one block that occurs several times in the list. A Funnel is made of their T5 layers, with
their Funnel's pooling at the positions of the release. Their own Funnel pools the queries of an attention and uses
Transformer-XL's attention.
"""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.config import build, load
from attention_research.decoding.greedy import Greedy
from attention_research.layers.structure import abstract
from attention_research.studies import load_study
from attention_research.tokens import BOS, EOS, PAD

torch = pytest.importorskip("torch", reason="PyTorch's CPU wheel is for Python 3.11 only")
transformers = pytest.importorskip("transformers", reason="Hugging Face Transformers is not installed")

V, D, N, H, F = 53, 17, 3, 5, 29
SOURCE, TARGET = 23, 19
#: Real tokens of each row. A source ends at a multiple of four tokens, or with the array (see `funnel`).
LENGTHS = {"source": (23, 20, 4, 12), "target": (5, 19, 1, 13)}
#: Lengths for Hugging Face's experts, which give places to padding and count it in the balance; ours do not.
WITHOUT_PADDING = {"source": (SOURCE,) * 4, "target": (TARGET,) * 4}
#: E experts with X hidden units; the weight of the balance losses in ours, and in the loss differentiated here.
E, X, WEIGHT, BALANCE = 3, 11, 0.5, 7.0
EXPERTS = {"num_experts": E, "expert.hidden_width": X, "jitter": 0.0, "num_replicas": 1, "balance_weight": WEIGHT}
#: Row of the study -> changes to its sizes. A group of tokens is a row, as for Hugging Face.
ROWS = {
    "vanilla_transformer": {},
    "geglu": {"model.feed_forward.hidden_width": F},
    "block_sharing": {"model.num_layers": 3},
    "switch_transformer": {
        f"model.{side}.layout.{name}": value
        for side, length in (("encoder", SOURCE), ("decoder", TARGET))
        for name, value in {"interval": 2, "feed_forward.group_size": length,
                            **{f"feed_forward.{name}": value for name, value in EXPERTS.items()}}.items()
    },
    "funnel_transformer": {"model.encoder.num_layers": 6},
}  # fmt: skip
#: Seeds that give greedy outputs of many tokens and several lengths, and use all experts. The tests assert it.
SEEDS = {"vanilla_transformer": 20, "geglu": 35, "block_sharing": 16, "switch_transformer": 38, "funnel_transformer": 1}
LAYERS = {"block_sharing": (3, 3), "funnel_transformer": (6, 2)}
#: Places of an expert in (encoder, decoder): the row's factors 1.2 and 1.25 with a random key, 2 without.
PLACES = {"training": (int(SOURCE * 1.2 / E), int(TARGET * 1.25 / E)), "evaluation": (SOURCE * 2 // E, TARGET * 2 // E)}


def ours_of(row, root):
    """(structure, shapes) of the model of a row."""
    sizes = {"max_length": SOURCE, "vocabulary_size": V, "model.width": D, "model.num_heads": N, "model.head_width": H,
             "model.feed_forward.hidden_width": F}  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        overrides = next(r.overrides for r in load_study("narang2021/table1").rows if r.id == row)
        changes = [*sizes.items(), *overrides.items(), *ROWS[row].items()]
        model = load("configs/text_to_text/narang2021.py:smoke", changes).resolved["model"]
    constructor = build(model, "model")
    return abstract(lambda rngs: constructor(rngs=rngs))[:2]


def theirs_of(row):
    """Their model of a row with random weights. No parameter keeps its initial 0 or 1."""
    layers = LAYERS.get(row, (2, 2))
    sizes = {
        "vocab_size": V, "d_model": D, "d_kv": H, "d_ff": F, "num_heads": N, "dropout_rate": 0.0,
        "num_layers": layers[0], "num_decoder_layers": layers[1],
        "pad_token_id": PAD, "eos_token_id": EOS, "decoder_start_token_id": BOS,
    }  # fmt: skip
    if row == "switch_transformer":
        sparse = {"num_experts": E, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1}
        config = transformers.SwitchTransformersConfig(**sizes, **sparse)
        model = transformers.SwitchTransformersForConditionalGeneration(config)
    else:
        config = transformers.T5Config(**sizes, feed_forward_proj="gated-gelu" if row == "geglu" else "relu")
        model = transformers.T5ForConditionalGeneration(config)
    as_the_baseline(model, layer_norms=("decoder",) if row == "funnel_transformer" else ("encoder", "decoder"))
    if row == "switch_transformer":
        # In the release and in ours, encoder layers and their router read zeros at padding positions.
        model.encoder.block[1].layer[-1].layer_norm.register_forward_hook(lambda *call: call[-1] * model.real)
        for stack in (model.encoder, model.decoder):
            for expert in stack.block[1].layer[-1].mlp.experts.values():
                expert.wi, expert.wo = torch.nn.Linear(D, X, bias=False), torch.nn.Linear(X, D, bias=False)
    if row == "block_sharing":
        for stack in (model.encoder, model.decoder):
            stack.block = torch.nn.ModuleList([stack.block[0]] * len(stack.block))
        model.lm_head, model.config.scale_decoder_outputs = torch.nn.Linear(D, V, bias=False), False
    torch.manual_seed(SEEDS[row])
    with torch.no_grad():
        for name, x in model.named_parameters():
            if x.ndim == 1:
                gain = "norm" in name and name.endswith("weight")
                x.normal_(mean=float(gain), std=0.3 if gain else 0.1)
            else:  # small tied tables keep a random model from repeating its input; relative biases are of order 1
                kind = name.split(".")[-2]
                x.normal_(std={"shared": 0.1, "relative_attention_bias": 1.0}.get(kind, x.shape[-1] ** -0.5))
        if row == "block_sharing":
            model.lm_head.weight[EOS] *= 2
        else:
            model.decoder.final_layer_norm.weight.mul_(10)
            model.shared.weight[EOS] *= 2.5
    return model.double().eval()


def as_the_baseline(model, layer_norms):
    """Replaces the RMS norms of these stacks by layer norms, and adds biases to all feed-forwards except experts."""
    for name, module in list(model.named_modules()):
        for child, old in list(module.named_children()):
            if child.endswith("layer_norm") and name.startswith(layer_norms):
                setattr(module, child, torch.nn.LayerNorm(D, eps=1e-6))
            elif child in ("wi", "wi_0", "wi_1", "wo") and ".experts." not in name:
                setattr(module, child, torch.nn.Linear(old.in_features, old.out_features))


def funnel(model, tokens):
    """(memory, 1 where it is real) of their T5 layers, pooled in the third and the fifth after the self-attention.

    If one of a pair is padding, their pooling averages both and hides the result. LENGTHS avoids such pairs.
    """
    modeling = transformers.models.funnel.modeling_funnel
    pool = modeling.FunnelAttentionStructure(transformers.FunnelConfig(separate_cls=False)).pool_tensor
    stack, real = model.encoder, (tokens != PAD).double()
    x, first = stack.embed_tokens(tokens), stack.block[0].layer[0].SelfAttention
    for number, block in enumerate(stack.block):
        hidden = (1 - real)[:, None, None, :] * torch.finfo(x.dtype).min
        x, *_ = block.layer[0](x, attention_mask=hidden, position_bias=first.compute_bias(x.shape[1], x.shape[1]))
        if number in (2, 4):
            x, real = pool(x, mode="mean"), pool(real, mode="min")
        x = block.layer[1](x)
    return stack.final_layer_norm(x), real.long()


def of_source(pair, tokens):
    """The input of their model for a source."""
    tokens = torch.tensor(tokens)
    if pair.row != "funnel_transformer":
        pair.model.real = (tokens != PAD)[..., None]
        return {"input_ids": tokens, "attention_mask": (tokens != PAD).long()}
    memory, real = funnel(pair.model, tokens)
    memory = transformers.modeling_outputs.BaseModelOutput(last_hidden_state=memory)
    return {"encoder_outputs": memory, "attention_mask": real}


#: Part of our name -> part of theirs.
NAMES = {
    "self_attention": "layer.0.SelfAttention", "cross_attention": "layer.1.EncDecAttention",
    "norm": "layer.0.layer_norm", "norm_2": "layer.1.layer_norm", "norm_3": "layer.2.layer_norm",
    "query": "q", "key": "k", "value": "v", "output": "o", "router": "router.classifier",
    "final_norm": "final_layer_norm", "kernel": "weight", "scale": "weight",
}  # fmt: skip
ALONE = {
    "vocabulary.table": "shared.weight", "vocabulary.output_kernel": "lm_head.weight",
    "encoder.shared.table": "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
    "decoder.self_shared.table": "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
}  # fmt: skip


def converted(pair, of):
    """Our name -> `of` their name (an array), in our layout: layers and experts stacked, kernels [in out]."""
    switch, arrays, layers = pair.row == "switch_transformer", {}, {}
    for name, shape in pair.shapes.items():
        side, *parts = name.split(".")
        get = (lambda their: of(their).T) if name.endswith("kernel") else of
        if name in ALONE or "segments" not in parts:
            arrays[name] = get(ALONE.get(name, ".".join([side, *(NAMES.get(part, part) for part in parts)])))
            continue
        segment, parts, names = int(parts[2]), parts[3:], NAMES
        if parts[0] == "feed_forward":
            place = f"layer.{1 if side == 'encoder' else 2}.{'mlp' if switch else 'DenseReluDense'}"
            hidden = "wi_1" if pair.row == "geglu" else "wi"
            names = {**NAMES, "feed_forward": place, "hidden": hidden, "gate": "wi_0", "output": "wo"}
        their = ".".join(names.get(part, part) for part in parts)
        first = layers.setdefault((side, segment), 0)  # layers before this segment
        layers[side, segment + 1] = first + shape.shape[0]
        ways = [their.replace("experts", f"experts.expert_{e}") for e in range(E)] if "experts" in parts else [their]
        stacked = [np.stack([get(f"{side}.block.{first + l}.{way}") for way in ways]) for l in range(shape.shape[0])]
        arrays[name] = np.stack(stacked).reshape(shape.shape)
    return arrays


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """At these sizes PyTorch's threads cost more time than they save."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


FEW = ("vanilla_transformer",)
MARKED = [pytest.param(row, marks=[] if row in FEW else [pytest.mark.slow]) for row in ROWS]


@pytest.fixture(scope="module", params=MARKED)
def pair(request, root):
    """The same weights in both models: row, their model, our structure, shapes and parameters."""
    structure, shapes = ours_of(request.param, root)
    pair = SimpleNamespace(row=request.param, model=theirs_of(request.param), structure=structure, shapes=shapes)
    named, used = dict(pair.model.named_parameters()), []

    def of(name):
        used.append(name)
        return named[name].detach().numpy()

    pair.parameters = {name: jnp.asarray(x, jnp.float32) for name, x in converted(pair, of).items()}
    assert sorted(used) == sorted(named), "each of their parameters should be used exactly once"
    assert {name: x.shape for name, x in pair.parameters.items()} == {name: x.shape for name, x in shapes.items()}
    return pair


def sentences(lengths, longest, seed):
    """Random tokens, EOS, padding."""
    tokens = np.random.default_rng(seed).integers(4, V, (len(lengths), longest))
    for row, length in enumerate(lengths):
        tokens[row, length - 1], tokens[row, length:] = EOS, PAD
    return tokens


def give_places(pair, mode):
    """Their capacity is a setting of the router."""
    if pair.row == "switch_transformer":
        for stack, places in zip((pair.model.encoder, pair.model.decoder), PLACES[mode], strict=True):
            router = stack.block[1].layer[-1].mlp.router
            router.expert_capacity, router.dtype = places, torch.float64


def their_values(pair, source, target, shifted, mode):
    """(logits, log-likelihoods, balance losses). The gradients are left in their model."""
    switch = pair.row == "switch_transformer"
    given = {"decoder_input_ids": torch.tensor(shifted), "use_cache": False}
    given |= {"output_router_logits": True} if switch else {}
    give_places(pair, mode)
    out = pair.model(**of_source(pair, source), **given)
    log_p = torch.log_softmax(out.logits, -1).gather(-1, torch.tensor(target)[..., None])[..., 0]
    balance = [out.encoder_aux_loss, out.decoder_aux_loss] if switch else []
    pair.model.zero_grad()
    (BALANCE * sum(balance) - log_p[torch.tensor(target != PAD)].sum()).backward()
    return [x.detach().numpy() for x in (out.logits, log_p, *balance)]


def our_values(pair, source, target, shifted, mode):
    """(the same values, gradients, shares of dropped tokens). A key affects the number of places only."""
    key = jax.random.key(0) if mode == "training" else None
    source, target, shifted = (jnp.asarray(x, jnp.int32) for x in (source, target, shifted))

    def loss(parameters):
        model = pair.structure.merge(parameters)
        values, aux = model.log_likelihood({"source": source, "target": target}, key=key)
        sparse = [aux[side]["segment_1"]["feed_forward"] for side in aux] if pair.row == "switch_transformer" else []
        balance = [jnp.mean(layer["loss"]["balance"]) / WEIGHT for layer in sparse]
        dropped = [layer["metrics"]["dropped"] for layer in sparse]
        total = BALANCE * sum(balance, jnp.zeros(())) - jnp.sum(values["log_likelihood"], where=values["mask"])
        return total, ([values["log_likelihood"], *balance], dropped)

    def logits(parameters):
        model = pair.structure.merge(parameters)
        memory = model.encode({"tokens": source}, key=key)
        hidden, _ = model.decoder(
            model.vocabulary.target(shifted), jnp.arange(TARGET, dtype=jnp.int32)[None], None, memory["hidden"],
            model.encoder.memory_mask((source != PAD)[:, None, None, :]), key=key,
        )  # fmt: skip
        return model.vocabulary.logits(hidden)

    both = jax.jit(lambda p: (logits(p), jax.value_and_grad(loss, has_aux=True)(p)))
    of_target, ((_, (values, dropped)), gradients) = both(pair.parameters)
    return [of_target, *values], gradients, dropped


@pytest.mark.slow
def test_logits_losses_and_gradients_are_theirs(pair):
    lengths = WITHOUT_PADDING if pair.row == "switch_transformer" else LENGTHS
    source, target = (sentences(lengths[x], n, seed) for x, n, seed in (("source", SOURCE, 1), ("target", TARGET, 2)))
    batch = source, target, np.concatenate([np.full((len(target), 1), BOS), target[:, :-1]], axis=1)
    named = dict(pair.model.named_parameters())
    for mode in ("training", "evaluation") if pair.row == "switch_transformer" else ("evaluation",):
        theirs, (ours, gradients, dropped) = their_values(pair, *batch, mode), our_values(pair, *batch, mode)
        for want, got in zip(theirs, ours, strict=True):
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-5, err_msg=mode)
        assert mode == "evaluation" or all(share.max() > 0 for share in dropped), "no token was dropped"
        for name, want in converted(pair, lambda name: named[name].grad.numpy()).items():
            largest = np.abs(want).max()
            assert largest > 1e-2, name
            np.testing.assert_allclose(gradients[name], want, rtol=0, atol=3e-5 * max(1, largest), err_msg=name)


def test_greedy_decoding_is_theirs(pair):
    """Through our cache. If all layers share weights, theirs is left out, since it is indexed by layer."""
    source = sentences(LENGTHS["source"], SOURCE, seed=3)
    give_places(pair, "evaluation")
    with torch.no_grad():
        tokens = pair.model.generate(
            **of_source(pair, source), num_beams=1, do_sample=False, max_new_tokens=TARGET, suppress_tokens=[PAD, BOS],
            forced_eos_token_id=EOS, use_cache=pair.row != "block_sharing",
        ).numpy()[:, 1:]  # fmt: skip
    tokens = np.pad(tokens, ((0, 0), (0, TARGET - tokens.shape[1])))
    tokens = np.where(np.cumsum(tokens == EOS, axis=1) - (tokens == EOS) > 0, PAD, tokens)
    greedy = Greedy(extra_length=TARGET)
    run = jax.jit(lambda p, tokens: greedy(pair.structure.merge(p), {"tokens": tokens}, max_length=TARGET))
    assert len(np.unique(tokens)) >= 8 and len(np.unique((tokens != PAD).sum(1))) > 1, "outputs are too similar"
    np.testing.assert_array_equal(run(pair.parameters, jnp.asarray(source, jnp.int32)).tokens[:, 0], tokens)
