"""The command `attention-research`; nothing else parses arguments.

Exit status: 0 done; 1 failed while running; 2 the user's arguments or config are wrong; each error is one line.
JAX is imported only by a command that is about to use it: `--help`, `list` and wrong arguments stay instant.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from attention_research.config import Config, ConfigError, load, variants
from attention_research.errors import RunError
from attention_research.training.environment import keep_compiled_programs

COMMANDS: dict[str, str] = {
    "train": "train a config in a workdir; the same command continues an interrupted run",
    "evaluate": "losses and BLEU of a workdir's newest checkpoint, written to evaluation.json",
    "generate": "translate with a trained workdir",
    "sweep": "run a config over lists of values and compare them in a table",
    "reproduce": "run a study and print its table",
    "inspect": "parameters, FLOPs, memory and sharding of a config or a study; allocates nothing",
    "list": "studies, variants, datasets",
    "data": "prepare data sets",
    "bench": "measure speed and memory against peers",
}


class Parser(argparse.ArgumentParser):
    """argparse with one-line errors that name the nearest valid option or command."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)


def say(line: str) -> None:
    """Logs and progress go to standard error."""
    print(line, file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status."""
    try:
        return run(list(sys.argv[1:] if argv is None else argv))
    except ConfigError as error:
        say(f"error: {error}")
        return 2
    except RunError as error:
        say(f"error: {error}")
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        say("interrupted; rerun the same command to continue")
        return 130


def nearest(word: str, among: Sequence[str]) -> str:
    """ "; did you mean X?" for the nearest of `among`, or a list of them."""
    close = difflib.get_close_matches(word, list(among), 1, 0.5)
    return f"; did you mean {close[0]}?" if close else f"; there is {', '.join(among)}"


def run(argv: list[str]) -> int:
    """Parses and dispatches."""
    if not argv or argv[0] in ("-h", "--help"):
        print("usage: attention-research COMMAND ...   (COMMAND --help tells more)\n")
        print("\n".join(f"  {name:<10} {text}" for name, text in COMMANDS.items()))
        return 0 if argv else 2
    command, rest = argv[0], argv[1:]
    if command not in COMMANDS:
        raise ConfigError(f"{command}: no such command{nearest(command, list(COMMANDS))}")
    overrides = [_override(word) for word in rest if word.startswith("--config.")]
    rest = [word for word in rest if not word.startswith("--config.")]
    parser = Parser(prog=f"attention-research {command}", description=COMMANDS[command], allow_abbrev=False)
    handler: Callable[[argparse.Namespace, list[tuple[str, str]]], int] = HANDLERS[command](parser)
    known, unknown = parser.parse_known_args(rest)
    if unknown:
        options = [option for action in parser._actions for option in action.option_strings]
        raise ConfigError(f"{unknown[0].split('=')[0]}: {command} has no such option{nearest(unknown[0], options)}")
    return handler(known, overrides)


def _override(word: str) -> tuple[str, str]:
    path, equals, value = word.removeprefix("--config.").partition("=")
    if not equals:
        raise ConfigError(f"--config.{path}: give a value, as in --config.{path}=VALUE")
    return path, value


def _json(document: Any) -> int:
    print(json.dumps(document, indent=1))
    return 0


def _config(arguments: argparse.Namespace, overrides: list[tuple[str, str]]) -> Config:
    if not arguments.config:
        raise ConfigError("--config=FILE.py[:variant] is missing, for example configs/translation/transformer.py:cpu")
    config = load(arguments.config, overrides)
    from attention_research.data.names import check_name

    check_name(config.resolved["data"]["name"], "config.data.name")
    return config


def _train(parser: Parser) -> Callable:
    parser.add_argument("--config", help="FILE.py[:variant]; --config.a.b=VALUE sets any setting")
    parser.add_argument("--workdir", type=Path)

    def handle(arguments: argparse.Namespace, overrides: list[tuple[str, str]]) -> int:
        config = _config(arguments, overrides)
        if arguments.workdir is None:
            raise ConfigError("--workdir=DIR is missing: where the run's files go, for example runs/first")
        say(json.dumps(config.resolved, indent=1))
        keep_compiled_programs()
        from attention_research.training.run import train

        summary = train(config, arguments.workdir, say)
        say(f"config {config.hash} · {summary['steps']} steps · loss {summary.get('loss', float('nan')):.3f}")
        say(f"run {arguments.workdir} · next: attention-research evaluate --workdir={arguments.workdir}")
        return 0

    return handle


def _workdir(parser: Parser) -> None:
    parser.add_argument("--workdir", type=Path)


def _existing(arguments: argparse.Namespace) -> Path:
    if arguments.workdir is None:
        raise ConfigError("--workdir=DIR is missing: the folder of a trained run")
    if not (arguments.workdir / "config.json").exists():
        raise ConfigError(f"--workdir={arguments.workdir}: no run there (config.json is missing); train one first")
    return arguments.workdir


def _no_overrides(overrides: list[tuple[str, str]]) -> None:
    if overrides:
        raise ConfigError(
            f"--config.{overrides[0][0]}: the workdir's config.json is used; nothing can be overridden here"
        )


def _evaluate(parser: Parser) -> Callable:
    _workdir(parser)
    parser.add_argument("--json", action="store_true")

    def handle(arguments: argparse.Namespace, overrides: list[tuple[str, str]]) -> int:
        _no_overrides(overrides)
        workdir = _existing(arguments)
        keep_compiled_programs()
        from attention_research.training.evaluation import evaluate

        result = evaluate(workdir, say)
        if arguments.json:
            return _json(result)
        print(
            f"BLEU {result['bleu']:.2f} ({result['signature']}), {result['sentences']} sentences of {result['split']}"
        )
        print(f"copying the source {result['copy_bleu']:.2f} · perplexity {result['perplexity']:.2f} a piece")
        return 0

    return handle


def _generate(parser: Parser) -> Callable:
    _workdir(parser)
    parser.add_argument("--input", help="a sentence, a file with one a line, or - for standard input")

    def handle(arguments: argparse.Namespace, overrides: list[tuple[str, str]]) -> int:
        _no_overrides(overrides)
        workdir = _existing(arguments)
        if arguments.input is None:
            raise ConfigError("--input=TEXT|FILE|- is missing: what to translate")
        if arguments.input == "-":
            lines = sys.stdin.read().splitlines()
        elif len(arguments.input) < 4096 and Path(arguments.input).is_file():
            lines = Path(arguments.input).read_text().splitlines()
        else:
            lines = [arguments.input]
        keep_compiled_programs()
        from attention_research.training.evaluation import Trained

        print("\n".join(Trained(workdir, say).translate(lines)))
        return 0

    return handle


def _study_options(parser: Parser) -> None:
    parser.add_argument("--seeds", type=_positive, help="how many random seeds")
    parser.add_argument("--runner", default="local")
    parser.add_argument("--jobs", type=_positive, help="trials at a time")
    parser.add_argument("--workdir", type=Path)
    parser.add_argument("--stale", choices=("rerun", "keep"), default="keep", help="trials that other sources made")
    parser.add_argument("--json", action="store_true", help="print the summary as one JSON document")


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise ConfigError(f"{text}: expected a number from 1 up")
    return value


def _reproduce(parser: Parser) -> Callable:
    parser.add_argument("study")
    parser.add_argument("--scale", default="cpu")
    parser.add_argument("--rows", help="id,id,... (all of the scale's)")
    parser.add_argument("--record", action="store_true", help="write the results into experiments/")
    parser.add_argument("--render", action="store_true", help="redraw from what is there, train nothing")
    parser.add_argument("--ignore-records", action="store_true", help="train also what is recorded")
    _study_options(parser)

    def handle(arguments: argparse.Namespace, overrides: list[tuple[str, str]]) -> int:
        _no_study_overrides(overrides)
        from attention_research.studies.run import reproduce

        return reproduce(
            arguments.study, scale=arguments.scale, rows=_ids(arguments.rows), seeds=arguments.seeds,
            runner=arguments.runner, jobs=arguments.jobs, workdir=arguments.workdir, stale=arguments.stale,
            record=arguments.record, render=arguments.render, ignore_records=arguments.ignore_records,
            as_json=arguments.json,
        )  # fmt: skip

    return handle


def _ids(text: str | None) -> list[str] | None:
    return None if text is None else [part for part in text.split(",") if part]


def _no_study_overrides(overrides: list[tuple[str, str]]) -> None:
    if overrides:
        raise ConfigError(f"--config.{overrides[0][0]}: a study's rows are fixed; use sweep for your own")


def _sweep(parser: Parser) -> Callable:
    parser.add_argument("--config")
    parser.add_argument("--over", action="append", default=[], metavar="PATH=V1,V2", help="several: their product")
    _study_options(parser)

    def handle(arguments: argparse.Namespace, overrides: list[tuple[str, str]]) -> int:
        _config(arguments, overrides)
        if not arguments.over:
            raise ConfigError("--over=PATH=V1,V2 is missing, for example --over model.num_heads=1,4,8")
        from attention_research.studies.sweep import sweep

        return sweep(
            arguments.config, over=arguments.over, overrides=overrides, seeds=arguments.seeds, runner=arguments.runner,
            jobs=arguments.jobs, workdir=arguments.workdir, stale=arguments.stale, as_json=arguments.json,
        )  # fmt: skip

    return handle


def _inspect(parser: Parser) -> Callable:
    parser.add_argument("--config")
    parser.add_argument("--study")
    parser.add_argument("--scale", default="paper")
    parser.add_argument("--rows")
    parser.add_argument("--json", action="store_true")

    def handle(arguments: argparse.Namespace, overrides: list[tuple[str, str]]) -> int:
        if (arguments.config is None) == (arguments.study is None):
            raise ConfigError("give one of --config=FILE.py[:variant] and --study=STUDY")
        if arguments.study:
            _no_study_overrides(overrides)
            from attention_research.studies.inspection import inspect_study

            rows = inspect_study(arguments.study, scale=arguments.scale, rows=_ids(arguments.rows))
            if arguments.json:
                return _json(rows)
            for row in rows:
                if row["parameters"] is None:
                    print(f"{row['row']:<40} not counted here: a published row")
                    continue
                print(f"{row['row']:<40} {row['parameters']:>14,} parameters {row['flops'] / 1e9:>14,.1f} GFLOP a step")
            return 0
        config = _config(arguments, overrides)
        from attention_research.training.inspection import inspect

        counted = inspect(config)
        if arguments.json:
            return _json({"config": config.resolved, "hash": config.hash, **counted})
        for array in counted["arrays"]:
            print(f"{array['name']:<64} {'x'.join(map(str, array['shape'])):>16} {array['sharding']}")
        gflop, (state, peak) = counted["flops"] / 1e9, (counted[k] / 2**20 for k in ("state_bytes", "peak_bytes"))
        print(f"{counted['parameters']:,} parameters · {gflop:,.2f} GFLOP a training step at {counted['batch']}")
        print(f"state {state:,.1f} MiB · step's peak about {peak:,.1f} MiB, before fusion")
        return 0

    return handle


def _list(parser: Parser) -> Callable:
    parser.add_argument("what", choices=None, nargs="?")
    parser.add_argument("--json", action="store_true")

    def handle(arguments: argparse.Namespace, overrides: list[tuple[str, str]]) -> int:
        _no_overrides(overrides)
        lists: dict[str, Callable[[], dict[str, str]]] = {
            "studies": _studies, "variants": _variants, "datasets": _datasets
        }  # fmt: skip
        if arguments.what not in lists:
            word = arguments.what or "list"
            raise ConfigError(f"{word}: no such list{nearest(word, list(lists))}")
        entries = lists[arguments.what]()
        if arguments.json:
            return _json([{"name": name, "title": title} for name, title in entries.items()])
        width = max(map(len, entries), default=0)
        print("\n".join(f"{name:<{width}}  {title}" for name, title in entries.items()))
        return 0

    return handle


def _studies() -> dict[str, str]:
    from attention_research.studies.study import find_studies

    return dict(find_studies())


def _variants() -> dict[str, str]:
    files = sorted(Path("configs").rglob("*.py"))
    return {f"{file}:{name}": title for file in files for name, title in variants(str(file)).items()}


def _datasets() -> dict[str, str]:
    from attention_research.data.names import dataset_names

    return dict(dataset_names())


def _data(parser: Parser) -> Callable:
    parser.add_argument("action")
    parser.add_argument("names", nargs="*")

    def handle(arguments: argparse.Namespace, overrides: list[tuple[str, str]]) -> int:
        _no_overrides(overrides)
        if arguments.action != "prepare":
            raise ConfigError(f"{arguments.action}: no such action{nearest(arguments.action, ['prepare'])}")
        if not arguments.names:
            raise ConfigError("data prepare: name the data sets; `attention-research list datasets` shows them")
        from attention_research.data.names import check_name

        for name in arguments.names:
            check_name(name)
        from attention_research.data.sources import prepare_dataset

        for name in arguments.names:
            prepare_dataset(name, say)
        return 0

    return handle


def _bench(parser: Parser) -> Callable:
    parser.add_argument("what")
    parser.add_argument("--json", action="store_true")

    def handle(arguments: argparse.Namespace, overrides: list[tuple[str, str]]) -> int:
        _no_overrides(overrides)
        names = sorted(path.stem for path in Path("benchmarks").glob("*.py") if path.stem != "__init__")
        if arguments.what not in names:
            raise ConfigError(f"{arguments.what}: no such benchmark{nearest(arguments.what, names)}")
        import importlib

        sys.path.insert(0, str(Path.cwd()))
        importlib.import_module(f"benchmarks.{arguments.what}").main(arguments.json)
        return 0

    return handle


HANDLERS: dict[str, Callable[[Parser], Callable]] = {
    "train": _train,
    "evaluate": _evaluate,
    "generate": _generate,
    "sweep": _sweep,
    "reproduce": _reproduce,
    "inspect": _inspect,
    "list": _list,
    "data": _data,
    "bench": _bench,
}
