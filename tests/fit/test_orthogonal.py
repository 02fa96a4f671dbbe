import pytest
import torch

from cnnpool.fit.orthogonal import orthogonal

SHAPES = [(4, 9), (9, 4), (5, 5), (1, 7), (7, 1), (4, 30)]


def draw(shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=dtype)


def by_definition(m, steps):
    """The image of each singular value under the steps, one by one, in float64."""
    u, values, v = torch.linalg.svd(m.double(), full_matrices=False)
    values = values / values.norm()
    for _ in range(steps):
        values = 3.4445 * values - 4.775 * values**3 + 2.0315 * values**5
    return u @ values.diag() @ v


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_singular_values_are_those_of_the_definition(steps, dtype, error):
    matrices = [draw(shape, dtype) for shape in SHAPES]
    for m, done in zip(matrices, orthogonal(matrices, steps), strict=True):
        assert done.dtype == dtype and done.shape == m.shape
        assert torch.allclose(done.double(), by_definition(m, steps), rtol=0, atol=error)


@pytest.mark.parametrize("scale", [1e-5, 1.0, 1e5])
def test_the_scale_of_a_matrix_does_not_matter(scale):
    (done,), (scaled,) = orthogonal([draw((4, 9))]), orthogonal([draw((4, 9)) * scale])
    assert torch.allclose(done, scaled, rtol=0, atol=1e-5)


def test_nothing_stays_nothing():
    done = orthogonal([torch.zeros(4, 9), draw((4, 5))])
    assert not done[0].any() and done[1].isfinite().all()


def test_autocast_rounds_nothing():
    plain = orthogonal([draw((4, 9))])
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(orthogonal([draw((4, 9))])[0], plain[0])
