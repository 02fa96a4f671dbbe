"""Aliasing: the share of every stage's output that comes from folded high frequencies."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cnnpool.as_found import examined
from cnnpool.bounds import Count
from cnnpool.probe.base import Batch, Probe, Result, Stages, maps_of, size_of
from cnnpool.probe.shift import mean_over, shift
from cnnpool.probe.windows import stride_of
from cnnpool.quantity import Quantity, Shown, fraction

PASS = 10 ** (-20 / 10)
"""A frequency passes if its power is within 20 dB of the strongest after subsampling (Ribeiro & Schon)."""
NEAR = "(within 20 dB of the strongest)"
ENTRIES = 1 << 22
"""Elements of stride-1 outputs whose spectra are computed at once: 64 MiB in complex128."""


def _class(name: str, title: str, which: str, shown: Shown = "file") -> Quantity:
    text = f"Frequencies of the subsampled map to which {which}, divided by all (Ribeiro and Schon 2021)."
    return fraction(f"stages.<stage>.{name}", f"frequencies {title}", text, shown=shown)


@dataclass(kw_only=True)
class Aliasing(Probe):
    """Alias energy ratio, high-frequency share and Ribeiro & Schon's classes at every stage.

    The spectrum is that of the operator's output at stride 1 on its actual input maps. For an operator that
    lets the image choose its sampling grid (aps, lps, tips) it shows the effect of a fixed grid.

    Args:
        samples: images, >= 1.
    """

    section = "aliasing"
    quantities = (
        fraction(
            "stages.<stage>.alias_energy_ratio",
            "alias energy",
            "Energy of a stage's subsampled output that would not be there had frequencies above the new "
            "Nyquist frequency been removed first, divided by the output's energy; 0 is free of aliasing.",
            better="lower",
            shown="compare",
            range=(0.0, None),
        ),
        fraction(
            "stages.<stage>.high_frequency_share",
            "high-frequency share",
            "Energy of a stage's output at stride 1 that is not below the new Nyquist frequency, "
            "divided by all of its energy.",
        ),
        _class("nonaliased", "not aliased", f"the low frequency alone contributes {NEAR}"),
        _class("aliased", "aliased", f"one high frequency alone contributes {NEAR}"),
        _class("tangled", "tangled", f"several contribute {NEAR} and cannot be told apart", "probe"),
        _class("nopass", "not passed", f"nothing contributes {NEAR}"),
    )

    samples: Count = 16

    def read(self, model: nn.Module, stages: Stages, batch: Batch) -> Result:
        images = batch.first(self.samples).images
        with examined(model), torch.no_grad():
            maps = maps_of(model, stages, images, inputs=True)
            found = {stage: stage_aliasing(stages[stage], x) for stage, x in maps.items()}
        return {
            "border": "circular",
            "samples": len(images),
            "stages": {stage: values for stage, values in found.items() if values},
        }


def stage_aliasing(operator: nn.Module, maps: Tensor) -> dict[str, float]:
    """Aliasing of one operator on its input (N, C, H, W); empty if it does not subsample by its stride."""
    stride = stride_of(operator)
    first = dense_output(operator, maps[:1], stride) if stride != (1, 1) else None
    if first is None:
        return {}
    energies, classes = torch.zeros(4, dtype=torch.float64), []
    for some in maps.split(max(1, ENTRIES // first.numel())):
        dense = dense_output(operator, some, stride)
        assert dense is not None
        energies += spectral_energies(dense, stride)
        classes.append((len(some), alias_classes(dense, stride)))
    return spectral_shares(energies) | mean_over(classes)


def dense_output(operator: nn.Module, maps: Tensor, stride: tuple[int, int]) -> Tensor | None:
    """The operator's output at stride 1: its outputs for maps (N, C, H, W) at all phases, interleaved.

    Rows and columns beyond a multiple of the stride are cut off; None if the rest does not become H/s x W/t.
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


def spectral_energies(dense: Tensor, stride: tuple[int, int]) -> Tensor:
    """Four energies of u (N, C, H, W), (4,) in float64, additive over the parts of a batch.

    D keeps every s-th row and column, low is the ideal low-pass filter below the new Nyquist frequency:
    ||D(u) - D(low(u))||^2, ||D(u)||^2, the energy of u's spectrum below that frequency, and all of it.
    """
    dense = dense.double()
    spectrum = torch.fft.fft2(dense)
    below = low_frequencies(size_of(dense), stride).to(dense.device)
    low = torch.fft.ifft2(spectrum * below).real
    sampled, clean = (u[..., :: stride[0], :: stride[1]] for u in (dense, low))
    power = spectrum.abs().square()
    sums = ((sampled - clean).square(), sampled.square(), power[..., below], power)
    return torch.tensor([each.sum().item() for each in sums], dtype=torch.float64)


def spectral_shares(energies: Tensor) -> dict[str, float]:
    """Alias energy, ||D(u) - D(low(u))||^2 / ||D(u)||^2, and high-frequency share; 0 for a map of zeros."""
    aliased, sampled, low, total = energies.tolist()
    return {
        "alias_energy_ratio": aliased / sampled if sampled else 0.0,
        "high_frequency_share": min(max(1 - low / total, 0.0), 1.0) if total else 0.0,
    }


def alias_classes(dense: Tensor, stride: tuple[int, int]) -> dict[str, float]:
    """Ribeiro & Schon 2021 (arXiv:2102.07757): the fate of each frequency of the subsampled map.

    The s * t frequencies of u (N, C, H, W) that subsampling folds into one pass within 20 dB of the strongest
    of the subsampled map of their sample and channel. As in the authors' code spectra are sums, so of two
    waves of the full map the weaker passes within 20 dB + 20 log10(s t): 32 dB for a stride of 2. The sum of
    the classes is 1 (the authors' ``nopass`` includes aliased ones).
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
