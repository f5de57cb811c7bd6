"""The maps against equation 1 in float64 NumPy and against stepwise decoding, and their labels."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.analysis.attention import OUTPUT, Layers, attention_maps, labels, map_reader, readable
from attention_research.errors import RunError
from attention_research.tokens import BOS, EOS, UNKNOWN

SOURCE, TARGET = [7, 4, 19, 11, 4, 23, EOS], [5, 28, 9, 9, EOS]


def label(tokens):
    return [f"t{token}" for token in tokens]


def maps_of(made):
    return {one.title: one for one in attention_maps(*made, SOURCE, TARGET, label)}


@pytest.fixture(scope="module")
def standard(small):
    """(model, its maps by title) of a post-norm Transformer with sinusoidal positions."""
    made = small()
    return made, maps_of(made)


def softmax(scores):
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True)


def first_layer(parameters, prefix, tokens, *, is_causal):
    """softmax(Q K^T / sqrt(H)) [N T T] of a first layer: Vaswani et al. 2017, sections 3.2, 3.4 and 3.5, float64."""
    table = np.asarray(parameters["vocabulary.table"], np.float64)
    width, heads = table.shape[1], 3
    angles = np.arange(len(tokens))[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    x = table[tokens] * np.sqrt(width)
    x[:, 0::2] += np.sin(angles)
    x[:, 1::2] += np.cos(angles)

    def projected(name):
        kernel, bias = (np.asarray(parameters[f"{prefix}.{name}.{part}"], np.float64)[0] for part in ("kernel", "bias"))
        return (x @ kernel + bias).reshape(len(tokens), heads, width // heads)

    scores = np.einsum("tnh,snh->nts", projected("query"), projected("key")) / np.sqrt(width // heads)
    return softmax(np.where(np.tri(len(tokens), dtype=bool), scores, -np.inf) if is_causal else scores)


def test_first_layers_are_equation_1(standard):
    """Detects swapped heads, rows or columns, and a wrong shift by the start of the sentence."""
    (_, (parameters, _)), maps = standard
    encoder = first_layer(parameters, "encoder.stack.segments.0.self_attention", SOURCE, is_causal=False)
    decoder = first_layer(parameters, "decoder.stack.segments.0.self_attention", [BOS, *TARGET[:-1]], is_causal=True)
    np.testing.assert_allclose(maps["encoder self-attention"].weights[0], encoder, atol=2e-5)
    np.testing.assert_allclose(maps["decoder self-attention"].weights[0], decoder, atol=2e-5)


def test_row_t_is_what_decoding_sees_when_it_writes_token_t(standard):
    (structure, arrays), maps = standard

    @jax.jit
    def stepped(arrays):
        model = structure.merge(*arrays)

        def step(cache, token):
            cache, _, aux = model.step(cache, token[None])
            seen = aux["segment_0"]
            return cache, [
                seen[kind]["attention_weights"][:, 0, :, 0] for kind in ("cross_attention", "self_attention")
            ]

        cache = model.start(model.encode({"tokens": jnp.asarray([SOURCE], jnp.int32)}), len(TARGET))
        return jax.lax.scan(step, cache, jnp.asarray([BOS, *TARGET[:-1]], jnp.int32))[1]

    for title, seen in zip(("cross-attention", "decoder self-attention"), stepped(arrays), strict=True):
        np.testing.assert_allclose(maps[title].weights, np.moveaxis(np.asarray(seen), 0, 2), atol=2e-5)


def test_every_kind_layer_and_head_with_its_axes(standard):
    _, maps = standard
    source, written, read = (tuple(label(x)) for x in (SOURCE, TARGET, [BOS, *TARGET[:-1]]))
    assert [(one.title, one.queries, one.keys, one.weights.shape) for one in maps.values()] == [
        ("cross-attention", written, source, (2, 3, 5, 7)),
        ("encoder self-attention", source, source, (2, 3, 7, 7)),
        ("decoder self-attention", written, read, (2, 3, 5, 5)),
    ]
    for one in maps.values():
        np.testing.assert_allclose(one.weights.sum(-1), 1.0, atol=1e-5)
        assert one.weights.dtype == np.float32 and one.layers == Layers((1, 2), 2) and one.layers.whole
    assert (maps["decoder self-attention"].weights[..., ~np.tri(5, dtype=bool)] == 0).all()


def test_projected_keys_are_not_called_tokens(small):
    """Linformer's rank equals the source's length here by chance, but the keys are not tokens."""
    maps = maps_of(small(self_attention={"kind": "linformer", "rank": len(SOURCE)}))
    for title in ("cross-attention", "encoder self-attention"):
        assert maps[title].keys == tuple(f"projection {number}" for number in range(1, 8))
        assert maps[title].columns == "projections of the source tokens"
        np.testing.assert_allclose(maps[title].weights.sum(-1), 1.0, atol=1e-5)
    assert maps["decoder self-attention"].keys == tuple(label([BOS, *TARGET[:-1]]))


def test_a_block_that_attends_twice_has_two_maps(small):
    steps = tuple((kind, "residual", "norm") for kind in ("self_attention", "self_attention", "cross_attention"))
    maps = maps_of(small(decoder={"steps": steps}))
    assert list(maps) == [
        "cross-attention", "encoder self-attention", "decoder self-attention", "decoder self-attention 2"
    ]  # fmt: skip
    first, second = (maps[f"decoder self-attention{number}"].weights for number in ("", " 2"))
    assert first.shape == second.shape and (first != second).any()


def test_a_model_without_a_source_has_one_kind(small):
    assert list(maps_of(small(kind="transformer_decoder"))) == ["decoder self-attention"]


def test_an_empty_source_is_no_source(small):
    """Language models on running text without a context have batches with a source of no tokens."""
    batch = {"source": np.zeros((1, 0), np.int32), "target": np.asarray([TARGET], np.int32)}
    (one,) = map_reader(*small(kind="transformer_decoder"), label)(batch, OUTPUT)
    assert one.rows == "model output tokens" and one.queries == tuple(label(TARGET))


def test_a_row_that_begins_within_a_text_names_the_token_before_it(small):
    read = map_reader(*small(kind="transformer_decoder"), label)
    batch = {"target": np.asarray([TARGET], np.int32), "target_before": np.asarray([SOURCE[0]], np.int32)}
    (one,) = read(batch, OUTPUT)
    assert one.keys == tuple(label([SOURCE[0], *TARGET[:-1]])) and one.queries == tuple(label(TARGET))


def test_a_stack_that_reads_the_source_first_has_both_texts_on_its_axes(small):
    """Equation 1 over the source and then the text. Padding of the source is moved to the front, and is not shown."""
    steps = (("self_attention", "residual", "norm"), ("feed_forward", "residual", "norm"))
    structure, arrays = small(kind="language_model", decoder={"steps": steps})
    read = map_reader(structure, arrays, label)
    pad = lambda tokens, length: np.pad(np.asarray([tokens], np.int32), ((0, 0), (0, length - len(tokens))))
    (alone,) = read({"source": pad(SOURCE, 7), "target": pad(TARGET, 5)}, OUTPUT)
    (padded,) = read({"source": pad(SOURCE, 9), "target": pad(TARGET, 8)}, OUTPUT)
    tokens = [*SOURCE, BOS, *TARGET[:-1]]
    wanted = first_layer(arrays[0], "decoder.stack.segments.0.self_attention", tokens, is_causal=True)
    for one in (alone, padded):
        assert one.queries == tuple(label([*SOURCE, *TARGET])) and one.keys == tuple(label(tokens))
        assert (one.rows, one.columns) == (f"source and {OUTPUT} tokens", "source tokens and tokens read before")
        np.testing.assert_allclose(one.weights[0], wanted, atol=2e-5)


def test_pooled_positions_are_not_called_tokens(small):
    """The layers of a Funnel encoder have maps of different sizes, which are left out. Its memory of a source of seven
    tokens has two positions."""
    maps = maps_of(small(num_layers=3, encoder={"kind": "funnel"}))
    assert list(maps) == ["cross-attention", "decoder self-attention"]
    assert maps["cross-attention"].keys == ("projection 1", "projection 2")
    np.testing.assert_allclose(maps["cross-attention"].weights.sum(-1), 1.0, atol=1e-5)


def test_maps_have_the_numbers_of_their_layers_in_the_stack(small):
    """Every second layer has attention weights; the others are convolutions without any."""
    layers = {"kind": "interleaved", "interval": 2, "last": {"kind": "standard"},
              "first": {"kind": "lightweight_convolution", "kernel_width": 3}}  # fmt: skip
    structure, arrays = small(kind="transformer_decoder", num_layers=5, self_attention=layers)
    (one,) = maps_of((structure, arrays)).values()
    batch = {"target": jnp.asarray([TARGET], jnp.int32)}
    aux = jax.jit(lambda arrays: structure.merge(*arrays).log_likelihood(batch)[1]["decoder"])(arrays)
    assert one.layers == Layers((2, 4), 5) and not one.layers.whole
    for number, weights in zip(one.layers.numbers, one.weights, strict=True):
        (layer,) = aux[f"segment_{number - 1}"]["self_attention"]["attention_weights"]
        np.testing.assert_array_equal(weights, layer[0])


def test_weights_that_are_not_finite_are_refused(standard):
    (structure, (parameters, statistics)), _ = standard
    broken = {name: jnp.full_like(x, jnp.nan) for name, x in parameters.items()}
    with pytest.raises(RunError, match="not finite"):
        attention_maps(structure, (broken, statistics), SOURCE, TARGET, label)


def test_labels_are_pieces_without_the_word_mark():
    mark = "\N{LOWER ONE EIGHTH BLOCK}"
    given = [f"{mark}agree", "ment", ",", mark, f'{mark}"', "'", "é", "1992"]
    assert [readable(piece) for piece in given] == ["agree", "·ment", ",", "␣", '"', "'", "·é", "·1992"]

    class Tokenizer:
        def pieces(self, tokens):
            named = {BOS: "<s>", EOS: "</s>", UNKNOWN: "<unk>", 8: "\N{LOWER ONE EIGHTH BLOCK}agree", 9: "ment"}
            return [named[token] for token in tokens]

    assert labels(Tokenizer(), [BOS, UNKNOWN, 8, 9, EOS]) == ["<s>", "<unk>", "agree", "·ment", "</s>"]


@pytest.mark.parametrize("pieces, wanted", [
    (["\N{LOWER ONE EIGHTH BLOCK}agree", "ment"], ["agree", "·ment"]),
    (["the", "lamp", "##s", "##"], ["the", "lamp", "·s", "##"]),
    (["a", "b", " ", "<0x0A>"], ["a", "b", " ", "<0x0A>"]),
])  # fmt: skip
def test_only_pieces_that_continue_a_word_are_marked(pieces, wanted):
    """The vocabularies of SentencePiece, WordPiece, and characters or bytes, which mark no words."""
    assert labels(SimpleNamespace(pieces=lambda tokens: pieces), range(9, 9 + len(pieces))) == wanted
