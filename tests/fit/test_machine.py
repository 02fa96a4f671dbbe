import subprocess
import sys

import pytest
import torch

from cnnpool.fit.machine import fast_precision

# mallinfo2().hblks: blocks that the C library maps from the kernel one by one, to be given back when freed.
MAPPED = """
import ctypes, sys, torch
from cnnpool.fit.machine import keep_memory
class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd".split()]
    _fields_ += [(name, ctypes.c_size_t) for name in "usmblks fsmblks uordblks fordblks keepcost".split()]
libc = ctypes.CDLL("libc.so.6")
libc.mallinfo2.restype = Info
if sys.argv[1] == "keep" and not keep_memory():
    sys.exit("keep_memory took no effect")
before = libc.mallinfo2().hblks
block = torch.ones(16_000_000)
print(libc.mallinfo2().hblks - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mallopt is the GNU C library's")
@pytest.mark.parametrize(("way", "mapped"), [("default", 1), ("keep", 0)])
def test_large_blocks_come_from_the_heap_only_where_memory_is_kept(way, mapped):
    done = subprocess.run([sys.executable, "-c", MAPPED, way], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == mapped


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [({"avx512_bf16": True}, "bf16-mixed"), ({"amx_bf16": True}, "bf16-mixed"), ({"avx2": True}, "32-true")],
)
def test_precision_follows_the_processor(capabilities, expected, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    assert fast_precision() == expected
