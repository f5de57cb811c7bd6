"""A whole run in one process, on TFDS's mock of wmt14_translate/fr-en: train, continue, refuse, evaluate, generate."""

import json
import math
import os
import resource
import shutil
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.array import ArrayImpl

from attention_research.cli import main
from attention_research.config import ConfigError, entry_points, load
from attention_research.data.pairs import Pairs
from attention_research.errors import Diverged, RunError
from attention_research.parallel.execution import MeshExecution
from attention_research.registry import FAMILIES
from attention_research.tasks import sentence_statistics
from attention_research.tasks.translation import Translation
from attention_research.training import evaluation, run, trainer
from attention_research.training.checkpoints import Checkpoints
from attention_research.training.clock import Clock
from attention_research.training.evaluation import Trained, evaluate
from attention_research.training.interruption import Interrupted
from attention_research.training.metrics_log import read_metrics
from attention_research.training.profiling import Profile
from attention_research.training.run import train
from attention_research.training.schedules import stretched
from attention_research.training.workdir import locked
from tests.tiers import fast_are

SMALL = (
    ("max_length", 61), ("vocabulary_size", 8000), ("model.width", 8), ("model.num_heads", 2), ("model.num_layers", 1),
    ("model.feed_forward.hidden_width", 8), ("training.batch_size", 4), ("training.log_every", 1),
    ("training.checkpoint_every", 2), ("training.eval_every", 4), ("training.eval_batches", 1),
    ("evaluation.average", 1),
)  # fmt: skip


def config(steps, *overrides):
    """The paper's base config on wmt14_translate/fr-en, reduced to a test's size."""
    pair = (("data.name", "wmt14_translate/fr-en"), ("data.source_language", "fr"), ("data.target_language", "en"))
    return load(
        "configs/translation/transformer.py:vaswani_base", (*pair, *SMALL, ("training.steps", steps), *overrides)
    )


