"""Configures glibc's malloc to keep its memory, so that training steps do not cause new page faults.

XLA's CPU client allocates the temporaries of every step with malloc and frees them after the step. By default, glibc
maps each block of more than 32 MB separately and unmaps it when it is freed. The kernel then zeroes all pages in every
step, which takes a third of the CPU time of training. `keep_pages` sets four parameters (mallopt(3)) to prevent this:

    M_ARENA_MAX = 1            one heap for all threads (the arena of a thread ends at 64 MB and falls back to mmap)
    M_MMAP_MAX = 0             no block is mapped separately
    M_TRIM_THRESHOLD = 2^31-1  the top of the heap is not returned
    M_TOP_PAD = 64 MiB         the heap grows in large pieces

If the kernel supports huge pages on request (madvise(2)), `keep_pages` reserves 1.9 GiB of address space for the heap
and requests huge pages there. This reduces page faults and misses of the processor's address cache.

The process then keeps the largest amount of memory that it has used, and fragmentation can increase this amount: a
process whose step takes 320 MB grew to 2.2 GB within ten steps, instead of 0.9 GB. `return_pages` returns free pages
immediately, which measurements of memory need. Both functions have no effect if the C library is not glibc.
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
#: Bytes of address space, which take no memory until they are used. A free top of `_LARGEST` bytes would be returned.
_RESERVED = int(1.9 * 2**30)


@functools.cache
def keep_pages() -> bool:
    """Sets the parameters for this process, once, and returns whether they are set. Call it before threads start."""
    libc = _glibc()
    if libc is None or os.environ.get(VARIABLE) == "0":
        return False
    settings = {_ARENA_MAX: 1, _MMAP_MAX: 0, _TRIM_THRESHOLD: _LARGEST, _TOP_PAD: 64 * 2**20}
    kept = all([libc.mallopt(number, value) == 1 for number, value in settings.items()])
    if kept:
        _ask_for_huge_pages(libc)
    return kept


def return_pages() -> None:
    """Returns the free pages of the heap to the system, independently of `keep_pages`."""
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(0)


def _ask_for_huge_pages(libc: ctypes.CDLL) -> None:
    """Extends the heap by free space and requests huge pages there. Kernels without huge pages reject the request."""
    start = libc.malloc(_RESERVED)
    if start is None:  # the process may not have so much address space
        return
    libc.free(start)
    first = -(-start // _HUGE_PAGE) * _HUGE_PAGE
    libc.madvise(first, (start + _RESERVED - first) // _HUGE_PAGE * _HUGE_PAGE, _MADV_HUGEPAGE)


def _glibc() -> ctypes.CDLL | None:
    """The C library of this process, or None if it is not glibc."""
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
