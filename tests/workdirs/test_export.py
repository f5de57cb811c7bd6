"""`export` and its loader, on a run that was really trained on TFDS's mock of wmt14_translate/fr-en."""

import functools
import json
import shutil

import jax
import numpy as np
import pytest
import safetensors
from safetensors.numpy import load_file, save_file

from attention_research.cli import main
from attention_research.config import ConfigError, load
from attention_research.data.tokenizer import SentencePiece
from attention_research.export import export
from attention_research.export import load as load_exported
from attention_research.training.checkpoints import Checkpoints
from attention_research.training.evaluation import Trained, evaluate
from attention_research.training.run import train
from attention_research.workdirs.status import run_line

SMALL = (
    ("data.name", "wmt14_translate/fr-en"), ("data.source_language", "fr"), ("data.target_language", "en"),
    ("max_length", 61), ("vocabulary_size", 8000), ("model.width", 8), ("model.num_heads", 2), ("model.num_layers", 1),
    ("model.feed_forward.hidden_width", 8), ("model.encoder.self_attention", "performer"),
    ("data.batching", "buckets"), ("data.batching.boundaries", (61,)), ("training.batch_size", 4),
    ("training.log_every", 1), ("training.checkpoint_every", 2), ("training.eval_every", 4),
    ("training.eval_batches", 1), ("training.steps", 4), ("training.seed", 7), ("training.replicas", 2),
    ("evaluation.average", 1),
    ("evaluation.examples", 4), ("decoding.beam_size", 2),
)  # fmt: skip
ROWS = np.asarray([[5, 6, 7, 2, 0], [8, 2, 0, 0, 0], [9, 4, 11, 3, 2]], np.int32)


pytestmark = pytest.mark.usefixtures("mock_data")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(workdir, its newest checkpoint): two replicas of the paper's architecture, reduced to a test's size.

    Their attention has statistics in addition to parameters.
    """
    workdir = tmp_path_factory.mktemp("trained") / "run"
    train(load("configs/translation/transformer.py:vaswani_base", SMALL), workdir)
    return workdir, Trained(workdir)


@pytest.fixture(scope="module")
def file(trained, tmp_path_factory):
    """The file that `export` writes for the second replica. Its vocabulary is in the same folder."""
    path = tmp_path_factory.mktemp("exported") / "models" / "second.safetensors"
    assert main(["export", f"--workdir={trained[0]}", str(path), "--seed=8", "--tokenizer"]) == 0
    return path


@functools.cache
def program(structure):
    def answer(parameters, statistics, rows):
        model = structure.merge(parameters, statistics)
        cache = model.start(model.encode({"tokens": rows}), 5)
        return model.step(cache, rows[:, 0])[1], model.log_likelihood({"source": rows, "target": rows})[0]

    return jax.jit(answer)


def answers(structure, parameters, statistics):
    """Log-probabilities of every next token after `ROWS`' first tokens, and of `ROWS` as targets of themselves."""
    next_piece, targets = program(structure)(parameters, statistics, ROWS)
    return np.concatenate([np.ravel(next_piece), np.ravel(targets["log_likelihood"])])


def test_the_loaded_model_answers_with_the_same_bits(trained, file):
    ours, theirs = load_exported(file), trained[1]
    second = answers(theirs.trainer.structure, *theirs.model(1))
    assert np.isfinite(second).all() and second.std() > 0
    assert (answers(ours.structure, ours.parameters, ours.statistics) == second).all()
    assert (answers(theirs.trainer.structure, *theirs.model(0)) != second).any()


def test_another_reader_finds_the_checkpoint_s_arrays_in_float32(trained, file):
    """The safetensors package's own NumPy reader, compared with the restored checkpoint."""
    arrays, (parameters, statistics) = load_file(file), trained[1].model(1)
    assert arrays.keys() == {*parameters, *statistics} and len(arrays) > 20 and statistics
    for name, array in arrays.items():
        assert array.dtype == np.float32 and (array == np.asarray({**parameters, **statistics}[name])).all(), name


