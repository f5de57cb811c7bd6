"""Every kind of causal attention with settings away from the defaults: prompts of different lengths, then steps."""

import re

import jax
import jax.numpy as jnp
import pytest

from attention_research.config import schema
from attention_research.models.language_model import at_the_end, places
from attention_research.registry import CAUSAL, CROSS, FAMILIES, PREFIX, PROMPTED
from attention_research.tokens import PAD
from tests.models.causal_kinds import NOT_CAUSAL
from tests.models.unusual_models import ALONE, MOST, PROMPTS, T, assert_close, built, run, shifted, stepped, texts
from tests.models.unusual_settings import AT_DEFAULT, MORE, OF_THE_MODEL, ROUNDS, unusual
from tests.tiers import fast_are

KINDS = [kind for kind in FAMILIES[CAUSAL] if kind not in NOT_CAUSAL]
CASES = [*(f"{kind}-{number}" for number in ROUNDS for kind in KINDS), *MORE]
#: A case whose frequencies depend on the number of keys, padding included.
BY_LENGTH = ("scaled_rotary:dynamic",)
PROMPTABLE = [name for name in CASES if re.split("[-:]", name)[0] in FAMILIES[PROMPTED] and name not in BY_LENGTH]
#: Of round 0, all kinds are slow. The other rounds differ from it in the sizes of the same settings.
SLOW = {
    *(f"{kind}-0" for kind in KINDS), "scaled_rotary:longrope", "streaming:sinks", "transformer_xl_memory:long",
    "gated_deltanet:heads",
}  # fmt: skip
#: Kinds that place positions or compute weights in different ways.
PREFIXED = ("t5", "rotary", "latent", "length_scaled", "exclusive")
FAST = {"native_sparse-0", "streaming-0"}


def whole(model, prompts, rest):
    """log p of all tokens at each position after the prompts, from one pass."""
    source = at_the_end(prompts)
    real = jnp.concatenate([source != PAD, jnp.ones(rest.shape, bool)], axis=1)
    x = jnp.concatenate([model.vocabulary.source(source), model.vocabulary.target(shifted(rest))], axis=1)
    hidden, _ = model.decoder(x, places(real), real[:, None, None], prompt=source.shape[1], real=real)
    return jax.vmap(model.vocabulary.log_probabilities)(hidden[:, source.shape[1] :])


def test_every_setting_of_every_kind_is_away_from_its_default():
    for family, kinds in ((CAUSAL, KINDS), (CROSS, FAMILIES[CROSS])):
        for kind in kinds:
            settings, signature = unusual(family, kind, 0), schema.signature(family, kind)
            assert settings.keys() - {"kind"} == signature.keys() - {*OF_THE_MODEL}
            usual = [name for name, value in settings.items() if name != "kind" and signature[name].default == value]
            assert {*usual} <= {*AT_DEFAULT}, f"{kind}: {usual}"


@pytest.mark.parametrize("name", fast_are(FAST & {*PROMPTABLE}, PROMPTABLE, slow=SLOW & {*PROMPTABLE} - FAST))
def test_prompts_of_different_lengths_and_steps_are_the_whole_text(name):
    """Prompts of 1, 5 and 7 tokens with padding on their left, then 10 tokens one by one. The text is longer than any
    window, block or chunk of round 0, and no multiple of it."""
    assert_prompts_and_steps_are_the_whole_text(name)


@pytest.mark.parametrize("kind", fast_are((), [*FAMILIES[PREFIX]], slow=PREFIXED))
def test_prompts_that_see_all_their_tokens_and_steps_are_the_whole_text(kind):
    assert_prompts_and_steps_are_the_whole_text(f"{kind}-0", decoder={"kind": "prefix"})


def assert_prompts_and_steps_are_the_whole_text(name, **sections):
    merge, parameters = built("language_model", name, **sections)
    prompts, rest = texts()

    def everything(parameters):
        model = merge(parameters)
        cache = model.start(model.encode({"tokens": prompts}), T)
        alone = whole(model, prompts[ALONE, None, : PROMPTS[ALONE]], rest[ALONE, None])
        return whole(model, prompts, rest), stepped(model, cache, rest), alone[0]

    full, one_by_one, alone = run(everything, parameters)
    assert_close(one_by_one, full)
    assert_close(alone, full[ALONE])


@pytest.mark.parametrize("name", fast_are(FAST - {*PROMPTABLE}, CASES, slow=SLOW - FAST - {*PROMPTABLE}))
def test_a_text_from_its_first_token_is_the_whole_text(name):
    """17 tokens one by one, in a cache of 17 positions. Kinds that can read a prompt are long tests here."""
    merge, parameters = built("transformer_decoder", name)
    tokens = jnp.concatenate(texts(), axis=1)

    def both(parameters):
        model = merge(parameters)
        hidden, _ = model.decoder(model.vocabulary.target(shifted(tokens)), jnp.arange(MOST)[None], None)
        return jax.vmap(model.vocabulary.log_probabilities)(hidden), stepped(
            model, model.start(len(tokens), MOST), tokens
        )

    full, one_by_one = run(both, parameters)
    assert_close(one_by_one, full)
