"""Unlabelled text to batches: consecutive documents, dense chunks, noise by (seed, epoch, chunk), fixed evaluation."""

import itertools
import random
from functools import partial

import numpy as np
import pytest

from attention_research.config import ConfigError
from attention_research.data import names, sources
from attention_research.data.byte_tokens import Bytes, byte_ids
from attention_research.data.characters import Characters
from attention_research.data.objectives.language_model import LanguageModel
from attention_research.data.objectives.masked_tokens import MaskedTokens
from attention_research.data.objectives.prefix_language_model import PrefixLanguageModel
from attention_research.data.objectives.span_corruption import SpanCorruption
from attention_research.data.sentinels import WithSentinels
from attention_research.data.text import HELD_OUT, TextData
from attention_research.data.tokenizer import SentencePiece
from attention_research.data.words import Words
from attention_research.tasks.perplexity import unigram_perplexity
from attention_research.tokens import BOS, EOS

V, SENTINELS, LENGTH, BATCH = 113, 11, 31, 6
RAW, TARGET = 33, 8  # 5 tokens are cut out in 2 spans
SIZES = {"train": 79, "validation": 19, "test": 17}


@pytest.fixture
def text(data_home):
    """Documents of 1 to 30 words in place of wiki40b/en, in the form of TFDS's own mock."""
    import tensorflow_datasets as tfds

    chance = random.Random(7)
    word = lambda: "".join(chance.choices("abcdefg", k=chance.randint(1, 5)))
    made = {
        split: [{"text": " ".join(word() for _ in range(chance.randint(1, 30))).encode()} for _ in range(size)]
        for split, size in SIZES.items()
    }
    with tfds.testing.mock_data(as_data_source_fn=lambda self, split, **options: made[split]):
        yield made


def text_data(
    name="wiki40b/en", max_length=LENGTH, pieces=V, objective=None, tokenizer=SentencePiece, size=V, **settings
):
    """`TextData` as built from a config."""
    return TextData(
        name=name,
        max_length=max_length,
        vocabulary_size=size,
        tokenizer=partial(tokenizer, vocabulary_size=pieces),
        objective=objective or partial(SpanCorruption, vocabulary_size=size),
        **{"sentinels": SENTINELS} | settings,
    )


def same(left, right):
    return left.keys() == right.keys() and all(np.array_equal(left[name], right[name]) for name in left)


def filled_in(source, target):
    """The raw tokens of a row: the tokens after each sentinel of the target, inserted at the sentinel in the source."""
    spans = {}
    for token in target[target != 0][:-1].tolist():
        if token >= V - SENTINELS:
            spans[token] = behind = []
        else:
            behind.append(token)
    parts = ([*spans.pop(token)] if token in spans else [token] for token in source[source != 0][:-1].tolist())
    return tuple(itertools.chain.from_iterable(parts))


def stream(data, split):
    """All tokens of a split: the documents one after the other, in the data's order."""
    texts = data._choice.text(split)[0]
    order = np.random.default_rng(1910).permutation(len(texts))
    return list(itertools.chain.from_iterable(data._prepared.tokenizer.encode([texts[index] for index in order])))


def cut(tokens, length):
    return [tuple(tokens[start : start + length]) for start in range(0, len(tokens) - length + 1, length)]


@pytest.fixture
def data(text):
    return text_data().prepare()


