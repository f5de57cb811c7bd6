"""Writes docs/claims.md: every claim of the lectures with the command that tests it, the measurement and the verdict.

    python -m attention_research.studies.claims_page > docs/claims.md

The claims are those of experiments/claims.csv, without claims that only a paper makes. Measurements and verdicts are
read from the recorded tables, experiments/<paper>/results/<table>/<scale>/table.md, at scale `cpu` if it is recorded.
Nothing is computed here.
"""

from __future__ import annotations

import csv
import functools
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from attention_research import bundled
from attention_research.studies import footnotes
from attention_research.studies.competence import NOT_SAID, UNTRAINED_KINDS, Met, parse
from attention_research.studies.loading import study_files
from attention_research.studies.study import JUDGED, STATUSES

#: The status of a claim without a recorded verdict. Judged claims have one of `STATUSES`. A struck claim is not tested:
#: the column `struck` of claims.csv has the reason.
UNJUDGED = NOT_RECORDED, NOT_BUILT, STRUCK = "not recorded yet", "not built yet", "struck"
_HEADING = re.compile(r"^### (?P<id>[\w-]+): (?P<status>.+)$", re.MULTILINE)
INTRODUCTION = """\
statements about attention and related models, from lecture notes and in our words, each with the study that tests it
and the verdict. Most studies train small models (scale `cpu`), so that a verdict is about these models and data, and
not about the models of the papers. The columns of the tables below are:

- *claim*: the statement, and its name, which is also its anchor on this page.
- *notes*: the lecture notes that make the claim (the first table counts them).
- *command*: the command that tests the claim. It trains only what is not recorded.
- *measured*: the numbers behind the verdict. Many claims have several cases (models, data or lengths). The claim held
  only if each case holds. A link leads to all cases. Text in italics is a planned measurement.
- *learned*: whether the models have learned their task: the score of a reference model, and what it must reach. This is
  the score of a baseline, such as a trigram model, or a fixed threshold. "No trained model is needed": the claim does
  not depend on training.
- *verdict*: "held" or "did not hold". A difference that is not statistically significant does not count as shown. "Not
  tested": the models have not learned their task, or something needed was not measured. "Figure: no verdict": a figure
  shows the claim, and no number decides it. "Struck": no study tests the claim, and the column *measured* has the
  reason. [How verdicts are decided](studies.md#what-a-verdict-says).

`python -m attention_research.studies.claims_page` writes this page."""
#: The number of cases of a verdict that the page shows. A link leads to the others.
SHOWN = 2
#: The sentence of a verdict that counts its cases. If there is one, the page shows only this sentence.
_COUNTED = re.compile(r"\d+ of \d+ cases holds?\b")


class Judgement(NamedTuple):
    """The verdict of a record on a claim. ``seeds`` is the number of seeds that most rows of the table have."""

    status: str
    cases: tuple[str, ...] = ()
    study: str = ""
    scale: str = JUDGED[0]
    seeds: int = 0
    learned: tuple[Met, ...] | None = (NOT_SAID,)

    @property
    def competence(self) -> Met | None:
        """The criterion that decides; None if no model is trained."""
        return self.learned[0] if self.learned else None


def _record(study: str, scale: str) -> str:
    paper, _, table = study.partition("/")
    return f"experiments/{paper}/results/{table}/{scale}/table.md"


def recorded(root: Path, study: str) -> dict[str, Judgement]:
    """Claim -> judgement, from the record of a study at the first scale of `JUDGED` that has one."""
    scale = next((one for one in JUDGED if (root / _record(study, one)).exists()), None)
    if scale is None:
        return {}
    text = (root / _record(study, scale)).read_text(encoding="utf-8")
    headings = [*_HEADING.finditer(text)]
    ends = [*(heading.start() for heading in headings), len(text)][1:]
    found = {}
    for heading, end in zip(headings, ends, strict=True):
        section = text[heading.end() : end]
        sentences = (line[2:] for line in section.splitlines() if line.startswith("- "))
        numbers = (f"{case}: {said}" for case, _, said in footnotes.parse(section)[1:] if said)
        cases, learned = (*sentences, *numbers), parse(section)
        found[heading["id"]] = Judgement(heading["status"], cases, study, scale, _seeds(text), learned)
    return found


def _seeds(text: str) -> int:
    """The number of seeds that most rows of a recorded table have."""
    lines = [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("| ")]
    titles = [title.strip() for title in lines[0]] if lines else []
    if "seeds" not in titles:
        return 0
    counts = Counter(line[titles.index("seeds")].strip() for line in lines[1:] if len(line) == len(titles))
    return next((int(count) for count, _ in counts.most_common() if count.isdecimal() and int(count)), 0)


