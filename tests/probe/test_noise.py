import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from cnnpool.probe.noise import GradientNoise, Moments


def test_noise_of_hand_worked_gradients():
    weight = nn.Parameter(torch.zeros(2))
    moments = Moments([weight])
    for gradient in ([1.0, 0.0], [3.0, 0.0], [2.0, 3.0]):
        moments.add([torch.tensor(gradient)])
    # Mean (2, 1); deviations sum to 1 + 1 + 0 and 1 + 1 + 4, over n - 1 = 2: trace 4.
    noise = moments.noise([weight])
    assert noise == pytest.approx(
        {"trace": 4.0, "signal": 5 - 4 / 3, "noise_scale": 4 / (5 - 4 / 3), "zero_fraction": 2 / 6}
    )


def test_a_signal_lost_in_the_noise_has_no_scale_and_equal_gradients_no_noise():
    opposite, equal = (Moments([nn.Parameter(torch.zeros(1))]) for _ in range(2))
    for gradient in (1.0, -1.0):
        opposite.add([torch.tensor([gradient])])
        equal.add([torch.tensor([0.7])])
    assert opposite.noise(opposite.parameters) == {"trace": 2.0, "signal": -1.0, "zero_fraction": 0.0}
    assert equal.noise(equal.parameters)["noise_scale"] == pytest.approx(0, abs=1e-12)


def test_the_probe_gives_the_noise_of_gradients_taken_one_by_one(net, batch):
    cnn, (images, labels) = net(), batch(5)
    cnn.eval()
    rows = []
    for n in range(5):
        loss = F.cross_entropy(cnn(images[n : n + 1]), labels[n : n + 1])
        gradients = torch.autograd.grad(loss, list(cnn.parameters()))
        rows.append(torch.cat([g.flatten() for g in gradients]).double().numpy())
    rows = np.stack(rows)
    trace = np.cov(rows.T).trace()
    signal = (rows.mean(0) ** 2).sum() - trace / 5
    result = GradientNoise(samples=5).measure(cnn, cnn.stages, images, labels)
    assert result["trace"] == pytest.approx(trace, rel=1e-6)
    assert result["signal"] == pytest.approx(signal, rel=1e-5)
    assert result["zero_fraction"] == pytest.approx((rows == 0).mean(), abs=1e-4)
    assert result["stages"]["s1"].keys() == {"weights_before", "weights_after"}
    assert 0 < result["stages"]["s1"]["weights_before"]["trace"] < trace