def test_an_epoch_is_the_text_in_pieces_each_once(data):
    assert (data.lengths.raw, data.lengths.target) == (RAW, TARGET)
    chunks = cut(stream(data, "train"), RAW)
    assert data.sizes()["train"] == len(chunks) and len(chunks) % BATCH and data.dropped == 0
    batches = [data.batch_at(5, step, BATCH) for step in range(2 * len(chunks) // BATCH)]
    rows = [filled_in(*row) for batch in batches for row in zip(batch["source"], batch["target"], strict=True)]
    assert sorted(rows[: len(chunks)]) == sorted(chunks) and rows[: len(chunks)] != chunks
    left = len(rows) - len(chunks)
    assert len(set(rows[len(chunks) :])) == left and set(rows) == set(chunks)
    assert rows[len(chunks) :] != rows[:left]


def test_documents_end_and_are_all_there(data):
    tokens = stream(data, "train")
    assert tokens.count(EOS) == SIZES["train"] and 0 < len(tokens) - RAW * data.sizes()["train"] < RAW
    assert sorted(data._prepared.tokenizer.decode(_documents(tokens))) == sorted(data._choice.text("train")[0])


def _documents(tokens):
    ends = [index + 1 for index, token in enumerate(tokens) if token == EOS]
    return [tokens[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def test_every_batch_is_full_and_as_announced_without_reading(data, monkeypatch):
    monkeypatch.setattr(sources, "builder", lambda *_: pytest.fail("read the data"))
    assert text_data().train_shapes(BATCH) == [{"source": (BATCH, LENGTH), "target": (BATCH, TARGET)}]
    for step in range(30):
        batch = data.batch_at(5, step, BATCH)
        assert {name: x.shape for name, x in batch.items()} == text_data().train_shapes(BATCH)[0]
        assert all(x.dtype == np.int32 and x.all() and (x[:, -1] == EOS).all() for x in batch.values())


def test_the_iterator_is_the_pure_function_and_resumes_anywhere(data):
    steps = 2 * data.sizes()["train"] // BATCH + 3
    whole = list(itertools.islice(data.train_batches(5, BATCH), steps))
    assert [step for step, _ in whole] == list(range(steps))
    fresh = text_data().prepare()
    for step in np.random.default_rng(0).permutation(steps):
        assert same(fresh.batch_at(5, int(step), BATCH), whole[step][1])
    for step, batch in itertools.islice(fresh.train_batches(5, BATCH, start_step=7), 4):
        assert same(batch, whole[step][1])
    assert not same(fresh.batch_at(6, 0, BATCH), whole[0][1])


def test_hosts_together_see_the_batch(data):
    for step, hosts in itertools.product((0, 7), (2, 3)):
        whole = data.batch_at(5, step, BATCH)
        parts = [next(data.train_batches(5, BATCH, step, host, hosts))[1] for host in range(hosts)]
        assert same(whole, {name: np.concatenate([part[name] for part in parts]) for name in whole})
    with pytest.raises(ConfigError, match=r"^training.batch_size: 6 rows do not divide over 4 hosts$"):
        data.train_batches(5, BATCH, hosts=4)


def test_each_epoch_and_each_seed_has_its_own_noise(data):
    """One batch has every chunk once. Compares how each is cut, between epochs and between seeds."""
    size = data.sizes()["train"]
    noise = {}
    for seed, epoch in ((5, 0), (5, 1), (6, 0)):
        batch = data.batch_at(seed, epoch, size)
        rows = zip(batch["source"], batch["target"], strict=True)
        noise[seed, epoch] = {filled_in(source, target): target.tolist() for source, target in rows}
    for one, other in itertools.combinations(noise.values(), 2):
        assert one.keys() == other.keys()
        assert sum(one[chunk] != other[chunk] for chunk in one) > 0.9 * len(one)  # there are 4 x 27 ways to cut
    tokens = cut(stream(data, "train"), RAW)
    source, target = SpanCorruption(vocabulary_size=V)(np.array(tokens[3]), np.random.default_rng([5, 1, 3]))
    assert noise[5, 1][tokens[3]] == target.tolist()


def test_evaluation_sees_every_chunk_once_and_always_the_same(data):
    chunks, seen, again = cut(stream(data, "test"), RAW), {}, {}
    for rows, found in ((4, seen), (7, again)):
        for ids, batch in text_data().prepare().evaluation_batches("test", rows):
            assert ids.shape == (rows,) and not batch["source"][ids < 0].any() and not batch["target"][ids < 0].any()
            for index, source, target in zip(ids.tolist(), batch["source"], batch["target"], strict=True):
                assert index < 0 or index not in found
                if index >= 0:
                    found[index] = (source.tolist(), target.tolist())
                    assert filled_in(source, target) == chunks[index]
    assert seen == again and sorted(seen) == list(range(len(chunks))) and len(chunks) % 4 and len(chunks) > 4
    some = [{i for ids, _ in data.evaluation_batches("test", 4, examples=n) for i in ids.tolist() if i >= 0}
            for n in (3, 5, 1000)]  # fmt: skip
    assert [len(one) for one in some] == [3, 5, len(chunks)] and some[0] < some[1] < some[2]


def test_text_has_the_inputs_and_targets_of_evaluation(data):
    sources_, targets = data.text("validation")
    assert len(sources_) == len(targets) == data.sizes()["validation"]
    for source, target in zip(sources_, targets, strict=True):
        assert source.split().count("<extra_id_0>") == target.split().count("<extra_id_0>") == 1
        assert target.startswith("<extra_id_0> ") and source.endswith(" <extra_id_1>")
    ids, batch = next(data.evaluation_batches("validation", 4))
    expected = data.tokenizer.encode([targets[ids[0]]])[0]
    without = [token for token in batch["target"][0].tolist() if token != EOS]
    assert [token for token in expected if token >= V - SENTINELS] == [t for t in without if t >= V - SENTINELS]


def test_target_tokens_and_the_unigram_model_know_sentinels(data):
    for split in ("train", "test"):
        expected = [batch["target"][ids >= 0].ravel() for ids, batch in data.evaluation_batches(split, 4)]
        np.testing.assert_array_equal(data.target_tokens(split), np.concatenate(expected))
    counts = np.ones(V)
    for token in data.target_tokens("train"):
        counts[token] += 1
    log_p = np.log(counts / counts.sum())
    expected = np.exp(-np.mean([log_p[token] for token in data.target_tokens("test")]))
    assert unigram_perplexity(data, "test", None) == pytest.approx(expected)


@pytest.mark.parametrize("tokenizer", [SentencePiece, Words])
def test_the_vocabulary_leaves_room_for_sentinels_and_uses_the_training_split(text, monkeypatch, tokenizer):
    lines, fit = [], tokenizer.fit
    monkeypatch.setattr(tokenizer, "fit", lambda self, text, report: (lines.extend(text), fit(self, text, report))[1])
    data = text_data(tokenizer=tokenizer).prepare()
    assert lines == [one["text"].decode() for one in text["train"]]
    assert data._prepared.tokenizer.size == V - SENTINELS and data.tokenizer.size == V
    assert data.describe() == f"wiki40b/en · {data.sizes()['train']:,} chunks of {RAW} tokens · 113 pieces"
    assert data._prepared.tokens["train"][0].flat.max() < V - SENTINELS


def test_a_tokenizer_without_ends_of_sentences_keeps_the_character_before_a_sentinel(data_home):
    """Characters are numbered from 4 in the order of their code points."""
    known = WithSentinels(Characters(vocabulary_size=16).fit(["abc."]), 20, 4)
    assert known.encode(["c.<extra_id_0>a"]) == [[7, 4, 19, 5, EOS]]


def test_bytes_leave_room_for_sentinels(text):
    data = text_data(tokenizer=Bytes, size=271, pieces=271).prepare()
    assert data.tokenizer.encode(["a <extra_id_0>"]) == [[*byte_ids("a"), 270, EOS]]
    assert data.batch_at(5, 0, BATCH)["source"].max() == 270
    with pytest.raises(ConfigError, match=r"^vocabulary_size: 259 leaves no room for 256 bytes and 4 others$"):
        text_data(tokenizer=Bytes, size=270, pieces=270)


def test_sentinels_are_read_and_written(data):
    known, plain = data.tokenizer, data._prepared.tokenizer
    assert isinstance(known, WithSentinels) and known.fingerprint == plain.fingerprint and known.path == plain.path
    texts = ["ab <extra_id_0> cde <extra_id_10>", "fg", "<extra_id_1>", ""]
    ids = known.encode(texts)
    assert ids[0] == [*plain.encode(["ab"])[0][:-1], V - 1, *plain.encode(["cde"])[0][:-1], V - 11, EOS]
    assert ids[1:] == [plain.encode(["fg"])[0], [V - 2, EOS], [EOS]]
    assert known.decode(ids) == texts and data.read(texts) == ids
    assert known.pieces([V - 1, ids[1][0]]) == ["<extra_id_0>", *plain.pieces(ids[1][:1])]
    assert known.encode(["<extra_id_11>"]) == [[EOS]]  # there are 11, from 0


def test_documents_are_chosen_and_change_the_fingerprint(text):
    few, more = (text_data(train_examples=count).prepare() for count in (29, 61))
    first, second = (set(data._choice.text("train")[0]) for data in (few, more))
    assert len(first) == 29 and len(second) == 61 and first < second and few.fingerprint != more.fingerprint
    assert text_data(train_examples=29).prepare().fingerprint == few.fingerprint
    text["test"][0]["text"] += b" a"
    assert text_data(train_examples=29).prepare().fingerprint != few.fingerprint


def test_masked_text_is_the_text_and_its_targets(text):
    data = text_data(objective=partial(MaskedTokens, begins=True, vocabulary_size=V)).prepare()
    found = data.masked_text("test")
    assert len(found.original) == len(data.chunks("test"))
    assert np.array_equal(found.target[found.chosen], data.target_tokens("test")) and found.mask == V - 1
    for number, chunk in enumerate(data.chunks("test")):
        np.testing.assert_array_equal(found.original[number], [BOS, *chunk, EOS])
    assert 0.7 < (found.source.flat[found.chosen] == found.mask).mean() < 0.9
    assert text_data().prepare().masked_text("test") is None


def test_a_set_without_validation_holds_training_documents_out(text, monkeypatch):
    """lm1b has no validation split."""
    text["train"] = [{"text": f"{'abcdefg'[n % 7]} {n}".encode()} for n in range(3 * HELD_OUT)]
    monkeypatch.setattr(sources, "split_names", lambda name: ("train", "test"))
    data = text_data("lm1b", pieces=61, max_length=7).prepare()
    (train, _), (validation, _) = (data._choice.text(split) for split in ("train", "validation"))
    assert len(validation) == 3 and len(train) == 3 * HELD_OUT - 3 and not set(train) & set(validation)
    assert set(data.sizes()) == {"train", "test", "validation"} and data.sizes()["validation"] > 0
    assert len(text_data("lm1b", pieces=61, train_examples=31)._choice.text("train")[0]) == 31


def test_other_objectives_pad_what_they_leave_empty(text):
    data = text_data(objective=LanguageModel).prepare()
    batch = data.batch_at(5, 0, BATCH)
    chunks = set(cut(stream(data, "train"), LENGTH - 1))
    assert batch["source"].tolist() == [[EOS]] * BATCH and batch["target"].shape == (BATCH, LENGTH)
    assert {tuple(row[:-1]) for row in batch["target"].tolist()} < chunks and (batch["target"][:, -1] == EOS).all()
    batch = text_data(objective=PrefixLanguageModel).prepare().batch_at(5, 0, BATCH)
    for source, target in zip(batch["source"], batch["target"], strict=True):
        source, target = source[source != 0], target[target != 0]
        assert (*source[:-1].tolist(), *target[:-1].tolist()) in chunks
    assert {x.shape for x in batch.values()} == {(BATCH, LENGTH - 1)} and not batch["target"].all()


WRONG = {
    "sentinels": ({"sentinels": 1}, r"data.sentinels: 1; 31 tokens need 2"),
    "no_room": ({"sentinels": V}, r"data.sentinels: 113 of 113 tokens of the tokenizer, which are to be more"),
    "too_many": ({"pieces": V + 1}, r"data.sentinels: 11 of 114 tokens .* at most 113, data.vocabulary_size"),
    "length": ({"max_length": 2}, r"data.max_length: no example has at most 2 tokens"),
    "name": ({"name": "wiki4b/en"}, r"data.name: no such data set: 'wiki4b/en'; did you mean wiki40b\?"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_one_line_before_any_data(name):
    settings, line = WRONG[name]
    with pytest.raises(ConfigError, match=f"^{line}"):
        text_data(**settings)


def test_mistakes_found_in_the_data_are_one_line(text):
    with pytest.raises(ConfigError, match=r"^data.name: wmt14_translate/fr-en has no feature text; it has en, fr$"):
        text_data("wmt14_translate/fr-en").prepare()
    data = text_data(max_length=4001, objective=LanguageModel).prepare()
    with pytest.raises(ConfigError, match=r"^data.max_length: the test text of wiki40b/en is shorter than \d+ tokens$"):
        next(data.evaluation_batches("test", 4))
    with pytest.raises(ConfigError, match=r"^wiki40b/en has no split 'dev'; it has train, validation, test$"):
        next(text_data().prepare().evaluation_batches("dev", 4))


def test_text_sets_are_known_by_name():
    for name in ("c4/en", "c4/en:3.1.0", "wiki40b/de", "lm1b", "lm1b:1.1.0", "reviews/imdb"):
        names.check_name(name)
    for name in ("opus", "lm2b", "c4/en:new", "reviews"):
        assert not names.is_known(name), name


@pytest.mark.slow
@pytest.mark.data
def test_real_reviews_are_cut_as_t5_cuts_c4(monkeypatch):
    monkeypatch.delenv("ATTENTION_RESEARCH_DATA", raising=False)
    settings = dict(vocabulary_size=8000, max_length=128)
    data = TextData(
        name="reviews/imdb",
        objective=partial(SpanCorruption, vocabulary_size=8000),
        tokenizer=partial(SentencePiece, vocabulary_size=8000),
        **settings,
    ).prepare()
    assert data.train_shapes(64) == [{"source": (64, 128), "target": (64, 29)}] and data.sizes()["train"] > 40_000
    step, batch = next(data.train_batches(0, 64, start_step=12_345))
    assert step == 12_345 and same(batch, data.batch_at(0, 12_345, 64)) and batch["source"].all()
