"""Keeps freed memory in the process on CPUs: a step frees and asks for the same gigabytes again.

glibc returns large blocks to the system at once and gets them back as zeroed pages, one fault for
every 4 KiB. GPUs have torch's caching allocator and do not need this.
"""

from __future__ import annotations

import ctypes
import platform

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # names of mallopt(3)


def keep_freed_memory() -> bool:
    """Ask glibc to serve large blocks from its heap and to keep them; False without glibc."""
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    settings = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 64 * 2**20))
    accepted = [mallopt(name, value) == 1 for name, value in settings]
    return all(accepted)