def test_the_file_says_what_it_is(trained, file):
    workdir, checkpoint = trained
    with safetensors.safe_open(file, framework="numpy") as opened:
        said = opened.metadata()
    environment = json.loads((workdir / "environment.json").read_text())
    assert json.loads(said["config"]) == json.loads((workdir / "config.json").read_text())
    assert said["git_revision"] == environment["git_revision"] and said["fingerprint"] == environment["fingerprint"]
    assert (said["step"], said["averaged"], said["seed"]) == ("4", "4", "8")
    assert said["tokenizer"] == checkpoint.data.tokenizer.fingerprint != ""


@pytest.mark.slow
def test_the_mean_of_checkpoints_is_that_of_the_evaluation(trained, tmp_path):
    """Compares the file with the float64 mean of the two checkpoints. Without --seed the first seed is exported."""
    workdir, checkpoint = trained
    assert main(["export", f"--workdir={workdir}", str(tmp_path / "a.safetensors"), "--average=2"]) == 0
    abstract = {name: checkpoint.trainer.execution.abstract[name] for name in ("parameters", "statistics")}
    with Checkpoints(workdir) as checkpoints:
        both = [checkpoints.restore(step, abstract, partial=("parameters", "statistics")) for step in (2, 4)]
    for name, array in load_file(tmp_path / "a.safetensors").items():
        each = [{**state["parameters"], **state["statistics"]}[name][0] for state in both]
        mean = np.mean(np.asarray(each, np.float64), axis=0)
        np.testing.assert_allclose(array, mean, rtol=1e-6, atol=1e-9, err_msg=name)
    loaded = load_exported(tmp_path / "a.safetensors")
    assert (loaded.metadata["averaged"], loaded.metadata["seed"]) == ("2,4", "7")


def test_the_vocabulary_beside_it_is_loaded_and_checked(trained, file, tmp_path):
    loaded, text = load_exported(file), ["un deux trois"]
    assert loaded.tokenizer.encode(text) == trained[1].data.tokenizer.encode(text)
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(file.read_bytes())
    assert load_exported(copy).tokenizer is None
    other = SentencePiece(vocabulary_size=31).fit(["one two three", "four five six"] * 9)
    copy.with_suffix(".spm").write_bytes(other.path.read_bytes())
    with pytest.raises(ConfigError, match="vocabulary [0-9a-f]{20}; .*copy.safetensors needs [0-9a-f]{20}"):
        load_exported(copy)
    copy.with_suffix(".spm").write_bytes(b"no vocabulary")
    with pytest.raises(ConfigError, match="copy.spm: not a SentencePiece model"):
        load_exported(copy)


def changed(arrays, case):
    name = sorted(arrays)[0]
    if case == "missing":
        del arrays[name]
    elif case == "not in":
        arrays["model.other"] = np.zeros(3, np.float32)
    else:
        arrays[name] = np.ascontiguousarray(arrays[name][..., :-1])
    return arrays


@pytest.mark.parametrize("case", ("missing", "not in", "in its config's model"))
def test_a_file_of_another_model_is_refused(case, file, tmp_path):
    with safetensors.safe_open(file, framework="numpy") as opened:
        said = opened.metadata()
    save_file(changed(load_file(file), case), tmp_path / "other.safetensors", said)
    with pytest.raises(ConfigError, match=case):
        load_exported(tmp_path / "other.safetensors")


def test_a_file_of_another_program_is_refused(file, tmp_path):
    save_file(load_file(file), tmp_path / "bare.safetensors")
    with pytest.raises(ConfigError, match="not written by attention-research export"):
        load_exported(tmp_path / "bare.safetensors")
    (tmp_path / "half.safetensors").write_bytes(file.read_bytes()[:100])
    with pytest.raises(ConfigError, match="not a safetensors file"):
        load_exported(tmp_path / "half.safetensors")


def test_export_s_mistakes_are_one_line(trained, tmp_path, capsys):
    workdir = f"--workdir={trained[0]}"
    assert main(["export", workdir, str(tmp_path / "a.safetensors"), "--seed=3"]) == 2
    assert "error: --seed=3: " in (line := capsys.readouterr().err.splitlines()[-1]) and line.endswith("has 7, 8")
    (tmp_path / "file").write_text("")
    assert main(["export", workdir, str(tmp_path / "file" / "a.safetensors")]) == 1
    assert "a.safetensors: not written: " in capsys.readouterr().err.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.slow
def test_status_compare_and_report_of_a_trained_run(trained, tmp_path, capsys):
    """The folder that `train` and `evaluate` really write contains everything that these commands read."""
    workdir, _ = trained
    evaluate(workdir)
    line = run_line(workdir)
    assert (line.state, line.step, line.steps) == ("finished", 4, 4) and line.loss > 0 and line.steps_per_second > 0
    capsys.readouterr()
    assert main(["compare", str(workdir), str(workdir), "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)["numbers"]
    assert {"training_loss", "validation_loss", "test_bleu", "test_perplexity", "steps_per_second"} <= numbers.keys()
    assert main(["report", str(workdir), f"--output={tmp_path / 'page.html'}"]) == 0
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") >= 2 and "Samples" in page and "finished" in page


def test_a_model_card_lists_scores_alone(trained, tmp_path):
    """The other numbers of evaluation.json, such as its seconds, are not scores."""
    workdir = shutil.copytree(trained[0], tmp_path / "run")
    environment = json.loads((workdir / "environment.json").read_text())
    environment["earlier"] = [{"git_revision": "old", "date": "yesterday"}]
    (workdir / "environment.json").write_text(json.dumps(environment))
    numbers = {"bleu": 12.5, "step": 4, "seed": 7, "sentences": 4, "tokens": 31.0, "seconds": 3.0, "split": "test"}
    (workdir / "evaluation.json").write_text(json.dumps(numbers))
    export(workdir, tmp_path / "a.safetensors")
    card = (tmp_path / "a.card.md").read_text(encoding="utf-8")
    assert "trained with | git revision old, yesterday; git revision " in card
    assert [line for line in card.splitlines() if line.startswith("- ")] == ["- bleu: 12.5"]
    numbers["replicas"] = [{"bleu": 12.5, "replica": 0}, {"bleu": 3.5, "replica": 1}]
    (workdir / "evaluation.json").write_text(json.dumps(numbers))
    export(workdir, tmp_path / "b.safetensors", seed=8)
    assert "- bleu: 3.5" in (tmp_path / "b.card.md").read_text(encoding="utf-8").splitlines()
    for scored in ({"step": 2}, {"step": 4, "averaged": [2, 4]}):  # not the checkpoint that is exported
        (workdir / "evaluation.json").write_text(json.dumps({**numbers, **scored}))
        export(workdir, tmp_path / "c.safetensors", seed=8)
        card = (tmp_path / "c.card.md").read_text(encoding="utf-8")
        of = "a mean of checkpoints" if "averaged" in scored else "step 2"
        assert f"Not evaluated: evaluation.json of the run has the scores of {of}." in card and "bleu" not in card
        assert "`attention-research evaluate --workdir=... --checkpoint=4`" in card


@pytest.mark.slow
def test_a_model_card_is_written_beside_the_file(trained, file):
    card = file.with_suffix(".card.md").read_text(encoding="utf-8")
    config = trained[1].config
    assert card.startswith("# second\n") and f"hash {config.hash}" in card and "wmt14_translate/fr-en" in card
    assert "seed 8" in card and f'load("{file.name}")' in card
    if not (trained[0] / "evaluation.json").exists():
        assert "Not evaluated" in card
    evaluate(trained[0])
    assert main(["export", f"--workdir={trained[0]}", str(file.with_name("scored.safetensors"))]) == 0
    scored = file.with_name("scored.card.md").read_text(encoding="utf-8")
    found = json.loads((trained[0] / "evaluation.json").read_text())
    assert f"- bleu: {found['bleu']:.4g}" in scored and f"`{found['signature']}`" in scored
