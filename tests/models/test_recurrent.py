"""Oracles: the papers' equations in float64 NumPy, one unpadded sentence at a time, with the model's own weights.

Then the properties of the protocol: steps equal the whole forward pass, padding and other rows change nothing, and all
parameters take part. Widths are distinct primes.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.config import ConfigError, build_model, resolve
from attention_research.decoding import BeamSearch
from attention_research.layers.alignment.scores.dot import DotScore
from attention_research.layers.structure import abstract
from tests.models.recurrent_oracle import Weights, sigmoid, softmax

V, D, M, L, A = 23, 7, 5, 3, 11
SOURCE = np.array([[4, 9, 17, 8, 2, 0], [5, 6, 2, 0, 0, 0], [20, 4, 4, 19, 11, 2]])
TARGET = np.array([[7, 6, 2, 0, 0], [9, 22, 5, 13, 2], [4, 2, 0, 0, 0]])
ADDITIVE = {"kind": "global", "score": {"kind": "additive", "attention_width": A}}
KINDS = {
    "bahdanau": {
        "cell": {"kind": "gru_reset_before"}, "encoder": {"kind": "bidirectional"},
        "decoder": {"kind": "bahdanau", "readout_width": L}, "alignment": ADDITIVE,
    },
    "encdec": {
        "cell": {"kind": "gru_reset_before"}, "decoder": {"kind": "bahdanau", "readout_width": L},
        "alignment": {"kind": "last_state"},
    },
    "luong": {"num_layers": 2, "alignment": {"kind": "global", "score": {"kind": "general"}}},
    "luong_not_fed": {
        "num_layers": 2, "decoder": {"kind": "luong", "input_feeding": False},
        "alignment": {"kind": "local_predictive", "half_width": 2},
    },
    "local_monotonic": {"cell": {"kind": "gru"}, "alignment": {"kind": "local_monotonic", "half_width": 1}},
    "location": {"cell": {"kind": "gru"}, "alignment": {"kind": "location"}},
    "monotonic": {
        "cell": {"kind": "gru"}, "encoder": {"kind": "bidirectional"}, "decoder": {"start": "projected"},
        "alignment": {"kind": "monotonic", "attention_width": A, "test": "soft"},
    },
    "mocha": {
        "cell": {"kind": "gru"}, "encoder": {"kind": "bidirectional"}, "decoder": {"start": "projected"},
        "alignment": {"kind": "mocha", "attention_width": A, "test": "soft",
                      "score": {"kind": "reduced_rank", "attention_width": 13, "scaled": True}},
    },
    "sutskever": {"num_layers": 2, "decoder": {"kind": "fixed_vector"}, "reverse_source": True},
    "cho": {"cell": {"kind": "vanilla"}, "num_layers": 2,
            "decoder": {"kind": "fixed_vector", "context_every_step": True, "residual": True},
            "encoder": {"kind": "unidirectional", "residual": True}},
    "zeros": {"cell": {"kind": "gru"}, "alignment": {"kind": "global", "score": {"kind": "concat"}},
              "decoder": {"kind": "luong", "start": "zeros"}},
    **{f"latent_{kind}": {"kind": "latent_alignment", "cell": {"kind": "gru_reset_before"},
                          "transition": {"kind": kind}} for kind in ("independent", "monotonic")},
}  # fmt: skip


SMALL = {"kind": "recurrent", "width": D, "embedding_width": M}


def resolved():
    """The resolved config of a small recurrent translator."""
    given = {
        "max_length": 13,
        "vocabulary_size": V,
        "data": {"name": "bible_translate/fr-en", "source_language": "fr", "target_language": "en",
                 "batching": {"boundaries": (13,)}},
        "model": SMALL,
        "training": {"steps": 1, "batch_size": 1, "learning_rate": 1.0},
    }  # fmt: skip
    return resolve(given)


def built(**section):
    """(structure, parameters) of such a model. Weights are large and biases nonzero, so that errors are visible."""
    constructor = build_model({**SMALL, **section}, max_length=13, vocabulary_size=V)
    structure, shapes, _ = abstract(lambda rngs: constructor(rngs=rngs))
    rng = np.random.default_rng(7)
    value = lambda x: rng.standard_normal(x.shape) * 0.6
    return structure, {name: jnp.asarray(value(x), x.dtype) for name, x in sorted(shapes.items())}


#: Further starts, cells and alignments, which the tests of their layers also cover.
SLOW = (
    "encdec",
    "luong_not_fed",
    "local_monotonic",
    "location",
    "monotonic",
    "sutskever",
    "zeros",
    "latent_independent",
)


@pytest.fixture(scope="module", params=[pytest.param(k, marks=[pytest.mark.slow] * (k in SLOW)) for k in KINDS])
def case(request):
    """(kind, structure, parameters, log-likelihoods [B T], weights [B T S]) of every kind, computed once."""
    structure, parameters = built(**KINDS[request.param])
    values, aux = jax.jit(lambda p: structure.merge(p).log_likelihood(batch()))(parameters)
    return request.param, structure, parameters, np.asarray(values["log_likelihood"]), aux["decoder"]["alignment"]


def batch():
    return {"source": jnp.asarray(SOURCE, jnp.int32), "target": jnp.asarray(TARGET, jnp.int32)}


# The papers' equations, sentence by sentence


def gates(x, names):
    return dict(zip(names, np.split(x, len(names), axis=-1), strict=True))


def bahdanau_unit(w, x, s):
    """z, r, s~ of appendix A.1.1 and A.2.2, with gates in the order of the cell's docstring."""
    wx, b = gates(x @ w["input_kernel"], ORDER), gates(w["bias"], ORDER)
    u = gates(w["state_kernel"], ORDER)
    z, r = (sigmoid(wx[g] + s @ u[g] + b[g]) for g in ("z", "r"))
    candidate = np.tanh(wx["n"] + (r * s) @ u["n"] + b["n"])
    return (1 - z) * s + z * candidate