pytestmark = pytest.mark.usefixtures("mock_data", "programs_once")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An uninterrupted run of 6 steps: (workdir, summary)."""
    workdir = tmp_path_factory.mktemp("whole") / "run"
    return workdir, train(config(6), workdir)


def parameters(workdir):
    return {name: np.asarray(x) for name, x in Trained(workdir).state["parameters"].items()}


def history(workdir):
    """The logged lines of a run without its speed, in order."""
    return [(line["step"], line["split"], line["loss"], line["tokens"]) for line in read_metrics(workdir)]


def validated(workdir, losses):
    """Replaces the validation losses in the log."""
    lines = [line for line in read_metrics(workdir) if line["split"] == "train"]
    lines += [{"step": step, "split": "validation", "loss": loss} for step, loss in losses.items()]
    (workdir / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def assert_same_run(workdir, other):
    assert history(workdir) == history(other)
    kept = lambda folder: sorted(path.name for path in (folder / "checkpoints").glob("[0-9]*"))
    assert kept(workdir) == kept(other)
    ours, theirs = parameters(workdir), parameters(other)
    assert ours.keys() == theirs.keys() and all((ours[name] == theirs[name]).all() for name in ours)


@pytest.fixture
def at_step(monkeypatch):
    """at_step(n, function): calls the function once, while the n-th batch of a run is fetched."""

    def arrange(number, function):
        fetch, count = Clock.next, iter(range(1, 1000))

        def fetching(self, *arguments):
            if next(count) == number:
                function()
            return fetch(self, *arguments)

        monkeypatch.setattr(Clock, "next", fetching)

    return arrange


@pytest.mark.slow
def test_wmt14_trains_from_packed_rows(whole):
    workdir, summary = whole
    lines = read_metrics(workdir)
    assert [line["step"] for line in lines if line["split"] == "train"] == [1, 2, 3, 4, 5, 6]
    assert [line["step"] for line in lines if line["split"] == "validation"] == [4, 6]
    assert all(np.isfinite(line["loss"]) and line["seed"] == 0 and line["tokens"] > 0 for line in lines)
    assert summary["steps"] == 6 and summary["steps_per_second"] > 0
    environment = json.loads((workdir / "environment.json").read_text())
    assert environment["versions"]["jax"] == jax.__version__ and environment["mesh"]["data"] == 1
    assert json.loads((workdir / "config.json").read_text())["resolved"]["data"]["batching"]["kind"] == "packed"


def test_a_signal_saves_and_the_continued_run_is_the_uninterrupted_one_bit_for_bit(
    whole, tmp_path, at_step, monkeypatch
):
    """SIGTERM during the third step saves a checkpoint outside the schedule. The finished run no longer has it.

    environment.json names the package of each kind that another package added.
    """
    monkeypatch.setitem(entry_points.ADDED, ("encoder_attention", "standard"), "mine 1")
    workdir, said = tmp_path / "run", []
    at_step(3, lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(Interrupted) as caught:
        train(config(6), workdir, said.append)
    assert caught.value.code == 128 + signal.SIGTERM
    assert said[-1] == f"SIGTERM: saved step 3 of 6 in {workdir}; the same command continues from there"
    assert (workdir / "checkpoints" / "3").is_dir() and [step for step, *_ in history(workdir)] == [1, 2, 3]
    assert train(config(6), workdir, said.append)["steps"] == 6
    assert f"continuing from step 3 in {workdir}" in said
    assert_same_run(workdir, whole[0])
    environment = json.loads((workdir / "environment.json").read_text())
    assert environment["variants"] == {"encoder_attention.standard": "mine 1"}
    (earlier,) = environment["earlier"]
    assert environment["from_step"] == 3 and earlier["fingerprint"] == environment["fingerprint"]
    written = (workdir / "environment.json").read_text()
    assert train(config(6), workdir)["steps"] == 6
    assert (workdir / "environment.json").read_text() == written, "a run that trains nothing keeps its record"


@pytest.mark.slow
def test_a_full_disk_ends_the_run_with_one_line_and_the_same_command_continues_it(whole, tmp_path, monkeypatch, capfd):
    """The kernel refuses files above 20 kB when the checkpoint of step 4 is written. Checkpoint 2 is kept."""
    workdir, before, save = tmp_path / "run", resource.getrlimit(resource.RLIMIT_FSIZE), Checkpoints.save

    def saving(self, step, state):
        if step == 4 and not full:
            self.wait()
            full.append(resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1])))
        save(self, step, state)

    full = []
    monkeypatch.setattr(Checkpoints, "save", saving)
    try:
        with pytest.raises(RunError, match=r"^checkpoint 4 not written .*File too large.* continues from step 2$"):
            train(config(6), workdir)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "Traceback" not in capfd.readouterr().err
    train(config(6), workdir)
    assert_same_run(workdir, whole[0])


@pytest.mark.slow
def test_a_damaged_checkpoint_costs_the_steps_since_the_one_before(whole, tmp_path):
    """A run of 6 steps keeps checkpoints 4 and 6. If 6 loses its data, the last two steps are trained again."""
    workdir, said = tmp_path / "run", []
    shutil.copytree(whole[0], workdir)
    data = max((workdir / "checkpoints" / "6").rglob("*"), key=lambda path: path.stat().st_size)
    data.write_bytes(data.read_bytes()[:-1])
    assert Trained(workdir, said.append).step == 4 and "checkpoint 6" in said[-1] and "damaged" in said[-1]
    train(config(6), workdir, said.append)
    assert f"continuing from step 4 in {workdir}" in said
    assert_same_run(workdir, whole[0])


@pytest.mark.slow
def test_the_checkpoint_of_the_lowest_validation_loss_stays(tmp_path, monkeypatch):
    """Validation after each of 5 steps, with losses set by the test. The schedule saves at the end only."""
    losses = iter([3.0, 1.0, 2.0, float("nan"), 4.0])
    monkeypatch.setattr(run, "mean_losses", lambda *arguments: {"loss": next(losses), "tokens": 1.0})
    train(config(5, ("training.eval_every", 1), ("training.checkpoint_every", 9)), tmp_path)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["2", "5"]
    with Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.best() == [2] and checkpoints.latest() == 5


@pytest.mark.slow
def test_a_step_does_not_wait_for_the_host(tmp_path, monkeypatch):
    """Nothing is fetched from the devices before the first line is logged, and no array is transferred implicitly."""
    steps, fetched, value = [], [], ArrayImpl._value
    place = MeshExecution.place
    monkeypatch.setattr(MeshExecution, "place", lambda self, batch: steps.append(1) or place(self, batch))
    monkeypatch.setattr(ArrayImpl, "_value", property(lambda self: (fetched.append(len(steps)), value.fget(self))[1]))
    every = (("training.log_every", 6), ("training.eval_every", 6), ("training.checkpoint_every", 6))
    guarded, guard = [], jax.transfer_guard
    monkeypatch.setattr(jax, "transfer_guard", lambda level: guarded.append(level) or guard(level))
    train(config(6, *every), tmp_path / "run")
    assert len(steps) == 6 and not {1, 2, 3, 4, 5} & set(fetched) and guarded == ["disallow"] * 5
    assert 6 in fetched  # by the logging, which shows that fetches are counted


def test_a_profile_that_would_never_begin_is_refused_or_reported(tmp_path):
    """The command of an interrupted run continues it, also if the profile is done or its steps have passed."""
    with pytest.raises(ConfigError, match=r"^--profile=7:9: the run ends at step 6 \(training\.steps\)$"):
        train(config(6), tmp_path / "run", profile=(7, 9))
    assert not (tmp_path / "run").exists()
    assert Profile(tmp_path, (3, 4)).passed(2) is None and Profile(tmp_path, None).passed(6) is None
    line = "--profile=3:4: no profile is written, since the run continues from step 3"
    assert Profile(tmp_path, (3, 4)).passed(3) == line


@pytest.mark.slow
def test_two_steps_are_profiled_and_the_run_is_the_same(whole, tmp_path):
    train(config(6), tmp_path / "run", profile=(3, 4))
    assert_same_run(tmp_path / "run", whole[0])
    kinds = {path.name.split(".", 1)[1] for path in (tmp_path / "run" / "profile").rglob("*") if path.is_file()}
    assert any(kind.endswith("xplane.pb") for kind in kinds), kinds


def test_a_finished_run_does_nothing_more(whole):
    before = (whole[0] / "metrics.jsonl").read_text()
    assert train(config(6), whole[0])["steps"] == 6
    assert (whole[0] / "metrics.jsonl").read_text() == before


def test_another_config_is_refused_with_the_difference(whole):
    with pytest.raises(ConfigError, match=r"another config \(model.dropout_rate: 0.1 -> 0.2.*\)"):
        train(config(6, ("model.dropout_rate", 0.2)), whole[0])
    with pytest.raises(ConfigError, match="training.steps: 6 -> 5"):
        train(config(5), whole[0])


ENDS = {
    "end0": RunError("no room"), "end1": ValueError("a bug"), "end2": Interrupted(15, "stopped"),
    "end3": KeyboardInterrupt(),
}  # fmt: skip


@pytest.mark.parametrize("end", fast_are(["end0"], ENDS))
def test_a_failed_start_leaves_the_folder_as_it_was(end, whole, tmp_path, at_step, monkeypatch):
    """A new folder, one made by the user, and one of a run to be extended. The corrected config may differ."""

    def fail():
        raise end

    at_step(1, fail)
    (tmp_path / "mine").mkdir()
    shutil.copytree(whole[0], tmp_path / "old")
    before = (tmp_path / "old" / "config.json").read_text()
    for workdir, steps in (("new", 6), ("mine", 6), ("old", 7)):
        with pytest.raises(type(end)):
            train(config(steps), tmp_path / workdir)
        at_step(1, fail)
    assert not (tmp_path / "new").exists() and [path.name for path in (tmp_path / "mine").iterdir()] == [".lock"]
    assert (tmp_path / "old" / "config.json").read_text() == before
    assert history(tmp_path / "old") == history(whole[0])
    monkeypatch.undo()


@pytest.mark.slow
def test_a_run_that_was_extended_keeps_its_config_from_its_first_step(whole, tmp_path, at_step):
    """The log reaches further than the checkpoint from which the run continues, and the signal comes before this."""
    workdir = tmp_path / "run"
    shutil.copytree(whole[0], workdir)
    shutil.rmtree(workdir / "checkpoints" / "6")
    at_step(1, lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(Interrupted):
        train(config(10), workdir)
    assert (workdir / "checkpoints" / "5").exists()
    assert json.loads((workdir / "config.json").read_text())["resolved"]["training"]["steps"] == 10


SCHEDULE = ("training.schedule", {"kind": "cosine", "warmup_steps": 1})


@pytest.mark.slow
def test_a_schedule_stretched_by_more_steps_is_reported(whole, tmp_path, at_step):
    """A half cosine over 5 steps has ended at step 5, but not over 9 steps. noam does not depend on the length."""

    def fail():
        raise RunError("enough")

    cosine = [1 + math.cos(math.pi * 4 / down) for down in (9, 5)]
    ends = "training.steps is 10 and was 6: the cosine schedule now ends at step 10; the learning rate of step 6 is "
    for name, given, line in (("cosine", [SCHEDULE], ends), ("noam", [], None)):
        shutil.copytree(whole[0], tmp_path / name)
        shutil.rmtree(tmp_path / name / "checkpoints" / "6")
        (tmp_path / name / "config.json").write_text(config(6, *given).to_json())
        said, rate = [], config(6, *given).resolved["training"]["learning_rate"]
        at_step(1, fail)
        with pytest.raises(RunError, match="enough"):
            train(config(10, *given), tmp_path / name, said.append)
        found = [text for text in said if text.startswith("training.steps")]
        assert found == ([f"{ends}{cosine[0] * rate / 2:.3g} instead of {cosine[1] * rate / 2:.3g}"] if line else [])
    assert json.loads((tmp_path / "cosine" / "config.json").read_text())["resolved"]["training"]["steps"] == 6


@pytest.mark.parametrize("kind", FAMILIES["schedule"])
def test_every_schedule_that_depends_on_the_length_reports_it(kind):
    given = {"kind": kind, **({"boundaries": (3, 8)} if kind == "step" else {})}
    before, now = (config(steps, ("training.schedule", given)) for steps in (12, 24))
    line = stretched(before, now, 6)
    assert (line is not None) == (kind in ("cosine", "linear")), line
    assert stretched(before, before, 6) is None


def test_settings_that_do_not_fit_the_devices_write_nothing(tmp_path):
    for given in ({"parallel.mesh.tensor": 64}, {"parallel.strategy": "pmap", "training.replicas": 2}):
        with pytest.raises(ConfigError):
            train(config(6, *given.items()), tmp_path / "run")
        assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_killed_start_does_not_fix_the_config(whole, tmp_path):
    """The killed start leaves files with another vocabulary. The run then follows the config that is given next."""
    other = config(9, ("vocabulary_size", 7000), ("model.dropout_rate", 0.5))
    (tmp_path / "config.json").write_text(other.to_json())
    (tmp_path / "metrics.jsonl").write_text("")
    shutil.copyfile(whole[0] / "environment.json", tmp_path / "environment.json")
    assert train(config(6), tmp_path)["steps"] == 6
    assert_same_run(tmp_path, whole[0])


def test_a_signal_that_a_library_swallows_ends_the_run_before_its_first_step(tmp_path, monkeypatch):
    """The signal comes while a library prepares something and catches every exception."""

    def swallowing(self, *arguments):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except BaseException:
            pass
        return prepare(self, *arguments)

    said, prepare = [], run.Progress.__init__
    monkeypatch.setattr(run.Progress, "__init__", swallowing)
    with pytest.raises(Interrupted) as caught:
        train(config(6), tmp_path / "run", said.append)
    assert (
        caught.value.code == 143 and said[-1].startswith("SIGTERM: stopped at once") and not (tmp_path / "run").exists()
    )


def test_a_second_process_is_refused(whole):
    with locked(whole[0]), pytest.raises(RunError, match="another process uses this folder"):
        train(config(6), whole[0])


@pytest.mark.slow
def test_replicas_are_logged_by_seed(tmp_path):
    train(config(2, ("training.replicas", 2), ("training.seed", 7)), tmp_path / "run")
    lines = [line for line in read_metrics(tmp_path / "run") if line["split"] == "train"]
    assert [(line["step"], line["seed"]) for line in lines] == [(1, 7), (1, 8), (2, 7), (2, 8)]
    assert lines[0]["loss"] != lines[1]["loss"]


@pytest.mark.slow
def test_a_loss_that_is_not_finite_stops_the_run_and_is_not_saved(tmp_path):
    """The first bad step is named although values are logged or saved only at the end. No checkpoint is left."""
    at_the_end = [(f"training.{name}_every", 50) for name in ("log", "eval", "checkpoint")]
    with pytest.raises(Diverged, match=r"^step [2-9], seed 0: the loss is (nan|inf)"):
        train(config(50, ("training.learning_rate", 1e30), *at_the_end), tmp_path / "run")
    assert not read_metrics(tmp_path / "run") and not list((tmp_path / "run" / "checkpoints").glob("*"))


@pytest.mark.slow
def test_a_gradient_that_is_not_finite_stops_the_run_and_the_last_good_checkpoint_stays(tmp_path, monkeypatch):
    """sqrt(0 x) is 0 and its derivative is 0 / 0, so the loss stays finite."""
    workdir, loss = tmp_path / "run", Translation.loss
    train(config(2), workdir)

    def spoilt(self, model, batch, key):
        total, sums = loss(self, model, batch, key)
        return total + jnp.sqrt(0.0 * jnp.sum(jax.tree.leaves(model.encoder)[0])), sums

    monkeypatch.setattr(Translation, "loss", spoilt)
    monkeypatch.setattr(run, "Trainer", trainer.Trainer)  # traced again
    with pytest.raises(
        Diverged, match=r"^step 3, seed 0: the loss is \d.*, the gradient of encoder\.\S+ is not finite"
    ):
        train(config(6), workdir)
    assert [path.name for path in (workdir / "checkpoints").iterdir()] == ["2"]
    assert [line["step"] for line in read_metrics(workdir) if line["split"] == "train"] == [1, 2]


@pytest.mark.slow
def test_memory_that_runs_out_in_a_run_is_one_line(tmp_path, at_step):
    """XLA is really asked for petabytes in addition to the first step."""
    at_step(1, lambda: jax.jit(lambda x: jnp.sort(jnp.broadcast_to(x, (2**49,))))(1.0))
    with pytest.raises(RunError, match="^out of memory at training.batch_size=4: "):
        train(config(2), tmp_path / "run")


def test_evaluation_and_generation(whole):
    workdir, _ = whole
    result = evaluate(workdir)
    assert result == json.loads((workdir / "evaluation.json").read_text())
    assert result["sentences"] == 19 and "tok:13a" in result["signature"] and 0 <= result["bleu"] <= 100
    assert result["perplexity"] == pytest.approx(np.exp(result["negative_log_likelihood"]))
    assert result["unigram_perplexity"] > 1 and result["step"] == 6
    counts = sentence_statistics.counts(result["sentence_statistics"])
    assert len(counts) == 19 and sentence_statistics.bleu(counts.sum(0)) == result["bleu"]
    translations = Trained(workdir).translate(["un deux trois", "a" * 500])
    assert len(translations) == 2 and all(isinstance(text, str) for text in translations)


@pytest.mark.slow
def test_near_and_far_sources_are_scored_separately(whole):
    trained = Trained(whole[0])
    trained.evaluation.near = 0.4
    found = evaluation._evaluate_one(trained, 0)
    assert found["near_sentences"] + found["far_sentences"] == 19 and found["near_sentences"] > 0
    for side in (one for one in ("near", "far") if f"{one}_bleu" in found):
        sums = sentence_statistics.counts(found["sentence_statistics"], f"{side}_bleu").sum(0)
        assert sentence_statistics.bleu(sums) == found[f"{side}_bleu"]
    assert "near_sources" not in found
    assert f"near {found['near_bleu']:.2f} (" in found["summary"] and 0 <= found["near_bleu"] <= 100


def test_a_run_trained_on_a_mesh_is_read_on_one_device(whole, tmp_path):
    """The config's mesh needs eight devices, which do not exist here."""
    workdir = tmp_path / "run"
    shutil.copytree(whole[0], workdir)
    saved = json.loads((workdir / "config.json").read_text())
    saved["resolved"]["parallel"]["mesh"] |= {"data": 2, "fsdp": 2, "tensor": 2}
    (workdir / "config.json").write_text(json.dumps(saved))
    with pytest.raises(ConfigError, match="does not fit 1 device"):
        trainer.Trainer(Trained(whole[0]).config.override([("parallel.mesh.fsdp", 4)]))
    ours, theirs = parameters(workdir), parameters(whole[0])
    assert ours.keys() == theirs.keys() and all((ours[name] == theirs[name]).all() for name in ours)


