"""Prints docs/catalogue.md: a table for each family of mechanisms, then the rows of Narang et al. 2021, Table 1.

It also writes `attention_research/config/mechanisms.jsonl`, the same facts for `attention-research list kinds --json`;
with the argument "studies" it writes studies.jsonl there instead, the studies that use each kind.

The exponents are those of the newest benchmarks/results/scaling-*.json. `experiments/narang2021/variants.csv` describes
the rows of Narang et al., and `counts.csv` has their counts by `inspect`.
"""

from __future__ import annotations

import contextlib
import csv
import inspect
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from attention_research import registry
from attention_research.config import Config, ConfigError, catalogue
from attention_research.studies import Stage, finetuning
from tests.catalogue import FAMILIES, Mechanism, mechanisms
from tests.catalogue.kinds import kinds_of
from tests.catalogue.names import ALSO, NO_LAYER

HEAD = """\
# The catalogue

This page lists every mechanism of `attention_research.kernels`. Each is a pure function on arrays in a file of its own.
All columns are tested: `tests/kernels/test_kernel_laws.py` checks gradients, padding, empty rows, causality,
permutations, bfloat16, shapes and JAX's transforms for each description in `tests/catalogue/`. The oracle is an
implementation that shares no code with ours. This command writes the page:

    python -m tests.catalogue > docs/catalogue.md

*Causal*: the gradient from later positions is exactly zero. *Cached*: computing one position at a time gives the same
numbers. *Blockwise*: the full array of scores is never created. *Time, memory*: their exponents in the sequence length,
for the forward and backward pass, {measured}. A dash means that it was not measured.

*Kind*: the kind of a config that trains a model with this mechanism, such as `model.self_attention.kind=linformer` for
`attention.linformer`. `attention-research list kinds attention.linformer` prints its settings. A mechanism marked
"kernel only" can be called as a function; [Adding a variant](adding_a_variant.md) shows how to make a kind of it.

*Trains in*: the places of a model that can have the kind, and the number of studies that use it. Each place has a
family of kinds, whose name is given without `_attention`. "Encoder" is the self-attention of an encoder, "causal" that
of a decoder, and "cross" the attention of a decoder to a source. "Prompted" and "prefix" are the self-attention of a
decoder whose sequence is a source followed by the target (the model `language_model`). With "prompted", a source
position attends to earlier positions only; with "prefix", to the whole source.

*State*: the number of values that a layer of the kind caches for S positions, with N heads and K key heads of width H,
values of width Hv and states of width D. *Length*: the exponent p of the time of the layer in the sequence length n,
n^p, by its equation: 2 for all pairs of positions, 1 for a time that is proportional to the length.
`attention-research list kinds --json` gives these facts for every kind and mechanism.
"""
COLUMNS = (
    "mechanism", "name, paper", "equation", "kind", "trains in", "state", "length", "causal", "cached", "blockwise",
    "time, memory", "oracle",
)  # fmt: skip
#: The number of kinds that a row names.
SHOWN = 2
FOLDER = Path("experiments/narang2021")
ROWS_HEAD = """\
## Whole Transformers: the 52 rows of Narang et al. 2021, and variants as written in the papers

Every row changes one baseline, [`narang2021.py`](../configs/text_to_text/narang2021.py), by the overrides in
[`rows.py`](../experiments/narang2021/rows.py). The numbers of parameters are for the paper's sizes, counted by

    attention-research inspect --study=narang2021/table1 --scale=paper --json

and, for the last rows, by the same command with `narang2021/as_written`. `tests/models/test_narang_rows.py` tests all
rows but those that differ from another row only in an activation or a size: every parameter gets a gradient within two
updates, causality by gradient, cached decoding, padding, scan against loop, and bfloat16.
"""
ROWS_COLUMNS = ("row", "parameters", "paper", "equation", "oracle")


def text(of: str) -> str:
    """Prose, with all markup escaped."""
    return of.replace("|", "\\|").replace("*", "\\*").replace("_", "\\_").replace("<", "&lt;")


def code(of: str) -> str:
    """A formula, as inline code."""
    return "`" + of.replace("|", "\\|") + "`"


