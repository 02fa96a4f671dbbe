"""The inputs that each output depends on: its derivatives at an image and its window, both measured."""

import torch
from torch import Tensor, nn

SEED = 0
"""Of weights and draws."""
NOISE = 1e-12
"""Below it a derivative is rounding."""
PROBES = 128


def forward(operator: nn.Module, images: Tensor) -> Tensor:
    """Outputs as maps, (N, 1, h, w); a readout's vector is (N, 1, 1, D). The same draw at every call."""
    torch.manual_seed(SEED)
    outputs: Tensor = operator(images)
    return outputs[:, None, None, :] if outputs.ndim == 2 else outputs


def derivatives(operator: nn.Module, images: Tensor) -> Tensor:
    """dy/dx of every output, (N, h*w, H, W), for images (N, 1, H, W)."""
    images = images.clone().requires_grad_()
    outputs = forward(operator, images).flatten(1)
    rows = []
    for index in range(outputs.shape[1]):
        # One backward pass serves all samples: none depends on another.
        (row,) = torch.autograd.grad(outputs[:, index].sum(), images, retain_graph=True)
        rows.append(row[:, 0])
    return without_noise(torch.stack(rows, 1))


def without_noise(values: Tensor) -> Tensor:
    """Zero for what is rounding."""
    return torch.where(values.abs() < NOISE, 0, values)


def windows(operator: nn.Module, shape: torch.Size) -> Tensor:
    """Inputs that an output can depend on, bool (N, h*w, H, W), for images of ``shape`` (N, 1, H, W).

    Found by derivatives at random images, with the draw that the example shows. A few of their pixels are far
    above the rest, and others in every image, so that each is the maximum, or the likeliest to be drawn, in
    some.
    """
    generator = torch.Generator().manual_seed(SEED)
    probes = 8 * torch.rand(PROBES, *shape[1:], generator=generator, dtype=torch.float64) ** 6
    if not getattr(operator, "random", False):
        return (derivatives(operator, probes) != 0).any(0).expand(shape[0], -1, -1, -1)
    # Draws differ from sample to sample, so every batch must be like the example's.
    return torch.stack([derivatives(operator, batch) != 0 for batch in probes.split(shape[0])]).any(0)
