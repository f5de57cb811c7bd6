"""Records that are current, stale or not comparable: the recorded program against the present one; `status --stale`."""

import dataclasses
import json
from pathlib import Path

import pytest
from results_of import trial

from attention_research import registry
from attention_research.cli import main
from attention_research.studies import fingerprints, lowering, run_study, source_facts, sources
from attention_research.studies.staleness import OLD, Current, NotComparable, Stale, state_of
from attention_research.workdirs import recorded

VERSIONS = {"jax": "0.10.2", "jaxlib": "0.10.2", "flax": "0.12.8", "optax": "0.2.8"}
NOW = {"config": "c", "score": "b", "data": "d", "start": "s", "train": "t", "evaluate": "e", "decode": "g"}
RECORDED = {**VERSIONS, "platform": "cpu", "sources": "before", **NOW}
CONTENT = ("config", "data", "score")
HIDDEN = Current("the data are not on this machine and were not compared")
UNREAD = "not lowered (ValueError: no such operation)"


@pytest.fixture
def now(monkeypatch):
    """A trial that trains, its present program, and a list of the programs that were lowered."""
    found, asked = dict(NOW), []
    (name,) = {"program"}

    class One:
        key = name

    def lower(wanted, report=None):
        asked.extend(wanted)
        parts = {part: value for part, value in found.items() if part not in (*CONTENT, "score.seen")}
        return {name: parts} if "platform" not in found else {}

    content = lambda stages, given, sources: {part: found[part] for part in (*CONTENT, "score.seen") if part in found}
    monkeypatch.setattr(fingerprints, "versions", lambda: VERSIONS)
    monkeypatch.setattr(fingerprints, "contents", content)
    monkeypatch.setattr(fingerprints, "lowerings", lambda stages, given, platform, package: [("", One())])
    monkeypatch.setattr(lowering, "lowered", lower)
    stages = ({"kind": "train", "settings": {}, "function": None},)
    planned = dataclasses.replace(trial("a"), fingerprint="after", stages=stages, given={"data": {"kind": "pairs"}})
    return planned, found, asked


@pytest.mark.parametrize(
    ("changed", "record", "state"),
    [
        ({}, {}, Current()),
        ({"train": "u"}, {}, Stale("the train program changed")),
        ({"train": "u", "evaluate": "f"}, {}, Stale("the train program and the evaluation program changed")),
        ({"start": "r"}, {}, Stale("the initialization changed")),
        ({"decode": "h", "start": "r", "train": "u"}, {},
         Stale("the initialization, the train program and the decoding program changed")),
        ({"data": "x"}, {}, Stale("the data changed")),
        ({"data": None}, {}, HIDDEN),
        ({"score": "x"}, {}, Stale("the scoring changed")),
        ({"score": "x", "score.seen": "x"}, {"score.seen": "b"}, Stale("the scoring and the scoring of seen changed")),
        ({"train": "u"}, {"jax": "0.10.1"}, NotComparable("made with jax 0.10.1")),
        ({"data": "x"}, {"jax": "0.10.1"}, Stale("the data changed")),
        ({}, {"optax": "0.2.7"}, Current()),
        ({"start": "r"}, {"optax": "0.2.7"}, NotComparable("made with optax 0.2.7, and the initialization differs")),
        ({}, {"decode": UNREAD}, NotComparable("the decoding program cannot be hashed")),
        ({"train": "u"}, {"decode": UNREAD}, Stale("the train program changed")),
        ({"platform": ""}, {"platform": "tpu"}, NotComparable("made on tpu, whose programs are not lowered here")),
    ],
)  # fmt: skip
def test_the_state_and_its_reason(now, changed, record, state):
    planned, found, _ = now
    found.update(changed)
    for part in [part for part, value in found.items() if value is None]:
        del found[part]
    assert state_of(planned, {"program": {**RECORDED, **record}}) == state


def test_programs_are_lowered_only_if_needed(now):
    planned, found, asked = now
    found["train"] = "u"
    assert state_of(planned, {"program": {**RECORDED, "sources": "after"}}) == Current()
    assert state_of(planned, {"fingerprint": "after"}) == OLD
    assert state_of(planned, {"program": {"sources": "before"}}).reason == "begun before programs were fingerprinted"
    assert asked == []
    files = dataclasses.replace(planned, given={"data": {"kind": "files"}})  # the user's data, whatever the sources
    found |= {"train": "t", "data": "x"}
    assert state_of(files, {"program": {**RECORDED, "sources": "after"}}) == Stale("the data changed")