@pytest.mark.slow
def test_the_best_checkpoint_is_evaluated(whole, tmp_path, capsys):
    """The losses are those of step 4's parameters, since the log gives step 4 the lower validation loss."""
    workdir = tmp_path / "run"
    shutil.copytree(whole[0], workdir)
    validated(workdir, {4: 1.5, 6: 2.0})
    assert main(["evaluate", f"--workdir={workdir}", "--checkpoint=best", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads((workdir / "evaluation.json").read_text())
    assert (found["checkpoint"], found["step"], found["averaged"]) == ("best", 4, [4])
    trained = Trained(workdir, checkpoint=4)
    batches = trained.data.evaluation_batches("test", 64)
    want = trainer.mean_losses(trained.trainer.evaluation_step(), trained.model(), batches)
    assert found["loss"] == want["loss"] != evaluate(whole[0])["loss"]


def test_generation_needs_a_checkpoint(whole, tmp_path):
    (tmp_path / "config.json").write_text((whole[0] / "config.json").read_text())
    with pytest.raises(RunError, match="no finished checkpoint"):
        Trained(tmp_path)


@pytest.mark.parametrize(("split", "key"), [("validation", "data"), ("test", "evaluation.split")])
def test_an_empty_split_is_refused(whole, tmp_path, monkeypatch, split, key):
    """Before the first step, and before an evaluation."""
    every = Pairs.evaluation_batches
    without = lambda data, wanted, *given, **more: () if wanted == split else every(data, wanted, *given, **more)
    monkeypatch.setattr(Pairs, "evaluation_batches", lambda *given, **more: iter(without(*given, **more)))
    with pytest.raises(ConfigError, match=rf"^config.{key}: the {split} split of .* is empty$"):
        train(config(6), tmp_path) if split == "validation" else evaluate(whole[0])


@pytest.mark.parametrize("classes", [2, 11])
def test_another_number_of_classes_than_that_of_the_data_is_refused(tmp_path, monkeypatch, classes):
    """Before the first step. Too few gave a NaN loss, too many a wrong accuracy."""
    monkeypatch.setenv("ATTENTION_RESEARCH_DATA", str(tmp_path / "data"))
    settings = load("configs/classification/long_range.py:smoke", [("model.num_classes", classes)])
    line = rf"^config.model.num_classes: expected 10, the number of classes of listops; got {classes}$"
    with pytest.raises(ConfigError, match=line):
        train(settings, tmp_path / "run")
    assert not (tmp_path / "run/metrics.jsonl").exists()
