"""Every fault that docs/reliability.md tells of has a test of the name that stands there."""

import re


def test_every_fault_has_its_test(root):
    lines = (root / "docs" / "reliability.md").read_text(encoding="utf-8").splitlines()
    faults = [line for line in lines if line.startswith("| ") and not line.startswith(("| fault", "| ---"))]
    assert len(faults) > 20
    for fault in faults:
        (path, name), *others = re.findall(r"`([\w/]+\.py)::(\w+)`", fault)
        assert not others and f"def {name}(" in (root / "tests" / path).read_text(encoding="utf-8"), fault
