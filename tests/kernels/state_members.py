"""The members of the state family: their inputs from random draws, and the recurrence in float64 NumPy."""

from __future__ import annotations

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


def unit(x):
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)


def draws(T: int, N: int, H: int, Hv: int, seed: int = 7) -> dict[str, np.ndarray]:
    """Normal q, k, v, f, F, b, w, a, gate, mix, lam, drawn in this order, with axes T N and then H or Hv."""
    random = np.random.default_rng(seed)
    shapes = {"q": (T, N, H), "k": (T, N, H), "v": (T, N, Hv), "f": (T, N), "F": (T, N, H), "b": (T, N),
              "w": (T, N, H), "a": (T, N, H), "gate": (T, N, Hv), "mix": (N, N), "lam": (T, N, 3)}  # fmt: skip
    return {name: random.standard_normal(shape) for name, shape in shapes.items()}


def members(d: dict[str, np.ndarray]) -> dict[str, dict]:
    """Member -> the inputs of the recurrence: query, key, value, and log_decay, read, write, beta, scale."""
    q, k, v, f, F, b, a = (d[name] for name in ("q", "k", "v", "f", "F", "b", "a"))
    (T, N, H), n = q.shape, np.arange(q.shape[1])
    A, beta, scale = n + 1.0, sigmoid(b), H**-0.5
    plain = {"query": q, "key": k, "value": v, "scale": scale}
    delta = {"query": unit(q), "key": unit(k), "value": v, "beta": beta, "scale": scale}
    dt, rate, kappa = softplus(f), sigmoid(a), k / np.linalg.norm(k, axis=-1, keepdims=True)
    slope = 2.0 ** (-8 * (n + 1) / N) * (1 + 1e-5)
    scalar, channel = -A * softplus(f), -A[:, None] * softplus(F)
    return {
        "retnet": {**plain, "log_decay": np.broadcast_to(np.log(1 - 2.0 ** (-5 - n)), (T, N))},
        "lightning": {**plain, "log_decay": np.broadcast_to(-slope, (T, N)), "scale": 1.0},
        "mamba2": {**plain, "value": v * dt[..., None], "log_decay": -A * dt, "scale": 1.0},
        "gla": {**plain, "log_decay": -softplus(-F) / 16},
        "deltanet": delta,
        "gated_deltanet": {**delta, "log_decay": scalar},
        "kda": {**delta, "log_decay": channel},
        "rwkv7": {
            "query": q, "key": k * rate, "value": v, "log_decay": -np.exp(-0.5) * sigmoid(F),
            "read": -kappa, "write": kappa * rate, "scale": 1.0,
        },
    }  # fmt: skip


def as_read_and_write(given: dict) -> dict:
    """A delta rule as read, write and value, without beta."""
    given = dict(given)
    if "beta" in given:
        beta, g = given.pop("beta")[..., None], given.get("log_decay")
        decay = 1.0 if g is None else np.exp(g if g.ndim == 3 else g[..., None])
        given |= {"read": decay * given["key"], "write": -beta * given["key"], "value": beta * given["value"]}
    return given


def recurrence(given: dict, real=None, reset=None, state=None):
    """(outputs [T N Hv], last state [N H Hv]) of one sequence in float64, one position after the other."""
    given = as_read_and_write(given)
    query, key, value = (np.asarray(given[name], np.float64) for name in ("query", "key", "value"))
    (T, N, H), Hv = query.shape, value.shape[-1]
    S, out = np.zeros((N, H, Hv)) if state is None else np.array(state, np.float64), np.zeros((T, N, Hv))
    for t in range(T):
        for n in range(N):
            if reset is not None and reset[t]:
                S[n] = 0
            if real is None or real[t]:
                before = S[n].copy()
                g = given.get("log_decay")
                decay = np.ones(H) if g is None else np.exp(np.broadcast_to(g[t, n], (H,)))
                S[n] = decay[:, None] * before + np.outer(key[t, n], value[t, n])
                if "read" in given:
                    S[n] += np.outer(given["write"][t, n], given["read"][t, n] @ before)
            out[t, n] = given["scale"] * query[t, n] @ S[n]
    return out, S


def elu1(x):
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def taylor(x):
    return np.concatenate([[1.0], x / len(x) ** 0.25, np.outer(x, x).ravel() / np.sqrt(2 * len(x))])


def normalized_members(d: dict[str, np.ndarray]) -> dict[str, dict]:
    """Member -> features of queries and keys, value, log_scale, log_decay, scale and floor."""
    q, k, v, f, b = (d[name] for name in ("q", "k", "v", "f", "b"))
    rows = lambda phi, x: np.apply_along_axis(phi, -1, x)
    return {
        "linear": {"query": elu1(q), "key": elu1(k), "value": v, "log_scale": 0 * b, "scale": 1.0, "floor": False},
        "based": {"query": rows(taylor, q), "key": rows(taylor, k), "value": v, "log_scale": 0 * b, "scale": 1.0,
                  "floor": False},
        "mlstm": {"query": q, "key": k, "value": v, "log_scale": b, "log_decay": -softplus(-f),
                  "scale": q.shape[-1] ** -0.5, "floor": True},
    }  # fmt: skip


def quotients(given: dict, real=None, reset=None):
    """Outputs [T N Hv] of a normalized member in float64: sums over all visible positions, without a state."""
    q, k, v, l = (np.asarray(given[name], np.float64) for name in ("query", "key", "value", "log_scale"))
    g, out = given.get("log_decay", 0 * l), np.zeros(v.shape)
    for t, n in np.ndindex(q.shape[:2]):
        weights = {}
        for i in range(t, -1, -1):
            if real is None or real[i]:
                between = sum(g[j, n] for j in range(i + 1, t + 1) if real is None or real[j])
                weights[i] = np.exp(l[i, n] + between) * (q[t, n] @ k[i, n]) * given["scale"]
            if reset is not None and reset[i]:
                break
        total = sum(weights.values())
        total = max(abs(total), 1.0) if given["floor"] else total
        out[t, n] = sum(w * v[i, n] for i, w in weights.items()) / total if weights else 0
    return out
