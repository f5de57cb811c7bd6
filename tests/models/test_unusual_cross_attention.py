"""Every kind of attention to a source with settings away from the defaults: padded sources, then steps."""

import jax
import jax.numpy as jnp
import pytest

from attention_research.kernels.masks import padding_mask
from attention_research.registry import CROSS, FAMILIES
from attention_research.tokens import PAD
from tests.models.unusual_models import ALONE, PROMPTS, assert_close, built, run, shifted, stepped, texts
from tests.models.unusual_settings import ROUNDS
from tests.tiers import fast_are

CASES = [f"{kind}-{number}" for number in ROUNDS for kind in FAMILIES[CROSS]]
#: Kinds that cache different arrays, or compute their weights in different ways.
SLOW = {
    f"{kind}-0"
    for kind in ("standard", "cross_relative_keys_bias", "linformer_pooled", "linformer_convolved", "branched",
                 "differential", "gated", "sparsemax", "talking_heads", "length_scaled", "ring")
}  # fmt: skip
FAST = {"linformer-0"}


@pytest.mark.parametrize("name", fast_are(FAST, CASES, slow=SLOW - FAST))
def test_steps_after_padded_sources_are_the_whole_target(name):
    """Sources of 1, 5 and 7 tokens, and targets of 10 tokens. A row alone, without padding, has the same result."""
    merge, parameters = built("transformer", name, CROSS)
    sources, targets = texts()

    def whole(model, sources, targets):
        memory = model.encode({"tokens": sources})
        x, mask = model.vocabulary.target(shifted(targets)), model.encoder.memory_mask(padding_mask(sources != PAD))
        hidden, _ = model.decoder(x, jnp.arange(x.shape[1])[None], None, memory["hidden"], mask)
        return jax.vmap(model.vocabulary.log_probabilities)(hidden)

    def everything(parameters):
        model = merge(parameters)
        cache = model.start(model.encode({"tokens": sources}), targets.shape[1])
        alone = whole(model, sources[ALONE, None, : PROMPTS[ALONE]], targets[ALONE, None])
        return whole(model, sources, targets), stepped(model, cache, targets), alone[0]

    full, one_by_one, alone = run(everything, parameters)
    assert_close(one_by_one, full)
    assert_close(alone, full[ALONE])