def lstm_unit(w, x, state):
    h, c = state
    g = gates(x @ w["input_kernel"] + h @ w["state_kernel"] + w["bias"], "ifgo")
    c = sigmoid(g["f"]) * c + sigmoid(g["i"]) * np.tanh(g["g"])
    return sigmoid(g["o"]) * np.tanh(c), c


def read(text):
    return [int(token) for token in text if token]


def log_p(p, t):
    scores = t @ p["vocabulary.output_kernel"] + p["vocabulary.output_bias"]
    return np.log(softmax(scores))


def rnnsearch(p, source, target, attends):
    """Bahdanau et al. 2015, appendix A.2: log p of each target word, and the weights."""
    x = p["vocabulary.source_table"][source]
    cells = p.under("encoder")
    states, s = [], np.zeros(D)
    forward = cells.under("forward.0") if attends else cells.under("layers.cells.0")
    for one in x:
        states.append(s := bahdanau_unit(forward, one, s))
    summary, last, h = states[-1], states[-1], np.array(states)
    if attends:
        back, s = [], np.zeros(D)
        for one in x[::-1]:
            back.append(s := bahdanau_unit(cells.under("backward.0"), one, s))
        summary, h = back[-1], np.concatenate([h, np.array(back[::-1])], axis=1)
    d = p.under("decoder")
    s = np.tanh(d.linear("start_state.linear.0.0", summary))
    out, looked = [], []
    for before, word in zip([1, *target[:-1]], target, strict=True):
        y = p["vocabulary.target_table"][before]
        context, weights = last, np.zeros(len(source))
        if attends:
            a = d.under("alignment.score")
            e = [a["v"] @ np.tanh(a["query_weight"] @ s + a["key_weight"] @ one) for one in h]
            weights = softmax(np.array(e))
            context = weights @ h
        t = d.linear("from_state", s) + d.linear("from_input", y) + d.linear("from_context", context)
        out.append(log_p(p, np.array([max(t[2 * j], t[2 * j + 1]) for j in range(L)]))[word])
        looked.append(weights)
        s = bahdanau_unit(d.under("layers.cells.0"), np.concatenate([y, context]), s)
    return out, looked


def luong(p, source, target, fed):
    """Luong et al. 2015: two layers, global general attention with input feeding, or local-p without it."""
    zeros = (np.zeros(D), np.zeros(D))
    layers, h = [zeros, zeros], []
    for word in source:
        x = p["vocabulary.source_table"][word]
        for l in range(2):
            layers[l] = lstm_unit(p.under(f"encoder.layers.cells.{l}"), x, layers[l])
            x = layers[l][0]
        h.append(x)
    h, d, vector, out, looked = np.array(h), p.under("decoder"), np.zeros(D), [], []
    for before, word in zip([1, *target[:-1]], target, strict=True):
        x = p["vocabulary.target_table"][before]
        x = np.concatenate([x, vector]) if fed else x
        for l in range(2):
            layers[l] = lstm_unit(d.under(f"layers.cells.{l}"), x, layers[l])
            x = layers[l][0]
        a = d.under("alignment")
        weights = np.zeros(len(source))
        where = np.arange(len(source))
        if not fed:
            center = len(source) * sigmoid(a["v"] @ np.tanh(a["position_weight"] @ x))
            where = where[abs(where - center) <= 2]
        if len(where):
            weights[where] = softmax(np.array([x @ a["score.weight"] @ h[j] for j in where]))
            weights[where] *= 1 if fed else np.exp(-((where - center) ** 2) / 2)  # sigma = D / 2 = 1
        vector = np.tanh(np.concatenate([weights @ h, x]) @ d["attentional.kernel"])
        out.append(log_p(p, vector)[word])
        looked.append(weights)
    return out, looked


