"""Folders with any name: checkpoints are written, read back and found again, and every command works there."""

import json
import os

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp
import pytest

from attention_research.cli import main
from attention_research.errors import RunError
from attention_research.training import writer
from attention_research.training.checkpoints import Checkpoints
from attention_research.training.plain_path import plain_path
from tests.tiers import fast_are

#: Wildcards, quotes, escapes, URLs, other scripts, names that are not UTF-8, and the longest name.
NAMES = {
    "brackets": "x[1]", "star": "a*b", "question": "q?", "space": " a  b ", "quotes": "'q' \"d\"", "hash": "#h",
    "percent": "100% %5B", "unicode": "é中𝕏e\u0301", "dash": "-dash", "newline": "two\nlines", "backslash": "a\\b",
    "braces": "{1..2}{seed}", "shell": "$HOME;~&|!`", "cloud": "gs:", "hidden": ".hidden", "control": "\x01\x7f\t",
    "bytes": os.fsdecode(b"caf\xe9"), "writing": "x.orbax-checkpoint-tmp", "number": "7", "long": "n" * 255,
}  # fmt: skip
STATE = {"parameters": {"a": jnp.arange(15.0).reshape(3, 5), "b": jnp.ones((2, 2))}, "statistics": {}}
ABSTRACT = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), STATE)


@pytest.mark.parametrize(
    "name", fast_are(["brackets", "star", "quotes", "newline", "cloud", "bytes", "writing", "long"], NAMES)
)
def test_a_checkpoint_in_a_folder_of_any_name_is_read_back(name, tmp_path):
    folder = tmp_path / name / name / ".." / name
    with Checkpoints(folder) as checkpoints:
        checkpoints.save(1, STATE)
        checkpoints.wait()
    with Checkpoints(folder) as checkpoints:
        assert checkpoints.latest() == 1
        restored = checkpoints.restore(1, ABSTRACT)
    assert (restored["parameters"]["a"] == STATE["parameters"]["a"]).all()


def test_a_pattern_does_not_reach_into_another_folder(tmp_path):
    """A temporary file in aXb/ does not belong to a*b/."""
    states = {name: {"parameters": {name[1]: jnp.full(3, float(i))}} for i, name in enumerate(["aXb", "a*b", "a[X]b"])}
    opened = {name: Checkpoints(tmp_path / name) for name in states}
    for name, checkpoints in opened.items():
        checkpoints.save(1, states[name])
    for name, checkpoints in opened.items():
        checkpoints.wait()
        found = checkpoints.restore(1, jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), states[name]))
        assert (found["parameters"][name[1]] == states[name]["parameters"][name[1]]).all()
        checkpoints.close()


def test_a_symbolic_link_and_a_folder_of_temporary_files_with_special_names(tmp_path, monkeypatch):
    (tmp_path / "real[1]").mkdir()
    (tmp_path / "link[2]").symlink_to("real[1]")
    (tmp_path / "tmp*").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp*"))
    with Checkpoints(tmp_path / "link[2]") as checkpoints:
        checkpoints.save(1, STATE)
    with Checkpoints(tmp_path / "real[1]") as checkpoints:
        assert checkpoints.latest() == 1 and checkpoints.stored(1)
    monkeypatch.setattr("attention_research.training.plain_path._TEMPORARY", ())
    with pytest.raises(RunError, match="special characters, and no link to it can be made"):
        plain_path(tmp_path / "real[1]")


@pytest.mark.parametrize("harm", ["an array", "a file", "everything"])
def test_a_checkpoint_is_read_back_before_it_counts_as_saved(harm, tmp_path, monkeypatch):
    """A checkpoint with a missing array, cut short or unreadable is set aside, and the previous one is kept."""
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, STATE)
        checkpoints.wait()
        saved, metadata = ocp.AsyncCheckpointer.save, ocp.AsyncCheckpointer.metadata
        if harm == "an array":
            less = {"parameters": {"a": STATE["parameters"]["a"]}}
            lossy = lambda self, path, args: saved(self, path, args=ocp.args.PyTreeSave(less))
            monkeypatch.setattr(ocp.AsyncCheckpointer, "save", lossy)
        elif harm == "a file":
            seal = writer.digests.seal

            def cut(folder):
                seal(folder)
                (folder / "_METADATA").write_text("{")

            monkeypatch.setattr(writer.digests, "seal", cut)
        else:
            monkeypatch.setattr(ocp.AsyncCheckpointer, "metadata", lambda *a: metadata(*a) and 1 / 0)
        with pytest.raises(RunError, match=r"checkpoint 2 not written .*cannot be read back .* continues from step 1"):
            checkpoints.save(2, STATE)
            checkpoints.wait()
        monkeypatch.undo()
        assert checkpoints.steps() == [1] and (tmp_path / "checkpoints" / "damaged-2").is_dir()
        checkpoints.save(2, STATE)
        checkpoints.wait()
        assert checkpoints.latest() == 2


SMALL = {
    "data.name": "wmt14_translate/fr-en", "data.source_language": "fr", "data.target_language": "en", "max_length": 31,
    "vocabulary_size": 8000, "model.width": 8, "model.num_heads": 2, "model.num_layers": 1, "training.steps": 1,
    "model.feed_forward.hidden_width": 8, "training.batch_size": 4, "training.eval_batches": 1, "decoding.beam_size": 1,
    "evaluation.average": 1, "evaluation.examples": 4,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.usefixtures("mock_data")
def test_every_command_works_in_a_folder_of_any_name(tmp_path, capsys):
    folder = tmp_path / "x[1]*?'q' \"d\"#%20\\gs:é" / "two\nlines"
    given = [f"--config.{path}={value}" for path, value in SMALL.items()]
    train = ["train", "--config=configs/translation/transformer.py:vaswani_base", f"--workdir={folder}/", *given]
    (tmp_path / "words.txt").write_text("un deux\n")
    assert main(train) == 0
    said = capsys.readouterr().err.splitlines()
    assert "\\n" in said[-1] and said[-1].startswith("run ")
    assert main([*train, "--config.training.steps=2"]) == 0
    assert "continuing from step 1 in" in capsys.readouterr().err
    for words in (
        ["evaluate", f"--workdir={folder}"],
        ["generate", f"--workdir={folder}", f"--input={tmp_path / 'words.txt'}"],
        ["export", f"--workdir={folder}", str(folder / "m[1].safetensors")],
        ["report", str(folder)],
        ["compare", str(folder), str(folder)],
    ):
        assert main(words) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert main(["status", str(tmp_path), "--json"]) == 0
    (line,) = json.loads(capsys.readouterr().out)
    assert line["folder"] == str(folder) and line["state"] == "finished"
    assert main(["status", str(tmp_path)]) == 0 and len(capsys.readouterr().out.splitlines()) == 2
