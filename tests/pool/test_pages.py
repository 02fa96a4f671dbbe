"""Large pages: only whole ones within a block are asked for, and nothing depends on them."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cnnpool.pool import max_pool2d
from cnnpool.pool.cpu import memory

SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
NEVER = not SETTING.exists() or "[never]" in SETTING.read_text()


@given(st.integers(0, 1 << 47), st.integers(0, 1 << 32))
def test_every_whole_page_of_a_block_and_nothing_else_is_advised(address, size):
    calls = []
    patch = pytest.MonkeyPatch()
    with patch.context() as context:
        context.setattr(memory, "_madvise", lambda: lambda *call: calls.append(call))
        memory.ask_for_large_pages(address, size)
    whole = [
        page
        for page in (address // memory.PAGE, address // memory.PAGE + 1)
        if address <= page * memory.PAGE and (page + 1) * memory.PAGE <= address + size
    ]
    if not whole:
        assert calls == []
        return
    [(begin, length, advice)] = calls
    assert begin == whole[0] * memory.PAGE and advice == 14
    assert begin + length <= address + size < begin + length + memory.PAGE
    assert length % memory.PAGE == 0


@pytest.mark.skipif(NEVER, reason="this kernel gives no large pages")
def test_the_gradient_of_a_large_map_lies_in_large_pages():
    x = torch.randn(8, 64, 128, 128, requires_grad=True)
    max_pool2d(x, 2).sum().backward()
    mapping, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split()[0]
        if "-" in first and ":" not in first:
            begin, end = (int(part, 16) for part in first.split("-"))
            inside = begin < x.grad.data_ptr() + x.grad.nbytes and x.grad.data_ptr() < end
        elif inside and first == "AnonHugePages:":
            mapping += int(line.split()[1]) << 10
    # Memory may be too scattered for all of them.
    assert mapping >= memory.PAGE
