"""User errors: one line that names the error, exit status 2, before anything slow starts.

A standard output that is closed, full, or in a locale without the characters gives at most one line.
"""

import errno
import importlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from flax import nnx

from attention_research.cli import arguments, main, program
from attention_research.layers.embeddings.from_file import FileEmbedding
from tests.tiers import fast_are

CONFIG = "--config=configs/translation/transformer.py:smoke"

MISTAKES = {
    "bad key": (["train", CONFIG, "--workdir={d}", "--config.model.num_head=4"], "did you mean config.model.num_heads"),
    "bad nested key": (["train", CONFIG, "--workdir={d}", "--config.model.encoder.remta=true"], "did you mean"),
    "wrong type": (["train", CONFIG, "--workdir={d}", "--config.model.num_heads=four"], "config.model.num_heads"),
    "float for int": (["train", CONFIG, "--workdir={d}", "--config.training.steps=4.5"], "config.training.steps"),
    "no coordinator": (["train", CONFIG, "--workdir={d}", "--num_processes=2"], "--coordinator_address is missing"),
    "a coordinator without a port": (
        ["train", CONFIG, "--workdir={d}", "--coordinator_address=node0", "--num_processes=1", "--process_id=0"],
        "--coordinator_address: expected HOST:PORT, as in node0:12345; got 'node0'",
    ),
    "a coordinator with a word as port": (
        ["train", CONFIG, "--workdir={d}", "--coordinator_address=node0:x", "--num_processes=1", "--process_id=0"],
        "expected HOST:PORT",
    ),
    "a host index out of range": (
        ["train", CONFIG, "--workdir={d}", "--coordinator_address=a:1", "--num_processes=2", "--process_id=2"],
        "--process_id=2: expected 0 to 1",
    ),
    "an empty profile range": (["train", CONFIG, "--workdir={d}", "--profile=5:4"], "expected FIRST:LAST"),
    "batch size 0": (["train", CONFIG, "--workdir={d}", "--config.training.batch_size=0"], "training.batch_size"),
    "negative steps": (["train", CONFIG, "--workdir={d}", "--config.training.steps=-3"], "config.training.steps"),
    "dropout of 1": (["train", CONFIG, "--workdir={d}", "--config.model.dropout_rate=1.0"], "model.dropout_rate"),
    "heads": (["train", CONFIG, "--workdir={d}", "--config.model.num_heads=5"], "do not divide the width"),
    "rank above length": (
        ["train", CONFIG, "--workdir={d}", "--config.model.self_attention.kind=linformer",
         "--config.model.self_attention.rank=65"], "rank 65 is above max_length 64"),
    "unknown kind": (["train", CONFIG, "--workdir={d}", "--config.model.self_attention.kind=linforme"], "linformer"),
    "causal linformer": (
        ["train", CONFIG, "--workdir={d}", "--config.model.decoder.self_attention.kind=linformer",
         "--config.model.decoder.self_attention.rank=4"], "cannot be causal"),
    "unknown variant": (["train", CONFIG.replace("smoke", "smok"), "--workdir={d}"], "smoke"),
    "unknown file": (["train", "--config=configs/translation/transfomer.py", "--workdir={d}"], "transformer.py"),
    "unknown data set": (["train", CONFIG, "--workdir={d}", "--config.data.name=bible_translate/fr-em"], "fr-en"),
    "no workdir": (["train", CONFIG], "--workdir=DIR is missing"),
    "no config": (["train", "--workdir={d}"], "--config="),
    "no run in the workdir": (["evaluate", "--workdir={d}"], "no run there"),
    "evaluate without a workdir": (["evaluate"], "--workdir=DIR is missing"),
    "analyze without a workdir": (["analyze"], "--workdir=DIR is missing"),
    "generate without input": (["generate", "--workdir={d}"], "no run there"),
    "unknown study": (["reproduce", "ablation/atention"], "ablation/attention"),
    "unknown scale": (["reproduce", "ablation/attention", "--scale=smok"], "smoke"),
    "unknown row": (["reproduce", "ablation/attention", "--scale=smoke", "--rows=standart"], "standard"),
    "unknown runner": (["reproduce", "ablation/attention", "--scale=smoke", "--runner=slurmm"], "did you mean slurm?"),
    "no rows": (["reproduce", "ablation/attention", "--rows=,"], "--rows: expected id,id"),
    "an empty study": (["inspect", "--study="], "no such study"),
    "a misspelt checkpoint": (["import", "all-MiniLM-L6-v3", "--workdir={d}"], "did you mean all-MiniLM-L6-v2?"),
    "a file to import": (["import", "README.md", "--workdir={d}"], "README.md: this is a file; expected a folder"),
    "no seeds": (["reproduce", "ablation/attention", "--scale=smoke", "--seeds=0"], "from 1 up"),
    "unknown command": (["trian"], "did you mean train"),
    "unknown option": (["train", CONFIG, "--workdri={d}"], "--workdir"),
    "unknown list": (["list", "study"], "studies"),
    "a name for a list without one": (["list", "claims", "x"], "list claims x: only list kinds takes a name"),
    "unknown benchmark": (["bench", "atention"], "attention"),
    "sweep without values": (["sweep", CONFIG], "--over"),
    "sweep over a bad key": (["sweep", CONFIG, "--over", "model.num_head=1,4", "--workdir={d}"], "num_heads"),
    "rows of a config": (["inspect", CONFIG, "--rows=a,b"], "--rows=a,b: belongs to --study"),
    "a scale of a config": (["inspect", CONFIG, "--scale=cpu"], "--scale=cpu: belongs to --study"),
    "a folder without an option": (
        ["evaluate", "runs/first"], "runs/first: unexpected word; did you mean --workdir=runs/first?"),
    "a config without an option": (
        ["train", "translation/transformer"], "unexpected word; did you mean --config=translation/transformer?"),
    "a word too many": (["list", "kinds", "norm", "x"], "x: unexpected word of list"),
    "a folder of studies": (["reproduce", "ablation"], "study 'ablation': a folder with studies; there are ablation/"),
    "a misspelt scale of records": (["status", "--stale", "--scale=papr"], "did you mean paper?"),
    "inspect nothing": (["inspect"], "--config"),
    "a misspelt choice of stale trials": (["record", "x", "--stale=rerum"], "did you mean rerun?"),
    "a misspelt search": (["sweep", CONFIG, "--search=tep"], "--search: no such choice: 'tep'; did you mean tpe?"),
    "an unknown shell": (["completion", "ksh"], "shell: no such choice: 'ksh'; did you mean zsh?"),
    "the beginning of a data set": (["data", "prepare", "wmt"], "did you mean wmt14_translate/"),
    "data set to prepare": (["data", "prepare", "bible_translate/fr"], "bible_translate/fr-en"),
    "unknown checkpoint": (["evaluate", "--workdir={d}", "--checkpoint=bset"], "expected last, best or a step"),
    "a fraction of a seed": (["reproduce", "ablation/attention", "--seeds=1.5"], "--seeds: expected a number"),
    "a fraction of a job": (["sweep", CONFIG, "--over=model.num_heads=1,2", "--jobs=2.5"], "--jobs: expected a number"),
    "one value given twice": (
        ["sweep", CONFIG, "--over=training.learning_rate=0.1,1e-1", "--workdir={d}"], "0.1 and 1e-1 are the same"),
    "one int given twice": (
        ["sweep", CONFIG, "--over=model.num_heads=4,2,4.0", "--workdir={d}"], "4 and 4.0 are the same value"),
    "one boolean given twice": (
        ["sweep", CONFIG, "--over=model.encoder.remat=true,True", "--workdir={d}"], "true and True are the same value"),
    "one value of a kind that is swept": (
        ["sweep", CONFIG, "--over=model.encoder.self_attention.kind=linformer,standard",
         "--over=model.encoder.self_attention.rank=4,4e0", "--workdir={d}"], "4 and 4e0 are the same value"),
    "one value of a search given twice": (
        ["sweep", CONFIG, "--over=model.dropout_rate=0.1,.1", "--search=random", "--workdir={d}"], "0.1 and .1 are"),
    "a range of reals for an int": (
        ["sweep", CONFIG, "--over=training.steps=1e2..1e3", "--search=random", "--trials=2", "--workdir={d}"],
        "write whole ends as 100..1000"),
    "override of a trained run": (["evaluate", "--workdir={d}", "--config.model.width=4"], "nothing can be overridden"),
}  # fmt: skip


