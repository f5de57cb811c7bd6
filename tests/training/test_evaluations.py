"""Metrics and further evaluations: their declarations, scores during and after training, and resumed runs."""

import json
import textwrap

import pytest

from attention_research import registry
from attention_research.cli import main
from attention_research.config import ConfigError, build_experiment, load, resolve
from attention_research.signatures import Constructor
from attention_research.studies import columns
from attention_research.tasks.evaluation import BleuEvaluation
from attention_research.tasks.evaluation_protocol import PERPLEXITY, Floor, Metric
from attention_research.training.checkpoints import Checkpoints
from attention_research.training.evaluation import evaluate
from attention_research.training.metrics_log import LOSS, Criterion, MetricsLog, read_metrics
from attention_research.training.run import train
from attention_research.training.selection import criterion_of

CONFIG = "configs/translation/transformer.py:smoke"
FURTHER = [
    ("evaluations.written.kind", "bleu"),
    ("evaluations.written.split", "validation"),
    ("evaluations.written.examples", 5),
    ("evaluations.tokens.kind", "perplexity"),
    ("evaluations.tokens.split", "validation"),
    ("evaluations.edits.kind", "error_rate"),
    ("evaluations.edits.examples", 7),
    ("training.steps", 4),
    ("training.eval_every", 2),
    ("training.checkpoint_every", 2),
    ("training.log_every", 2),
]
OWN = {"written.bleu", "tokens.perplexity", "tokens.bits"}


def config(*more):
    return load(CONFIG, [*FURTHER, *more])


def numbers(folder):
    """The lines of metrics.jsonl without the speeds."""
    left_out = {"tokens_per_second", "steps_per_second", "data_wait"}
    return [{name: x for name, x in line.items() if name not in left_out} for line in read_metrics(folder)]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ran") / "run"
    train(config(), folder)
    return folder, evaluate(folder)


@pytest.mark.slow
@pytest.mark.data
def test_validations_have_the_evaluations_that_do_not_use_the_test_split(ran):
    folder, _ = ran
    lines = [line for line in read_metrics(folder) if line["split"] == "validation"]
    assert [line["step"] for line in lines] == [2, 4]
    for line in lines:
        assert {name for name in line if "." in name} == OWN and line["loss"] > 0
    assert {line["split"] for line in read_metrics(folder)} == {"train", "validation"}


@pytest.mark.slow
@pytest.mark.data
def test_evaluate_reports_each_evaluation_by_name(ran, tmp_path):
    folder, document = ran
    assert json.loads((folder / "evaluation.json").read_text())["evaluations"].keys() == document["evaluations"].keys()
    further = document["evaluations"]
    assert {name: one["split"] for name, one in further.items()} == {
        "written": "validation", "tokens": "validation", "edits": "test",
    }  # fmt: skip
    assert further["edits"]["sentences"] == 7 and further["written"]["sentences"] == 5
    last = [line for line in read_metrics(folder) if line["split"] == "validation"][-1]
    for name in OWN:
        evaluation, metric = name.split(".")
        assert further[evaluation][metric] == pytest.approx(last[name], rel=1e-5)
    alone = config(("evaluations", {}), ("evaluation.kind", "error_rate"), ("evaluation.examples", 7))
    train(alone, tmp_path)
    assert evaluate(tmp_path)["error_rate"] == further["edits"]["error_rate"]


