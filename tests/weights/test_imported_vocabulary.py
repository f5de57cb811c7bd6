"""Vocabularies of checkpoint folders against the tokenizers that wrote them, with ids in our order."""

import io
import json

import pytest
import sentencepiece

from attention_research.analysis.alignment_figure import words_of
from attention_research.analysis.attention import labels
from attention_research.data.hugging_face import HuggingFaceTokenizer
from attention_research.data.hugging_face_folder import CheckpointFolder
from attention_research.data.numbering import Numbering
from attention_research.data.sentinels import WithSentinels
from attention_research.errors import ConfigError
from attention_research.tokens import BOS, EOS, PAD, UNKNOWN

tokenizers = pytest.importorskip("tokenizers", reason="the extra `weights` is not installed")
TEXTS = ["the cat sat on the mat", "a dog , a cat and a mat", "the dog saw the cat on a mat"] * 5
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "a", "cat", "dog", "sat", "on", "mat", "##s", "and", ","]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTENTION_RESEARCH_DATA", str(tmp_path / "cache"))


def folder_of(tmp_path, type_, size, **config):
    folder = tmp_path / type_
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": type_, "vocab_size": size, **config}))
    return folder


@pytest.fixture
def wordpiece(tmp_path):
    folder = folder_of(tmp_path, "bert", len(WORDS), pad_token_id=0)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return folder


@pytest.fixture
def bytes_of_gpt2(tmp_path):
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(TEXTS, vocab_size=280, special_tokens=["<|endoftext|>"])
    end = tokenizer.token_to_id("<|endoftext|>")
    folder = folder_of(tmp_path, "gpt2", tokenizer.get_vocab_size(), eos_token_id=end, bos_token_id=end)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder, tokenizer


def test_wordpieces_are_theirs_in_our_order(wordpiece):
    ours = HuggingFaceTokenizer(folder=str(wordpiece), vocabulary_size=40).fit(())
    theirs = tokenizers.BertWordPieceTokenizer(str(wordpiece / "vocab.txt"))
    text = "The cats, a bird and the mat"
    (ids,) = ours.encode([text])
    assert ours.pieces(ids) == [*theirs.encode(text, add_special_tokens=False).tokens, "[SEP]"]
    assert ids[-1] == EOS and UNKNOWN in ids and ours.pieces([PAD, BOS, EOS, UNKNOWN]) == ["[PAD]", "[CLS]", "[SEP]",
                                                                                        "[UNK]"]  # fmt: skip
    assert ours.decode([[BOS, *ids, 5]]) == ["the cats, a and the mat"]
    assert ours.size == len(WORDS) - 1, "[MASK] is outside: its id is the last one, like a sentinel's"
    assert CheckpointFolder(wordpiece).numbering.theirs[-1] == WORDS.index("[MASK]")