def sutskever(p, source, target):
    """Sutskever et al. 2014: the source reversed, two layers, and a decoder that starts from all final states."""
    zeros = (np.zeros(D), np.zeros(D))
    layers, out = [zeros, zeros], []
    words = [("encoder", "source", word) for word in source[::-1]]
    words += [("decoder", "target", word) for word in [1, *target[:-1]]]
    for side, table, word in words:
        x = p[f"vocabulary.{table}_table"][word]
        for l in range(2):
            layers[l] = lstm_unit(p.under(f"{side}.layers.cells.{l}"), x, layers[l])
            x = layers[l][0]
        if side == "decoder":
            out.append(log_p(p, x)[target[len(out)]])
    return out, [np.zeros(len(source))] * len(target)


def latent(p, source, target, monotonic):
    """Wu & Cotterell 2018 and 2019: sums over every sequence of source positions, one by one."""
    x = p["vocabulary.source_table"][source]
    sides = []
    for name, words in (("forward", x), ("backward", x[::-1])):
        s, states = np.zeros(D), []
        for one in words:
            states.append(s := bahdanau_unit(p.under(f"encoder.{name}.0"), one, s))
        sides.append(states)
    h = np.concatenate([sides[0], sides[1][::-1]], axis=1)
    s = np.tanh(p.linear("decoder.start_state.linear.0.0", sides[1][-1]))
    scores, of_word = [], []
    for before, word in zip([1, *target[:-1]], target, strict=True):
        s = bahdanau_unit(p.under("decoder.layers.cells.0"), p["vocabulary.target_table"][before], s)
        scores.append(np.exp(h @ p["score.weight"].T @ s))
        vectors = np.tanh(p.linear("from_state", s) + p.linear("from_source", h))
        of_word.append([np.exp(log_p(p, one)[word]) for one in vectors])
    weights, likelihoods = np.zeros((len(target), len(source))), [1.0]
    for step in range(len(target)):
        total = 0.0
        for path in itertools.product(range(len(source)), repeat=step + 1):
            joint, before = 1.0, 0
            for i, place in enumerate(path):
                first = before if monotonic else 0
                joint *= scores[i][place] / scores[i][first:].sum() if place >= first else 0.0
                joint, before, alone = joint * of_word[i][place], place, joint
            total += joint
            weights[step, path[-1]] += alone / likelihoods[-1]
        likelihoods.append(total)
    return np.log(np.divide(likelihoods[1:], likelihoods[:-1])), weights


ORDER = "rzn"
PAPERS = {
    "latent_independent": lambda *a: latent(*a, monotonic=False),
    "latent_monotonic": lambda *a: latent(*a, monotonic=True),
    "bahdanau": lambda *a: rnnsearch(*a, attends=True),
    "encdec": lambda *a: rnnsearch(*a, attends=False),
    "luong": lambda *a: luong(*a, fed=True),
    "luong_not_fed": lambda *a: luong(*a, fed=False),
    "sutskever": sutskever,
}


@pytest.mark.parametrize(
    "case", [pytest.param(k, marks=[pytest.mark.slow] * (k in SLOW)) for k in PAPERS], indirect=True
)
def test_log_likelihoods_and_weights_are_the_papers(case):
    kind, _, parameters, values, weights = case
    for row in range(len(SOURCE)):
        source, target = read(SOURCE[row]), read(TARGET[row])
        expected, looked = PAPERS[kind](Weights(parameters), source, target)
        np.testing.assert_allclose(values[row, : len(target)], expected, atol=2e-5)
        np.testing.assert_allclose(weights[row, : len(target), : len(source)], looked, atol=1e-5)
        assert np.all(np.asarray(weights)[row, :, len(source) :] == 0)


