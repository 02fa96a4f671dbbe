"""The effect of subsampling on the spectrum of a map: how much of it aliases, and how."""

import torch
from torch import Tensor, nn

from cnnpool.probe.base import size_of
from cnnpool.probe.shift import shift

PASS = 10 ** (-20 / 10)
"""A frequency counts if its power is within 20 dB of the strongest after subsampling (Ribeiro & Schon)."""


def dense_output(operator: nn.Module, maps: Tensor, stride: tuple[int, int]) -> Tensor | None:
    """The operator's output at stride 1: its outputs at all phases of the input, interleaved.

    Row s a + i and column t b + j of the result are the operator's (a, b) for maps (N, C, H, W) moved
    circularly up by i and left by j. Rows and columns beyond a multiple of the stride are cut off first; None
    if the operator does not make H/s x W/t of the rest, or nothing is left of a map smaller than the stride.
    """
    height, width = (length - length % s for length, s in zip(maps.shape[-2:], stride, strict=True))
    if min(height, width) < 1:
        return None
    maps = maps[..., :height, :width]
    dense = None
    for i in range(stride[0]):
        for j in range(stride[1]):
            phase = operator(shift(maps, -i, -j))
            if phase.shape[-2:] != (height // stride[0], width // stride[1]):
                return None
            if dense is None:
                dense = phase.new_empty(*phase.shape[:2], height, width)
            dense[..., i :: stride[0], j :: stride[1]] = phase
    return dense


def low_frequencies(size: tuple[int, int], stride: tuple[int, int]) -> Tensor:
    """Which bins of fft2 lie below the new Nyquist frequency, |f| < 1/(2s) on both axes: (H, W), boolean."""
    rows, columns = (
        # In integers, so that the bin at Nyquist itself is exact.
        (torch.fft.fftfreq(length, 1 / length, dtype=torch.float64).abs() * 2 * s < length)
        for length, s in zip(size, stride, strict=True)
    )
    low: Tensor = rows[:, None] & columns
    return low


def alias_energy_ratio(dense: Tensor, stride: tuple[int, int]) -> float:
    """||D(u) - D(low(u))||^2 / ||D(u)||^2: energy after subsampling that would not be there without aliasing.

    D keeps every s-th row and column of u (N, C, H, W), low is the ideal low-pass filter. 0 for a map without
    high frequencies; of a map of zeros 0 too.

    Example:
        >>> import torch
        >>> from cnnpool.probe.spectrum import alias_energy_ratio
        >>> alias_energy_ratio(torch.ones(1, 1, 8, 8), (2, 2))
        0.0
        >>> stripes = torch.tensor([1.0, -1.0]).repeat(4).expand(1, 1, 8, 8)
        >>> alias_energy_ratio(stripes, (2, 2))
        1.0
    """
    return share_aliased(*alias_energies(dense, stride))


def share_aliased(aliased: float, total: float) -> float:
    """``alias_energy_ratio`` from its numerator and denominator."""
    return aliased / total if total > 0 else 0.0


def alias_energies(dense: Tensor, stride: tuple[int, int]) -> tuple[float, float]:
    """Numerator and denominator of ``alias_energy_ratio``: they add up over parts of a batch."""
    dense = dense.double()
    keep = low_frequencies(size_of(dense), stride).to(dense.device)
    low = torch.fft.ifft2(torch.fft.fft2(dense) * keep).real
    sampled, clean = (u[..., :: stride[0], :: stride[1]] for u in (dense, low))
    return (sampled - clean).square().sum().item(), sampled.square().sum().item()


def high_frequency_share(dense: Tensor, stride: tuple[int, int]) -> float:
    """Energy of u (N, C, H, W) that is not below the new Nyquist frequency, divided by all (0 for zeros)."""
    return share_above(*low_energies(dense, stride))


def share_above(low: float, total: float) -> float:
    """``high_frequency_share`` from the energy below the new Nyquist frequency and all energy."""
    return min(max(1 - low / total, 0.0), 1.0) if total > 0 else 0.0


def low_energies(dense: Tensor, stride: tuple[int, int]) -> tuple[float, float]:
    """Energy of u (N, C, H, W) below the new Nyquist frequency, and all of it: both add up over parts."""
    power = torch.fft.fft2(dense.double()).abs().square()
    low = power[..., low_frequencies(size_of(dense), stride).to(power.device)].sum()
    return low.item(), power.sum().item()


def alias_classes(dense: Tensor, stride: tuple[int, int]) -> dict[str, float]:
    """Ribeiro & Schon 2021 (arXiv:2102.07757): what becomes of each frequency of the subsampled map.

    The s * t frequencies of u (N, C, H, W) that subsampling makes one are compared with the strongest
    frequency of the subsampled map of their sample and channel; those within 20 dB of it pass. As in the
    authors' code the spectra are sums over the samples each has, so that of two waves of the full map the
    weaker passes within 20 dB + 20 log10(s t) of the stronger: 32 dB for a stride of 2.

    Returns:
        ``nonaliased``: the low frequency alone passes. ``aliased``: another one alone does. ``tangled``:
        several do. ``nopass``: none does. Each divided by all frequencies, channels and samples; their sum
        is 1 (in the authors' code, ``nopass`` also counts what is aliased).
    """
    height, width = (length // s for length, s in zip(dense.shape[-2:], stride, strict=True))
    shape = (stride[0], height, stride[1], width)
    spectrum = torch.fft.fft2(dense.double()).unflatten(-1, shape[2:]).unflatten(-3, shape[:2])
    strongest = spectrum.mean((-2, -4)).abs().square().amax((-1, -2))
    passing = spectrum.abs().square() > PASS * strongest[..., None, None, None, None]
    low = low_frequencies(size_of(dense), stride).reshape(shape).to(passing.device)
    count = passing.sum((-2, -4))
    is_low = (passing & low).sum((-2, -4)) == 1
    classes = {
        "nonaliased": (count == 1) & is_low,
        "aliased": (count == 1) & ~is_low,
        "tangled": count > 1,
        "nopass": count == 0,
    }
    return {name: where.double().mean().item() for name, where in classes.items()}
