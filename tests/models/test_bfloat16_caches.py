"""Decoding in bfloat16 with settings away from the defaults: steps are as exact as the whole pass in bfloat16.

The error of the steps, compared with the whole pass in float32, is at most twice that of the whole pass in bfloat16. A
cache that is wrong at a single position has a larger error.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.models.test_unusual_settings import KINDS, PROMPTABLE, whole
from tests.models.unusual_models import MOST, PROMPTS, T, V, built, run, shifted, stepped, texts
from tests.tiers import fast_are

#: Kinds that cache different arrays, or compute the products of a step in different ways. The others are long.
SLOW = (
    "standard", "sparsemax", "relative", "latent", "streaming", "path", "multi_token", "selective", "native_sparse",
    "tensor_product", "forgetting_pro", "gated_deltanet", "hyena", "mamba",
)  # fmt: skip
#: Kind -> the parameter that is changed. A single token has a small part in the output of Hyena. An mLSTM divides by
#: sums that may vanish, unless its input gates are nearly closed.
CHANGED = {
    "hyena": ("self_attention.output.kernel", lambda p: 4 * p),
    "mlstm": ("self_attention.input_gate.bias", lambda p: p - 5),
}
#: The token of a text that the wrong cache has read instead of another one. Its own log p is not compared.
WRONG = 5


def another(token):
    """A token other than this one, and not padding."""
    return 1 + token % (V - 1)


def from_the_first(model, _, tokens):
    """log p of all tokens at each position of a text, from one pass."""
    hidden, _ = model.decoder(model.vocabulary.target(shifted(tokens)), jnp.arange(MOST)[None], None)
    return jax.vmap(model.vocabulary.log_probabilities)(hidden)


@pytest.mark.parametrize("kind", fast_are((), KINDS, slow=SLOW))
def test_steps_in_bfloat16_are_as_exact_as_the_whole_pass(kind):
    name, prompts, rest = f"{kind}-0", *texts()
    if name in PROMPTABLE:
        read, far = (prompts, rest), 0
        wrong = prompts.at[jnp.arange(len(PROMPTS)), jnp.array(PROMPTS) - 1].apply(another), rest
        pass_over, begin = whole, lambda model, prompts: model.start(model.encode({"tokens": prompts}), T)
    else:
        read, far = (None, jnp.concatenate([prompts, rest], axis=1)), WRONG + 2
        wrong = None, read[1].at[:, WRONG].apply(another)
        pass_over, begin = from_the_first, lambda model, _: model.start(len(rest), MOST)
    kind_of_model = "language_model" if name in PROMPTABLE else "transformer_decoder"
    (wide, parameters), (narrow, _) = (built(kind_of_model, name, dtype=one) for one in ("float32", "bfloat16"))
    changed, change = CHANGED.get(kind, ("", None))
    parameters = {name: change(p) if change and name.endswith(changed) else p for name, p in parameters.items()}

    def everything(parameters):
        exact, model = pass_over(wide(parameters), *read), narrow(parameters)
        steps = [stepped(model, begin(model, one[0]), one[1]) for one in (read, wrong)]
        return exact, (pass_over(model, *read), *steps)

    exact, found = run(everything, parameters)
    once, steps, with_wrong_cache = (np.abs(np.float32(one) - exact)[:, far:].max() for one in found)
    assert steps <= 2 * once < with_wrong_cache
