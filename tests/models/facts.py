"""Quantities that the tests of whole Transformers check, computed by one compiled program for each model."""

import jax
import jax.numpy as jnp
import numpy as np

from attention_research.tokens import BOS, EOS

#: For programs that run once or twice and mostly wait for compilation: halves the time.
QUICKLY = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
#: The position whose gradient must be zero at later positions.
T_SEEN = 3


def batch_of(rng, rows=3, s=11, t=7, words=29):
    """Random rows with padding. Every target ends with EOS."""
    source, target = rng.integers(4, words, (rows, s)), rng.integers(4, words, (rows, t))
    for row in range(rows):
        source[row, s - 2 * row :], target[row, t - row :] = 0, 0
        target[row, t - row - 1] = EOS
    return {"source": jnp.asarray(source, jnp.int32), "target": jnp.asarray(target, jnp.int32)}


def facts_of(structure, batch, width):
    """parameters -> per-token values of the batch and their gradients, and further quantities.

    They are the likelihoods from stepwise decoding ("stepped"), those of row 1 alone with more padding ("alone"), and
    the gradient at position T_SEEN with respect to the inputs ("seen").
    """
    (rows, length), wide = batch["target"].shape, {
        "source": jnp.pad(batch["source"][1:2], ((0, 0), (0, 2))),
        "target": jnp.pad(batch["target"][1:2], ((0, 0), (0, 5))),
    }  # fmt: skip

    def loss(p):
        values, _ = structure.merge(p).log_likelihood(batch)
        return -jnp.sum(values["log_likelihood"], where=values["mask"]), values

    def stepped(p, memory):
        model = structure.merge(p)

        def step(carry, target):
            cache, token = carry
            cache, log_p, _ = model.step(cache, token)
            return (cache, target), jnp.take_along_axis(log_p, target[:, None], 1)[:, 0]

        first = (model.start(memory, length + 2), jnp.full((rows,), BOS, jnp.int32))
        return jax.lax.scan(step, first, batch["target"].T)[1].T

    def seen(p, memory, extra):
        model = structure.merge(p)
        x = model.vocabulary.target(jnp.roll(batch["target"], 1, 1).at[:, 0].set(BOS)) + extra
        mask = model.encoder.memory_mask((batch["source"] != 0)[:, None, None, :])
        hidden, _ = model.decoder(x, jnp.arange(length, dtype=jnp.int32)[None], None, memory["hidden"], mask)
        return jnp.sum(jnp.sin(hidden[:, T_SEEN]))

    def everything(p):
        (_, values), gradients = jax.value_and_grad(loss, has_aux=True)(p)
        memory = structure.merge(p).encode({"tokens": batch["source"]})
        return {
            **values,
            "gradients": gradients,
            "stepped": stepped(p, memory),
            "alone": structure.merge(p).log_likelihood(wide)[0]["log_likelihood"],
            "seen": jax.grad(seen, argnums=2)(p, memory, jnp.zeros((rows, length, width))),
        }

    compiled = jax.jit(everything, compiler_options=QUICKLY)
    return lambda p: jax.tree.map(np.asarray, compiled(p))


def moved(parameters, gradients, rate=0.01):
    """One step of gradient descent."""
    return {name: p - rate * gradients[name] for name, p in parameters.items()}


def assert_alive(*points):
    """Log-probabilities are finite and below 0, and each parameter has a nonzero gradient at one of the points.

    Key biases are excluded: they shift all scores of a query alike, which does not change a softmax. The bias of the
    norm of slots shifts the scores of all slots alike.
    """
    alive = set()
    for point in points:
        assert np.isfinite(point["log_likelihood"]).all() and (point["log_likelihood"] < 0).all()
        alive |= {name for name, g in point["gradients"].items() if np.abs(g).max() > 1e-7}
    dead = points[0]["gradients"].keys() - alive
    dead = sorted(name for name in dead if not name.endswith(("attention.key.bias", "slot_norm.bias")))
    assert not dead, f"the gradient of {dead} is always zero"


def assert_stepping_is_the_full_forward(point):
    stepped, full = (point[name][point["mask"]] for name in ("stepped", "log_likelihood"))
    np.testing.assert_allclose(stepped, full, rtol=1e-5, atol=3e-5)


def assert_causal(point):
    """d h(y_t) / d embedding(y_s) is 0 for s > t and not for s <= t: causality by gradient."""
    gradient = point["seen"]
    assert (gradient[:, T_SEEN + 1 :] == 0).all() and (np.abs(gradient[:, : T_SEEN + 1]).max((0, 2)) > 0).all()


def assert_alone_as_in_the_batch(point, batch):
    """A row alone, with more padding on either side, has the same likelihoods as in the batch."""
    real = np.asarray(batch["target"][1] != 0)
    found = point["alone"][0, : len(real)][real]
    np.testing.assert_allclose(found, point["log_likelihood"][1][real], atol=3e-5)
