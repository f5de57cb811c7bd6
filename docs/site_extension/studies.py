"""The page of all studies: a card for each recorded table, with picture, finding, verdicts, competence and cost."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from sphinx.application import Sphinx

from attention_research.studies import claims_page, records
from attention_research.studies.claims_page import Judgement
from attention_research.studies.study import CONDITION, FAILED, HELD, UNTESTED

from .claims import badge

Judged = Sequence[tuple[dict[str, str], Judgement]]
HEAD = (
    "# All studies at a glance\n\n"
    "Every recorded table: a picture, one finding, the verdicts about [the claims of the lectures](../claims.md), and "
    "the computing time over all seeds. A claim about trained models is judged only if the models [learned "
    "their task](../studies.md#when-a-claim-may-be-judged)."
)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", lambda app: write_overview(Path(app.srcdir)))
    return {"parallel_read_safe": True}


def write_overview(root: Path) -> None:
    """Writes the page if it has changed."""
    page, text = root / "docs/api/overview.md", overview(root)
    page.parent.mkdir(exist_ok=True)
    if not page.exists() or page.read_text(encoding="utf-8") != text:
        page.write_text(text, encoding="utf-8")


def overview(root: Path) -> str:
    """The text of docs/api/overview.md."""
    judged = claims_page.judged(root)
    cards = []
    for folder in sorted(records.recorded(root / "experiments")):
        paper, _, table, scale = folder.relative_to(root / "experiments").parts
        mine = [(claim, one) for claim, one in judged if (one.study, one.scale) == (f"{paper}/{table}", scale)]
        cards.append(card(folder, f"../../experiments/{paper}/results/{table}/{scale}", mine))
    return f"{HEAD}\n\n`````{{container}} cards\n" + "\n\n".join(cards) + "\n`````\n"


def card(folder: Path, place: str, mine: Judged) -> str:
    """The card of a recorded table, with the claims that it judges. `place` is its folder, from the page."""
    table, scale = folder.parent.name, folder.name
    title = (folder / "table.md").read_text(encoding="utf-8").splitlines()[0].partition(": ")[2]
    seconds = sum(trial["seconds"] for trial in records.read(folder).values())
    picture = min(sorted(folder.glob("figures/*.png")), key=misfit, default=None)
    words = [] if picture is None else [f"[![{picture.stem}]({place}/figures/{picture.name})]({place}/table.md)"]
    words += [f"**[{folder.parents[2].name}/{table}]({place}/table.md)** at {scale}: {title}", finding(mine)]
    counts = Counter(one.status for _, one in mine)
    words.append(" ".join(badge(verdict, f"{count} {verdict}") for verdict, count in counts.items()))
    words.append(f"{learned(mine)}{duration(seconds)} on one core")
    text = "\n\n".join(word for word in words if word)
    return f"````{{container}} card\n{text}\n````"


def duration(seconds: float) -> str:
    """A computing time in words.

    >>> duration(30), duration(70), duration(600), duration(9000)
    ('less than a minute', '1 minute', '10 minutes', '2.5 hours')
    """
    if seconds < 60:
        return "less than a minute"
    minutes = round(seconds / 60)
    return f"{seconds / 3600:.1f} hours" if minutes >= 90 else f"{minutes} minute{'s' * (minutes > 1)}"


def misfit(picture: Path) -> float:
    """How far the shape of a PNG picture is from that of a card's picture, which is 1.6 times as wide as high."""
    width, height = struct.unpack(">II", picture.read_bytes()[16:24])
    return abs(math.log(width / height / 1.6))


def finding(mine: Judged) -> str:
    """One sentence: the first claim that held, else the first with another verdict."""
    for verdict, said in ((HELD, "Held"), (CONDITION, "Held under a condition"), (FAILED, "Did not hold")):
        for kind in ("empirical", None):  # a measured claim says more than an identity
            for claim, one in mine:
                if one.status == verdict and kind in (None, claim["kind"]):
                    return f'{said}: <a href="../claims.html#{claim["id"]}">{claim["claim"]}</a>'
    return "No claim is judged yet." if any(one.status == UNTESTED for _, one in mine) else ""


def learned(mine: Judged) -> str:
    """For how many of the claims about trained models the models have learned their task."""
    trained = [one.competence for _, one in mine if one.competence is not None]
    return (
        f"Models learned the task for {sum(one.met for one in trained)} of {len(trained)} claims · " if trained else ""
    )