@pytest.mark.slow
@pytest.mark.data
def test_an_interrupted_run_logs_the_same_lines(ran, tmp_path):
    train(config(("training.steps", 2), ("training.schedule.kind", "constant")), tmp_path / "run")
    train(config(("training.schedule.kind", "constant")), tmp_path / "run")
    train(config(("training.schedule.kind", "constant")), tmp_path / "whole")
    assert numbers(tmp_path / "run") == numbers(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.data
def test_replicas_have_the_numbers_of_their_single_runs(ran, tmp_path):
    folder, _ = ran
    train(config(("training.replicas", 2)), tmp_path)
    ours = [line for line in numbers(tmp_path) if line["split"] == "validation" and line.pop("replica") == 0]
    theirs = [line for line in numbers(folder) if line["split"] == "validation"]
    assert ours[0].keys() == theirs[0].keys() and len(ours) == len(theirs) == 2
    for one, other in zip(ours, theirs, strict=True):
        assert one["tokens.perplexity"] == pytest.approx(other["tokens.perplexity"], rel=1e-4)


@pytest.mark.slow
@pytest.mark.data
def test_a_run_keeps_the_best_by_its_metric(tmp_path, monkeypatch):
    """BLEU is made highest at step 2, before the loss is lowest. Checkpoint 2 is kept although keep=1."""
    values = iter([30.0, 20.0, 10.0])
    monkeypatch.setattr(
        BleuEvaluation, "score", lambda *_: {"bleu": next(values, 5.0), "signature": "", "copy_bleu": 0.0}
    )
    by = [("training.best_by", "written.bleu"), ("training.keep", 1), ("training.chosen_checkpoint", "best")]
    train(config(*by, ("training.steps", 6)), tmp_path)
    with Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.steps() == [2, 6]
    document = evaluate(tmp_path)
    assert (document["step"], document["checkpoint"], document["best_by"]) == (2, "best", "written.bleu")


@pytest.fixture
def logged(tmp_path):
    """A run with four checkpoints.

    The loss falls throughout, BLEU is highest at 3, and the error rate is lowest at 4.
    """
    for step in (1, 2, 3, 4):
        (tmp_path / "checkpoints" / str(step)).mkdir(parents=True)
    log = MetricsLog(tmp_path, 0)
    for step, bleu in zip((1, 2, 3, 4), (1.0, 5.0, 9.0, 4.0), strict=True):
        for seed in (0, 1):
            log.write(step=step, split="validation", seed=seed, loss=5.0 - step, **{"b.bleu": bleu + seed})
    log.write(step=4, split="dev", seed=0, **{"e.error_rate": 20.0})
    log.write(step=2, split="dev", seed=0, **{"e.error_rate": None})
    log.write(step=3, split="dev", seed=0, **{"e.error_rate": 30.0})
    log.close()
    return tmp_path


def test_checkpoints_are_ranked_by_the_criterion_in_its_direction(logged):
    ranked = lambda criterion: Checkpoints(logged, None, criterion=criterion).best(3)
    assert ranked(LOSS) == [4, 3, 2]
    assert ranked(Criterion("b.bleu", higher=True)) == [3, 2, 4]
    assert ranked(Criterion("b.bleu", higher=False)) == [1, 4, 2]
    assert ranked(Criterion("e.error_rate", split="dev")) == [4, 3]


def test_the_metric_knows_the_direction_of_a_criterion():
    of = lambda value: criterion_of(config(("training.best_by", value)))
    assert criterion_of(config()) == LOSS
    assert of("written.bleu") == Criterion("written.bleu", True, "validation")
    assert of("tokens.perplexity") == Criterion("tokens.perplexity", False, "validation")
    assert str(of("written.bleu")) == "highest written.bleu" and str(LOSS) == "lowest validation loss"


def test_the_command_names_the_criterion_of_the_best_checkpoint(tmp_path, monkeypatch, capsys):
    (tmp_path / "config.json").write_text(config(("training.best_by", "written.bleu")).to_json())
    found = {"summary": "BLEU 30.0", "checkpoint": "best", "averaged": [2]}
    monkeypatch.setattr("attention_research.training.evaluation.evaluate", lambda workdir, report, **chosen: found)
    assert main(["evaluate", f"--workdir={tmp_path}"]) == 0
    assert capsys.readouterr().out.splitlines() == ["BLEU 30.0", "checkpoint 2 (highest written.bleu)"]


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("bleu", r"best_by: expected loss, or NAME\.METRIC of one of config\.evaluations; got 'bleu'; evaluations has"),
        ("other.bleu", "got 'other.bleu'; evaluations has written, tokens, edits$"),
        ("edits.error_rate", r"by the test split; set config\.evaluations\.edits\.split=validation"),
        ("written.blue", r"best_by: bleu has no blue; did you mean bleu\?"),
    ],
)
def test_an_invalid_criterion_for_checkpoints_is_one_line(value, line):
    with pytest.raises(ConfigError, match=line):
        criterion_of(config(("training.best_by", value)))


