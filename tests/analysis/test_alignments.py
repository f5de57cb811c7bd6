"""Statistics of alignments by hand, weights between words, and distances from gold."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from attention_research.analysis import alignment_figure, alignments, picture_file, teacher_forced
from attention_research.analysis.alignment_figure import as_map, over_words, words_of
from attention_research.analysis.teacher_forced import centre_distance, diagonal
from attention_research.tokens import EOS

W = np.asarray([
    [0.7, 0.1, 0.1, 0.1],  # -> 0
    [0.1, 0.2, 0.6, 0.1],  # -> 2
    [0.2, 0.5, 0.2, 0.1],  # -> 1
    [0.1, 0.1, 0.2, 0.6],  # -> 3, after the words
    [0.0, 0.0, 0.0, 0.0],  # nowhere
])  # fmt: skip
GOLD = [(0, 0), (1, 2), (2, 1)]


def test_links_by_hand():
    assert alignments.links(W, 3) == {(0, 0), (2, 1), (1, 2)}
    assert alignments.links(W) == {(0, 0), (2, 1), (1, 2), (3, 3)}
    assert alignments.links(np.full((2, 3), 1 / 3)) == {(0, 0), (0, 1)}


def test_alignment_error_rate_by_hand():
    """A = 3 links, S = 2 of which 1 found, P = 3 of which 2 found: 1 - (1 + 2) / (3 + 2)."""
    found, sure, possible = [(0, 0), (1, 1), (2, 2)], [(0, 0), (2, 1)], [(1, 1), (3, 3)]
    assert alignments.alignment_error_rate([found], [sure], [possible]) == pytest.approx(2 / 5)
    assert alignments.alignment_error_rate([found], [sure]) == pytest.approx(1 - 2 / 5)
    assert alignments.alignment_error_rate([found], [found]) == 0.0
    assert alignments.alignment_error_rate([[]], [[]]) == alignments.alignment_error_rate([found], [[(5, 5)]]) == 1.0


def test_the_rate_divides_summed_counts():
    """1 of 1 and 0 of 3 links: 1 - (2 * 1) / (4 + 4), not the mean of 0 and 1."""
    found, gold = [[(0, 0)], [(0, 0), (0, 1), (0, 2)]], [[(0, 0)], [(1, 0), (1, 1), (1, 2)]]
    assert alignments.alignment_error_rate(found, gold) == pytest.approx(3 / 4)
    assert alignments.accuracy(found, gold) == pytest.approx(1 / 4)


def test_one_correct_link_per_word_suffices_for_accuracy():
    assert alignments.accuracy([[(1, 0), (0, 1)]], [[(0, 0), (1, 0), (1, 1)]]) == pytest.approx(1 / 2)
    assert math.isnan(alignments.accuracy([[]], [[]]))


def test_reordered_words_by_hand():
    """0-0 crosses nothing, while 1-2 and 2-1 cross.

    For their target words 1 and 2, one of two predicted links is right, and one of two gold links is found.
    """
    assert alignments.reordered(GOLD) == {(1, 2), (2, 1)}
    assert alignments.reordered([(0, 0), (0, 1), (1, 2)]) == set()
    found = [(3, 0), (2, 1), (0, 2)]
    assert alignments.inside_reordered([found], [GOLD]) == (pytest.approx(1 / 2), pytest.approx(1 / 2))
    assert alignments.inside_reordered([[(0, 0), (2, 1)]], [GOLD]) == (1.0, pytest.approx(1 / 2))
    assert all(map(math.isnan, alignments.inside_reordered([[(0, 0)]], [[(0, 0)]])))


def test_diagonality_by_hand():
    assert alignments.diagonality(np.eye(5)) == pytest.approx(1.0)
    assert alignments.diagonality(np.eye(3)[::-1]) == pytest.approx(1 - (1 + 0 + 1) / 3)
    assert alignments.diagonality(np.asarray([[1.0, 0, 0], [0, 0, 0], [0, 0.5, 0.5]])) == pytest.approx(1 - 0.25 / 2)
    assert alignments.diagonality(np.full((101, 83), 1 / 83)) == pytest.approx(2 / 3, abs=0.01)
    assert math.isnan(alignments.diagonality(np.zeros((2, 3)))) and alignments.diagonality(np.ones((1, 1))) == 1.0


def test_monotone_steps_by_hand():
    """0, 2, 1, 3, nowhere: forward, back, forward."""
    assert alignments.monotone_steps(W) == pytest.approx(2 / 3)
    assert alignments.monotone_steps(np.eye(4)) == 1.0 and alignments.monotone_steps(np.eye(4)[::-1]) == 0.0
    assert alignments.monotone_steps(np.eye(4)[[1, 1, 2]]) == 1.0 and math.isnan(alignments.monotone_steps(W[:1]))


def test_a_corpus_against_its_gold():
    """The end of the sentence (the last column and row) is not a word."""
    perfect = np.zeros((4, 4))
    for source, target in [*GOLD, (3, 3)]:
        perfect[target, source] = 1.0
    scores = alignments.against_gold([perfect, W[:4]], [GOLD, [(0, 0), (1, 1), (2, 2)]])
    assert scores["alignment_error_rate"] == pytest.approx(1 - 2 * 4 / 12)
    assert scores["alignment_accuracy"] == pytest.approx(4 / 6)
    assert scores["reordered_precision"] == scores["reordered_recall"] == 1.0
    assert scores["monotone_steps"] == pytest.approx(2 / 3) and 0 < scores["diagonality"] < 1


PIECES = ("<pad>", "<s>", "</s>", "<unk>", "▁agree", "ment", "▁the", ",")
TOKENIZER = SimpleNamespace(pieces=lambda tokens: [PIECES[token] for token in tokens])


def test_pieces_are_joined_to_words_and_the_end_is_separate():
    assert words_of(TOKENIZER, [6, 4, 5, 7, 3, 5, EOS]) == (
        ["the", "agreement,", "<unk>", "ment", "</s>"],
        [[0], [1, 2, 3], [4], [5], [6]],
    )


def test_source_pieces_add_up_and_target_pieces_are_averaged():
    weights = np.array([[0.1, 0.2, 0.7], [0.5, 0.3, 0.2], [0.0, 0.0, 1.0]])
    merged = over_words(weights, [[0, 1], [2]], [[0], [1, 2]])
    np.testing.assert_allclose(merged, [[0.3, 0.7], [0.0, 1.0]])
    np.testing.assert_allclose(merged.sum(1), 1.0)
    one = as_map(TOKENIZER, [6, 4, 5], [4, 5, EOS], weights)
    assert one == {"source": ["the", "agreement"], "target": ["agreement", "</s>"], "weights": [[0.3, 0.7], [0.0, 1.0]]}


def test_the_picture_is_written_with_white_for_weight_one(tmp_path):
    from matplotlib.image import imread

    one = {"source": ["a", "b"], "target": ["x", "y", "z"], "weights": [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]}
    picture_file.save(alignment_figure.figure_of([one, {**one, "title": "second"}, one]), tmp_path / "maps.png")
    pixels = imread(tmp_path / "maps.png")[..., :3]
    assert pixels.min() == 0.0 and pixels.max() == 1.0 and pixels.shape[0] > 100


def test_the_centre_and_the_diagonal():
    weights = np.array([[0.0, 0.5, 0.5, 0.0], [0.25, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    gold = [(1, 0), (3, 1), (2, 2)]  # centres 1.5 and 0, and a row of zeros
    assert centre_distance([weights], [gold]) == pytest.approx((0.5 + 3.0) / 2)
    assert centre_distance([weights[2:]], [[(2, 0)]]) is None
    assert diagonal(3, 5).argmax(1).tolist() == [0, 2, 4] and diagonal(1, 4).argmax(1).tolist() == [0]
    assert centre_distance([diagonal(4, 4)], [[(i, i) for i in range(4)]]) == 0.0


def test_measures_accept_the_arguments_of_a_scale():
    import inspect

    for function in (teacher_forced.measure_maps, teacher_forced.measure_gold):
        assert {"workdir", "seed", "examples"} <= inspect.signature(function).parameters.keys()
