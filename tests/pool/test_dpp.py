import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from cnnpool.pool import build, dpp_pool2d


def test_equals_the_published_composition_of_average_poolings():
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    for form, rectify in (("symmetric", lambda t: t), ("asymmetric", torch.relu)):
        up = lambda t: F.interpolate(t, scale_factor=2)  # noqa: E731
        d = rectify(x - up(F.avg_pool2d(x, 2))) ** 2 + 1e-3
        w = (d / up(F.avg_pool2d(d, 2))) ** (1.4 / 2) + 0.6
        expected = F.avg_pool2d(x * w, 2) / F.avg_pool2d(w, 2)
        assert_close(dpp_pool2d(x, 0.6, 1.4, 2, form=form), expected)


@pytest.mark.parametrize("form", ["symmetric", "asymmetric"])
@pytest.mark.parametrize("options", [{}, {"kernel_size": 3, "padding": 1}, {"ceil_mode": True}])
def test_full_starts_as_lite_inside_the_map(form, options):
    x = torch.randn(2, 3, 9, 8)
    lite, full = (build("dpp", 3, form=form, full=full, **options) for full in (False, True))
    assert full(x).shape == lite(x).shape
    assert_close(full(x)[..., 1:3, 1:3], lite(x)[..., 1:3, 1:3])
    if not options:
        assert_close(full(x), lite(x))


def test_full_reference_is_a_strided_depthwise_convolution():
    x = torch.randn(2, 3, 8, 8)
    op = build("dpp", 3, full=True)
    torch.nn.init.normal_(op.filter)
    reference = F.conv2d(x, op.filter.reshape(3, 1, 3, 3), stride=2, padding=1, groups=3)
    assert_close(op(x), dpp_pool2d(x, 1.0, 1.0, 2, reference=reference))


def test_parameters_are_exponents_per_channel():
    op, x = build("dpp", 2), torch.randn(1, 2, 4, 4)
    with torch.no_grad():
        op.log_alpha.copy_(torch.tensor([0.5, -1.0]))
        op.log_strength.copy_(torch.tensor([1.0, -2.0]))
    for channel in range(2):
        alpha, strength = op.log_alpha[channel].exp().item(), op.log_strength[channel].exp().item()
        only = slice(channel, channel + 1)
        assert_close(op(x)[:, only], dpp_pool2d(x[:, only], alpha, strength, 2))
