import fractions
import json
import os
import subprocess
import sys

import pytest

SAY = """
import json, sys
import torch
import cnnpool.fit
heavy = ("torchmetrics", "torchvision", "scipy", "matplotlib", "sklearn", "sympy", "torch._dynamo")
heavy += ("triton", "torch.utils.flop_counter")
loaded = [name for name in heavy if name in sys.modules]
import torchmetrics
import torch._dynamo
metric = torchmetrics.Metric.__module__
from lightning.pytorch import LightningModule
from lightning.pytorch.utilities.model_summary import ModelSummary
class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer, self.example_input_array = torch.nn.Linear(3, 5), torch.zeros(2, 3)
    def forward(self, x):
        return self.layer(x)
flops = ModelSummary(Net()).total_flops
print(json.dumps([loaded, metric, torch._dynamo.OptimizedModule.__module__, flops]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("lean", ["1", "0"])
def test_fitting_imports_nothing_heavy_and_others_still_get_the_real_modules(lean):
    environment = os.environ | {"CNNPOOL_LEAN": lean}
    done = subprocess.run(
        [sys.executable, "-c", SAY], env=environment, capture_output=True, text=True, check=True
    )
    loaded, metric, module, flops = json.loads(done.stdout)
    assert flops == 2 * 2 * 3 * 5, "Lightning's own summaries still count"
    assert metric == "torchmetrics.metric"
    assert module == "torch._dynamo.eval_frame"
    assert loaded == [] if lean == "1" else {"torchmetrics", "torchvision", "torch._dynamo"} <= set(loaded)


def test_what_a_stand_in_does_not_know_is_the_real_modules():
    from cnnpool.fit.lean import StandIn

    known = StandIn("fractions", {"Fraction": object}, lambda: fractions)
    assert not isinstance(fractions.Fraction(1), known.Fraction)
    assert known.Decimal is fractions.Decimal
    with pytest.raises(AttributeError):
        known.nothing