#: Command -> the words before a path, for every path argument of every command.
PATHS = {
    "train --workdir": ["train", CONFIG, "--workdir={p}"],
    "evaluate --workdir": ["evaluate", "--workdir={p}"],
    "generate --workdir": ["generate", "--workdir={p}", "--input=a"],
    "generate --attention": ["generate", "--workdir=x", "--input=a", "--attention={p}"],
    "analyze --workdir": ["analyze", "--workdir={p}"],
    "analyze --output": ["analyze", "--workdir=x", "--output={p}"],
    "export --workdir": ["export", "--workdir={p}", "a.safetensors"],
    "export FILE": ["export", "--workdir=x", "{p}"],
    "import --workdir": ["import", "bert", "--workdir={p}"],
    "import FOLDER": ["import", "{p}", "--workdir=x"],
    "sweep --workdir": ["sweep", CONFIG, "--over=model.num_heads=1,2", "--workdir={p}"],
    "reproduce --workdir": ["reproduce", "ablation/attention", "--workdir={p}"],
    "status DIR": ["status", "{p}"],
    "compare DIR": ["compare", "x", "{p}"],
    "report DIR": ["report", "{p}"],
    "report --output": ["report", "x", "--output={p}"],
    "attempt DIR": ["attempt", "{p}"],
}
NO_PATHS = {"empty": ("", "got an empty one"), "blank": (" ", "an empty one"), "NUL": ("a\0b", "NUL character"),
            "long": ("a" * 300, "too long")}  # fmt: skip


