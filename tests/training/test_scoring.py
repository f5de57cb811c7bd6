"""The texts that an evaluation scores."""

from types import SimpleNamespace

import numpy as np

from attention_research.data.naming import NamingData, SubTokens
from attention_research.training.scoring import texts_of


def test_copied_words_without_a_token_are_written_as_the_source_has_them(tmp_path, monkeypatch):
    """Without the sources, such a word is `<unknown>`. A row that fills a batch has no text."""
    monkeypatch.setenv("ATTENTION_RESEARCH_DATA", str(tmp_path))
    tokenizer = SubTokens(vocabulary_size=12, max_length=8, others=list).fit(["get size", "get size", "size of"])
    (get, size, end), copied = tokenizer.encode(["get size"])[0], 12 + 1
    data = SimpleNamespace(tokenizer=tokenizer)
    data.written = NamingData.written.__get__(data)
    batches = [(np.array([0, -1]), {"source": np.ones((2, 3), int)})]
    translate = lambda given: SimpleNamespace(tokens=np.array([[[copied, size, end]], [[get, end, 0]]]))
    assert texts_of(translate, data, iter(batches), ["get frobnicate", "other"]) == {0: "frobnicate size"}
    assert texts_of(translate, data, iter(batches)) == {0: "<unknown> size"}
