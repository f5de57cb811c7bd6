"""The exact laws: each holds for our kernels and layers, and fails for wrong ones."""

import sys
from functools import partial
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.experiments.lectures.laws import attention as attention_laws
from attention_research.experiments.lectures.laws import convolution as convolution_laws
from attention_research.experiments.lectures.laws import gating
from attention_research.experiments.lectures.laws import layers as layer_laws
from attention_research.experiments.lectures.laws import masks as mask_laws
from attention_research.experiments.lectures.laws import recurrence as recurrent_laws
from attention_research.experiments.lectures.laws import selection as selection_laws
from attention_research.experiments.lectures.laws.law import MODULES, Found, gap, law_of, measure_law
from attention_research.kernels import attend, dot_scores, hard_attention
from attention_research.layers.attention.multi_head import MultiHeadAttention
from attention_research.layers.attention.standard import StandardAttention

ALL = (attention_laws, layer_laws, mask_laws, selection_laws, recurrent_laws, gating, convolution_laws)
LAWS = {claim: law for module in ALL for claim, law in module.LAWS.items()}


def test_every_claim_has_one_law():
    assert len(LAWS) == sum(len(module.LAWS) for module in ALL) == 9 + 8 + 3 + 4 + 6 + 1 + 1
    assert all(law_of(claim) is law for claim, law in LAWS.items()) and len(MODULES) == len(ALL)
    with pytest.raises(KeyError, match="nonsense: no law"):
        law_of("nonsense")


#: The fast tests check one law of most modules.
QUICK = ("embedding-is-lookup", "hard-zero-one", "convolution-is-hard-attention")


@pytest.mark.parametrize("claim", [pytest.param(c, marks=[] if c in QUICK else [pytest.mark.slow]) for c in LAWS])
def test_the_law_holds(claim):
    found = measure_law(claim=claim, draws=1, seed=1)
    assert found["holds"] == 1.0, found
    assert found["zero"] == max(found["zeros"].values()) and (found["other"] is None) == (not found["others"])


def noisy(scores, values, mask=None):
    """A layer whose output depends on the positions of keys and queries."""
    context, weights = attend(scores, values, mask)
    places = 1e-6 * jnp.arange(values.shape[1], dtype=values.dtype)
    return context + jnp.einsum("s,bsd->bd", places, values)[:, None] + 1e-6 * context.sum(
        axis=1, keepdims=True
    ), weights


def unnormalised(scores, values, mask=None):
    weights = jax.nn.sigmoid(scores) if mask is None else jax.nn.sigmoid(scores) * mask
    return jnp.einsum("bts,bsd->btd", weights, values), weights


def forgetful(scores, values, mask=None):
    """A layer that ignores its mask."""
    return attend(scores, values)


def reads_values(scores, values, mask=None):
    return attend(scores + values.sum(axis=-1)[:, None] ** 2, values, mask)


