import subprocess
import sys

import pytest
import torch

from cnnpool.system.hardware import fast_precision, free_memory

# mallinfo2().hblks: blocks that the C library maps from the kernel one by one, to be given back when freed.
# torch's part is played by a stub, since to import it takes most of the time.
MAPPED = """
import ctypes, sys, types
sys.modules["torch"] = types.SimpleNamespace(device=None)
from cnnpool import keep_memory
class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd".split()]
    _fields_ += [(name, ctypes.c_size_t) for name in "usmblks fsmblks uordblks fordblks keepcost".split()]
libc = ctypes.CDLL("libc.so.6")
libc.mallinfo2.restype = Info
libc.malloc.restype = ctypes.c_void_p
def mapped():
    before = libc.mallinfo2().hblks
    assert libc.malloc(ctypes.c_size_t(64_000_000))
    return libc.mallinfo2().hblks - before
print(mapped(), keep_memory(), mapped())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mallopt is the GNU C library's")
def test_large_blocks_come_from_the_heap_only_where_memory_is_kept():
    done = subprocess.run([sys.executable, "-c", MAPPED], capture_output=True, text=True)
    assert done.stdout == "1 True 0\n", done.stderr


def test_precision_follows_the_processor(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for name, expected in (("avx512_bf16", "bf16-mixed"), ("amx_bf16", "bf16-mixed"), ("avx2", "32-true")):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda name=name: {name: True})
        assert fast_precision() == expected


def test_free_memory_is_the_kernels_estimate_or_what_a_container_leaves(tmp_path):
    assert free_memory(tmp_path) is None
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 900 kB\nMemAvailable:   300 kB\nHugePages_Total: 0\n")
    assert free_memory(tmp_path) == 300 * 1024
    group = tmp_path / "sys" / "fs" / "cgroup"
    group.mkdir(parents=True)
    (group / "memory.stat").write_text("anon 5000\nactive_file 1000\ninactive_file 2000\n")
    (group / "memory.current").write_text("9000\n")
    (group / "memory.max").write_text("max\n")
    assert free_memory(tmp_path) == 300 * 1024
    (group / "memory.max").write_text("20000\n")
    assert free_memory(tmp_path) == 20000 - 9000 + 3000
