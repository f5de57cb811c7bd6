"""The texts that an evaluation scores, and where it writes."""

import errno
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from attention_research.data.naming import NamingData, SubTokens
from attention_research.errors import RunError
from attention_research.training import evaluation
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


def test_a_folder_that_cannot_be_written_is_said_before_anything_is_computed(tmp_path, monkeypatch):
    def refused(path, *words):
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(Path, "touch", refused)
    monkeypatch.setattr(evaluation, "Trained", lambda *words, **options: pytest.fail("it was read"))
    line = f"^cannot write {tmp_path}/evaluation.json: Read-only file system; fix this and rerun the same command$"
    with pytest.raises(RunError, match=line):
        evaluation.evaluate(tmp_path)
    assert not list(tmp_path.iterdir())