#: Law -> the replaced function, and its wrong replacement.
WRONG = {
    "attention-three-steps": (attention_laws, "attend", unnormalised),
    "weights-sum-to-one": (attention_laws, "attend", forgetful),
    "fixed-size-from-any-set": (attention_laws, "attend", forgetful),
    "keys-permutation-invariant": (attention_laws, "attend", noisy),
    "one-output-per-query": (attention_laws, "attend", noisy),
    "output-width-from-values": (attention_laws, "attend", lambda scores, values: (scores, scores)),
    "matrix-form-equals-loop": (attention_laws, "scaled_dot_scores", dot_scores),
    "dot-against-cosine": (attention_laws, "cosine_scores", dot_scores),
    "query-key-value-roles": (attention_laws, "attend", reads_values),
    "self-attention-equivariant": (StandardAttention, "mix", "by place"),
    "self-is-general-with-own-queries": (StandardAttention, "mix", "by place"),
    "heads-concatenate-and-project": (StandardAttention, "mix", "heads mixed"),
    "head-width-keeps-cost": (layer_laws, "lookup", lambda *_: partial(StandardAttention, value_head_width=7)),
    "block-interacts-only-by-attention": (layer_laws, "attention", lambda random: lambda x: x),
    "cross-attention-memory": (MultiHeadAttention, "cache_memory", "another memory"),
    "basic-has-no-parameters": (layer_laws, "attend", unnormalised),
    "mask-to-minus-infinity": (StandardAttention, "mix", "unmasked"),
    "mask-equals-truncation": (StandardAttention, "mix", "unmasked"),
    "encoder-is-unmasked-decoder": (StandardAttention, "mix", "unmasked"),
    "hard-zero-one": (selection_laws, "hard_attention", lambda key, *given: (*attend(*given), None)),
    "hard-argmax-gradient-zero": (selection_laws, "hard_attention", lambda key, *given: (*attend(*given), None)),
    "soft-gradient-smooth": (selection_laws, "attend", lambda *given: hard_attention(None, *given)[:2]),
    "soft-lookup-against-hard": (selection_laws, "SHARP", 1.0),
    "rnn-blind-to-later-steps": (recurrent_laws, "over", lambda one, x, **_: over(one, x, reverse=True)),
    "bidirectional-sees-later-steps": (recurrent_laws, "over", lambda one, x, **_: over(one, x)),
    "rnn-trained-by-backprop": (recurrent_laws, "STENCIL", (0.5,)),
    "rnn-parameters-free-of-length": (recurrent_laws, "constructor_of", lambda section, _=4: constructor_of(section)),
    "conditional-lm-factorisation": (recurrent_laws, "stepwise", lambda *given: 0.9 * stepwise(*given)),
    "decoder-feeds-its-own-output": (StandardAttention, "mix", "by place"),
    "convolution-is-hard-attention": (convolution_laws, "SHARP", 0.2),
    "embedding-is-lookup": (layer_laws, "gap", lambda one, other: gap(one, 1.1 * other)),
    "gating-interactions": (gating, "Mixer", lambda kind, **sizes: mixer("gated", **sizes)),
}
over, stepwise, constructor_of = recurrent_laws.over, recurrent_laws.stepwise, recurrent_laws.constructor_of
mixer = gating.Mixer
mix, cache_memory = MultiHeadAttention.mix, MultiHeadAttention.cache_memory


def by_place(self, query, key, value, where):
    context, weights = mix(self, query, key, value, where)
    return context + 1e-3 * jnp.arange(context.shape[1], dtype=context.dtype)[:, None, None], weights


def heads_mixed(self, query, key, value, where):
    context, weights = mix(self, query, key, value, where)
    return context + context[:, :, ::-1], weights


def unmasked(self, query, key, value, where):
    return mix(self, query, key, value, where._replace(is_causal=False))


METHODS = {"by place": by_place, "heads mixed": heads_mixed, "unmasked": unmasked,
           "another memory": lambda self, memory, **given: cache_memory(self, memory + 1, **given)}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("claim", WRONG)
def test_the_law_fails_for_a_wrong_function(claim, monkeypatch):
    where, name, wrong = WRONG[claim]
    where = sys.modules[where.__name__] if isinstance(where, ModuleType) else where  # a study may have loaded it again
    monkeypatch.setattr(where, name, METHODS.get(wrong, wrong) if isinstance(wrong, str) else wrong)
    assert measure_law(claim=claim, draws=1, seed=1)["holds"] == 0.0


def test_every_law_can_fail():
    assert WRONG.keys() == LAWS.keys()


def test_one_bad_instance_breaks_a_law(monkeypatch):
    calls = iter([Found({"a": 0.0}, {"b": 1.0}), Found({"a": 0.5}, {"b": 2.0})])
    monkeypatch.setitem(mask_laws.LAWS, "made", lambda random: next(calls))
    found = measure_law(claim="made", draws=2, seed=0)
    assert found == {"zero": 0.5, "other": 1.0, "holds": 0.0, "zeros": {"a": 0.5}, "others": {"b": 1.0}, "said": {}}
    assert gap(np.zeros((2, 1)), np.zeros(2)) == float("inf")


@pytest.mark.slow
def test_truncated_passes_are_timed_by_length():
    found = mask_laws.measure_truncation(lengths=(2, 3), width=8, num_heads=2, seconds=0.0, seed=0)
    assert len(found["masked"]) == len(found["truncated"]) == 2 and found["ratio"] == found["ratios"][1] > 0
