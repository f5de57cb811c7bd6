"""The list of deliberate mistakes matches the package and the tests. No mutant runs here (see `tests.mutants run`)."""

from mutants import CAUGHT, TIERS, caught, exists, mutants


def test_every_mistake_can_still_be_made(root):
    found = mutants()
    assert len(found) >= 40
    for one in found.values():
        assert one.old != one.new and one.applied((root / one.file).read_text(encoding="utf-8"))


def test_every_mistake_has_a_test_that_is_still_there():
    found = caught()
    assert found.keys() == mutants().keys()
    gone = [f"{one.id}: {one.test}" for one in found.values() if not exists(one.test)]
    assert not gone, f"rename them in {CAUGHT}, or find new ones with `python -m tests.mutants run ID --record`"
    assert [one.id for one in found.values() if (one.tier_before, one.tier) == TIERS] == []  # fast before, slow now