def test_steps_are_the_whole_forward(case):
    _, structure, parameters, values, weights = case

    @jax.jit
    def stepped(p):
        model = structure.merge(p)
        cache = model.start(model.encode({"tokens": batch()["source"]}))

        def body(cache, token):
            cache, log_probabilities, aux = model.step(cache, token)
            return cache, (log_probabilities, aux["decoder"]["alignment"])

        given = jnp.concatenate([jnp.ones((3, 1), jnp.int32), batch()["target"][:, :-1]], axis=1)
        return jax.lax.scan(body, cache, given.T)[1]

    log_probabilities, looked = stepped(parameters)
    np.testing.assert_allclose(np.exp(log_probabilities).sum(-1), 1, rtol=1e-5)
    ours = np.take_along_axis(np.asarray(log_probabilities), TARGET.T[..., None], axis=-1)[..., 0].T
    real = TARGET != 0
    np.testing.assert_allclose(ours[real], values[real], atol=2e-5)
    np.testing.assert_allclose(np.swapaxes(looked, 0, 1)[real], np.asarray(weights)[real], atol=1e-5)


@pytest.mark.slow
def test_padding_and_other_rows_change_nothing_and_all_parameters_matter(case):
    """A row alone and unpadded equals the row in its batch. Each parameter has a gradient (tables at used words)."""
    kind, structure, parameters, values, _ = case

    def total(p, rows):
        found, _ = structure.merge(p).log_likelihood(rows)
        return jnp.sum(found["log_likelihood"], where=found["mask"]), found["log_likelihood"]

    source, target = jnp.asarray([read(SOURCE[1])], jnp.int32), jnp.asarray([read(TARGET[1])], jnp.int32)
    both = jax.jit(lambda p, rows: (total(p, rows)[1], jax.grad(lambda p: total(p, batch())[0])(p)))
    alone, gradients = both(parameters, {"source": source, "target": target})
    np.testing.assert_allclose(alone[0], values[1, : target.shape[1]], atol=2e-5)
    flat = [name for name, g in gradients.items() if g.size and not np.any(np.asarray(g))]
    assert flat == [], f"{kind}: parameters without a gradient"
    assert all(np.all(np.isfinite(g)) for g in gradients.values())


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("bahdanau", marks=pytest.mark.slow),
        "luong",
        "mocha",
        pytest.param("latent_monotonic", marks=pytest.mark.slow),
    ],
)
def test_beam_scores_equal_the_whole_forward_pass(kind):
    structure, parameters = built(**KINDS[kind])

    @jax.jit
    def both(p):
        model = structure.merge(p)
        found = BeamSearch(beam_size=3, alpha=0.6, exact="all")(model, {"tokens": batch()["source"]}, max_length=8)
        rows = {"source": jnp.repeat(batch()["source"], 3, 0), "target": found.tokens.reshape(9, 8)}
        values, _ = model.log_likelihood(rows)
        return found, jnp.sum(values["log_likelihood"], 1, where=values["mask"]).reshape(3, 3)

    found, prices = both(parameters)
    assert np.asarray(found.lengths).min() > 0
    np.testing.assert_allclose(found.log_probabilities, prices, rtol=1e-4, atol=1e-5)


def test_mistakes_are_named():
    dot = {"kind": "global", "score": {"kind": "dot"}}
    with pytest.raises(ConfigError, match="score.kind: dot needs equal widths; the decoder's state has 7"):
        built(alignment=dot, encoder={"kind": "bidirectional"}, decoder={"start": "projected"})
    with pytest.raises(ConfigError, match="decoder.start.kind: encoder_state passes 1 states of width 14"):
        built(encoder={"kind": "bidirectional"})
    with pytest.raises(ConfigError, match="model.start.kind: encoder_state passes 1 states of width 14"):
        built(kind="latent_alignment", start="encoder_state")
    with pytest.raises(ConfigError, match="model.score.kind: dot needs equal widths; the decoder's state has 7"):
        built(kind="latent_alignment", score={"kind": "dot"})
    structure, parameters = built(encoder={"cell": {"kind": "gru"}}, decoder={"cell": {"kind": "lstm"}})
    no_cell = r"start.kind: encoder_state passes no 'cell' state, .* has hidden;"
    with pytest.raises(ConfigError, match=rf"^model.decoder.{no_cell}"):
        structure.merge(parameters).log_likelihood(batch())
    encoder = {"kind": "unidirectional", "cell": {"kind": "gru"}}
    structure, parameters = built(kind="latent_alignment", start="encoder_state", encoder=encoder)
    with pytest.raises(ConfigError, match=rf"^model.{no_cell}"):
        structure.merge(parameters).log_likelihood(batch())
    with pytest.raises(ConfigError, match="recurrent reads a row as one; use buckets"):
        resolved().override([("data.batching", {"kind": "packed"})])
    with pytest.raises(ConfigError, match="no dot product"):
        DotScore(query_width=7, key_width=14, rngs=nnx.Rngs(0))
    structure, parameters = built(**KINDS["location"])
    with pytest.raises(ValueError, match="buckets"):
        packed = {**batch(), "source_segments": batch()["source"]}
        structure.merge(parameters).log_likelihood(packed)