def judgement(root: Path, claim: Mapping[str, str], read: Callable[..., dict[str, Judgement]] = recorded) -> Judgement:
    """The judgement of a claim, from the first of its studies with a recorded verdict.

    ``read`` is `recorded` or a cached version of it.
    """
    studies = claim["study"].split(";")
    if reason := claim.get("struck"):
        return Judgement(STRUCK, (reason,), studies[0], learned=None)
    for study in studies:
        if (found := read(root, study).get(claim["id"])) is not None:
            return found
    built = any(any(study_files(study, root / "experiments")) for study in studies)
    learned = None if claim.get("kind") in UNTRAINED_KINDS else (NOT_SAID,)
    return Judgement(NOT_RECORDED if built else NOT_BUILT, study=studies[0], learned=learned)


def claims_of_the_lectures(root: Path) -> list[dict[str, str]]:
    """The claims of claims.csv, without claims that only a paper makes."""
    with open(root / "experiments/claims.csv", encoding="utf-8", newline="") as file:
        return [claim for claim in csv.DictReader(file) if claim["notes"] != "paper"]


def judged(root: Path) -> list[tuple[dict[str, str], Judgement]]:
    """The claims of the lectures, each with its judgement."""
    read = functools.cache(recorded)  # reads each table once for all of its claims
    return [(claim, judgement(root, claim, read)) for claim in claims_of_the_lectures(root)]


def entries(root: Path) -> list[dict[str, Any]]:
    """One object for each claim, in the order of claims.csv, as `list claims --json` prints them."""
    found = []
    for claim, one in judged(root):
        learned = None if one.competence is None else one.competence.to_json()
        said = {"id": claim["id"], "claim": claim["claim"], "kind": claim["kind"], "study": one.study}
        said |= {"scale": one.scale}
        found.append({**said, "verdict": one.status, "seeds": one.seeds, "competence": learned})
    return found


def page(root: Path) -> str:
    """The text of docs/claims.md."""
    found = judged(root)
    counts = Counter(one.status for _, one in found)
    order = [*STATUSES, *UNJUDGED]
    parts = [
        "# Claims and verdicts",
        f"{len(found)} {INTRODUCTION}",
        _notes([claim for claim, _ in found]),
        "\n".join(["| verdict | claims |", "| --- | ---: |",
                   *(f"| {status} | {counts[status]} |" for status in order if counts[status])]),
    ]  # fmt: skip
    for topic in dict.fromkeys(claim["topic"] for claim, _ in found):
        lines = ["| claim | notes | command | measured | learned | verdict |", f"|{' --- |' * 6}"]
        lines += [_line(claim, one) for claim, one in found if claim["topic"] == topic]
        parts += [f"## {topic.replace('_', ' ').capitalize()}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def _notes(claims: list[dict[str, str]]) -> str:
    """A table of the lecture notes: how many of the claims they make, and about which topics most often."""
    lines = ["| lecture notes | claims | mostly about |", "| --- | ---: | --- |"]
    numbers = sorted({number for claim in claims for number in claim["notes"].split(";")})
    for number in numbers:
        topics = Counter(claim["topic"] for claim in claims if number in claim["notes"].split(";"))
        words = ", ".join(topic.replace("_", " ") for topic, _ in topics.most_common(4))
        lines.append(f"| {number} | {topics.total()} | {words} |")
    return "\n".join(lines)


def in_words(found: Judgement) -> str:
    """Whether the models have learned their task, in words."""
    one = found.competence
    if found.status in UNJUDGED:
        return "–"
    if one is None:
        return "no trained model is needed"
    return f"{'yes' if one.met else 'no'}: {one}"


def _line(claim: Mapping[str, str], found: Judgement) -> str:
    command = f"`attention-research reproduce {found.study} --scale={found.scale}`" if found.status != STRUCK else "–"
    shown = 1 if found.cases and _COUNTED.match(found.cases[0]) else SHOWN
    measured = "; ".join(found.cases[:shown]) if found.cases else f"_{claim['measurement']}_"
    place = f"../{_record(found.study, found.scale)}#{claim['id']}-{found.status.replace(':', '').replace(' ', '-')}"
    more = f" ([all]({place}))" if len(found.cases) > shown else ""
    escape = lambda text: text.replace("|", "\\|")
    name = f'<a id="{claim["id"]}"></a>[{claim["id"]}](#{claim["id"]})'
    cells = (
        f"{escape(claim['claim'])} {name}", claim["notes"].replace(";", ", "), command, f"{escape(measured)}{more}",
        in_words(found), found.status,
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    print(page(bundled.folder("experiments").parent), end="")
