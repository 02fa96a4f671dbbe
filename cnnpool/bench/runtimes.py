"""The rivals' functions in other runtimes: torch.compile, and ONNX Runtime for the forward pass alone."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from cnnpool.bench.measure import Call
from cnnpool.bench.rivals import Function

Runtime = Literal["eager", "compile", "onnx"]
IN: dict[Runtime, str] = {"eager": "", "compile": ", torch.compile", "onnx": ", ONNX Runtime, forward"}
"""What a rival's name ends with."""


class MissingError(Exception):
    """A rival that cannot be measured here; the message says why."""


class _Module(nn.Module):
    """A function as the exporter wants it."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def compiled(function: Function) -> Function:
    """``function`` compiled by Inductor, for each shape that it is called with anew."""
    torch.compiler.reset()
    run: Function = torch.compile(function, dynamic=False)
    return run


def session(function: Function, x: Tensor) -> Call:
    """A call of ONNX Runtime on the CPU that computes ``function(x)``, with as many threads as torch has.

    Raises:
        MissingError: if ONNX Runtime is not installed, or does not take the function or the map.
    """
    if x.dtype != torch.float32 or not x.is_contiguous():
        raise MissingError("ONNX Runtime takes contiguous maps of float32")
    run = _exported(function, x)
    inputs = {"x": x.detach().numpy()}
    return lambda: run(None, inputs)


def _exported(function: Function, x: Tensor) -> Callable[..., list[object]]:
    try:
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingError(str(error)) from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rival.onnx"
        try:
            torch.onnx.export(
                _Module(function).eval(), (x.detach(),), path, input_names=["x"], dynamo=True, verbose=False
            )
        except (torch.onnx.OnnxExporterError, RuntimeError) as error:
            raise MissingError(f"not exported to ONNX: {str(error).splitlines()[0]}") from None
        made = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    run: Callable[..., list[object]] = made.run
    return run
