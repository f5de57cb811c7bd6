"""A run keeps its own vocabulary: if its text changes, moves or is deleted, results stay the same or are refused."""

import hashlib
import json
import shutil
from functools import partial

import pytest

from attention_research.cli import main
from attention_research.config import ConfigError, build, load
from attention_research.export import load as exported
from attention_research.registry import FAMILIES, lookup
from attention_research.tokens import EOS
from attention_research.training import keeping
from attention_research.training.workdir import load_config
from tests.tiers import fast_are

FILES = [f"corpus/{split}.{side}" for split in ("train", "validation", "test") for side in ("fr", "en")]
SMALL = {
    "max_length": 13, "vocabulary_size": 61, "data.batching.boundaries": "(13,)", "model.width": 8,
    "model.num_heads": 2, "model.num_layers": 1, "model.feed_forward.hidden_width": 8, "training.steps": 2,
    "training.batch_size": 4, "training.checkpoint_every": 1, "training.eval_batches": 1, "training.log_every": 1,
}  # fmt: skip


def write_corpus(folder, words="rouge bleu vert noir blanc gris"):
    """Writes six files into a folder."""
    (folder / "corpus").mkdir(parents=True, exist_ok=True)
    words = words.split()
    for number, name in enumerate(FILES):
        lines = [f"le mot {words[(i + number // 2) % len(words)]} {words[i * i % len(words)]}" for i in range(17)]
        (folder / name).write_text("".join(f"{line}\n" for line in lines))


def arguments(root, workdir, **settings):
    said = SMALL | {
        f"data.{split}": f"corpus/{split}.fr,corpus/{split}.en" for split in ("train", "validation", "test")
    }
    words = [f"--config.{path}={value}" for path, value in (said | settings).items()]
    return ["train", f"--config={root}/configs/translation/files.py:cpu", f"--workdir={workdir}", *words]


@pytest.fixture(scope="module")
def trained(tmp_path_factory, root, programs_once):
    """(the folder in which the run was trained, the results of evaluate and generate there)."""
    home = tmp_path_factory.mktemp("keeping")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTENTION_RESEARCH_DATA", str(home / "data"))
        patch.chdir(home)
        write_corpus(home)
        assert main(arguments(root, "run")) == 0
        assert main(["evaluate", "--workdir=run"]) == 0
    return home


@pytest.fixture
def place(trained, tmp_path, monkeypatch):
    """A copy of the run and its text in a separate folder, with an empty data cache and another current folder."""
    shutil.copytree(trained, tmp_path / "home", dirs_exist_ok=True, ignore=shutil.ignore_patterns("data"))
    document = json.loads((tmp_path / "home/run/data.json").read_text().replace(str(trained), str(tmp_path / "home")))
    (tmp_path / "home/run/data.json").write_text(json.dumps(document))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("ATTENTION_RESEARCH_DATA", str(tmp_path / "data"))
    return tmp_path / "home"


def scores(workdir):
    found = json.loads((workdir / "evaluation.json").read_text())
    return {name: value for name, value in found.items() if name != "seconds"}


def other_words(place, *splits):
    """Replaces the words of some splits, which gives another vocabulary."""
    kept = {name: (place / name).read_text() for name in FILES}
    write_corpus(place, "un deux trois quatre cinq six sept")
    for name, text in kept.items():
        if name.split("/")[1].split(".")[0] not in splits:
            (place / name).write_text(text)


@pytest.mark.slow
def test_the_training_text_may_change_or_be_deleted(place, capsys):
    """`evaluate` gives the same numbers and `generate` the same text, from another folder and with an empty cache."""
    before, written = scores(place / "run"), []
    for change in (
        lambda: None,
        lambda: other_words(place, "train", "validation"),
        lambda: shutil.rmtree(place / "corpus"),
    ):
        change()
        if (place / "corpus").exists():
            (place / "run/evaluation.json").unlink()
            assert main(["evaluate", f"--workdir={place / 'run'}"]) == 0
            assert scores(place / "run") == before
        capsys.readouterr()
        assert main(["generate", f"--workdir={place / 'run'}", "--input=le mot rouge"]) == 0
        assert main(["export", f"--workdir={place / 'run'}", str(place / "model.safetensors"), "--tokenizer"]) == 0
        written.append(capsys.readouterr().out)
    assert written[0] == written[1] == written[2]
    assert exported(place / "model.safetensors").tokenizer.encode(["le mot"])[0][-1] == EOS
    assert main(["report", str(place / "run")]) == 0