def test_a_measurements_sources_are_what_it_imports_and_the_kinds_that_it_names(tmp_path):
    folder = tmp_path / "experiments" / "paper"
    folder.mkdir(parents=True)
    (folder / "costs.py").write_text(
        "from attention_research.kernels.efficient.linformer import linformer_attention\n"
        "from attention_research.registry import lookup\n"
        "def cost(kind):\n    return lookup('attention', kind), linformer_attention\n"
        "def unused():\n    from attention_research.training import run\n"
    )
    (folder / "table.py").write_text("from .costs import cost\ndef measured(*, kind):\n    return cost(kind)\n")
    reach = sources._Reach(sources.ABOVE)
    reach.definitions(folder / "table.py", {"measured"})
    reach.kinds({"alibi"})
    read = {path.relative_to(sources.PACKAGE).as_posix() for path in reach.modules}
    assert {"kernels/efficient/linformer.py", "layers/attention/alibi.py", "layers/attention/multi_head.py"} <= read
    assert not any(path.startswith(("training/", "studies/")) or "performer" in path for path in read)
    of = lambda kind: sources.Sources().of(f"{folder / 'table.py'}:measured", {"kind": kind, "seed": 3})
    assert of("alibi") == of("alibi") != of("rotary")


@pytest.mark.parametrize(
    "statement, file",
    [
        ("from attention_research.kernels import attend", "scores/attend.py"),
        ("from attention_research.kernels.scores import attend", "scores/attend.py"),
        ("from attention_research.kernels import attend, softcap_attention", "variants/softcap.py"),
        ("from attention_research.kernels import sinkhorn", "efficient/sinkhorn.py"),
        ("from attention_research.kernels.efficient import sinkhorn", "efficient/sinkhorn.py"),
    ],
)
def test_a_kernels_module_is_among_the_sources_wherever_it_is_imported_from(tmp_path, statement, file):
    (tmp_path / "study.py").write_text(f"{statement}\ndef measured():\n    return {statement.split()[-1]}\n")
    reach = sources._Reach(sources.ABOVE)
    reach.definitions(tmp_path / "study.py", {"measured"})
    read = {path.relative_to(sources.PACKAGE).as_posix() for path in reach.modules}
    assert f"kernels/{file}" in read and "kernels/__init__.py" not in read
    assert "kernels/recurrent/gru.py" not in read


def test_floors_count_only_where_a_trial_has_their_numbers(tmp_path):
    """`whole` reads the package of the baselines. Otherwise neither it nor the methods are part of the scoring."""
    where = registry.FAMILIES["evaluation"]["bleu"]
    plain, whole = (sources.Sources().of_scoring(where, whole=one) for one in (False, True))
    assert plain != whole
    file = tmp_path / "one.py"
    kept = "class A:\n    def score(self):\n        return 1\n"
    file.write_text(f"{kept}    def floors(self, data):\n        from attention_research.tasks import floors\n")
    facts = source_facts.module_facts(file, False)
    assert facts.imports == () and len(source_facts.module_facts(file, True).imports) == 1
    (tmp_path / "other.py").write_text(kept)
    assert facts.text == source_facts.module_facts(tmp_path / "other.py", True).text
    (tmp_path / "third.py").write_text(f"{kept}    def sentence_statistics(self):\n        return 2\n")
    found = {source_facts.module_facts(tmp_path / "third.py", way).text for way in (False, True)}
    assert found == {facts.text}  # no trial's score depends on them


@pytest.mark.slow
def test_status_says_which_records_are_stale_and_why(fake, ran, capsys, monkeypatch):
    run_study("fake/table", scale="quick", rows=("one",), record=True)
    file = Path("experiments/fake/table.py")
    main(["status", "--stale", "fake/table"])
    assert capsys.readouterr().out.splitlines()[1].split() == ["fake/table", "quick", "2", "0", "0", "2"]
    file.write_text(file.read_text().replace("value + 0.5", "value + 0.25"))
    assert main(["status", "--stale", "--scale=quick", "--json"]) == 0
    (table,) = json.loads(capsys.readouterr().out)
    assert (table["current"], table["stale"], table["not_comparable"], table["missing"]) == (0, 2, 0, 2)
    assert {one["reason"] for one in table["trials"]} == {"the measurement measured changed"} and len(ran()) == 2
    for arguments, line in (
        (["--stale", "--scale=cpux"], "--scale=cpux: no such scale; did you mean cpu?"),
        (["--stale", "fake/table", "--scale=cpu"], "study fake/table: nothing is recorded at cpu"),
        (["--scale=cpu"], "--scale=cpu: belongs to --stale"),
    ):
        assert main(["status", *arguments]) == 2 and line in capsys.readouterr().err
    for name in ("other", "third"):
        file.with_name(f"{name}.py").write_text(file.read_text())
    monkeypatch.setattr(recorded, "states_of", lambda *_: pytest.fail("compared before the names were checked"))
    assert main(["status", "--stale", "fake/table", "fake/other", "fake/third"]) == 2
    assert capsys.readouterr().err == "error: studies fake/other, fake/third: nothing is recorded\n"


def test_the_fit_of_a_measurement_counts_but_training_code_does_not(monkeypatch):
    of = lambda: sources.Sources().of("attention_research.analysis.position_probe:measure_probe", trained=True)
    with_it = of()
    assert with_it == of()
    monkeypatch.setattr(sources, "OF_MEASURING", "")
    assert with_it != of()
