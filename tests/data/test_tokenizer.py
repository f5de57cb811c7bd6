"""The vocabulary: ids, round trip, and one file for one text."""

import pytest

from attention_research.config import ConfigError
from attention_research.data.mixed_scripts import MixedScripts
from attention_research.data.tokenizer import MAX_BYTES, SentencePiece

LINES = ["L'ânesse vit l'ange de l'Éternel.", "The donkey saw the angel; she lay down."] * 5 + ["abc é à ¿qué?"]


@pytest.fixture(params=["bpe", "unigram"])
def tokenizer(request, data_home):
    return SentencePiece(model_type=request.param, vocabulary_size=67).fit(LINES)


def test_round_trip(tokenizer):
    assert tokenizer.decode(tokenizer.encode(LINES)) == LINES


def test_special_tokens(tokenizer):
    ids = tokenizer.encode(["she saw", "", "saw жж"])
    assert all(sequence[-1] == 2 and 2 not in sequence[:-1] and not {0, 1} & set(sequence) for sequence in ids)
    assert ids[1] == [2]
    assert 3 in ids[2] and tokenizer.decode([ids[2]]) == ["saw"]
    saw = ids[0][:-1]
    assert tokenizer.decode([[1, *saw, 2, *saw, 2], [*saw, 0, 0], [], [2, *saw]]) == ["she saw", "she saw", "", ""]
    assert all(4 <= token < tokenizer.size <= 67 for token in saw)


def test_a_bracket_and_its_label_can_be_one_piece(data_home):
    """A linearised tree has one token for each bracket and word, and EOS."""
    trees = ["(S (NP XX )NP (VP XX (NP XX XX )NP )VP . )S", "(S (NP XX XX )NP (VP XX )VP . )S"] * 9
    mixed, apart = (kind(vocabulary_size=60).fit(trees) for kind in (MixedScripts, SentencePiece))
    assert [len(ids) for ids in mixed.encode(trees)] == [len(tree.split()) + 1 for tree in trees]
    assert len(apart.encode(trees[:1])[0]) > len(mixed.encode(trees[:1])[0]) and apart.path != mixed.path
    assert mixed.decode(mixed.encode(trees)) == trees


def test_trained_once_for_one_text(data_home, monkeypatch):
    reports = []
    first = SentencePiece(vocabulary_size=67).fit(LINES, reports.append)
    assert reports == ["training a vocabulary of 67 bpe pieces"]
    with monkeypatch.context() as patch:
        patch.setattr(SentencePiece, "_train", lambda *_: pytest.fail("trained again"))
        again = SentencePiece(vocabulary_size=67).fit(list(LINES), reports.append)
    assert (again.path, again.fingerprint, len(reports)) == (first.path, first.fingerprint, 1)
    others = [
        SentencePiece(vocabulary_size=67).fit(LINES[::-1]),
        SentencePiece(vocabulary_size=66).fit(LINES),
        SentencePiece(vocabulary_size=67, model_type="unigram").fit(LINES),
    ]
    assert len({first.path, *(other.path for other in others)}) == 4
    assert sorted(path.name for path in (data_home / "tokenizers").iterdir()) == sorted(
        tokenizer.path.name for tokenizer in (first, *others)
    )


def test_training_is_reproducible(data_home, monkeypatch, tmp_path):
    first = SentencePiece(vocabulary_size=67, model_type="unigram").fit(LINES)
    monkeypatch.setenv("ATTENTION_RESEARCH_DATA", str(tmp_path / "other"))
    second = SentencePiece(vocabulary_size=67, model_type="unigram").fit(LINES)
    assert first.path != second.path and first.fingerprint == second.fingerprint


def test_a_tiny_text_gives_fewer_pieces(data_home):
    tokenizer = SentencePiece(vocabulary_size=8000).fit(["ab ab", "ba"])
    assert 4 < tokenizer.size < 20 and tokenizer.decode(tokenizer.encode(["ab ba"])) == ["ab ba"]


def test_too_few_pieces_is_one_line(data_home):
    with pytest.raises(ConfigError, match=r"^vocabulary_size: 7 pieces cannot be made of this text: [^\n]+$"):
        SentencePiece(vocabulary_size=7).fit(LINES)


def test_lines_that_are_too_long_for_training_are_reported(data_home):
    long = "zz " * (MAX_BYTES // 3) + "q"  # 16,384 bytes, the longest line that SentencePiece takes
    reports = []
    assert 3 not in SentencePiece(vocabulary_size=67).fit([*LINES, long], reports.append).encode(["zz q"])[0]
    assert len(reports) == 1
    assert 3 in SentencePiece(vocabulary_size=67).fit([*LINES, long + "q"], reports.append).encode(["zz q"])[0]
    assert reports[2:] == ["without 1 of 12 lines, which have more than 16,384 bytes each"]
    with pytest.raises(ConfigError, match=r"of this text: no line has 1 to 16,384 bytes$"):
        SentencePiece(vocabulary_size=67).fit(["", long + "q"])


def test_ids_beyond_the_pieces_are_left_out(data_home):
    """A model whose vocabulary is larger than that of a tiny text may produce them."""
    tokenizer = SentencePiece(vocabulary_size=8000).fit(["un deux trois", "one two three"], lambda line: None)
    ids = tokenizer.encode(["un deux"])[0]
    assert tokenizer.size < 8000 and tokenizer.decode([[7999, *ids]]) == ["un deux"]
