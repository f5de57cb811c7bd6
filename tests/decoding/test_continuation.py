"""A language model's continuation of a prompt, against the argmax of full forward passes, token by token."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.config import build_experiment, load
from attention_research.decoding.beam import BeamSearch
from attention_research.decoding.continuation import Continued
from attention_research.decoding.greedy import Greedy
from attention_research.decoding.hugging_face import HuggingFaceBeamSearch
from attention_research.decoding.sampling import Sampling
from attention_research.layers.structure import abstract
from attention_research.tokens import BOS, EOS, PAD
from attention_research.weights import load as load_folder

V, T, S, EXTRA = 13, 11, 7, 4
SMALL = {
    "transformer_decoder": ("configs/language_modelling/transformer.py:smoke",
                            {"model.num_layers": 1, "model.width": 10, "data.sentinels": 1}),
    "recurrent_language_model": ("configs/language_modelling/recurrent.py:smoke", {"model.width": 7}),
    "feed_forward_language_model": ("configs/language_modelling/brown.py:smoke", {"model.width": 7, "model.order": 3}),
}  # fmt: skip
#: Prompts of different lengths. The last row is padding.
PROMPTS = np.asarray(
    [[5, EOS, 0, 0, 0, 0, 0], [4, 9, 12, 7, EOS, 0, 0], [6, 6, 8, 10, 11, 4, EOS], [0] * S], np.int32
)  # fmt: skip


@pytest.fixture(scope="module", params=SMALL)
def model(request, root):
    """The model of a small config, with large parameters so that no choice is nearly tied."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        spec, settings = SMALL[request.param]
        common = {"max_length": T, "vocabulary_size": V, "data.batching.boundaries": "11"}
        common = {k: v for k, v in common.items() if k != "data.batching.boundaries" or "recurrent" in spec}
        parts = build_experiment(load(spec, [*common.items(), *settings.items()]))
    structure, parameters, _ = abstract(lambda rngs: parts.model(rngs=rngs))
    random = np.random.default_rng(3)
    arrays = {name: jnp.asarray(0.5 * random.standard_normal(x.shape), x.dtype) for name, x in parameters.items()}
    return structure.merge(arrays)


@pytest.fixture(scope="module")
def next_log_p(model):
    """Tokens so far -> log p of every next token, from the likelihoods of V full texts."""
    forward = jax.jit(lambda target: model.log_likelihood({"target": target})[0]["log_likelihood"])

    def of(tokens):
        rows = np.zeros((V, T), np.int32)
        rows[:, : len(tokens)] = tokens
        rows[:, len(tokens)] = np.maximum(np.arange(V), 1)  # padding is not a target and never taken
        return np.asarray(forward(rows))[:, len(tokens)]

    return of


def searching(model, search):
    """A function from prompts to the search results."""
    run = jax.jit(partial(search, Continued(model), max_length=T))
    return lambda prompts: jax.tree.map(np.asarray, run({"tokens": jnp.asarray(prompts)}))


def decoded(model, search):
    return searching(model, search)(PROMPTS)


def test_greedy_is_the_argmax_of_full_forward_passes(model, next_log_p):
    found = decoded(model, Greedy(extra_length=EXTRA))
    for row, prompt in enumerate(PROMPTS[:-1]):
        tokens, score = [int(token) for token in prompt if token not in (PAD, EOS)], 0.0
        limit = min(len(tokens) + 1 + EXTRA, T)
        while tokens[-1] != EOS:
            log_p = next_log_p(tokens)
            allowed = [EOS] if len(tokens) + 1 >= limit else [token for token in range(V) if token not in (PAD, BOS)]
            tokens.append(max(allowed, key=lambda token, log_p=log_p: log_p[token]))
            score += float(log_p[tokens[-1]])
        assert found.tokens[row, 0][: found.lengths[row, 0]].tolist() == tokens
        np.testing.assert_allclose(found.log_probabilities[row, 0], score, rtol=2e-5, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "search", [Greedy(extra_length=EXTRA), BeamSearch(beam_size=3, extra_length=EXTRA), Sampling(seed=5)],
    ids=["greedy", "beam", "sampling"],
)  # fmt: skip
def test_every_search_keeps_the_prompt_and_treats_rows_independently(model, search):
    run = searching(model, search)
    together = run(PROMPTS)
    for row, prompt in enumerate(PROMPTS[:-1]):
        given = prompt[(prompt != PAD) & (prompt != EOS)]
        assert (together.tokens[row, :, : len(given)] == given).all() and np.isfinite(together.scores[row, 0])
        assert (together.lengths[row] > len(given)).all()
        alone = run(prompt[None])
        np.testing.assert_array_equal(alone.tokens[0], together.tokens[row])