def test_an_evaluation_that_does_not_fit_the_model_is_refused_before_anything_is_written(tmp_path):
    wrong = [("evaluations.classes.kind", "classification"), ("evaluations.classes.split", "validation")]
    with pytest.raises(ConfigError, match=r"^evaluations\.classes\.kind=classification: needs a model with log_probab"):
        train(config(*wrong), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_all_evaluations_score_one_model():
    with pytest.raises(ConfigError, match=r"^config\.evaluations\.edits\.average: all evaluations score the same"):
        config(("evaluations.edits.average", 2), ("training.keep", 3))


# Config sections addressed by name


def test_sections_by_name_are_set_by_their_paths_and_have_constructors():
    found = load(
        CONFIG, [("evaluations.b.examples", "7"), ("evaluations.b", "bleu"), ("evaluations.p.kind", "perplexity")]
    )
    assert found.resolved["evaluations"]["b"] == {
        "kind": "bleu", "split": "test", "batch_size": 64, "examples": 7, "average": 1, "near": None,
    }  # fmt: skip
    assert list(found.resolved["evaluations"]) == ["b", "p"]
    assert found.override([("evaluations.b.near", "0.5")]).resolved["evaluations"]["b"]["examples"] == 7
    built = build_experiment(found).evaluations
    assert isinstance(built["p"], Constructor) and built["b"]().examples == 7
    whole = found.override([("evaluations", "{'x': {'kind': 'bleu', 'examples': 5}, 'y': 'perplexity'}")])
    assert {name: one["kind"] for name, one in whole.resolved["evaluations"].items()} == {
        "x": "bleu",
        "y": "perplexity",
    }


def test_an_empty_set_of_evaluations_does_not_change_the_identity():
    plain = load(CONFIG)
    assert plain.resolved["evaluations"] == {} and "evaluations" not in plain.given
    assert load(CONFIG, [("evaluations", "{}")]).identity == plain.identity
    named = load(CONFIG, [("evaluations.b.kind", "bleu")])
    assert named.identity != plain.identity
    assert named.override([("evaluations.b.split", "test")]).identity == named.identity
    assert named.override([("evaluations.b.split", "validation")]).identity != named.identity


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        (
            "evaluations.q.examples",
            "3",
            r"config\.evaluations\.q: no such section; give its kind first: --config\.evalu",
        ),
        (
            "evaluations.b.kind",
            "blue",
            r"config\.evaluations\.b\.kind: no kind 'blue' of evaluation; did you mean bleu",
        ),
        ("evaluations.b", "blue", r"config\.evaluations\.b\.kind: no kind 'blue' of evaluation"),
        ("evaluations", "3", r"config\.evaluations: expected a dict of name to section, .*; got 3$"),
        ("evaluations", "translation", r"config\.evaluations: expected a dict of name .*; got 'translation'$"),
        ("evaluations", "{'a': 3}", r"^config\.evaluations\.a: expected a kind of evaluation .*; got 3$"),
        ("evaluations", {"a": "bleu", "b": 3}, r"^config\.evaluations\.b: expected a kind of evaluation .*; got 3$"),
        (
            "evaluations",
            "{'a b': 'bleu'}",
            "expected names of letters, digits and _, beginning with a letter; got 'a b'",
        ),
    ],
)
def test_mistakes_in_sections_by_name_are_one_line(path, value, line):
    with pytest.raises(ConfigError, match=line):
        load(CONFIG, [(path, value)])


