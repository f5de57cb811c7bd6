"""Oracle: Hugging Face's BERT, GPT-2, T5 and Marian in PyTorch with random weights, saved by them and loaded here."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from attention_research.decoding.continuation import Continued
from attention_research.decoding.greedy import Greedy
from attention_research.errors import ConfigError
from attention_research.tokens import BOS, EOS, PAD
from attention_research.weights import load

torch = pytest.importorskip("torch", reason="PyTorch's CPU wheel is for Python 3.11 only")
transformers = pytest.importorskip("transformers", reason="Hugging Face Transformers is not installed")

V, D, N, F, LENGTH = 53, 20, 5, 29, 17


def bert(head=True, tied=True, **settings):
    config = transformers.BertConfig(
        vocab_size=V, hidden_size=D, num_hidden_layers=3, num_attention_heads=N, intermediate_size=F,
        max_position_embeddings=LENGTH, pad_token_id=4, layer_norm_eps=1e-3,
        tie_word_embeddings=tied, **settings,
    )  # fmt: skip
    return transformers.BertForMaskedLM(config) if head else transformers.BertModel(config, add_pooling_layer=False)


def gpt2():
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=V, n_embd=D, n_layer=3, n_head=N, n_inner=F, n_positions=LENGTH,
                                bos_token_id=V - 1, eos_token_id=V - 1)
    )  # fmt: skip


def t5(proj="relu", tied=True):
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            vocab_size=V, d_model=D, d_kv=7, d_ff=F, num_layers=3, num_decoder_layers=2, num_heads=N,
            relative_attention_num_buckets=8, relative_attention_max_distance=9, feed_forward_proj=proj,
            tie_word_embeddings=tied, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0,
        )
    )  # fmt: skip


def marian():
    model = transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=V, d_model=D, encoder_layers=3, decoder_layers=2, encoder_attention_heads=N,
            decoder_attention_heads=2, encoder_ffn_dim=F, decoder_ffn_dim=F + 2, activation_function="swish",
            scale_embedding=True, max_position_embeddings=LENGTH, pad_token_id=V - 1, eos_token_id=0,
            decoder_start_token_id=V - 1, forced_eos_token_id=None,
        )
    )  # fmt: skip
    model.final_logits_bias.normal_()
    return model


MAKERS = {
    "bert": bert,
    "gpt2": gpt2,
    "t5": t5,
    "t5-unscaled": lambda: t5("gated-gelu", tied=False),
    "t5-1.1": lambda: t5("gated-gelu", tied=False),
    "marian": marian,
}


def saved(make, folder, dtype=None):
    """Their model as it saves itself. No parameter keeps its initial value of 0 or 1."""
    torch.manual_seed(1)
    model = make().eval()
    with torch.no_grad():
        for name, x in model.named_parameters():
            if not x.requires_grad:  # Marian's sinusoids, which are not stored
                continue
            x.add_(0.3 * torch.randn_like(x)) if x.ndim == 1 else x.normal_(std=1.5 * x.shape[-1] ** -0.5)
            if "norm" in name.lower() and x.ndim == 1 and name.endswith("weight"):
                assert x.mean() > 0.5, name
    model = model if dtype is None else model.to(dtype)
    model.save_pretrained(folder)
    return model.float()


#: T5's first form and Marian together cover these.
SLOW = ("t5-unscaled", "t5-1.1")


@pytest.fixture(
    scope="module", params=[pytest.param(kind, marks=[pytest.mark.slow] * (kind in SLOW)) for kind in MAKERS]
)
def both(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    model = saved(MAKERS[request.param], folder)
    if request.param == "t5-1.1":  # Transformers 5 ties the arrays it saves; in Google's files they are not tied
        model.lm_head.weight = torch.nn.Parameter(torch.randn(V, D) * D**-0.5)
        arrays = {**load_file(folder / "model.safetensors"), "lm_head.weight": model.lm_head.weight.detach().numpy()}
        save_file(arrays, folder / "model.safetensors")
    return request.param, model, load(folder)


def their_ids(rows=3, length=11, *, free=(0, 1, 4, V - 1)):
    """Random token ids of theirs without special roles."""
    ids = [token for token in range(V) if token not in free]
    return np.random.default_rng(0).choice(ids, (rows, length))


def in_ours(loaded, theirs):
    return jnp.asarray(np.vectorize(loaded.numbering.ours.__getitem__)(theirs), jnp.int32)


def logits_of_theirs(kind, model, source, target):
    """[B T V] in PyTorch, for a target that starts with BOS."""
    source, target = torch.tensor(source), torch.tensor(target)
    with torch.no_grad():
        if kind == "bert":
            return model(input_ids=source).logits.numpy()
        if kind == "gpt2":
            return model(input_ids=target).logits.numpy()
        return model(input_ids=source, decoder_input_ids=target).logits.numpy()


def test_logits_are_theirs_in_our_order(both):
    kind, model, loaded = both
    source, target = their_ids(), their_ids(length=7)
    begin = loaded.numbering.theirs[BOS]
    shifted = target if begin is None else np.concatenate([np.full((3, 1), begin), target[:, :-1]], axis=1)
    want = logits_of_theirs(kind, model, source, shifted)
    ours = {"source": in_ours(loaded, source), "target": in_ours(loaded, target)}
    if kind == "bert":
        ours["target"] = ours["source"]

    @jax.jit
    def run(parameters):
        model = loaded.structure.merge(parameters)
        values, _ = model.log_likelihood(ours)
        x = {"tokens": ours["source"]}
        if kind == "bert":
            return values["log_likelihood"], model.vocabulary.logits(model.encode(x)["hidden"])
        tokens = jnp.concatenate([jnp.full((3, 1), BOS, jnp.int32), ours["target"][:, :-1]], axis=1)
        places = jnp.arange(7, dtype=jnp.int32)[None]
        rest = () if kind == "gpt2" else (model.encode(x)["hidden"], jnp.ones((3, 1, 1, 11), bool))
        hidden, _ = model.decoder(model.vocabulary.target(tokens), places, None, *rest)
        return values["log_likelihood"], model.vocabulary.logits(hidden)

    likelihood, found = run(loaded.parameters)
    real = np.flatnonzero(~np.array(loaded.numbering.silent))
    theirs = [loaded.numbering.theirs[row] for row in real]
    assert sorted(theirs) == list(range(V)), "each of their tokens occurs once"
    assert np.abs(want).max() > 1
    np.testing.assert_allclose(np.asarray(found)[..., real], want[..., theirs], rtol=0, atol=1e-4)
    asked = source if kind == "bert" else target
    logs = want - np.log(np.exp(want).sum(axis=-1, keepdims=True))
    np.testing.assert_allclose(likelihood, np.take_along_axis(logs, asked[..., None], -1)[..., 0], rtol=0, atol=1e-4)


def test_tokens_that_are_never_written_have_probability_zero(both):
    _, _, loaded = both
    silent = [row for row, quiet in enumerate(loaded.numbering.silent) if quiet]
    name = next(name for name in loaded.parameters if name in ("vocabulary.bias", "vocabulary.output_bias"))
    assert silent and (np.asarray(loaded.parameters[name])[silent] == -1e4).all()


@pytest.mark.slow
def test_gpt2_continues_prompts_as_theirs(tmp_path):
    model = saved(gpt2, tmp_path)
    loaded, end = load(tmp_path), V - 1
    prompts = [their_ids(1, length)[0] for length in (2, 5, 9)]
    rows = np.zeros((3, 10), np.int32)
    for row, prompt in zip(rows, prompts, strict=True):
        row[: len(prompt) + 1] = [*in_ours(loaded, prompt), EOS]
    merge = lambda parameters: Continued(loaded.structure.merge(parameters))
    run = jax.jit(lambda parameters: Greedy()(merge(parameters), {"tokens": jnp.asarray(rows)}, max_length=LENGTH))
    found = np.asarray(run(loaded.parameters).tokens)[:, 0]
    for ours, prompt in zip(found, prompts, strict=True):
        tokens = [end, *prompt]
        while len(tokens) < LENGTH and (len(tokens) == len(prompt) + 1 or tokens[-1] != end):
            with torch.no_grad():
                tokens.append(int(model(torch.tensor([tokens])).logits[0, -1].argmax()))
        theirs = [EOS if token == end else int(in_ours(loaded, token)) for token in tokens[1:]]
        assert ours[: len(theirs)].tolist() == theirs and len(theirs) > len(prompt)


def test_a_sentence_encoder_without_a_head_has_their_hidden_states(tmp_path):
    model = saved(lambda: bert(head=False), tmp_path)
    loaded, ids = load(tmp_path), their_ids()
    with torch.no_grad():
        want = model(input_ids=torch.tensor(ids)).last_hidden_state.numpy()
    tokens = in_ours(loaded, ids)
    hidden = jax.jit(lambda p: loaded.structure.merge(p).encode({"tokens": tokens})["hidden"])(loaded.parameters)
    np.testing.assert_allclose(hidden, want, rtol=0, atol=1e-4)
    assert loaded.config.resolved["model"]["vocabulary"]["kind"] == "unscaled"


def test_padding_is_masked_as_in_theirs(tmp_path):
    model, ids = saved(bert, tmp_path), their_ids()
    loaded = load(tmp_path)
    padded = ids.copy()
    padded[1:, 6:] = 4
    with torch.no_grad():
        want = model.bert(torch.tensor(padded), torch.tensor(padded != 4).long()).last_hidden_state.numpy()
    tokens = in_ours(loaded, padded)
    assert (np.asarray(tokens)[1:, 6:] == PAD).all()
    hidden = jax.jit(lambda p: loaded.structure.merge(p).encode({"tokens": tokens})["hidden"])(loaded.parameters)
    np.testing.assert_allclose(np.asarray(hidden)[padded != 4], want[padded != 4], rtol=0, atol=1e-4)


def test_several_files_of_bfloat16_are_one_model(tmp_path):
    model = saved(gpt2, tmp_path / "one", torch.bfloat16)
    model.to(torch.bfloat16).save_pretrained(tmp_path / "many", max_shard_size="10KB")
    assert (tmp_path / "many" / "model.safetensors.index.json").exists()
    one, many = load(tmp_path / "one"), load(tmp_path / "many")
    for name, x in one.parameters.items():
        np.testing.assert_array_equal(x, many.parameters[name])
        assert x.dtype == jnp.float32


def test_former_names_of_norms_are_read(tmp_path):
    saved(bert, tmp_path)
    before = load(tmp_path).parameters
    arrays = load_file(tmp_path / "model.safetensors")
    old = {name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): x
           for name, x in arrays.items()}  # fmt: skip
    assert old.keys() != arrays.keys()
    save_file(old, tmp_path / "model.safetensors")
    for name, x in load(tmp_path).parameters.items():
        np.testing.assert_array_equal(x, before[name])


def refused(folder, **changes):
    path = folder / "config.json"
    before = path.read_text()
    path.write_text(json.dumps({**json.loads(before), **changes}))
    with pytest.raises(ConfigError) as raised:
        load(folder)
    path.write_text(before)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_unsupported_checkpoints_are_refused_in_one_line(tmp_path):
    saved(gpt2, tmp_path)
    assert "model_type is 'llama'; expected one of bert, gpt2, marian, t5" in refused(tmp_path, model_type="llama")
    assert "activation_function is 'mish'; expected one of gelu" in refused(tmp_path, activation_function="mish")
    inverse = refused(tmp_path, scale_attn_by_inverse_layer_idx=True)
    assert inverse.endswith("scale_attn_by_inverse_layer_idx is True; ours has False")
    assert "no tensor transformer.h.3" in refused(tmp_path, n_layer=4)
    assert "feed_forward.hidden.bias is (3, 30) in our model and (3, 29)" in refused(tmp_path, n_inner=30)
    (tmp_path / "model.safetensors").write_bytes(b"no such thing")
    assert "no safetensors file" in refused(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    assert "pytorch_model.bin is a pickle, which may run code; save the model as safetensors" in refused(tmp_path)
    (tmp_path / "pytorch_model.bin").unlink()
    assert "no model.safetensors there" in refused(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ConfigError, match=r"config\.json: no JSON"):
        load(tmp_path)
    with pytest.raises(ConfigError, match=r"no config\.json there; expected a folder as save_pretrained writes it"):
        load(tmp_path / "nowhere")


def test_a_bert_with_an_output_matrix_of_its_own_is_refused(tmp_path):
    """Only the logits of the head need the matrix, not the hidden states."""
    saved(lambda: bert(tied=False), tmp_path / "masked")
    assert refused(tmp_path / "masked").endswith("config.json: tie_word_embeddings is False; ours has True")
    saved(lambda: bert(head=False, tied=False), tmp_path / "states")
    assert load(tmp_path / "states").config.resolved["model"]["vocabulary"]["kind"] == "unscaled"


#: (model, tensor) -> the start of the tensor's name in the file, and what ours has in its place.
OWN = {
    ("gpt2", "lm_head.weight"): "transformer.wte.weight",
    ("bert", "cls.predictions.decoder.weight"): "bert.embeddings.word_embeddings.weight",
    ("bert", "cls.predictions.decoder.bias"): "cls.predictions.bias",
    ("marian", "lm_head.weight"): "model.shared.weight",
    ("marian", "model.encoder.embed_tokens.weight"): "model.shared.weight",
    ("marian", "model.decoder.embed_tokens.weight"): "model.shared.weight",
    ("t5", "encoder.embed_tokens.weight"): "shared.weight",
    ("t5", "decoder.embed_tokens.weight"): "shared.weight",
}


@pytest.mark.parametrize("kind", ["gpt2", "bert", "marian", "t5"])
def test_a_second_copy_of_a_tensor_is_read_only_if_it_is_equal(tmp_path, kind):
    """Transformers reads the copy of a file, and does not tie it to a tensor that differs."""
    model = saved(MAKERS[kind], tmp_path)
    arrays = load_file(tmp_path / "model.safetensors")
    before, ids = load(tmp_path).parameters, their_ids()
    logits = logits_of_theirs(kind, model, ids, ids)
    for (_, name), first in ((place, first) for place, first in OWN.items() if place[0] == kind):
        save_file({**arrays, name: arrays[first]}, tmp_path / "model.safetensors")
        for ours, x in load(tmp_path).parameters.items():
            np.testing.assert_array_equal(x, before[ours])
        other = np.random.default_rng(0).standard_normal(arrays[first].shape).astype(np.float32)
        save_file({**arrays, name: other}, tmp_path / "model.safetensors")
        again = type(model).from_pretrained(tmp_path).eval()
        assert np.abs(logits_of_theirs(kind, again, ids, ids) - logits).max() > 0.1, name
        assert refused(tmp_path).endswith(f"{tmp_path}: tensor {name} differs from {first}; ours has one for both")


def test_positions_of_a_marian_that_are_no_sinusoids_are_refused(tmp_path):
    model = saved(marian, tmp_path)
    arrays, name = load_file(tmp_path / "model.safetensors"), "model.encoder.embed_positions.weight"
    table = model.model.encoder.embed_positions.weight.detach().numpy()
    save_file({**arrays, name: table.astype(np.float16)}, tmp_path / "model.safetensors")
    load(tmp_path)
    save_file({**arrays, name: table[::-1].copy()}, tmp_path / "model.safetensors")
    assert refused(tmp_path).endswith(f"{tmp_path}: tensor {name} differs from sinusoids, which ours has")


@pytest.mark.parametrize(("proj", "said"), [("relu", "relu"), ("gated-gelu", "gelu_new")])
def test_an_activation_of_t5_that_its_feed_forward_does_not_imply_is_refused(tmp_path, proj, said):
    """Transformers computes with dense_act_fn and is_gated_act, whatever feed_forward_proj implies."""
    model = saved(lambda: t5(proj), tmp_path)
    assert model.config.dense_act_fn == said and model.config.is_gated_act == (proj != "relu")
    path = tmp_path / "config.json"
    before, ids = json.loads(path.read_text()), their_ids()
    path.write_text(json.dumps({**before, "dense_act_fn": said, "is_gated_act": proj != "relu"}))
    load(tmp_path)
    path.write_text(json.dumps({**before, "dense_act_fn": "silu"}))
    again = type(model).from_pretrained(tmp_path).eval()
    assert np.abs(logits_of_theirs("t5", again, ids, ids) - logits_of_theirs("t5", model, ids, ids)).max() > 0.01
    line = f"config.json: dense_act_fn is 'silu'; expected that of feed_forward_proj {proj!r}, {said!r}"
    assert refused(tmp_path).endswith(line)
    line = (
        f"config.json: is_gated_act is {proj == 'relu'}; expected that of feed_forward_proj {proj!r}, {proj != 'relu'}"
    )
    assert refused(tmp_path, is_gated_act=proj == "relu", dense_act_fn=said).endswith(line)


def test_a_t5_that_is_no_encoder_and_decoder_is_refused(tmp_path):
    """With the same tensors, Transformers computes other logits."""
    saved(t5, tmp_path)
    assert refused(tmp_path, is_encoder_decoder=False).endswith("is_encoder_decoder is False; ours has True")


def test_a_bert_with_a_head_of_another_activation_is_refused(tmp_path):
    saved(lambda: bert(hidden_act="relu"), tmp_path / "masked")
    assert refused(tmp_path / "masked").endswith("config.json: hidden_act is 'relu'; the head of ours has gelu")
    saved(lambda: bert(head=False, hidden_act="relu"), tmp_path / "states")
    assert load(tmp_path / "states").config.resolved["model"]["feed_forward"]["activation"] == "relu"


def test_end_tokens_are_found_by_name_and_by_number(tmp_path):
    saved(gpt2, tmp_path)
    numbering = load(tmp_path).numbering
    assert numbering.theirs[EOS] == numbering.theirs[BOS] == V - 1 and numbering.theirs[PAD] is None
    assert numbering.silent[BOS] and not numbering.silent[EOS] and numbering.silent[PAD]