def link(of: str, path: str) -> str:
    """A link to a file of the repository, from docs/."""
    return f"[{text(of)}](../{path})"


def line(cells: Iterable[str]) -> str:
    """A line of a table."""
    return "| " + " | ".join(cells) + " |"


def row(mechanism: Mechanism, exponents: Mapping[str, Mapping[str, float]]) -> str:
    """One line of a family's table."""
    citation = mechanism.citation()
    paper = ", ".join([names(mechanism), *(text(one) for one in (citation["paper"], citation["where"]) if one)])
    path, test = mechanism.test
    fitted = exponents.get(mechanism.name)
    cells = (
        f"[{mechanism.name}](../{mechanism.file})",
        paper,
        code(citation["equation"]),
        kind(mechanism),
        *trained(mechanism),
        "yes" if mechanism.causal else "",
        "yes" if mechanism.cached else "",
        "yes" if mechanism.blockwise else "",
        f"{fitted['time']:.2f}, {fitted['memory']:.2f}" if fitted else "-",
        link(test.removeprefix("test_").replace("_", " "), path),
    )
    return line(cells)


def names(mechanism: Mechanism) -> str:
    """The title of a mechanism, and in brackets its other names and the function, if this row is the first with it."""
    function = inspect.unwrap(mechanism.function)
    first = next(one for one in mechanisms() if inspect.unwrap(one.function) is function)
    others = [text(one) for one in ALSO.get(mechanism.name, ())]
    if first is mechanism and function.__name__ != mechanism.name:
        others.append(f"`{function.__name__}`")
    return text(mechanism.citation()["title"]) + (f" ({', '.join(others)})" if others else "")


def kind(mechanism: Mechanism) -> str:
    """The first kinds that compute a mechanism, and the number of the others."""
    found = kinds_of(mechanism)
    shown = ", ".join(f"`{one}`" for one in found[:SHOWN])
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    alone = f"kernel only: {text(NO_LAYER[mechanism.name])}" if mechanism.name in NO_LAYER else "kernel only"
    return shown + more or alone


def trained(mechanism: Mechanism) -> tuple[str, str, str]:
    """The families and the number of studies, the state, and the exponent in the length."""
    if mechanism.name not in _stated():  # mechanisms.jsonl is out of date
        return "", "", ""
    found = _stated()[mechanism.name]
    families = ", ".join(one.removesuffix("_attention") for one in found["families"] if one != "attention")
    count = len(found["studies"])
    studies = f"; {count} {'study' if count == 1 else 'studies'}" if count else ""
    state, exponent = found["state"], found["exponent"]
    return families + studies, code(state) if state else "", "" if exponent is None else f"{exponent:g}"


@cache
def _stated() -> dict[str, dict[str, Any]]:
    """Mechanism -> what `list kinds --json` says of it."""
    return {one["name"]: one for one in catalogue.mechanisms()}