@pytest.mark.parametrize("wrong", NO_PATHS)
@pytest.mark.parametrize("case", PATHS, ids=[name.replace(" ", "-") for name in PATHS])
def test_an_empty_path_is_refused_everywhere(case, wrong, capsys, tmp_path, monkeypatch, root):
    """Python takes an empty path for the current folder: `--workdir=$UNSET` would train there."""
    monkeypatch.chdir(root)
    path, expected = NO_PATHS[wrong]
    assert main([word.replace("{p}", path) for word in PATHS[case]]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and expected in err and case.split()[1] in err


@pytest.mark.parametrize(
    "words",
    [
        ["report", "x", "--output={p}"], ["train", CONFIG, "--workdir={p}"], ["train", "--config={p}"],
        ["generate", "--input={p}"], ["inspect", "--study={p}"],
    ],
)  # fmt: skip
def test_a_tilde_after_an_equals_sign_is_the_home_folder(words, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    command = importlib.import_module(f"attention_research.cli.{words[0]}")
    parser = arguments.Parser()
    command.options(parser)
    given = parser.parse_args([word.replace("{p}", "~/a") for word in words[1:]])
    option = words[-1].split("=")[0].removeprefix("--")
    assert str(getattr(given, option)) == str(tmp_path / "a")
    assert arguments.place("~nobody-of-this-name/a") == Path("~nobody-of-this-name/a")


@pytest.mark.parametrize("name", ["runs/fist", "runs/frst/"])
def test_a_missing_folder_is_an_error_with_the_nearest(name, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "first").mkdir(parents=True)
    for words in (["evaluate", f"--workdir={name}"], ["report", name], ["compare", name, name], ["status", name]):
        assert main(words) == 2
        err = capsys.readouterr().err
        assert "no such folder" in err and err.endswith("; did you mean runs/first?\n") and err.count("\n") == 1


@pytest.mark.parametrize("case", MISTAKES, ids=[name.replace(" ", "-") for name in MISTAKES])
def test_one_line_and_status_2(case, tmp_path, capsys, monkeypatch, root):
    monkeypatch.chdir(root)
    words, expected = MISTAKES[case]
    status = main([word.replace("{d}", str(tmp_path / "run")) for word in words])
    out, err = capsys.readouterr()
    assert status == 2 and out == ""
    assert err.startswith("error: ") and err.count("\n") == 1 and expected in err
    assert not (tmp_path / "run").exists()


T5, TRANSLATION = "model.encoder.self_attention.kind=t5", "translation/transformer:smoke"
CAPTIONS, RESIDUAL = "images/captions:smoke", "images/residual:smoke"
#: Settings that do not fit, each of which a layer finds -> (the config, its overrides, the message).
UNFIT = {
    "heads of a pooling": (
        "classification/text:smoke", ["model.pooling.kind=pma", "model.pooling.num_heads=3"],
        "num_heads: 3 heads do not divide the width 8"),
    "widths of a dot product": (CAPTIONS, ["model.alignment.score.kind=dot"], "score.kind: a query of width"),
    "an even gate": (
        RESIDUAL, ["model.features.gate.kind=cbam", "model.features.gate.size=4"], "gate.size: expected an odd number"),
    "an even spatial gate": (
        RESIDUAL, ["model.features.gate.kind=spatial", "model.features.gate.size=4"], "gate.size: expected an odd"),
    "an even normalized gate": (
        RESIDUAL, ["model.features.gate.kind=normalized_spatial", "model.features.gate.size=4"], "gate.size: expected"),
    "no exact bucket": (
        TRANSLATION, [T5, "model.encoder.self_attention.num_buckets=1"], "num_buckets: expected at least 4, got 1"),
    "no far bucket": (
        TRANSLATION, [T5, "model.encoder.self_attention.num_buckets=32", "model.encoder.self_attention.max_distance=8"],
        "max_distance: expected more than 8, got 8; 32 buckets have 8 exact distances"),
    "an even window": (
        TRANSLATION, ["model.encoder.self_attention.kind=bigbird", "model.encoder.self_attention.window_blocks=2"],
        "window_blocks: expected an odd number, got 2"),
    "one expert": (
        TRANSLATION, ["model.encoder.feed_forward.kind=mixture_of_experts", "model.encoder.feed_forward.num_experts=1",
                 "model.encoder.feed_forward.expert.hidden_width=8"],
        "num_experts: mixture_of_experts expects at least 2, got 1"),
    "cuDNN on a CPU": (
        TRANSLATION, ["model.encoder.self_attention.implementation=cudnn"],
        "config.model.encoder.self_attention.implementation='cudnn': cuDNN needs a GPU (CUDA); the platform is cpu"),
}  # fmt: skip


@pytest.mark.parametrize("case", fast_are(["heads of a pooling"], UNFIT))
def test_settings_that_do_not_fit_are_one_line(case, capsys, monkeypatch, root):
    monkeypatch.chdir(root)
    config, overrides, expected = case
    status = main(["inspect", f"--config={config}", *(f"--config.{one}" for one in overrides)])
    out, err = capsys.readouterr()
    assert status == 2 and out == "" and err.count("\n") == 1 and expected in err
    assert err.startswith("error: config.model.")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (None, "No such file or directory"),
        ((5, 3), "expected at most 7 rows of width 4, got shape"),
        ("", "not"),
    ],
)
def test_a_wrong_file_of_embeddings_is_one_line(rows, expected, capsys, monkeypatch, tmp_path):
    """It is read in a callback, when parameters are made."""
    file = tmp_path / "table.npy"
    if rows == "":
        file.write_text("words")
    elif rows is not None:
        np.save(file, np.ones(rows))
    make = lambda key: FileEmbedding(
        file=str(file), vocabulary_size=7, width=4, dtype="float32", rngs=nnx.Rngs(key)
    ).table[...]
    monkeypatch.setattr(program, "dispatch", lambda argv: jax.block_until_ready(jax.jit(make)(jax.random.key(0))))
    assert main(["train"]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"error: embedding.file: {file}: {expected}") and err.count("\n") == 1


