"""Pre-training objectives against their definitions, and span corruption against T5's arithmetic, token by token."""

import itertools
from collections import Counter
from math import comb

import numpy as np
import pytest

from attention_research.data.objectives.bert_style import BertStyle
from attention_research.data.objectives.deshuffling import Deshuffling
from attention_research.data.objectives.language_model import LanguageModel
from attention_research.data.objectives.masked_tokens import MaskedTokens
from attention_research.data.objectives.prefix_language_model import PrefixLanguageModel
from attention_research.data.objectives.span_corruption import SpanCorruption, segments
from attention_research.tokens import BOS, EOS

V = 997
OBJECTIVES = {
    "span_corruption": SpanCorruption(vocabulary_size=V),
    "prefix_language_model": PrefixLanguageModel(),
    "language_model": LanguageModel(),
    "deshuffling": Deshuffling(),
    "bert_style": BertStyle(vocabulary_size=V),
    "masked_tokens": MaskedTokens(vocabulary_size=V),
    "masked_tokens_begun": MaskedTokens(begins=True, vocabulary_size=V),
}


def raw_tokens(length, seed=5):
    """Tokens that are not sentinels, some of them repeated."""
    return np.random.default_rng(seed).integers(4, 800, length).astype(np.int32)


def t5_lengths(inputs_length, density, mean):
    """(raw, targets) by T5's random_spans_helper with one sentinel per span on each side."""

    def sides(tokens):
        noise = int(round(tokens * density))
        spans = int(round(noise / mean))
        return tokens - noise + spans + 1, noise + spans + 1

    tokens = inputs_length
    while sides(tokens + 1)[0] <= inputs_length:
        tokens += 1
    targets = sides(tokens)[1]
    return (tokens - 1, targets - 1) if density == 0.5 and targets > inputs_length else (tokens, targets)


def filled_in(source, target, first):
    """The raw tokens: the tokens after each sentinel of the target, inserted at the sentinel in the source."""
    behind, sentinel = {}, None
    for token in target[:-1]:
        if token > first:
            sentinel = token
            behind[sentinel] = []
        else:
            behind[sentinel].append(token)
    return list(itertools.chain.from_iterable(behind.pop(token) if token > first else [token] for token in source[:-1]))


@pytest.mark.parametrize(("inputs", "raw", "targets"), [(512, 568, 114), (128, 141, 29), (64, 70, 14)])
def test_the_published_lengths(inputs, raw, targets):
    lengths = OBJECTIVES["span_corruption"].lengths(inputs)
    assert (lengths.raw, lengths.source, lengths.target) == (raw, inputs, targets)


@pytest.mark.parametrize(("density", "mean"), [(0.15, 3.0), (0.1, 2.0), (0.25, 5.0), (0.5, 3.0), (0.15, 10.0)])
def test_lengths_are_those_of_t5(density, mean):
    objective = SpanCorruption(noise_density=density, mean_span_length=mean, vocabulary_size=V)
    found = {inputs: objective.lengths(inputs) for inputs in (61, 64, 127, 128, 256, 512, 1024)}
    assert {inputs: (one.raw, one.target) for inputs, one in found.items()} == {
        inputs: t5_lengths(inputs, density, mean) for inputs in found
    }


@pytest.mark.parametrize("name", OBJECTIVES)
def test_examples_have_the_announced_lengths_and_depend_on_the_generator(name):
    objective = OBJECTIVES[name]
    for max_length in (61, 64, 131):
        lengths = objective.lengths(max_length)
        assert max(lengths.source, lengths.target) <= max_length
        tokens = raw_tokens(lengths.raw)
        given = tokens.copy()
        examples = [objective(tokens, np.random.default_rng([seed])) for seed in range(23)]
        assert np.array_equal(tokens, given)
        for source, target in examples:
            assert source.dtype == target.dtype == np.int32
            assert source[-1] == EOS and target[-1] == (0 if "masked" in name else EOS)
            assert (source[0] == BOS) == (name == "masked_tokens_begun")
            assert len(source) <= lengths.source and len(target) <= lengths.target
            if name != "prefix_language_model":
                assert (len(source), len(target)) == (lengths.source, lengths.target)
        for again, first in zip(objective(tokens, np.random.default_rng([7])), examples[7], strict=True):
            assert np.array_equal(again, first)
        different = {(source.tobytes(), target.tobytes()) for source, target in examples}
        assert len(different) == 1 if name == "language_model" else len(different) > 8


@pytest.mark.parametrize("density", [0.0, 0.15, 0.5, 0.93])
@pytest.mark.parametrize("mean", [0.5, 1.0, 3.0, 11.0])
def test_source_and_target_together_are_the_text(density, mean):
    objective = SpanCorruption(noise_density=density, mean_span_length=mean, vocabulary_size=V)
    for length in (2, 3, 7, 29, 113):
        tokens = raw_tokens(length)
        noise, spans = objective.counts(length)
        for seed in range(5):
            source, target = objective(tokens, np.random.default_rng(seed))
            assert filled_in(source, target, V - 1 - spans) == tokens.tolist()
            for side in (source, target):  # each sentinel once, in descending order
                assert [token for token in side if token >= V - spans] == list(range(V - 1, V - 1 - spans, -1))
            assert len(source) == length - noise + spans + 1 and len(target) == noise + spans + 1
            assert source[0] == tokens[0] and target[-2] == tokens[-1]


