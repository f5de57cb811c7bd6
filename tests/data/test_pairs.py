"""From a name to batches: pure in (seed, step), resumable, complete. The vocabulary does not use the test split."""

import itertools

import numpy as np
import pytest

from attention_research.config import ConfigError
from attention_research.data import prepared, sources
from attention_research.data.tokenizer import SentencePiece

BATCH = 6
SIZES = {"train": 211, "validation": 23, "test": 29}


def same(left, right):
    assert left.keys() == right.keys()
    return all(np.array_equal(left[name], right[name]) for name in left)


def decoded(data, batch):
    """The pairs of text in a batch."""
    pairs = []
    for row in range(len(batch["source"])):
        for segment in range(1, segments(batch, "source")[row].max() + 1):
            ids = [batch[s][row][segments(batch, s)[row] == segment] for s in ("source", "target")]
            pairs.append(tuple(data.tokenizer.decode(ids)))
    return pairs


def segments(batch, side):
    """[B T]: 0 is padding, 1 and up are the examples of a row. A plain batch has one for each row."""
    return batch.get(f"{side}_segments", (batch[side] != 0).astype(np.int32))


@pytest.fixture(params=[False, True], ids=["buckets", "packed"])
def data(request, made_up, pair_data):
    return pair_data(max_length=97, packed=request.param).prepare()


def test_an_epoch_is_the_training_text(data):
    steps = data.plan(5, BATCH).steps_per_epoch
    for epoch in range(2):
        found = [p for i in range(steps) for p in decoded(data, data.batch_at(5, epoch * steps + i, BATCH))]
        assert data.dropped == 0 and sorted(found) == sorted(zip(*data.text("train"), strict=True))