def facts(mechanism: Mechanism, exponents: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """The line of a mechanism in mechanisms.jsonl. `time` and `memory` are measured exponents."""
    citation, fitted = mechanism.citation(), exponents.get(mechanism.name, {})
    found = kinds_of(mechanism)
    function = inspect.unwrap(mechanism.function)
    return {
        "name": mechanism.name,
        "family": next(family for family in FAMILIES if mechanism in mechanisms(family)),
        "title": citation["title"],
        "also": list(ALSO.get(mechanism.name, ())),
        "paper": citation["paper"],
        "year": int(re.search(r"\b(?:19|20)\d\d", citation["paper"])[0]),
        "where": citation["where"],
        "equation": citation["equation"],
        "kernel": f"{function.__module__}.{function.__name__}",
        "kinds": found,
        "reason": None if found else NO_LAYER.get(mechanism.name, "no kind yet"),
        "causal": mechanism.causal is not None,
        "cached": mechanism.cached is not None,
        "blockwise": mechanism.blockwise,
        "time": fitted.get("time"),
        "memory": fitted.get("memory"),
    }


def of_mechanisms(root: Path) -> str:
    """The whole of mechanisms.jsonl."""
    measured = scaling(root)
    exponents = measured["exponents"] if measured else {}
    return "".join(json.dumps(facts(one, exponents), ensure_ascii=False) + "\n" for one in mechanisms())


def of_studies() -> str:
    """The whole of studies.jsonl: the studies that use each kind in a row of their first scale or its fine-tunings."""
    from attention_research.config.sections import sections
    from attention_research.studies import loading, trials

    used: dict[str, set[str]] = {}
    for name in loading.find_studies():
        study = loading.load_study(name)
        for row in study.rows:
            for scale in study.scales:
                with contextlib.suppress(ConfigError):  # a row of larger scales only
                    config = trials.configuration(study, scale, row)
                    for one in [config, *_tuned(config, study.stages_of(row, scale), scale)] if config else ():
                        for family, kind, _ in sections(one.resolved, "experiment"):
                            used.setdefault(f"{family}.{kind}", set()).add(name)
                    break
    order = (f"{family}.{kind}" for family, found in registry.FAMILIES.items() for kind in found)
    lines = ({"kind": kind, "studies": sorted(used[kind])} for kind in order if kind in used)
    return "".join(json.dumps(line) + "\n" for line in lines)


def _tuned(config: Config, stages: Iterable[Stage], scale: str) -> Iterator[Config]:
    """The configs of the fine-tunings of a row."""
    for stage in stages:
        if stage.kind == "finetune":
            yield config.override(finetuning.overrides_at(stage, scale).items())


def tables(scaling: Mapping[str, Any] | None = None) -> str:
    """The families' tables. `scaling` is the document of `benchmarks/scaling.py`."""
    exponents = scaling["exponents"] if scaling else {}
    measured = "not measured yet"
    if scaling:
        lengths = scaling["shape"]["lengths"]
        measured = (
            f"fitted between {lengths[0]} and {lengths[-1]} on {scaling['cores']} cores of {scaling['processor']}, "
            f"{scaling['date'][:10]} (benchmarks/scaling.py)"
        )
    lines = [HEAD.format(measured=measured)]
    for family, title in FAMILIES.items():
        lines += [f"## {title}\n", line(COLUMNS), line(["---"] * len(COLUMNS))]
        lines += [row(mechanism, exponents) for mechanism in mechanisms(family)]
        lines.append("")
    return "\n".join(lines)


def read(root: Path, name: str) -> dict[str, dict[str, str]]:
    """Row id -> cells."""
    with open(root / FOLDER / name, encoding="utf-8", newline="") as file:
        return {row.pop("row"): row for row in csv.DictReader(file)}


def section(root: Path) -> str:
    """The section on the rows of Narang et al. 2021, as Markdown."""
    counts = read(root, "counts.csv")
    lines = [ROWS_HEAD, line(ROWS_COLUMNS), line(["---", "---:", "---", "---", "---"])]
    for name, row in read(root, "variants.csv").items():
        path, test = row["test"].split("::")
        parameters = f"{int(counts[name]['parameters']):,}"
        oracle = link(test.removeprefix("test_").replace("_", " "), path)
        lines.append(line((link(name, row["file"]), parameters, text(row["paper"]), code(row["equation"]), oracle)))
    return "\n".join([*lines, ""])


def scaling(root: Path) -> dict[str, Any] | None:
    """The newest recorded measurement of time and memory against length."""
    found = [json.loads(path.read_text("utf-8")) for path in (root / "benchmarks/results").glob("scaling-*.json")]
    return max(found, key=lambda document: document["date"], default=None)


def document(root: Path) -> str:
    """The whole of docs/catalogue.md."""
    return f"{tables(scaling(root))}\n{section(root)}"


if __name__ == "__main__":
    folder = Path.cwd() / "attention_research" / "config"
    if sys.argv[1:] == ["studies"]:
        (folder / "studies.jsonl").write_text(of_studies(), encoding="utf-8")
    else:
        (folder / "mechanisms.jsonl").write_text(of_mechanisms(Path.cwd()), encoding="utf-8")
        print(document(Path.cwd()), end="")
