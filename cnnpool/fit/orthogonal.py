"""Nearly orthogonal matrices, by Newton-Schulz steps on their Gram matrices."""

from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

# x -> A x + B x^3 + C x^5, the effect of a step on each singular value (Jordan 2024, the Muon optimiser).
A, B, C = 3.4445, -4.775, 2.0315
SMALLEST = 1e-7


def orthogonal(matrices: Sequence[Tensor], steps: int = 3) -> list[Tensor]:
    """Each matrix with its singular values, divided by its Frobenius norm (at least 1e-7), brought near 1.

    A step takes X to (A + B G + C G^2) X with G = X X', so all steps together give Q X, where Q depends on
    the first G alone. That takes two products with X in all instead of three per step; the others are of
    small square matrices, batched by size. Three steps bring singular values between a tenth of the norm and
    the norm to 0.5 to 1.3.
    """
    flat = [m if m.shape[0] <= m.shape[1] else m.T for m in matrices]
    groups = defaultdict(list)
    for place, m in enumerate(flat):
        groups[m.shape[0]].append(place)
    done = list(matrices)
    # Autocast would round the products to half precision.
    with torch.autocast(matrices[0].device.type, enabled=False):
        for places in groups.values():
            gram = torch.stack([flat[place] @ flat[place].T for place in places])
            size = gram.diagonal(dim1=1, dim2=2).sum(1)[:, None, None].clamp(min=SMALLEST**2)
            square = _polynomial(gram / size, steps) / size.sqrt()
            for q, place in zip(square, places, strict=True):
                m = q @ flat[place]
                done[place] = m if flat[place] is matrices[place] else m.T
    return done


def _polynomial(gram: Tensor, steps: int) -> Tensor:
    """The product of (A + B G + C G^2) over ``steps``, where each step updates G, first ``gram``."""
    rest = torch.baddbmm(gram, gram, gram, beta=B, alpha=C)
    product = rest.clone()
    product.diagonal(dim1=1, dim2=2).add_(A)
    for _ in range(steps - 1):
        # Polynomials of one matrix commute.
        gram = torch.baddbmm(gram, rest, gram, beta=A)
        gram = torch.baddbmm(gram, rest, gram, beta=A)
        rest = torch.baddbmm(gram, gram, gram, beta=B, alpha=C)
        product = torch.baddbmm(product, rest, product, beta=A)
    return product
