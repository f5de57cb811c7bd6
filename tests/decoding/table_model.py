"""A table model of the decoding protocol whose next token depends on the source and the whole prefix; its NumPy twin.

A hash of the real source tokens and of all prefix tokens selects a row of a random table of log-probabilities. The
cache has every form that the protocol allows: a scalar index, a prefix with the batch as second axis, a running hash
with the batch as middle axis, and a part of the memory that steps do not change. A step computes its hash from the
prefix and from the running hash. If they differ (a part of the cache was not reordered), the output is NaN.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

BOS, EOS, PRIME = 1, 2, 1009
POWERS = np.array([pow(131, n + 1, PRIME) for n in range(200)], np.int32)


class TableModel:
    """`spread` is the table's standard deviation before the softmax. `eos` is added to the logit of EOS."""

    def __init__(self, vocabulary_size: int, *, seed: int = 0, spread: float = 1.5, eos: float = 0.0, on_step=None):
        logits = np.random.default_rng(seed).normal(size=(PRIME, vocabulary_size)) * spread
        logits[:, EOS] += eos
        self.table = (logits - np.log(np.exp(logits).sum(-1, keepdims=True))).astype(np.float32)
        self.on_step = on_step

    def encode(self, source):
        weights = jnp.where(source["segments"] != 0, source["tokens"] + 1, 0) * POWERS[: source["tokens"].shape[1]]
        return {"hash": weights.sum(1) % PRIME, "positions": source["positions"]}

    def start(self, memory, length=None):
        batch = memory["hash"].shape[0]
        return {
            "index": jnp.int32(0),
            "prefix": jnp.zeros((length, batch), jnp.int32),
            "running": jnp.stack([memory["hash"], jnp.zeros(batch, jnp.int32)])[:, :, None],
            "memory": {"hash": memory["hash"][None, None], "positions": memory["positions"]},
        }

    def step(self, cache, tokens):
        if self.on_step is not None:
            jax.debug.callback(self.on_step)
        prefix = cache["prefix"].at[cache["index"]].set(tokens)
        written = jnp.arange(prefix.shape[0]) <= cache["index"]
        weights = jnp.where(written, jnp.asarray(POWERS[50 : 50 + prefix.shape[0]]), 0)
        chosen = (cache["memory"]["hash"][0, 0] + (prefix * weights[:, None]).sum(0)) % PRIME
        running = cache["running"].at[0, :, 0].add(tokens * jnp.asarray(POWERS)[50 + cache["index"]])
        agree = chosen == running[0, :, 0] % PRIME
        log_probabilities = jnp.where(agree[:, None], jnp.asarray(self.table)[chosen], jnp.nan)
        cache = {"index": cache["index"] + 1, "prefix": prefix, "running": running, "memory": cache["memory"]}
        return cache, log_probabilities, {"hash": chosen}

    # The NumPy twin: one source, one prefix (without BOS).
    def next_log_probabilities(self, source: list[int], prefix: list[int]) -> np.ndarray:
        chosen = sum((token + 1) * int(POWERS[n]) for n, token in enumerate(source))
        chosen += sum(token * int(POWERS[50 + n]) for n, token in enumerate([BOS, *prefix]))
        return self.table[chosen % PRIME].astype(np.float64)

    def log_probability(self, source: list[int], tokens: list[int]) -> float:
        return sum(self.next_log_probabilities(source, tokens[:n])[token] for n, token in enumerate(tokens))

    def every_hypothesis(self, source: list[int], limit: int) -> list[list[int]]:
        words = range(3, self.table.shape[1])
        return [[*w, EOS] for n in range(limit) for w in itertools.product(words, repeat=n)]


def penalty(length: int, alpha: float) -> float:
    return ((5 + length) / 6) ** alpha


def greedy_by_hand(model: TableModel, source: list[int], limit: int) -> list[int]:
    tokens: list[int] = []
    while not tokens or tokens[-1] != EOS:
        log_probabilities = model.next_log_probabilities(source, tokens)
        log_probabilities[[0, BOS]] = -np.inf
        tokens.append(EOS if len(tokens) + 1 == limit else int(np.argmax(log_probabilities)))
    return tokens


def beam_by_hand(model: TableModel, source: list[int], limit: int, beam_size: int, alpha: float):
    """[(score, log-probability, tokens)], best first, of a search that always runs up to the length limit."""
    live, finished = [(0.0, [])], []
    for length in range(1, limit + 1):
        extensions = []
        for log_probability, prefix in live:
            following = model.next_log_probabilities(source, prefix)
            for token in range(2, len(following)) if length < limit else [EOS]:
                extensions.append((log_probability + following[token], [*prefix, token]))
        extensions.sort(key=lambda x: -x[0])
        finished += [(p / penalty(length, alpha), p, y) for p, y in extensions[:beam_size] if y[-1] == EOS]
        live = [(p, y) for p, y in extensions if y[-1] != EOS][:beam_size]
    return sorted(finished, key=lambda x: -x[0])[:beam_size]


def batch_of(sources: list[list[int]], width: int | None = None) -> dict[str, jax.Array]:
    width = width or max(map(len, sources))
    tokens = np.zeros((len(sources), width), np.int32)
    for row, source in zip(tokens, sources, strict=True):
        row[: len(source)] = source
    segments = np.array([[n < len(source) for n in range(width)] for source in sources], np.int32)
    positions = np.arange(width, dtype=np.int32) * segments
    return {"tokens": jnp.asarray(tokens), "segments": jnp.asarray(segments), "positions": jnp.asarray(positions)}


def hypothesis(decoded, row: int, rank: int = 0) -> list[int]:
    """The tokens of one hypothesis. Checks that EOS comes last and is followed only by 0."""
    length = int(decoded.lengths[row, rank])
    tokens = np.asarray(decoded.tokens[row, rank]).tolist()
    assert EOS not in tokens[: length - 1] and tokens[length - 1] == EOS and not any(tokens[length:]), tokens
    return tokens[:length]
