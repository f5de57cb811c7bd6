"""Maps of padded batches against the maps of each example alone."""

from types import SimpleNamespace

import numpy as np
import pytest

from attention_research.analysis.attention import attention_maps
from attention_research.analysis.example_maps import example_maps
from attention_research.errors import RunError
from attention_research.tokens import EOS

SOURCES = ([7, 4, 19, 11, EOS], [9, EOS])
TARGETS = ([5, 28, EOS], [6, 8, 8, 3, EOS])


def trained(made):
    """A stand-in for a trained run: two examples and a padding row."""
    structure, arrays = made

    def batches(split, batch_size, examples=None):
        batch = {name: np.zeros((3, 6), np.int32) for name in ("source", "target")}
        for name, sequences in (("source", SOURCES), ("target", TARGETS)):
            for row, tokens in enumerate(sequences):
                batch[name][row, : len(tokens)] = tokens
        yield np.array([0, 1, -1]), batch

    data = SimpleNamespace(evaluation_batches=batches)
    return SimpleNamespace(trainer=SimpleNamespace(structure=structure), data=data, model=lambda: arrays)


@pytest.fixture(scope="module")
def made(small):
    return small()


@pytest.fixture(scope="module")
def alone(made):
    """The maps of each example by itself: title -> map."""
    words = lambda ids: [str(i) for i in ids]
    pairs = zip(SOURCES, TARGETS, strict=True)
    return [{one.title: one for one in attention_maps(*made, source, target, words)} for source, target in pairs]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "title"),
    [
        (("encoder", "self_attention"), "encoder self-attention"),
        (("decoder", "cross_attention"), "cross-attention"),
        (("decoder", "self_attention"), "decoder self-attention"),
    ],
)
def test_maps_equal_those_of_each_example_alone(place, title, made, alone):
    found = list(example_maps(trained(made), place))
    assert len(found) == len(SOURCES)
    for (tokens, maps), source, target, by_itself in zip(found, SOURCES, TARGETS, alone, strict=True):
        np.testing.assert_allclose(maps, by_itself[title].weights, atol=2e-6)
        assert all(list(tokens[name]) == {"source": source, "target": target}[name] for name in tokens)


def test_a_model_without_maps_lists_the_available_ones(made):
    with pytest.raises(RunError, match=r"no weights of decoder alignment; there are: encoder self_attention, "):
        list(example_maps(trained(made), ("decoder", "alignment")))


def test_projections_are_not_cut_to_the_length_of_the_source(small):
    """Linformer's keys are not tokens: there are as many for a short source."""
    made = small(self_attention={"kind": "linformer", "rank": 11})
    for tokens, maps in example_maps(trained(made), ("encoder", "self_attention")):
        assert maps.shape[2:] == (len(tokens["source"]), 11)
        np.testing.assert_allclose(maps.sum(-1), 1.0, atol=1e-5)


def test_layers_with_maps_of_different_sizes_are_no_place(small):
    funnel = trained(small(num_layers=3, encoder={"kind": "funnel"}))
    with pytest.raises(RunError, match="no weights of encoder self_attention; there are: decoder"):
        list(example_maps(funnel, ("encoder", "self_attention")))
    for _, maps in example_maps(funnel, ("decoder", "cross_attention")):
        np.testing.assert_allclose(maps.sum(-1), 1.0, atol=1e-5)


def test_maps_of_a_stack_that_reads_the_source_first_are_refused(small):
    """Their first rows are those of the source, not of the text."""
    with pytest.raises(RunError, match="decoder self_attention: the maps are over the source and the text together"):
        list(example_maps(trained(small(kind="language_model")), ("decoder", "self_attention")))