def test_a_beam_scores_what_the_model_added_alone(model, next_log_p):
    found = decoded(model, BeamSearch(beam_size=3, extra_length=EXTRA))
    for row, prompt in enumerate(PROMPTS[:-1]):
        start = int((prompt > EOS).sum())
        text = found.tokens[row, 0][: found.lengths[row, 0]].tolist()
        added = sum(next_log_p(text[:place])[text[place]] for place in range(start, len(text)))
        np.testing.assert_allclose(found.log_probabilities[row, 0], added, rtol=2e-5, atol=2e-5)
        penalty = ((5 + len(text) - start) / 6) ** 0.6
        np.testing.assert_allclose(found.scores[row, 0], added / penalty, rtol=2e-5, atol=2e-5)


def test_the_length_penalty_counts_what_the_model_added_as_theirs(tmp_path):
    """Hypotheses and scores of `generate` with num_beams in PyTorch, for prompts of different lengths."""
    torch = pytest.importorskip("torch", reason="PyTorch's CPU wheel is for Python 3.11 only")
    transformers = pytest.importorskip("transformers", reason="Hugging Face Transformers is not installed")
    size, beams, extra, longest = 11, 3, 7, 23
    end = size - 1
    torch.manual_seed(1)
    theirs = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=size, n_embd=10, n_layer=1, n_head=2, n_inner=13, n_positions=longest,
                                bos_token_id=end, eos_token_id=end)
    ).eval()  # fmt: skip
    with torch.no_grad():
        for x in theirs.parameters():
            x.add_(0.3 * torch.randn_like(x)) if x.ndim == 1 else x.normal_(std=1.2 * x.shape[-1] ** -0.5)
    theirs.save_pretrained(tmp_path)
    loaded = load_folder(tmp_path)
    prompts = [np.random.default_rng(row).integers(0, end, length) for row, length in enumerate((9, 4, 12, 7))]
    rows = np.zeros((len(prompts), 13), np.int32)
    for row, prompt in zip(rows, prompts, strict=True):
        row[: len(prompt) + 1] = [*(loaded.numbering.ours[token] for token in prompt), EOS]

    @jax.jit
    def run(parameters, penalty):
        search = HuggingFaceBeamSearch(beam_size=beams, length_penalty=penalty, extra_length=extra)
        return search(Continued(loaded.structure.merge(parameters)), {"tokens": jnp.asarray(rows)}, max_length=longest)

    for penalty in (1.0, 2.0, -1.0):
        found = jax.device_get(run(loaded.parameters, penalty))
        for row, prompt in enumerate(prompts):
            with torch.no_grad():
                given = torch.tensor([[end, *prompt]])
                want = theirs.generate(
                    given, attention_mask=torch.ones_like(given), num_beams=beams, num_return_sequences=beams,
                    do_sample=False, length_penalty=penalty, max_new_tokens=extra + 1, pad_token_id=end,
                    return_dict_in_generate=True, output_scores=True,
                )  # fmt: skip
            for rank, sequence in enumerate(want.sequences[:, 1 + len(prompt) :].tolist()):
                added = sequence[: sequence.index(end) + 1] if end in sequence else sequence
                ours = found.tokens[row, rank, len(prompt) : found.lengths[row, rank]]
                assert [loaded.numbering.theirs[token] for token in ours] == added
            np.testing.assert_allclose(found.scores[row], want.sequences_scores, rtol=1e-4)
