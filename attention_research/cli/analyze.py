"""`analyze`: analyses the attention of a trained run; writes numbers, figures and a page."""

from __future__ import annotations

import argparse

from attention_research.cli.arguments import (
    Overrides,
    Parser,
    checkpoint_options,
    ids,
    place,
    positive,
    print_json,
    say,
    trained_workdir,
    workdir_option,
)

WHAT = "maps,heads,rollout,spectra,probe"


def options(parser: Parser) -> None:
    workdir_option(parser)
    checkpoint_options(parser)
    parser.add_argument("--what", type=ids, metavar=WHAT, help="which analyses (default: all that fit the model)")
    parser.add_argument("--split", help="split of the run's data (default: evaluation.split of the run)")
    parser.add_argument("--examples", type=positive, default=64, metavar="N", help="number of examples (default: 64)")
    parser.add_argument(
        "--output", type=place, metavar="DIR", help="the folder to write to (default: WORKDIR/analysis)"
    )
    parser.add_argument("--json", action="store_true", help="print the numbers as one JSON document")


def run(arguments: argparse.Namespace, overrides: Overrides) -> int:
    workdir = trained_workdir(arguments, overrides)
    from attention_research.training.environment import keep_compiled_programs
    from attention_research.training.workdir import load_config
    from attention_research.workdirs import offers

    offers.check(load_config(workdir).resolved, "analyze")
    from attention_research.training.evaluation import Trained
    from attention_research.workdirs.analysis import analyze

    keep_compiled_programs()
    trained = Trained(workdir, say, average=arguments.average, checkpoint=arguments.checkpoint)
    folder = arguments.output or workdir / "analysis"
    split = arguments.split or trained.evaluation.split
    found = analyze(trained, folder, arguments.what, split=split, examples=arguments.examples)
    if arguments.json:
        return print_json(found)
    for what, reasons in found.get("left_out", {}).items():
        for why in reasons:
            say(f"no {what}: {why}")
    texts: dict[str, str] = {}  # of the first example: source, reference, output
    for one in found.get("maps", ()):
        texts |= one["sentences"] if one["example"] == 1 else {}
    width = max(map(len, texts), default=0)
    print("".join(f"{name:<{width}}  {text}\n" for name, text in texts.items()), end="")
    examples = f" · examples {folder / 'attention.html'}" if "maps" in found else ""
    print(f"page {folder / 'analysis.html'}{examples} · numbers {folder / 'analysis.json'}")
    return 0
