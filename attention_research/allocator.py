"""Tells glibc's malloc to keep the memory that it has, so that a training step does not fault it in anew each time.

XLA's CPU client takes the temporaries of every step from malloc and frees them after it. By default glibc maps a block
of more than 32 MB anew, and unmaps it when it is freed: the kernel then zeroes every page of every step, a third of the
CPU time of training. `keep_pages` sets four parameters (mallopt(3)) that stop this:

    M_ARENA_MAX = 1            one heap for all threads (an arena of a thread ends at 64 MB and falls back to mmap)
    M_MMAP_MAX = 0             no block is mapped on its own
    M_TRIM_THRESHOLD = 2^31-1  the top of the heap is not given back
    M_TOP_PAD = 64 MiB         the heap grows in large pieces

Where the kernel gives huge pages on request (madvise(2)), `keep_pages` reserves 1.9 GiB of address space for the heap
and asks for them there: fewer faults, and fewer misses of the processor's address cache.

The process then keeps the largest amount that it has used, and free space between blocks in use can make this amount
larger: a process whose step takes 320 MB grew to 2.2 GB within ten steps, instead of 0.9 GB. `return_pages` gives free
pages back at once; a measurement of memory needs that. Both do nothing where the C library is not glibc.
``ATTENTION_RESEARCH_KEEP_PAGES=0`` turns `keep_pages` off.
"""

from __future__ import annotations

import ctypes
import functools
import os

#: The environment variable that turns the tuning off with the value "0".
VARIABLE = "ATTENTION_RESEARCH_KEEP_PAGES"
#: Numbers of the parameters in malloc.h, and of the advice in sys/mman.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8
_MADV_HUGEPAGE = 14
_HUGE_PAGE = 2 * 2**20
_LARGEST = 2**31 - 1
#: Address space, not memory: what is never touched costs nothing. A free top of `_LARGEST` bytes would be given back.
_RESERVED = int(1.9 * 2**30)


@functools.cache
def keep_pages() -> bool:
    """Sets the parameters for this process, once; returns whether they are set. To be called before a thread starts."""
    libc = _glibc()
    if libc is None or os.environ.get(VARIABLE) == "0":
        return False
    settings = {_ARENA_MAX: 1, _MMAP_MAX: 0, _TRIM_THRESHOLD: _LARGEST, _TOP_PAD: 64 * 2**20}
    kept = all([libc.mallopt(number, value) == 1 for number, value in settings.items()])
    if kept:
        _ask_for_huge_pages(libc)
    return kept


def return_pages() -> None:
    """Gives the free pages of the heap back to the system, whatever `keep_pages` has set."""
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(0)


def _ask_for_huge_pages(libc: ctypes.CDLL) -> None:
    """Extends the heap by free space and asks the kernel for huge pages there; a kernel without them says no."""
    start = libc.malloc(_RESERVED)
    if start is None:  # the process may not have so much address space
        return
    libc.free(start)
    first = -(-start // _HUGE_PAGE) * _HUGE_PAGE
    libc.madvise(first, (start + _RESERVED - first) // _HUGE_PAGE * _HUGE_PAGE, _MADV_HUGEPAGE)


def _glibc() -> ctypes.CDLL | None:
    """The C library of this process; None where it is not glibc."""
    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018  raises AttributeError elsewhere
    except (OSError, AttributeError, TypeError):
        return None
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    libc.malloc_trim.argtypes = [ctypes.c_size_t]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc
