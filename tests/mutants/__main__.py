"""Makes deliberate mistakes in a copy of the repository, one at a time, and reports which test notices each of them.

    python -m tests.mutants run [ID ...] [--tier fast|slow] [--tests PATH ...] [--narrow] [--record]
    python -m tests.mutants list

`run` without an ID runs all mutants. For each mutant it first runs the test recorded in caught.csv, then the tests of
the same part of the package, those that look most relevant first, then the rest of the tier (not with --narrow).
`--tests` runs only these files or tests. `--record` writes the results to caught.csv. The exit status is 1 if a mutant
survived.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from .mutants import ROOT, TIERS, Catch, Mutant, caught, exists, mutants, record

_MARKS = {"fast": "not slow and not long", "slow": "slow and not long"}
_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/\S+?::.*?)(?: - .*)?$", re.MULTILINE)
#: Exit statuses of pytest that give a result: all passed, some failed, none collected. Status 4: the test does not
#: exist.
_PASSED, _FAILURES, _NOT_THERE, _NONE = 0, 1, 4, 5


class NotRun(Exception):
    """The tests could not be run."""


class Copy:
    """A clone of the working tree (tracked and new files) in a temporary folder.

    The user's caches are copied as hard links, so that files that a mutant writes there are deleted with the folder.
    """

    def __init__(self, folder: Path):
        self.root, self.cache = folder / "repository", folder / "cache"
        subprocess.run(["git", "clone", "-q", "--shared", "--no-checkout", str(ROOT), str(self.root)], check=True)
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
            capture_output=True, text=True,
        ).stdout  # fmt: skip
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).exists():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.root / name)
        subprocess.run(["git", "reset", "-q"], cwd=self.root, check=True)
        theirs = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "attention_research"
        if theirs.is_dir():
            shutil.copytree(theirs, self.cache / theirs.name, symlinks=True, copy_function=_linked)

    def set(self, name: str, text: str) -> None:
        """Writes a file with a new time, so that Python compiles it again."""
        path = self.root / name
        then = path.stat().st_mtime + 10
        path.write_text(text, encoding="utf-8")
        os.utime(path, (then, then))

    def run(self, tests: list[str], tier: str) -> tuple[int, str]:
        """(status, the first test that failed) of pytest on these tests of a tier, in their order."""
        command = [sys.executable, "-m", "pytest", "-n", "0", "-x", "--tb=line", "-m", _MARKS[tier]]
        command += ["--ignore=tests/mutants", *tests]
        environment = {**os.environ, "PYTHONPATH": str(self.root), "XDG_CACHE_HOME": str(self.cache)}
        done = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True)
        found = _FAILED.findall(done.stdout)
        if done.returncode not in (_PASSED, _FAILURES, _NOT_THERE, _NONE):
            raise NotRun(f"pytest ended with status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.returncode, found[0] if found else ""


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except FileNotFoundError:  # removed by another process
        pass
    except OSError:  # on another file system
        shutil.copy2(source, target)


def near(mutant: Mutant) -> list[str]:
    """The test files of the mutant's part of the package and those that name its module, the most likely first."""
    parts = Path(mutant.file).with_suffix("").parts
    module, words = ".".join(parts), set(parts[-1].split("_"))
    scores = {}
    for path in every_file():
        text = (ROOT / path).read_text(encoding="utf-8")
        score = 4 * (module in text) + 2 * (parts[-1] in text)
        score += 3 * len(words & set(Path(path).stem.split("_"))) + (Path(path).parts[1] == parts[1])
        if Path(path).parts[1] == parts[1] or module in text:
            scores[path] = score
    return sorted(scores, key=lambda path: -scores[path])


def every_file() -> list[str]:
    """All test files except those of this folder."""
    found = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))
    return [path for path in found if not path.startswith("tests/mutants/")]


def searches(mutant: Mutant, known: Catch | None, tests: list[str], narrow: bool) -> Iterator[list[str]]:
    """The test runs to try in turn until a test fails."""
    if tests:
        yield tests
        return
    if known is not None and exists(known.test):
        yield [known.test]
        yield [known.test.partition("::")[0]]
    likely = near(mutant)
    yield likely
    if not narrow:
        yield [path for path in every_file() if path not in likely]


def noticed(copy: Copy, mutant: Mutant, tier: str, known: Catch | None, tests: list[str], narrow: bool) -> str:
    """The test that notices a mutant, or "" if none does."""
    text = (copy.root / mutant.file).read_text(encoding="utf-8")
    wrong = mutant.applied(text)
    for some in filter(None, searches(mutant, known, tests, narrow)):
        left = list(some)
        while left:
            copy.set(mutant.file, wrong)
            status, test = copy.run(left, tier)
            copy.set(mutant.file, text)
            if status != _FAILURES or not test:
                break
            if known is not None and test == known.test or copy.run([test], tier)[0] == _PASSED:
                return test
            print(f"  {test} fails without the mistake too", flush=True)
            left = left[left.index(file) + 1 :] if (file := test.partition("::")[0]) in left else []
    return ""


def run(arguments: argparse.Namespace) -> int:
    """Prints one line for each mutant. The exit status is 1 if one survived."""
    listed, found, survivors = mutants(), caught(), []
    unknown = [id for id in arguments.ids if id not in listed]
    if unknown:
        print(f"{unknown[0]}: no such mutant; `list` shows all", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Copy(Path(folder))
        for id in arguments.ids or listed:
            known, began = found.get(id), time.monotonic()
            tier = arguments.tier or (known.tier if known else TIERS[0])
            try:
                test = noticed(copy, listed[id], tier, known, arguments.tests, arguments.narrow)
                said = f"{test} ({tier})" if test else "SURVIVED"
            except (NotRun, ValueError) as error:
                test, said = "", str(error)
            print(f"{id}: {said} [{time.monotonic() - began:.0f} s]", flush=True)
            if not test:
                survivors.append(id)
            elif arguments.record:
                found = caught()
                first = (known.tier_before, known.test_before) if known else (tier, test)
                record({**found, id: Catch(id, tier, test, *first)})
    if survivors:
        print(f"{len(survivors)} not noticed: {', '.join(survivors)}")
    return 1 if survivors else 0


def main() -> int:
    """Parses the command line."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    commands.add_parser("list", help="the mutants and what catches them").set_defaults(run=show)
    command = commands.add_parser("run", help="make mistakes and run tests")
    command.add_argument("ids", nargs="*", metavar="ID")
    command.add_argument("--tier", choices=TIERS, help="default: the recorded one, else fast")
    command.add_argument("--tests", nargs="+", default=[], metavar="PATH", help="run these tests only")
    command.add_argument("--narrow", action="store_true", help="do not go on to the whole tier")
    command.add_argument("--record", action="store_true", help="write what was found to caught.csv")
    command.set_defaults(run=run)
    arguments = parser.parse_args()
    return arguments.run(arguments)


def show(arguments: argparse.Namespace) -> int:
    """Prints a few lines for each mutant."""
    found = caught()
    for one in mutants().values():
        by = f"{found[one.id].test} ({found[one.id].tier})" if one.id in found else "not run yet"
        print(f"{one.id} · {one.file}\n  {one.wrong}\n  {by}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
