"""Every kind of attention of an encoder: padding, what a position depends on, and live parameters.

`test_causal_kinds.py` does the same for decoders, and `test_transformer.py` for models with both.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from causal_kinds import CAUSAL_KINDS
from facts import QUICKLY, T_SEEN, assert_alive, batch_of, moved

from attention_research.registry import FAMILIES
from attention_research.tasks.auxiliary import auxiliary_loss
from tests.tiers import fast_are

#: Kind -> its settings, if they differ from those in decoders or if a decoder does not have the kind.
SETTINGS = {
    **CAUSAL_KINDS,
    "bigbird": {"block_size": 2},
    "block_local": {"block_size": 5},
    "dot_synthesizer": {},
    "isab": {"num_points": 5, "normalize": True},
    "linformer": {"rank": 5},
    "linformer_pooled": {"cell_width": 3},
    "linformer_convolved": {"cell_width": 3},
    "one_sided": {},
    "one_sided_relative_bias": {"max_distance": 3},
    "reformer": {"half_buckets": 2, "chunk_size": 4},
}
#: Kinds whose last seen position is not after the query.
ONE_SIDED = ("one_sided", "one_sided_relative_bias")
#: Fast: a kind that hands values to the layers above.
QUICK = ("value_residual",)
#: Slow: kinds that differ in which positions they see. The others are long.
SLOW = (
    "standard", "relative", "positional", "linformer", "ring", "one_sided_relative_bias", "sliding_window", "isab",
    "dynamic_convolution", "random_synthesizer", "performer", "block_local", "bigbird", "reformer", "sinkhorn",
)  # fmt: skip
WIDTH, ROW = 12, 1
SECTION = {"kind": "transformer_encoder", "width": WIDTH, "num_heads": 3, "num_layers": 3,
           "positions": {"kind": "none"}, "feed_forward": {"hidden_width": 17}}  # fmt: skip


@pytest.mark.parametrize("kind", fast_are(QUICK, [*FAMILIES["encoder_attention"]], slow=SLOW))
def test_an_encoder_kind_keeps_the_laws_of_an_encoder(kind, small_with_statistics):
    structure, parameters, statistics = small_with_statistics(
        **SECTION, self_attention={"kind": kind, **SETTINGS[kind]}
    )
    source = batch_of(np.random.default_rng(0))["source"]
    batch = {"source": source, "target": source}
    wide = jax.tree.map(lambda x: jnp.pad(x[ROW : ROW + 1], ((0, 0), (0, 2))), batch)

    def loss(p):
        values, aux = structure.merge(p, statistics).log_likelihood(batch)
        extra = auxiliary_loss(aux, values["mask"])
        loss = -jnp.sum(values["log_likelihood"], where=values["mask"])
        return loss if extra is None else loss + extra, values

    def seen(model, x):
        places = jnp.arange(x.shape[1], dtype=jnp.int32)[None]
        hidden, _ = model.encoder(x, places, (source != 0)[:, None, None, :])
        return jnp.sum(jnp.sin(hidden[:, T_SEEN]))

    def everything(p):
        (_, values), gradients = jax.value_and_grad(loss, has_aux=True)(p)
        model = structure.merge(p, statistics)
        return {
            **values,
            "gradients": gradients,
            "alone": model.log_likelihood(wide)[0]["log_likelihood"],
            "seen": jax.grad(lambda x: seen(model, x))(model.vocabulary.source(source)),
        }

    compiled = jax.jit(everything, compiler_options=QUICKLY)
    point = jax.tree.map(np.asarray, compiled(parameters))
    assert_alive(point, compiled(moved(parameters, point["gradients"])))
    real = np.asarray(source != 0)
    found = point["alone"][0, : real.shape[1]][real[ROW]]
    np.testing.assert_allclose(found, point["log_likelihood"][ROW][real[ROW]], atol=3e-5)
    reached = np.abs(point["seen"]).max(-1)
    assert (reached[~real] == 0).all(), "a position depends on padding"
    assert (reached[:, : T_SEEN + 1].max(0) > 0).any(), "a position does not depend on earlier positions"
    assert (reached[:, T_SEEN + 1 :] > 0).any() == (kind not in ONE_SIDED), "which later positions one depends on"