@pytest.mark.slow
def test_other_files_are_evaluated_without_the_text_of_the_run(place, capsys):
    """`evaluate --files` scores a copy of the test text like the test text itself. evaluation.json is unchanged."""
    before = scores(place / "run")
    for side in ("fr", "en"):
        shutil.copy(place / f"corpus/test.{side}", f"other.{side}")
    shutil.rmtree(place / "corpus")
    command = ["evaluate", f"--workdir={place / 'run'}", "--json"]
    assert main([*command, "--files=other.fr,other.en"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found.pop("split") == "other.fr and other.en" and found.pop("seconds") > 0
    assert found == {name: value for name, value in before.items() if name != "split"}
    assert scores(place / "run") == before
    with open(place / "run/config.json") as file:
        config = json.load(file)
    config["resolved"]["evaluation"]["examples"] = 5  # a part of the run's own text, but all of the given one
    with open(place / "run/config.json", "w") as file:
        json.dump(config, file)
    assert main([*command, "--files=other.fr,other.en"]) == 0
    assert json.loads(capsys.readouterr().out)["sentences"] == 17
    with open("other.en", "a") as file:
        file.write("one more\n")
    for files, line in (
        ("other.fr", "--files=other.fr: expected SOURCE,TARGET, two files of which line i translates line i"),
        ("other.fr,none.en", "--files: no such file: none.en"),
        ("other.fr,other.en", "--files: other.fr has 17 lines and other.en has 18 lines; line i of one has to"),
    ):
        assert main([*command, f"--files={files}"]) == 2
        assert f"error: {line}" in capsys.readouterr().err


@pytest.mark.slow
def test_a_copied_project_uses_its_own_files(place, monkeypatch):
    """The copy is used whether or not the first place still exists unchanged. The text is looked for at both places."""
    before, copied = scores(place / "run"), place.parent / "copied"
    shutil.copytree(place, copied)
    monkeypatch.chdir(copied)
    for change in (lambda: other_words(place, "test"), lambda: shutil.rmtree(place)):
        change()
        assert main(["evaluate", "--workdir=run"]) == 0 and scores(copied / "run") == before


@pytest.mark.parametrize("kind", FAMILIES["data"])
def test_every_kind_of_data_can_be_kept(kind):
    made = lookup("data", kind)
    assert callable(made.take) and callable(made.learned) and made.kept is None


@pytest.mark.slow
def test_a_changed_test_text_is_refused(place, capsys):
    other_words(place, "test")
    assert main(["evaluate", f"--workdir={place / 'run'}"]) == 2
    changed = " and ".join(str(place / f"corpus/test.{side}") for side in ("fr", "en"))
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(f"error: config.data.test: {changed} has changed since the run in {place / 'run'} began; ")
    (place / "corpus/test.fr").unlink()
    assert main(["evaluate", f"--workdir={place / 'run'}"]) == 2
    assert "error: config.data.test: no such file: " in capsys.readouterr().err


def content(folder):
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("split", fast_are([], ["train", "validation"]))
def test_training_does_not_continue_with_a_changed_text(place, root, capsys, monkeypatch, split):
    """The error is one line that names the file. Nothing in the folder is overwritten."""
    monkeypatch.chdir(place)
    other_words(place, split)
    kept = {name: content(place / "run" / name) for name in ("vocabulary", "checkpoints")}
    files = {name: (place / "run" / name).read_text() for name in ("environment.json", "data.json", "metrics.jsonl")}
    assert main(arguments(root, "run", **{"training.steps": 3})) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert (
        line.startswith(f"error: config.data.{split}: {place}/corpus/{split}.fr and ") and "has changed since" in line
    )
    assert kept == {name: content(place / "run" / name) for name in kept}
    assert files == {name: (place / "run" / name).read_text() for name in files}
    write_corpus(place)
    assert main(arguments(root, "run", **{"training.steps": 3})) == 0


def test_files_kept_by_a_run_are_checked(place, capsys):
    """A damaged or missing vocabulary gives a one-line error in every command."""
    (file,) = [path for path in (place / "run/vocabulary").iterdir() if path.suffix == ".model"]
    file.write_bytes(file.read_bytes()[:-1])
    for said in ("damaged (not the file whose SHA-256 data.json holds)", "No such file or directory"):
        for command in (["generate", "--input=le mot"], ["evaluate"], ["export", "x.safetensors"]):
            assert main([command[0], f"--workdir={place / 'run'}", *command[1:]]) == 2
            assert f"error: {file}: {said}" in capsys.readouterr().err
        file.unlink(missing_ok=True)


@pytest.mark.slow
def test_a_run_of_an_earlier_version(place, capsys):
    """Without data.json the run is used if the text gives the same vocabulary, and refused in one line otherwise."""
    (place / "run/data.json").unlink()
    shutil.rmtree(place / "run/vocabulary")
    before = scores(place / "run")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        assert main(["evaluate", "--workdir=run"]) == 0 and scores(place / "run") == before
        other_words(place, "train")
        capsys.readouterr()
        for command in (["evaluate"], ["generate", "--input=le mot"]):
            assert main([*command, "--workdir=run"]) == 2
            assert "the training text has changed since" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [kind for kind in FAMILIES["tokenizer"] if kind != "hugging_face"])
def test_every_tokenizer_is_kept(place, root, monkeypatch, kind):
    """Each kind gives the same ids after the text has changed, whatever the cache holds."""
    monkeypatch.chdir(place)
    said = {"data.train": ("corpus/train.fr", "corpus/train.en"), "data.tokenizer": {"kind": kind}}
    said["data.tokenizer"] |= {"run": "run"} if kind == "from_run" else {}
    sizes = [("max_length", 61), ("vocabulary_size", 293)]
    files = [
        (f"data.{split}", (f"corpus/{split}.fr", f"corpus/{split}.en")) for split in ("train", "validation", "test")
    ]
    config = load(f"{root}/configs/translation/files.py:cpu", [*sizes, *files, *said.items()])
    make = partial(build(config.resolved["data"], "data"))
    first, folder = make().prepare(), place / kind
    (folder / "checkpoints/1").mkdir(parents=True)
    keeping.keep(first, folder, config, lambda line: None)
    line = "le mot vert, et un autre"
    ids = first.read([line])
    other_words(place, "train", "validation", "test")
    if kind == "from_run":
        shutil.rmtree(place / "run")
    shutil.rmtree(place.parent / "data", ignore_errors=True)
    again = make()
    keeping.ready(again, folder, lambda line: None)
    assert again.read([line]) == ids and again.written(ids, [line]) == first.written(ids, [line])
    with pytest.raises(ConfigError, match=r"^config\.data\.test: .* has changed since"):
        next(again.evaluation_batches("test", 3))
    assert load_config(place / "run") if kind != "from_run" else True


@pytest.mark.slow
def test_omitted_cut_and_duplicate_examples_are_reported(place, root, monkeypatch, capsys):
    """The numbers are printed to stderr once, when training starts, and stored in data.json."""
    monkeypatch.chdir(place)
    lines = ["le mot rouge rouge", "", "le mot", "x" * 99, "le  mot vert"]
    (place / "corpus/train.fr").write_text("\n".join(lines) + "\n")
    (place / "corpus/train.en").write_text("\n".join(["the red", "no source", "", "the x", "the green"]) + "\n")
    (place / "corpus/test.fr").write_text("le mot vert\nle mot rouge rouge\nneuf\n")
    (place / "corpus/test.en").write_text(f"the green\nanother\n{'y' * 99}\n")
    assert main(arguments(root, "said", **{"data.tokenizer.kind": "bytes", "vocabulary_size": 260, "max_length": 31,
                                           "data.batching.boundaries": "(31,)"})) == 0  # fmt: skip
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("data  ")]
    assert told == [
        "data  3 examples of train left out: 1 empty source, 1 empty target, 1 more than 31 tokens",
        "data  1 example of test cut",
        "data  2 examples of test have a source that is in the training text, 1 with the same target",
    ]
    facts = json.loads((place / "said/data.json").read_text())["facts"]
    assert facts["left_out"] == {"train": {"empty source": 1, "empty target": 1, "more than 31 tokens": 1}}
    assert facts["repeated"] == {"test": {"sources": 2, "pairs": 1}} and facts["cut"] == {"test": 1}


def test_a_vocabulary_that_the_text_does_not_fill_is_explained():
    (line,) = keeping.remarks({"vocabulary": {"asked": 8000, "tokens": 1045}})
    assert line == (
        "the training text is too small for this vocabulary: it fills only 1,045 of 8,000 tokens, and the other 6,955 "
        "rows of the model's tables are never trained; set --config.vocabulary_size=1045 or less, or use more text"
    )
    (line,) = keeping.remarks({"vocabulary": {"asked": 80, "tokens": 68}})
    assert line.startswith("the training text fills 68 of 80 tokens, and the other 12 rows")
    assert not list(keeping.remarks({"vocabulary": {"asked": 8000, "tokens": 8000}}))