def test_a_mistake_in_a_named_section_of_the_file_names_it():
    given = load(CONFIG).given | {"evaluations": {"a": 3}}
    with pytest.raises(ConfigError, match=r"^config\.evaluations\.a: expected a kind of evaluation .*; got 3$"):
        resolve(given)


def test_unknown_settings_of_named_sections_get_a_suggestion():
    with pytest.raises(
        ConfigError, match=r"evaluations\.b\.exmples: no such setting; did you mean config\.evaluations\.b"
    ):
        load(CONFIG, [("evaluations.b.kind", "bleu"), ("evaluations.b.exmples", "3")])


# Declarations of metrics


@pytest.mark.parametrize("kind", registry.FAMILIES["evaluation"])
def test_metrics_read_from_the_source_equal_those_of_the_class(kind):
    assert columns.metrics_of(kind) == registry.lookup("evaluation", kind).metrics


def test_a_name_means_the_same_metric_in_every_evaluation():
    said = {}
    for metric in columns.metrics():
        look = (metric.title, metric.better, metric.digits, metric.significant)
        assert said.setdefault(metric.name, look) == look, metric.name
    titles = [(floor.slug, floor.title) for metric in columns.metrics() for floor in metric.floors]
    assert len(dict(titles)) == len(set(titles))


def test_every_floor_that_the_tables_print_and_every_stored_one_is_declared():
    assert columns.floor_titles()["trigram"] == "trigram (Kneser-Ney)"
    stored = {floor.slug: (metric.name, floor.stored) for metric, floor in columns.stored_floors()}
    known = ["unigram", "copy", "flat", "majority", "fixed", "token_by_token", "mean", "chance"]
    assert sorted(stored) == sorted([*known, "constant", "memoryless"])
    assert stored["copy"] == ("bleu", "copy_bleu") and stored["mean"] == ("mean_squared_error", "constant_error")


def test_a_column_is_what_the_metric_says():
    bleu, perplexity = columns.evaluated("bleu"), columns.evaluated("perplexity", "topics")
    assert (bleu.key, bleu.title, bleu.better, bleu.text(27.345)) == ("evaluate.bleu", "BLEU", "higher", "27.3")
    assert (perplexity.key, perplexity.better, perplexity.text(31.249)) == ("topics.perplexity", "lower", "31.2")
    with pytest.raises(ConfigError, match=r"evaluate\.blue: no evaluation has such a metric; did you mean bleu"):
        columns.evaluated("blue")


def test_metrics_are_read_from_the_source_with_those_of_bases_and_others(tmp_path, monkeypatch):
    (tmp_path / "outside.py").write_text(
        textwrap.dedent(
            """
            raise RuntimeError("imported")
            from attention_research.tasks.evaluation import BleuEvaluation as Bleu
            from attention_research.tasks.evaluation_protocol import Floor, Metric

            class Own(Bleu):
                metrics = (*Bleu.metrics, Metric("chrf", "chrF", "higher", floors=(Floor("none", "nothing"),)))

            class Heir(Own):
                pass
            """
        )
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(registry.FAMILIES["evaluation"], "own", "outside:Own")
    monkeypatch.setitem(registry.FAMILIES["evaluation"], "heir", "outside:Heir")
    wanted = (*BleuEvaluation.metrics, Metric("chrf", "chrF", "higher", floors=(Floor("none", "nothing"),)))
    assert columns.metrics_of("own") == columns.metrics_of("heir") == wanted
    assert columns.evaluated("chrf").title == "chrF"


def test_an_unreached_floor_is_reported_in_the_metrics_format():
    floor = PERPLEXITY.floors[0]
    assert PERPLEXITY.missed(floor, 1234.5) == "perplexity not below unigram's 1,234" and not PERPLEXITY.higher
