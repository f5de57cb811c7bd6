"""The command line describes itself: help for every command and option, the version, completion of words."""

import argparse
import ast
import importlib.util
import json
import subprocess
from importlib.metadata import version

import pytest

from attention_research.cli import main
from attention_research.cli.bench import BENCHMARKS, OTHERS
from attention_research.cli.program import COMMANDS, whole_parser


def parsers():
    (commands,) = (one for one in whole_parser()._actions if isinstance(one, argparse._SubParsersAction))
    return commands.choices


def test_every_command_and_option_has_help():
    assert list(parsers()) == list(COMMANDS)
    bare = [f"{name} {one.dest}" for name, parser in parsers().items() for one in parser._actions if not one.help]
    assert not bare


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_the_options_of_a_command(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["help", command])
    assert stop.value.code == 0
    printed = capsys.readouterr().out
    options = [option for one in parsers()[command]._actions for option in one.option_strings]
    assert f"attention-research {command}" in printed and all(option in printed for option in options)


def test_help_alone_lists_the_commands_and_version_prints_it(capsys):
    assert main(["help"]) == 0
    printed = capsys.readouterr().out
    assert all(f"\n  {name} " in printed for name in COMMANDS)
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"attention-research {version('attention-research')}\n"


def test_bash_completes_commands_and_options(capsys, tmp_path):
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "completion.bash"
    script.write_text(capsys.readouterr().out)
    ask = (
        f"source {script}; COMP_WORDS=(attention-research $0); COMP_CWORD=1; "
        "_shtab_attention_research; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(["bash", "-c", ask, "rep"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["reproduce", "report"]


@pytest.mark.slow
def test_train_prints_what_differs_from_the_file_and_all_settings_with_verbose(tmp_path, capsys, monkeypatch):
    """Nothing is trained: the run stops at an error that is found after the output."""
    monkeypatch.setattr("attention_research.training.run.train", lambda *_, **__: {"steps": 0})
    words = ["train", "--config=translation/transformer:smoke", f"--workdir={tmp_path}/run"]
    assert main([*words, "--config.training.steps=7", "--config.model.decoder.num_layers=3"]) == 0
    said = capsys.readouterr().err.splitlines()[0]
    assert said.startswith("config translation/transformer:smoke with ") and "training.steps: 4 -> 7" in said
    assert "model.decoder.num_layers: " in said and "width" not in said
    assert main(words) == 0
    assert capsys.readouterr().err.splitlines()[0] == "config translation/transformer:smoke"
    changed = "--config.model.self_attention.kind=unscaled"
    assert main([*words, changed]) == 0
    expected = "config translation/transformer:smoke with model.self_attention.kind: standard -> unscaled"
    assert capsys.readouterr().err.splitlines()[0] == expected
    assert main([*words, changed, "--verbose"]) == 0
    printed = capsys.readouterr().err
    assert json.loads(printed[: printed.index("\n}\n") + 2])["training"]["steps"] == 4
    assert "model.decoder.self_attention.kind: standard -> unscaled" in printed


def test_bench_names_every_benchmark_and_those_with_options_of_their_own(root):
    files = {path.stem: path.read_text() for path in (root / "benchmarks").glob("[!_]*.py")}
    assert sorted(files) == sorted([*BENCHMARKS, *OTHERS])
    for name in BENCHMARKS:
        (main,) = (
            one for one in ast.parse(files[name]).body if isinstance(one, ast.FunctionDef) and one.name == "main"
        )
        assert main.args.args[0].arg == "json" and len(main.args.defaults) == len(main.args.args), name


def test_bench_lists_and_refuses(capsys):
    assert main(["bench"]) == 0
    printed = capsys.readouterr().out
    assert all(f"{name} " in printed for name in BENCHMARKS)
    for name, said in (
        ("pronunciation", "python -m attention_research.benchmarks.pronunciation --help"),
        ("trian", "did you mean train?"),
    ):
        assert main(["bench", name]) == 2
        assert said in capsys.readouterr().err


def test_bench_lists_as_json(capsys):
    assert main(["bench", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed == [{"name": name, "title": title} for name, title in BENCHMARKS.items()]


def test_benchmarks_with_options_run_from_any_folder():
    """Under the name that `bench` advises."""
    for name in OTHERS:
        assert importlib.util.find_spec(f"attention_research.benchmarks.{name}") is not None