def test_a_folder_comes_before_a_packaged_checkpoint_of_its_name(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mobilenet_v2").mkdir()
    assert main(["import", "./mobilenet_v2", "--workdir=run"]) == 2
    assert "mobilenet_v2" in (said := capsys.readouterr().err) and "config.json" in said


@pytest.mark.slow
def test_wrong_arguments_help_and_lists_do_not_import_jax(root):
    """In a fresh process, which then reads `sys.modules`."""
    code = (
        "import sys; from attention_research.cli import main\n"
        "main(['train', '--config=configs/translation/transformer.py:cpu', '--workdir=x', '--config.model.head=4'])\n"
        "main(['--help']); main(['list', 'studies']); main(['list', 'variants']); main(['list', 'datasets'])\n"
        "main(['list', 'kinds']); main(['list', 'kinds', 'attention'])\n"
        "main(['list', 'claims', '--json'])\n"
        "print('imported', sorted(m for m in ('jax', 'flax', 'tensorflow_datasets', 'numpy') if m in sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert run.stdout.strip().endswith("imported []"), run.stdout[-500:] + run.stderr[-500:]


def test_lists_print_one_json_document_from_any_folder(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for what, name in (
        ("studies", "ablation/attention"),
        ("variants", "translation/transformer:vaswani_base"),
        ("kinds", "encoder_attention.linformer"),
        ("datasets", "bible_translate/fr-en"),
    ):
        assert main(["list", what, "--json"]) == 0
        assert name in [entry["name"] for entry in json.loads(capsys.readouterr().out)]
    assert main(["list", "claims", "--json"]) == 0
    assert "fixed-vector-bottleneck" in [entry["id"] for entry in json.loads(capsys.readouterr().out)]


def test_a_closed_pipe_gives_no_traceback(monkeypatch, capsys, root):
    """`attention-research list studies | head -1`"""
    monkeypatch.chdir(root)
    reading, writing = os.pipe()
    os.close(reading)
    with io.TextIOWrapper(os.fdopen(writing, "wb")) as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        assert main(["list", "studies"]) == 1
    assert capsys.readouterr().err == ""


def test_logs_with_a_closed_standard_error_are_not_results(root):
    """`attention-research ... 2>&-`. Python would print to standard output, and give the number 2 to the next file."""
    code = "import os; from attention_research.cli import main; status = main(['evaluate']); os.fstat(2); exit(status)"
    closed = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-c", code]
    done = subprocess.run(closed, stdout=subprocess.PIPE, cwd=root)
    assert done.returncode == 2 and done.stdout == b""


def test_a_full_disk_behind_standard_output_is_one_line(monkeypatch, capsys, root):
    monkeypatch.chdir(root)
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["list", "studies"]) == 1
    assert capsys.readouterr().err == "error: standard output: No space left on device\n"


@pytest.mark.parametrize(
    ("words", "status"), [(["status", "a b"], 2), (["report", "--output=a b"], 2), (["status"], 1)]
)
def test_a_file_that_the_system_refuses_is_one_line(words, status, monkeypatch, capsys):
    """Status 2 if the user named the file."""

    def refused(argv):
        raise PermissionError(errno.EACCES, "Permission denied", "a b")

    monkeypatch.setattr(program, "dispatch", refused)
    assert main(words) == status
    assert capsys.readouterr().err == "error: a b: Permission denied\n"


BACKENDS = {
    "JAX has no such device here": AssertionError(),
    "Unable to initialize backend 'x': why": RuntimeError(
        "Unable to initialize backend 'x': why. (set JAX_PLATFORMS='')"
    ),
}


@pytest.mark.parametrize(("reason", "error"), BACKENDS.items(), ids=["no-device", "unknown"])
def test_a_backend_that_is_not_there_is_one_line(reason, error, monkeypatch, capsys):
    def raised(*words):
        raise error

    monkeypatch.setenv("JAX_PLATFORMS", "x")
    monkeypatch.setattr(program, "dispatch", raised)
    with pytest.raises(type(error)):  # another error, since JAX has its devices
        main(["train"])
    monkeypatch.setattr(jax, "devices", raised)
    assert main(["train"]) == 2
    assert capsys.readouterr().err == f"error: JAX_PLATFORMS=x: {reason}; unset it to use the devices that are there\n"
    monkeypatch.delenv("JAX_PLATFORMS")
    with pytest.raises(type(error)):
        main(["train"])


def test_sizes_beyond_the_memory_are_one_line(monkeypatch, capsys):
    def too_large(argv):
        raise MemoryError("Unable to allocate 238. GiB")

    monkeypatch.setattr(program, "dispatch", too_large)
    assert main(["inspect", CONFIG]) == 1
    assert capsys.readouterr().err == "error: not enough memory: Unable to allocate 238. GiB\n"


def test_an_error_of_the_system_without_a_file_keeps_its_traceback(monkeypatch):
    def broken(argv):
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(program, "dispatch", broken)
    with pytest.raises(OSError, match="Bad file descriptor"):
        main(["status"])


@pytest.mark.parametrize("words", [["evaluate", "--workdir={d}"], ["compare", "{d}", "{d}"], ["report", "{d}"]])
def test_a_folder_that_cannot_be_read_is_not_said_to_have_no_run(words, tmp_path, monkeypatch, capsys):
    """The tests may run as root, whom the system refuses nothing."""
    stat = os.stat

    def refused(path, *words, **options):
        if str(path).startswith(f"{tmp_path}{os.sep}"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, *words, **options)

    monkeypatch.setattr(os, "stat", refused)
    assert main([word.replace("{d}", str(tmp_path)) for word in words]) == 2
    err = capsys.readouterr().err
    assert err.endswith(f"{tmp_path}: config.json cannot be read (Permission denied)\n") and err.count("\n") == 1


def test_output_is_utf8_whatever_the_locale(monkeypatch, root):
    monkeypatch.chdir(root)
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    assert main(["list", "studies"]) == 0
    assert "," in stream.buffer.getvalue().decode("utf-8")