@pytest.mark.parametrize(
    ("length", "noise", "spans"), [(568, 85, 28), (141, 21, 7), (70, 10, 3), (10, 2, 1), (2, 1, 1)]
)
def test_the_share_of_removed_tokens(length, noise, spans):
    objective = OBJECTIVES["span_corruption"]
    assert objective.counts(length) == (noise, spans)
    mask = objective.noise_mask(length, np.random.default_rng(3))
    runs = [gone for gone, _ in itertools.groupby(mask)]
    assert mask.sum() == noise and runs == [False, True] * spans


def test_all_ways_to_cut_are_equally_likely():
    """T5 shuffles the starts of segments: all 15 compositions of 7 into 3 parts are equally likely."""
    generator = np.random.default_rng(11)
    counts = Counter(tuple(segments(7, 3, generator).tolist()) for _ in range(6000))
    expected = {parts for parts in itertools.product(range(1, 6), repeat=3) if sum(parts) == 7}
    assert set(counts) == expected and len(expected) == 15
    squares = sum((count - 400) ** 2 / 400 for count in counts.values())
    assert squares < 36.1  # the 0.999 quantile of chi-squared with 14 degrees of freedom


def test_span_lengths_are_distributed_as_those_of_t5():
    """85 tokens in 28 spans have a mean of 85/28 and the P(length) of a uniform composition."""
    generator, objective = np.random.default_rng(13), OBJECTIVES["span_corruption"]
    lengths = Counter()
    for _ in range(400):
        mask = objective.noise_mask(568, generator)
        lengths.update(len(list(run)) for gone, run in itertools.groupby(mask) if gone)
    total = sum(lengths.values())
    assert total == 400 * 28 and sum(length * count for length, count in lengths.items()) == 400 * 85
    for length in range(1, 9):  # one part is `length`, the rest any composition of 85 - length into 27 parts
        share = comb(84 - length, 26) / comb(84, 27)
        assert lengths[length] / total == pytest.approx(share, abs=4 * (share / total) ** 0.5)


def test_a_prefix_is_cut_anywhere():
    tokens, generator = raw_tokens(7), np.random.default_rng(17)
    cuts = Counter()
    for _ in range(1200):
        source, target = PrefixLanguageModel()(tokens, generator)
        assert [*source[:-1], *target[:-1]] == tokens.tolist()
        cuts[len(source) - 1] += 1
    assert set(cuts) == set(range(1, 7)) and all(abs(count - 200) < 60 for count in cuts.values())


def test_a_language_model_reads_nothing_and_writes_the_text():
    tokens = raw_tokens(13)
    source, target = LanguageModel()(tokens, np.random.default_rng(0))
    assert source.tolist() == [EOS] and target.tolist() == [*tokens, EOS]


def test_deshuffling_puts_tokens_in_order():
    tokens = np.arange(10, 15, dtype=np.int32)
    generator, orders = np.random.default_rng(19), Counter()
    for _ in range(2400):
        source, target = Deshuffling()(tokens, generator)
        assert target.tolist() == [*tokens, EOS] and sorted(source[:-1]) == tokens.tolist()
        orders[tuple(source[:-1].tolist())] += 1
    assert len(orders) == 120 and max(orders.values()) < 50  # 20 of each are expected, with standard deviation 4.5


def test_bert_hides_tokens_one_by_one_and_writes_all():
    """15 % are hidden, a tenth of them by a random token. Binomial counts are within five deviations."""
    objective, tokens, n = BertStyle(vocabulary_size=V), raw_tokens(511), 400 * 511
    examples = [objective(tokens, np.random.default_rng(seed)) for seed in range(400)]
    sources = np.stack([source for source, _ in examples])
    assert all(np.array_equal(target, [*tokens, EOS]) for _, target in examples) and (sources[:, -1] == EOS).all()
    masked, changed = sources[:, :-1] == V - 1, sources[:, :-1] != tokens
    within = lambda count, p: abs(count - n * p) < 5 * np.sqrt(n * p * (1 - p))
    share = 0.15 * 0.1 * (V - 5) / (V - 4)  # a random token is sometimes the original one, or the mask
    assert within(masked.sum(), 0.135 + 0.015 / (V - 4)) and within((changed & ~masked).sum(), share)
    both = (masked[:, 1:] & masked[:, :-1]).sum()
    assert within(both, 0.135**2), "neighbours should be hidden independently"
    others = sources[:, :-1][changed & ~masked]
    assert others.min() >= 4 and len(np.unique(others)) > 0.9 * (V - 5)


def test_masked_tokens_are_predicted_at_their_positions():
    """15 % are chosen: 80 % of them masked, 10 % random, 10 % unchanged. Binomial counts are within five deviations."""
    objective, tokens, n = MaskedTokens(vocabulary_size=V), raw_tokens(511), 400 * 511
    examples = [objective(tokens, np.random.default_rng(seed)) for seed in range(400)]
    source, target = (np.stack(side) for side in zip(*examples, strict=True))
    assert (source[:, -1] == EOS).all() and (target[:, -1] == 0).all()
    source, target = source[:, :-1], target[:, :-1]
    chosen = target != 0
    assert (target == np.where(chosen, tokens, 0)).all() and (
        source[~chosen] == np.tile(tokens, (400, 1))[~chosen]
    ).all()
    masked, same = source == V - 1, source == tokens
    within = lambda count, p: abs(count - n * p) < 5 * np.sqrt(n * p * (1 - p))
    drawn = 0.15 * 0.1 / (V - 4)  # a random token is sometimes the mask, or the original one
    assert within(chosen.sum(), 0.15) and within(masked.sum(), 0.12 + drawn)
    assert within((chosen & same).sum(), 0.015 + drawn)
    others = source[chosen & ~masked & ~same]
    assert others.min() >= 4 and len(np.unique(others)) > 0.9 * (V - 5)
