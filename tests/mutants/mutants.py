"""The deliberate mistakes (mutants.toml) and the test that notices each of them (caught.csv)."""

from __future__ import annotations

import csv
import dataclasses
import re
import tomllib
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
LIST, CAUGHT = FOLDER / "mutants.toml", FOLDER / "caught.csv"
TIERS = ("fast", "slow")


@dataclasses.dataclass(frozen=True)
class Mutant:
    """In `file`, `old`, which occurs exactly once, is replaced by `new`. `wrong` describes the resulting error."""

    id: str
    file: str
    old: str
    new: str
    wrong: str

    def applied(self, text: str) -> str:
        """The file's text with the mistake. Raises ValueError if `old` does not occur exactly once."""
        count = text.count(self.old)
        if count != 1:
            raise ValueError(f"{self.id}: `old` occurs {count} times in {self.file}, expected once; fix {LIST.name}")
        return text.replace(self.old, self.new)


@dataclasses.dataclass
class Catch:
    """The test (``file::name``) that notices a mutant, its tier, and both as they were when the list was made.

    They were "none" if no fast test of the mutant's part of the package noticed it. A test was then added.
    """

    id: str
    tier: str
    test: str
    tier_before: str
    test_before: str


def mutants() -> dict[str, Mutant]:
    """All mutants by id, in the order of the list."""
    listed = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]
    return {one["id"]: Mutant(**one) for one in listed}


def caught() -> dict[str, Catch]:
    """The recorded catches by the mutants' ids."""
    if not CAUGHT.exists():
        return {}
    with open(CAUGHT, encoding="utf-8", newline="") as file:
        return {line["id"]: Catch(**line) for line in csv.DictReader(file)}


def record(found: dict[str, Catch]) -> None:
    """Writes caught.csv in the order of the list."""
    with open(CAUGHT, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in dataclasses.fields(Catch)])
        writer.writerows(dataclasses.astuple(found[id]) for id in mutants() if id in found)


def exists(test: str, root: Path = ROOT) -> bool:
    """Whether ``file::name``, with or without ``[parameters]``, is a test function in the sources."""
    file, _, name = test.partition("::")
    path, name = root / file, name.partition("[")[0].rpartition("::")[2]
    return path.is_file() and bool(re.search(rf"^ *def {re.escape(name)}\(", path.read_text(encoding="utf-8"), re.M))
