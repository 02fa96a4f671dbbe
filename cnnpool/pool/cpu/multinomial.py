"""Draws from windows of plain CPU tensors by compiled kernels, and their expected values."""

from math import inf

import torch
from torch import Tensor

from cnnpool.pool.cpu.band_plan import in_format_of, make_ready
from cnnpool.pool.cpu.loops import multinomial
from cnnpool.pool.cpu.memory import CPU, scalar
from cnnpool.pool.cpu.threads import spread
from cnnpool.pool.window import Window, is_channels_last


def drawn(x: Tensor, uniforms: Tensor, window: Window) -> tuple[Tensor, Tensor, bool, bool]:
    """Draws by ``uniforms`` in [0, 1), winners (255: none), whether all are finite, whether all have one."""
    ready = make_ready(x, window, is_channels_last(x))
    frame = ready.frame(1, True, False, 4, 2, window.cells)
    y, winners = ready.output(frame.out_size, x.dtype), ready.output(frame.out_size, torch.uint8)
    uniforms = uniforms.contiguous(memory_format=frame.layout)
    flags = torch.zeros(2, dtype=torch.int64, device=CPU)
    where = ready.x.data_ptr(), y.data_ptr(), winners.data_ptr(), uniforms.data_ptr(), flags.data_ptr()
    rest = frame.rule, frame.room, scalar(torch.finfo(ready.wide).max, ready.wide), *ready.types(-inf)
    spread(multinomial.forward, frame.units, x.nbytes + y.nbytes, *where, *rest, scratch=frame.scratch)
    endless, lost = flags.tolist()
    return in_format_of(x, y), in_format_of(x, winners), not endless, not lost


def expected(x: Tensor, window: Window) -> Tensor:
    """The mean of draws: sum x^2 / sum x over positive cells."""
    ready = make_ready(x, window, is_channels_last(x))
    frame = ready.frame(1, True, False, 2, 1, 1)
    y = ready.output(frame.out_size, x.dtype)
    rest = frame.rule, frame.room, scalar(torch.finfo(ready.wide).max, ready.wide), *ready.types(-inf)
    where = ready.x.data_ptr(), y.data_ptr()
    spread(multinomial.mean, frame.units, x.nbytes + y.nbytes, *where, *rest, scratch=frame.scratch)
    return in_format_of(x, y)