def test_case_is_kept_where_the_folder_says_so(wordpiece):
    (wordpiece / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    ours = HuggingFaceTokenizer(folder=str(wordpiece), vocabulary_size=40).fit(())
    assert ours.encode(["The cat"])[0][0] == UNKNOWN


def test_an_id_that_the_folder_lacks_is_not_written(wordpiece):
    """A model may have more rows than the folder has tokens."""
    ours = HuggingFaceTokenizer(folder=str(wordpiece), vocabulary_size=40).fit(())
    (ids,) = ours.encode(["the cat"])
    assert ours.decode([[39, *ids]]) == ["the cat"] and ours.pieces([39]) == ["[39]"]


def test_bytes_are_theirs_and_decode_to_the_text(bytes_of_gpt2):
    folder, theirs = bytes_of_gpt2
    ours = HuggingFaceTokenizer(folder=str(folder), vocabulary_size=300).fit(())
    text = "the dog's über cat"
    (ids,) = ours.encode([text])
    numbering = CheckpointFolder(folder).numbering
    assert [numbering.theirs[token] for token in ids[:-1]] == theirs.encode(text).ids
    assert ids[-1] == EOS and min(ids) >= EOS and ours.decode([ids]) == [text]
    assert numbering.silent[PAD] and numbering.silent[BOS] and numbering.theirs[BOS] == numbering.theirs[EOS]


def test_pieces_of_bytes_are_labelled_as_those_of_sentencepiece(bytes_of_gpt2):
    """A mark before each word, also before the first one, and text in place of the characters that stand for bytes."""
    folder, _ = bytes_of_gpt2
    ours = HuggingFaceTokenizer(folder=str(folder), vocabulary_size=300).fit(())
    text = "the cats saw über dogs, 猫 !\nand a mat"
    (ids,) = WithSentinels(ours, 300, 5).encode([text])
    pieces = WithSentinels(ours, 300, 5).pieces(ids)
    assert pieces == ours.pieces(ids) and pieces[-1] == "<|endoftext|>"
    assert "".join(pieces[:-1]) == "▁the▁cats▁saw▁<0xC3><0xBC>ber▁dogs,▁<0xE7><0x8C><0xAB>▁!▁<0x0A>▁and▁a▁mat"
    words, spelled = ["the", "cats", "saw", "<0xC3><0xBC>ber", "dogs,"], ["<0xE7><0x8C><0xAB>", "!", "<0x0A>"]
    assert words_of(ours, ids)[0] == [*words, *spelled, "and", "a", "mat", "<|endoftext|>"]
    shown = labels(ours, [BOS, *ids])
    assert shown[:3] == ["<|endoftext|>", "the", "cat"] and shown[3] == "·s" and shown[-2:] == ["mat", "<|endoftext|>"]
    assert ours.pieces([290]) == ["[290]"]


def test_t5_has_its_sentinels_last_in_descending_order(tmp_path):
    folder = folder_of(tmp_path, "t5", 9, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0)
    names = ["<pad>", "</s>", "<unk>", "a", "b", "<extra_id_1>", "<extra_id_0>"]
    model = {"type": "Unigram", "unk_id": 2, "vocab": [[name, -1.0] for name in names]}
    (folder / "tokenizer.json").write_text(json.dumps({"version": "1.0", "model": model, "added_tokens": []}))
    read = CheckpointFolder(folder)
    assert read.sentinels == 2 and read.numbering.theirs[-2:] == (5, 6)
    assert read.numbering.theirs[:4] == (0, 0, 1, 2) and read.numbering.silent[BOS] and not read.numbering.silent[PAD]
    assert sorted(set(read.numbering.theirs)) == list(range(9)), "rows without a token are kept"


def test_marian_reads_with_sentencepiece_and_numbers_by_its_list(tmp_path):

    folder = folder_of(tmp_path, "marian", 40, pad_token_id=39, eos_token_id=0, decoder_start_token_id=39)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=model, vocab_size=20, minloglevel=2
    )
    (folder / "source.spm").write_bytes(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = [processor.id_to_piece(i) for i in range(3, 20)]
    numbers = {"</s>": 0, "<unk>": 1, **{piece: 38 - i for i, piece in enumerate(pieces)}, "<pad>": 39}
    (folder / "vocab.json").write_text(json.dumps(numbers))
    ours = HuggingFaceTokenizer(folder=str(folder), vocabulary_size=50).fit(())
    (ids,) = ours.encode(["the cat sat"])
    assert ours.pieces(ids[:-1]) == processor.encode("the cat sat", out_type=str)
    assert ours.decode([ids]) == ["the cat sat"]
    assert CheckpointFolder(folder).numbering.theirs[:4] == (39, 39, 0, 1)


def test_the_copy_in_the_cache_suffices(wordpiece):
    first = HuggingFaceTokenizer(folder=str(wordpiece), vocabulary_size=40).fit(())
    (wordpiece / "vocab.txt").unlink()
    again = HuggingFaceTokenizer(folder=str(wordpiece), vocabulary_size=40).load(first.path)
    assert again.fingerprint == first.fingerprint and again.encode(TEXTS[:2]) == first.encode(TEXTS[:2])


def test_an_unusable_vocabulary_is_one_line(wordpiece):
    small = HuggingFaceTokenizer(folder=str(wordpiece), vocabulary_size=7)
    with pytest.raises(ConfigError, match=r"has 14 tokens, more than vocabulary_size, 7$"):
        small.fit(())
    (wordpiece / "vocab.txt").unlink()
    with pytest.raises(ConfigError, match=r"has no tokenizer\.json, vocab\.txt or source\.spm$"):
        HuggingFaceTokenizer(folder=str(wordpiece), vocabulary_size=40).fit(())


def test_without_special_tokens_four_silent_rows_come_first():
    numbering = Numbering.of(3, {})
    assert numbering.theirs == (None, None, None, None, 0, 1, 2) and numbering.silent == (True,) * 4 + (False,) * 3
    assert numbering.ours == {0: 4, 1: 5, 2: 6}
