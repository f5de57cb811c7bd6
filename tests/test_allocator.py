"""The allocator keeps the memory that a step frees. Counts page faults, in a fresh process for each setting."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from attention_research import allocator

# Both processes free 96 MB, more than glibc's limit of 32 MB for blocks of the heap, and allocate it again.
PROGRAM = """
import json, resource
from attention_research import allocator
from attention_research.accounting.memory import peak_resident_bytes, reset_peak_resident

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    bytearray(96 * 2**20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

kept = allocator.keep_pages()
found = {"kept": kept, "first": faults(), "second": faults(), "held": reset_peak_resident() and peak_resident_bytes()}
bytearray(96 * 2**20)
print(json.dumps({**found, "raised": peak_resident_bytes() - found["held"]}))
"""


def measured(**variables: str) -> dict:
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", **variables}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="counts page faults of Linux")
def test_pages_are_kept_unless_the_variable_is_zero():
    kept, plain = measured(), measured(**{allocator.VARIABLE: "0"})
    assert not plain["kept"] and plain["second"] > 30  # 48 huge pages, or 24,576 small ones
    if kept["kept"]:  # the C library is glibc
        assert kept["second"] == 0
        # The start of a memory measurement excludes kept pages: allocating the same 96 MB raises the peak again.
        assert kept["raised"] == pytest.approx(96 * 2**20, rel=0.05)
        assert kept["held"] == pytest.approx(plain["held"], rel=0.1)


def test_other_c_libraries_are_left_alone(monkeypatch):
    monkeypatch.setattr(allocator, "_glibc", lambda: None)
    assert allocator.keep_pages.__wrapped__() is False
    allocator.return_pages()