def test_the_iterator_is_the_pure_function_and_resumes_anywhere(data):
    steps = 2 * data.plan(5, BATCH).steps_per_epoch + 3
    whole = list(itertools.islice(data.train_batches(5, BATCH), steps))
    assert [step for step, _ in whole] == list(range(steps))
    for step in np.random.default_rng(0).permutation(steps):
        assert same(data.batch_at(5, int(step), BATCH), whole[step][1])
    for start in (1, steps // 2):
        resumed = itertools.islice(data.train_batches(5, BATCH, start_step=start), 4)
        for (step, batch), (expected_step, expected) in zip(resumed, whole[start:], strict=False):
            assert step == expected_step and same(batch, expected)


def test_seeds_give_other_batches(data):
    assert not same(data.batch_at(5, 0, BATCH), data.batch_at(6, 0, BATCH)) or not same(
        data.batch_at(5, 1, BATCH), data.batch_at(6, 1, BATCH)
    )


def test_hosts_together_see_the_batch(data):
    for step, hosts in itertools.product((0, 7), (2, 3)):
        whole = data.batch_at(5, step, BATCH)
        parts = [next(data.train_batches(5, BATCH, step, host, hosts))[1] for host in range(hosts)]
        assert same(whole, {name: np.concatenate([part[name] for part in parts]) for name in whole})


def test_rows_must_divide_over_hosts(data):
    with pytest.raises(ConfigError, match="^training.batch_size: 6 rows do not divide over 4 hosts$"):
        data.train_batches(5, BATCH, hosts=4)


def test_batches_have_the_shapes_that_were_announced_without_reading(data, monkeypatch, pair_data):
    seen = {
        tuple(sorted((name, value.shape) for name, value in data.batch_at(5, step, BATCH).items()))
        for step in range(data.plan(5, BATCH).steps_per_epoch)
    }
    monkeypatch.setattr(prepared, "prepare", lambda *_: pytest.fail("read the data"))
    monkeypatch.setattr(sources, "builder", lambda *_: pytest.fail("read the data"))
    unread = pair_data(max_length=97, packed=len(data.batching.shapes()) == 1)
    assert seen <= {tuple(sorted(shapes.items())) for shapes in unread.train_shapes(BATCH)}


def test_evaluation_sees_every_example_exactly_once(data):
    source, target = data.text("test")
    seen, widths = [], []
    for ids, batch in data.evaluation_batches("test", 5):
        assert ids.shape == (5,) and {value.shape[0] for value in batch.values()} == {5}
        assert not segments(batch, "source")[ids < 0].any() and segments(batch, "source").max() == 1
        real = ids[ids >= 0]
        assert data.tokenizer.decode(batch["source"][ids >= 0]) == [_without_unknown(source[i]) for i in real]
        assert data.tokenizer.decode(batch["target"][ids >= 0]) == [_without_unknown(target[i]) for i in real]
        seen += real.tolist()
        widths.append(batch["source"].shape[1])
        assert batch["target"].shape == batch["source"].shape
    assert sorted(seen) == list(range(SIZES["test"]))
    assert widths == sorted(widths) and set(widths) <= set(data.batching.evaluation_lengths())


def _without_unknown(text):
    """The letter of the test split only is unknown to the vocabulary, and unknown tokens are not shown."""
    return " ".join(text.replace("ж", "").split())


def test_long_pairs_are_dropped_from_training_and_cut_in_evaluation(made_up, pair_data):
    everything, short = pair_data(max_length=97).prepare(), pair_data(max_length=31).prepare()
    lengths = [
        max(len(s), len(t))
        for s, t in zip(*(everything.tokenizer.encode(side) for side in everything.text("train")), strict=True)
    ]
    assert short.dropped == sum(length > 31 for length in lengths) > 0
    assert short.sizes() == SIZES | {"train": SIZES["train"] - short.dropped}
    found = [
        p for i in range(short.plan(0, BATCH).steps_per_epoch) for p in decoded(short, short.batch_at(0, i, BATCH))
    ]
    expected = [p for p, n in zip(zip(*short.text("train"), strict=True), lengths, strict=True) if n <= 31]
    assert sorted(found) == sorted(expected)
    full = short.tokenizer.encode(short.text("validation")[0])
    cut = 0
    for ids, batch in short.evaluation_batches("validation", 4):
        for row, example in enumerate(ids.tolist()):
            if example >= 0:
                tokens = batch["source"][row][segments(batch, "source")[row] == 1].tolist()
                whole = full[example]
                assert tokens == (whole if len(whole) <= 31 else whole[:30] + [2])
                cut += len(whole) > 31
    assert cut > 0


def test_the_vocabulary_is_trained_on_the_training_split_only(made_up, monkeypatch, pair_data):
    lines, train = [], SentencePiece._train
    monkeypatch.setattr(SentencePiece, "_train", lambda self, text: (lines.extend(text), train(self, text))[1])
    data = pair_data().prepare()
    french, english = data.text("train")
    assert lines == french + english
    assert data.tokenizer.encode(["жж"])[0].count(3) == 1 and data.tokenizer.decode(data.tokenizer.encode(["tt"])) == [
        "tt"
    ]


def test_smaller_training_sets_are_nested_and_determine_the_vocabulary(made_up, pair_data):
    few, more = pair_data(train_examples=29).prepare(), pair_data(train_examples=61).prepare()
    pairs = [set(zip(*data.text("train"), strict=True)) for data in (few, more)]
    assert [len(side) for side in pairs] == [29, 61] and pairs[0] < pairs[1]
    assert few.sizes() == SIZES | {"train": 29 - few.dropped}
    assert few.fingerprint != more.fingerprint and few.tokenizer.fingerprint != more.tokenizer.fingerprint
    assert few.text("test") == more.text("test")


def test_the_fingerprint_follows_the_content(made_up, pair_data):
    first = pair_data().prepare()
    assert pair_data().prepare().fingerprint == first.fingerprint
    assert pair_data(source_language="en", target_language="fr").prepare().fingerprint != first.fingerprint
    made_up["test"][0]["fr"] += b" a"
    changed = pair_data().prepare()
    assert changed.fingerprint != first.fingerprint
    assert changed.tokenizer.fingerprint == first.tokenizer.fingerprint


def test_later_opens_read_nothing(made_up, monkeypatch, pair_data):
    """If the set has files (simulated by a stamp), opening it uses the cached arrays."""
    monkeypatch.setattr(sources, "stamp", lambda name: "unchanged")
    first = pair_data().prepare()
    with monkeypatch.context() as patch:
        patch.setattr(sources, "open_split", lambda *_: pytest.fail("read the text"))
        again = pair_data().prepare()
    assert again.fingerprint == first.fingerprint and same(again.batch_at(5, 9, BATCH), first.batch_at(5, 9, BATCH))
    monkeypatch.setattr(sources, "stamp", lambda name: "changed")
    made_up["train"][0]["fr"] += b" a"
    assert pair_data().prepare().fingerprint != first.fingerprint


def test_missing_split_and_no_short_pair_are_one_line(made_up, pair_data):
    data = pair_data(max_length=1).prepare()
    with pytest.raises(ConfigError, match="^wmt14_translate/fr-en has no split 'dev'; it has train, validation, test$"):
        next(data.evaluation_batches("dev", 4))
    with pytest.raises(
        ConfigError, match="^max_length: no training pair of wmt14_translate/fr-en has at most 1 tokens$"
    ):
        data.batch_at(0, 0, 4)


def test_a_part_of_a_split_is_a_fixed_sample(data):
    whole = sorted(i for ids, _ in data.evaluation_batches("test", 4) for i in ids.tolist())
    parts = [
        {i for ids, _ in data.evaluation_batches("test", size, examples=examples) for i in ids.tolist() if i >= 0}
        for size, examples in ((4, 11), (3, 11), (4, 17), (4, 1000))
    ]
    assert [len(part) for part in parts] == [11, 11, 17, SIZES["test"]]
    assert parts[0] == parts[1] < parts[2] < parts[3] == {i for i in whole if i >= 0}
    lengths = data._prepared.tokens["test"][0].lengths
    assert max(lengths[list(parts[0])]) > np.median(lengths)  # the sample is not made of the shortest ones


def test_target_tokens_are_those_that_the_loss_counts(made_up, pair_data):
    data = pair_data(max_length=31).prepare()
    for split in SIZES:
        encoded = data.tokenizer.encode(data.text(split)[1])
        sources = data.tokenizer.encode(data.text(split)[0])
        if split == "train":
            encoded = [t for s, t in zip(sources, encoded, strict=True) if max(len(s), len(t)) <= 31]
        cut = [ids if len(ids) <= 31 else ids[:30] + [2] for ids in encoded]
        np.testing.assert_array_equal(np.sort(data.target_tokens(split)), np.sort(np.concatenate(cut)))
        assert sorted(map(tuple, data.target_sentences(split))) == sorted(map(tuple, cut))
    some = sum(int(segments(batch, "target").sum()) for _, batch in data.evaluation_batches("test", 4, examples=5))
    assert len(data.target_tokens("test", 5)) == some


@pytest.mark.slow
@pytest.mark.data
def test_the_real_bible_in_batches(bible_data):
    assert bible_data.describe() == f"bible_translate/fr-en · {bible_data.sizes()['train']:,} pairs · 8,000 pieces"
    assert bible_data.dropped < 0.06 * 27_750
    ids = [ids for ids, _ in bible_data.evaluation_batches("test", 64)]
    assert sorted(np.concatenate(ids)[np.concatenate(ids) >= 0].tolist()) == list(range(1589))
    step, batch = next(bible_data.train_batches(0, 64, start_step=12_345))
    assert step == 12_345 and same(batch, bible_data.batch_at(0, 12_345, 64))
    text = set(zip(*bible_data.text("train"), strict=True))
    assert all(pair in text for pair in decoded(bible_data, batch))
