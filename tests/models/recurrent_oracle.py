"""Recurrent encoder-decoders as their papers' equations, in float64 NumPy: one sentence without padding, one step at a
time. A model is given by its resolved section and its parameters.

The kinds are written from the papers that the modules cite, without their kernels. Without a key, hard attention reads
the most probable place, and monotonic attention follows its `test`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

BOS = 1


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Weights:
    """The parameters under a prefix in float64, by the rest of their name."""

    def __init__(self, parameters, prefix=""):
        self.parameters, self.prefix = parameters, prefix

    def __getitem__(self, name):
        return np.asarray(self.parameters[self.prefix + name], np.float64)

    def under(self, name):
        return Weights(self.parameters, f"{self.prefix}{name}.")

    def linear(self, name, x):
        bias = self.parameters.get(f"{self.prefix}{name}.bias")
        return x @ self[f"{name}.kernel"] + (0 if bias is None else np.asarray(bias, np.float64))


# Cells: the state after one input. A state is a dictionary whose output is "hidden".


def lstm(w, x, s):
    i, f, g, o = np.split(x @ w["input_kernel"] + s["hidden"] @ w["state_kernel"] + w["bias"], 4)
    cell = sigmoid(f) * s["cell"] + sigmoid(i) * np.tanh(g)
    return {"hidden": sigmoid(o) * np.tanh(cell), "cell": cell}


def gru(w, x, s):
    h = s["hidden"]
    (xr, xz, xn), (hr, hz, hn) = (
        np.split(x @ w["input_kernel"] + w["input_bias"], 3),
        np.split(h @ w["state_kernel"], 3),
    )
    r, z = sigmoid(xr + hr), sigmoid(xz + hz)
    return {"hidden": (1 - z) * np.tanh(xn + r * (hn + w["state_bias"])) + z * h}


def gru_reset_before(w, x, s):
    h = s["hidden"]
    xr, xz, xn = np.split(x @ w["input_kernel"] + w["bias"], 3)
    ur, uz, un = np.split(w["state_kernel"], 3, axis=1)
    r, z = sigmoid(xr + h @ ur), sigmoid(xz + h @ uz)
    return {"hidden": (1 - z) * h + z * np.tanh(xn + (r * h) @ un)}


def vanilla(w, x, s):
    return {"hidden": np.tanh(x @ w["input_kernel"] + s["hidden"] @ w["state_kernel"] + w["bias"])}


def rcnn(w, x, s):
    gate, one, two = np.split(x @ w["input_kernel"], 3)
    gate = sigmoid(gate + s["hidden"] @ w["state_kernel"] + w["gate_bias"])
    first = gate * s["first"] + (1 - gate) * one
    second = gate * s["second"] + (1 - gate) * (s["first"] + two)
    return {"hidden": np.tanh(second + w["bias"]), "first": first, "second": second}


CELLS = {
    "lstm": (lstm, ("hidden", "cell")), "lstm_forget_bias": (lstm, ("hidden", "cell")), "gru": (gru, ("hidden",)),
    "gru_reset_before": (gru_reset_before, ("hidden",)), "vanilla": (vanilla, ("hidden",)),
    "rcnn": (rcnn, ("hidden", "first", "second")),
}  # fmt: skip


def initial(kind, width):
    return {name: np.zeros(width) for name in CELLS[kind][1]}


def over(kind, w, xs, width):
    """(the outputs, the last state) of a cell over a list of inputs."""
    state, found = initial(kind, width), []
    for x in xs:
        state = CELLS[kind][0](w, x, state)
        found.append(state["hidden"])
    return np.array(found), state


def encoded(section: dict[str, Any], w: Weights, xs):
    """The memory of a source."""
    kind, width, residual = section["cell"]["kind"], section["width"], section["residual"]
    finals = []
    for layer in range(section["num_layers"]):
        if section["kind"] == "bidirectional":
            right, after = over(kind, w.under(f"forward.{layer}"), xs, width)
            left, before = over(kind, w.under(f"backward.{layer}"), xs[::-1], width)
            y, final = np.hstack([right, left[::-1]]), {n: np.concatenate([after[n], before[n]]) for n in after}
            summary = before["hidden"]
        else:
            y, final = over(kind, w.under(f"layers.cells.{layer}"), xs, width)
            summary = final["hidden"]
        xs = xs + y if residual and layer else y
        finals.append(final)
    return {"hidden": xs, "last": finals[-1]["hidden"], "summary": summary, "final": finals}


def started(section, w, memory, count):
    """The initial states of `count` layers."""
    names, width, kind = CELLS[section["cell"]["kind"]][1], section["width"], section["start"]["kind"]
    if kind == "zeros":
        return [initial(section["cell"]["kind"], width) for _ in range(count)]
    if kind == "encoder_state":
        return [{name: memory["final"][layer][name] for name in names} for layer in range(count)]
    project = lambda layer, place: np.tanh(w.linear(f"start_state.linear.{layer}.{place}", memory["summary"]))
    return [{name: project(layer, place) for place, name in enumerate(names)} for layer in range(count)]


def layers(section, w, x, states):
    """(the output, the states) of one step of the stacked cells."""
    after = []
    for number, state in enumerate(states):
        after.append(CELLS[section["cell"]["kind"]][0](w.under(f"layers.cells.{number}"), x, state))
        x = x + after[-1]["hidden"] if section.get("residual") and number else after[-1]["hidden"]
    return x, after


# Scores of a query with all keys.


def scores(section, w, q, keys):
    kind = section["kind"]
    if kind == "additive":
        return np.array([w["v"] @ np.tanh(w["query_weight"] @ q + w["key_weight"] @ k) for k in keys])
    if kind == "concat":
        own = np.eye(len(q)) if section["source_is_identity"] else np.zeros((len(q), 0))
        weight = np.hstack([w["weight"], own])
        return np.array([w["v"] @ np.tanh(weight @ np.concatenate([q, k])) for k in keys])
    if kind == "general":
        return keys @ w["weight"].T @ q
    if kind == "reduced_rank":
        rank = section["attention_width"] if section["scaled"] else 1
        return (keys @ w["key_factor"].T) @ (w["query_factor"] @ q) / np.sqrt(rank)
    norm = {"dot": 1, "scaled_dot": np.sqrt(len(q)), "cosine": np.linalg.norm(keys, axis=1) * np.linalg.norm(q)}
    return keys @ q / norm[kind]


# Alignments: (context, weights). `look` keeps what a step passes to the next.


def aligned(section, w, q, memory, look):
    keys, kind = memory["hidden"], section["kind"]
    count = len(keys)
    weights, places = np.zeros(count), np.arange(count)
    if kind == "none":
        return np.zeros(0), weights
    if kind == "last_state":
        return memory["last"], weights
    if kind == "sca":
        return sca(w, q, keys)
    e = scores(section["score"], w.under("score"), q, keys) if "score" in section else None
    if kind == "global":
        weights = softmax(e)
    elif kind == "hard":
        weights[e.argmax()] = 1
    elif kind == "location":
        inside = min(count, section["max_length"])
        weights[:inside] = softmax(w["weight"][:inside] @ q)
    elif kind.startswith("local"):
        D, center = section["half_width"], look.get("step", 0)
        if kind == "local_predictive":
            center = count * sigmoid(w["v"] @ np.tanh(w["position_weight"] @ q))
        inside = places[abs(places - center) <= D]
        if len(inside):
            weights[inside] = softmax(e[inside])
        if kind == "local_predictive":
            weights = weights * np.exp(-((places - center) ** 2) / (2 * (D / 2) ** 2))
    else:
        weights = monotonic(section, w, q, keys, look, e)
    look["step"] = look.get("step", 0) + 1
    return weights @ keys, weights


def monotonic(section, w, q, keys, look, u):
    """Raffel et al. 2017, and the chunks of Chiu & Raffel 2018 if the section has them."""
    count = len(keys)
    hidden = [np.tanh(w["query_weight"] @ q + w["key_weight"] @ k + w["bias"]) for k in keys]
    energy = w["gain"] * np.array(hidden) @ w["v"] / np.linalg.norm(w["v"]) + w["offset"]
    before, alpha = look.get("alpha", np.eye(count)[0]), np.zeros(count)
    if section["test"] == "hard":
        first = int(before.argmax()) if before.any() else count
        stops = [j for j in range(first, count) if energy[j] > 0]
        alpha[stops[:1]] = 1
    else:
        p = sigmoid(energy)
        for j in range(count):
            alpha[j] = p[j] * sum(before[k] * np.prod(1 - p[k:j]) for k in range(j + 1))
    look["alpha"] = alpha
    if "chunk_size" not in section:
        return alpha
    beta = np.zeros(count)
    for k in range(count):
        chunk = np.arange(max(0, k - section["chunk_size"] + 1), k + 1)
        beta[chunk] += alpha[k] * softmax(u[chunk])
    return beta


def sca(w, q, cells):
    """Chen et al. 2017, section 3: channels first, with the mean of the weighted channels kept."""
    C = cells.shape[1]
    state = lambda name: w[f"{name}_bias"] + q @ w[f"{name}_state_kernel"]
    inner = np.outer(cells.mean(0), w["channel_kernel"]) + state("channel")
    weighted = cells * softmax(np.tanh(inner) @ w["channel_vector"])
    alpha = softmax(np.tanh(weighted @ w["spatial_kernel"] + state("spatial")) @ w["spatial_vector"])
    return alpha @ weighted * C, alpha


# Decoders: (log p of all words [T V], the weights [T S]).


def decoded(section, p: Weights, memory, embeddings):
    """The outputs of the decoder and its weights at each step, given the embeddings of the previous words."""
    w, kind = p.under("decoder"), section["kind"]
    states = started(section, w, memory, section.get("num_layers", 1))
    a, look, fed = w.under("alignment"), {}, np.zeros(section["width"])
    outputs, seen = [], []
    for x in embeddings:
        s = states[0]["hidden"]
        weights = np.zeros(len(memory["hidden"]))
        if kind == "fixed_vector":
            given = np.concatenate([x, memory["last"]]) if section["context_every_step"] else x
            output, states = layers(section, w, given, states)
        elif kind == "luong":
            given = np.concatenate([x, fed]) if section["input_feeding"] else x
            h, states = layers(section, w, given, states)
            context, weights = aligned(section["alignment"], a, h, memory, look)
            output = fed = np.tanh(w.linear("attentional", np.concatenate([context, h])))
        elif kind == "bahdanau":
            context, weights = aligned(section["alignment"], a, s, memory, look)
            t = w.linear("from_state", s) + w.linear("from_input", x) + w.linear("from_context", context)
            output = t.reshape(-1, 2).max(1)
            _, states = layers(section, w, np.concatenate([x, context]), states)
        else:
            context, weights = aligned(section["alignment"], a, s, memory, look)
            z = sigmoid(w.linear("gate", s)) * context
            h, states = layers(section, w, np.concatenate([x, z]), states)
            output = x + w.linear("from_state", h) + w.linear("from_context", z)
        outputs.append(output)
        seen.append(weights)
    return np.array(outputs), np.array(seen)


def logits(p, hidden):
    return hidden @ p["vocabulary.output_kernel"] + (
        p["vocabulary.output_bias"] if "vocabulary.output_bias" in p.parameters else 0
    )


def translated(section, parameters, source, target):
    """(log p of all words [T V], the weights [T S]) of the models `recurrent` and `latent_alignment`."""
    p = Weights(parameters)
    x, y = p["vocabulary.source_table"][source], p["vocabulary.target_table"][[BOS, *target[:-1]]]
    reverse = section.get("reverse_source", False)
    memory = encoded(section["encoder"], p.under("encoder"), x[::-1] if reverse else x)
    if reverse:
        memory["hidden"] = memory["hidden"][::-1]
    if section["kind"] == "latent_alignment":
        return latent(section, p, memory, y, target)
    outputs, weights = decoded(section["decoder"], p, memory, y)
    return np.log(softmax(logits(p, outputs))), weights


def latent(section, p, memory, embeddings, target):
    """Wu et al. 2018 and 2019 as a hidden Markov model: the position of each output, and its posterior."""
    decoder = {**section, "kind": "fixed_vector", "context_every_step": False}
    h, (outputs, _) = memory["hidden"], decoded(decoder, p, memory, embeddings)
    posterior, found, seen = np.eye(len(h))[0], [], []
    for s, word in zip(outputs, target, strict=True):
        e = np.exp(scores(section["score"], p.under("score"), s, h))
        after = [e * (np.arange(len(h)) >= k) / e[k:].sum() for k in range(len(h))]
        prior = e / e.sum() if section["transition"]["kind"] == "independent" else posterior @ np.array(after)
        of_place = softmax(logits(p, np.tanh(p.linear("from_state", s) + p.linear("from_source", h))))
        found.append(np.log(prior @ of_place))
        posterior = prior * of_place[:, word] / (prior @ of_place)[word]
        seen.append(prior)
    return np.array(found), np.array(seen)


def captioned(section, parameters, cells, target):
    """The same of a recurrent captioner, given the cells of the feature map [S C]."""
    p = Weights(parameters)
    cells = np.asarray(cells, np.float64)
    memory = {"hidden": cells, "last": cells.mean(0), "summary": cells.mean(0)}
    outputs, weights = decoded(section["decoder"], p, memory, p["vocabulary.table"][[BOS, *target[:-1]]])
    return np.log(softmax(logits(p, outputs))), weights
