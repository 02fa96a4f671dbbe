"""Small mistakes in our own operators, one edit each, and the tests that must find it."""

from typing import NamedTuple


class Edit(NamedTuple):
    """``old`` stands once in ``cnnpool/pool/FILE``; ``new`` in its place is the mistake."""

    file: str
    old: str
    new: str
    tests: str


EDITS = [
    Edit(
        "base.py",
        "(length + padding - 1) // stride) + 1",
        "(length + padding) // stride) + 1",
        "test_max",
    ),
    Edit("base.py", "dilation * (kernel - 1) - 1", "dilation * kernel - 1", "test_max"),
    Edit("window.py", "if any(2 * p > k for", "if any(2 * p > k + 1 for", "test_max"),
    Edit("cells.py", "rows = slice(row * dh,", "rows = slice(row * dw,", "test_max"),
    Edit(
        "cells.py",
        "columns = slice(column * dw, column * dw +",
        "columns = slice(column, column +",
        "test_max",
    ),
    Edit(
        "cells.py",
        "[..., : rows * kh, : columns * kw]",
        "[..., -rows * kh :, -columns * kw :]",
        "test_windows",
    ),
    Edit(
        "cells.py", "present is None else sum(present)", "present is None else window.cells", "test_windows"
    ),
    Edit("window.py", "type(option) is tuple and [*map(type, option)] != PAIR", "False", "test_windows"),
    Edit("max.py", "if length < d and any(", "if False and any(", "test_max"),
    Edit("max.py", 'check_map(shape, window, "max_pool2d")', "pass", "test_max"),
    Edit("autograd/winners.py", "| (cell != cell)) & inside", ") & inside", "test_max"),
    Edit(
        "autograd/winners.py",
        "equal.to(winners.dtype) << place",
        "equal.to(winners.dtype) << (place + 1)",
        "test_max_gradient",
    ),
    Edit("autograd/winners.py", '(window.overlaps or ties == "split")', "False", "test_max_gradient"),
    Edit(
        "autograd/routing.py",
        "        save(ctx, output[1])\n",
        "        save(ctx, output[1])\n        ctx.kept = x\n",
        "test_max_gradient test_contract_gradients",
    ),
    Edit("cpu/max.py", "scalar(-torch.inf, x.dtype)", "scalar(0.0, x.dtype)", "test_max test_kernels"),
    Edit(
        "avg.py",
        "window_of(kernel_size, stride, padding, 1, ceil_mode)\n    check_map",
        "window_of(kernel_size, stride, padding, 1, False)\n    check_map",
        "test_avg",
    ),
    Edit("autograd/linear_maps.py", "if divisor_override == 0:", "if divisor_override == -1:", "test_avg"),
    Edit(
        "avg.py",
        "(batch.shape[2], batch.shape[3]), is_channels_last(batch)",
        "(batch.shape[2], batch.shape[3]), False",
        "test_avg",
    ),
    Edit("sum.py", "divisor_override=1", "divisor_override=2", "test_sum"),
    Edit(
        "autograd/blurring.py",
        "ceil_div(length, stride), (filter_size - 1) // 2",
        "ceil_div(length, stride), filter_size // 2",
        "test_blur",
    ),
    Edit(
        "autograd/linear_maps.py",
        "comb(filter_size - 1, k) / 2 ** (filter_size - 1)",
        "1 / filter_size",
        "test_blur",
    ),
    Edit("edges.py", "period - index % period", "period - 1 - index % period", "test_edges"),
    Edit(
        "edges.py",
        "return 0 if index < 0 else length - 1",
        "return 0 if index < 0 else length - 2",
        "test_edges",
    ),
    Edit(
        "max_blur.py",
        "1 - kernel[0] % 2 :, 1 - kernel[1] % 2 :",
        "1 - kernel[0] % 2 :, 1 - kernel[0] % 2 :",
        "test_max_blur",
    ),
    Edit("lp.py", "total).pow(1 / p)", "total).pow(1 / p + 1e-4)", "test_lp"),
    Edit("lp.py", "exact.abs() if", "exact.clamp(min=0) if", "test_lp test_windows"),
    Edit("lp.py", "total / count(size, how.window)", "total / how.window.cells", "test_windows"),
    Edit("lp.py", "exact < how.floor, how.floor", "exact < 0, 0.0", "test_gem"),
    Edit(
        "median.py",
        "middle = (len(parts) - 1) // 2\n    if",
        "middle = len(parts) // 2\n    if",
        "test_median",
    ),
    Edit("median.py", 'fill=float("inf")', "fill=0.0", "test_median"),
    Edit("median.py", "torch.where(largest.isnan(), largest, median)", "median", "test_median"),
    Edit("logsumexp.py", " + (len(parts) - present)", "", "test_windows"),
    Edit("logsumexp.py", "torch.expm1(r * (part - top))", "torch.expm1(part - top)", "test_logsumexp"),
    Edit("soft.py", "torch.where(largest.isinf(), largest, soft)", "soft", "test_soft"),
    Edit("mixed.py", "count_include_pad=False", "count_include_pad=True", "test_mixed"),
    Edit(
        "mixed.py", "mix * largest + (1 - mix) * average", "mix * average + (1 - mix) * largest", "test_mixed"
    ),
    Edit(
        "gated.py",
        "average + gate * (largest - average)",
        "largest + gate * (average - largest)",
        "test_gated",
    ),
    Edit("random_mixed.py", "share >= 0.5", "share > 0.5", "test_random_mixed"),
    Edit("random_mixed.py", "< self.probability", "> self.probability", "test_random_mixed"),
    Edit("stochastic.py", "threshold <= rung", "threshold >= rung", "test_stochastic"),
    Edit(
        "stochastic.py",
        "(1 - uniforms) * ladder[-1]",
        "uniforms * ladder[-1]",
        "test_stochastic",
    ),
    Edit("stochastic.py", "part / share * part", "part / share", "test_stochastic"),
    Edit(
        "subsample.py",
        "x[..., :: self.stride[0], :: self.stride[1]]",
        "x[..., :: self.stride[1], :: self.stride[0]]",
        "test_subsample",
    ),
    Edit("haar.py", "2 * mean if", "4 * mean if", "test_haar"),
    Edit("aps.py", 'norms.argmax(1) if choose == "max"', 'norms.argmin(1) if choose == "max"', "test_aps"),
    Edit("aps.py", "stride, scale, p == 2)", "stride, scale, p == 1)", "test_aps"),
    Edit(
        "unshuffle.py",
        "cells.permute(0, 1, 3, 5, 2, 4).reshape(samples, channels",
        "cells.permute(0, 1, 5, 3, 2, 4).reshape(samples, channels",
        "test_unshuffle",
    ),
    Edit(
        "fractional_max.py",
        "edges[:, 1:] - int(not self.overlapping)",
        "edges[:, 1:] - int(self.overlapping)",
        "test_fractional_max",
    ),
    Edit("fractional_max.py", "offset.ceil()\n", "offset.floor()\n", "test_fractional_max"),
    Edit("cells.py", "needed |= {low, high}", "needed |= {low}", "test_ordinal test_median"),
]
