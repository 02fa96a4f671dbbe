"""Operators that shrink a feature map, (N, C, H, W) -> (N, C, H', W')."""

from typing import Any

from cnnpool import registry
from cnnpool.bounds import Count
from cnnpool.pool.ada import AdaPool2d, ada_pool2d
from cnnpool.pool.adaptive_avg import AdaptiveAvgPool2d
from cnnpool.pool.adaptive_blur import AdaptiveBlurPool2d, adaptive_blur_pool2d
from cnnpool.pool.adaptive_max import AdaptiveMaxPool2d
from cnnpool.pool.adown import AdownBlock2d
from cnnpool.pool.aps import ApsPool2d, aps_pool2d
from cnnpool.pool.asap import AsapPool2d
from cnnpool.pool.avg import AvgPool2d, avg_pool2d
from cnnpool.pool.avg_conv import AvgConv2d
from cnnpool.pool.base import Pool2d
from cnnpool.pool.blur import BlurPool2d, blur_pool2d
from cnnpool.pool.conv_blur import ConvBlur2d
from cnnpool.pool.conv_pool import ConvPool2d
from cnnpool.pool.depthwise import DepthwiseConv2d
from cnnpool.pool.diffstride import DiffStride2d
from cnnpool.pool.dpp import DppPool2d, dpp_pool2d
from cnnpool.pool.flc import FlcPool2d
from cnnpool.pool.fractional_max import FractionalMaxPool2d
from cnnpool.pool.gated import GatedPool2d, gated_pool2d
from cnnpool.pool.gem import GemPool2d, gem_pool2d
from cnnpool.pool.haar import HaarPool2d
from cnnpool.pool.hwd import HwdConv2d
from cnnpool.pool.ideal_lowpass import IdealLowpassPool2d, ideal_lowpass_pool2d
from cnnpool.pool.kaiser import KaiserPool2d, kaiser_pool2d
from cnnpool.pool.lift import LiftPool2d
from cnnpool.pool.lip import LipPool2d, lip_pool2d
from cnnpool.pool.logsumexp import LogSumExpPool2d, logsumexp_pool2d
from cnnpool.pool.lp import LpPool2d, lp_pool2d
from cnnpool.pool.lps import LpsPool2d
from cnnpool.pool.max import MaxPool2d, max_pool2d, max_pool2d_with_winners
from cnnpool.pool.max_blur import MaxBlurPool2d, max_blur_pool2d
from cnnpool.pool.max_unpool import max_unpool2d
from cnnpool.pool.median import MedianPool2d, median_pool2d
from cnnpool.pool.mixed import MixedPool2d, mixed_pool2d
from cnnpool.pool.none import NoPool2d
from cnnpool.pool.ordinal import OrdinalPool2d, ordinal_pool2d
from cnnpool.pool.patchify import PatchConv2d
from cnnpool.pool.random_mixed import RandomMixedPool2d
from cnnpool.pool.reduction import ReductionBlock2d
from cnnpool.pool.resize import Resize2d
from cnnpool.pool.s3 import S3Pool2d
from cnnpool.pool.scdown import ScdownConv2d
from cnnpool.pool.sequence import (
    AvgPool1d,
    BlurPool1d,
    LpPool1d,
    MaxBlurPool1d,
    MaxPool1d,
    Pool1d,
    avg_pool1d,
    blur_pool1d,
    lp_pool1d,
    max_blur_pool1d,
    max_pool1d,
)
from cnnpool.pool.soft import SoftPool2d, soft_pool2d
from cnnpool.pool.spectral import SpectralPool2d, spectral_pool2d
from cnnpool.pool.stochastic import StochasticPool2d, stochastic_pool2d
from cnnpool.pool.strided import StridedConv2d
from cnnpool.pool.subsample import Subsample2d
from cnnpool.pool.sum import SumPool2d, sum_pool2d
from cnnpool.pool.tips import TipsPool2d
from cnnpool.pool.tree import TreePool2d, tree_pool2d
from cnnpool.pool.unshuffle import UnshuffleConv2d, pixel_unshuffle2d
from cnnpool.pool.wavelet import WaveletPool2d, wavelet_bands2d, wavelet_bank

OPERATORS: dict[str, type[Pool2d]] = {
    "ada": AdaPool2d,
    "adaptive_avg": AdaptiveAvgPool2d,
    "adaptive_blur": AdaptiveBlurPool2d,
    "adaptive_max": AdaptiveMaxPool2d,
    "adown": AdownBlock2d,
    "aps": ApsPool2d,
    "asap": AsapPool2d,
    "avg": AvgPool2d,
    "avg_conv": AvgConv2d,
    "blur": BlurPool2d,
    "conv_blur": ConvBlur2d,
    "conv_pool": ConvPool2d,
    "depthwise": DepthwiseConv2d,
    "diffstride": DiffStride2d,
    "dpp": DppPool2d,
    "flc": FlcPool2d,
    "fractional_max": FractionalMaxPool2d,
    "gated": GatedPool2d,
    "gem": GemPool2d,
    "haar": HaarPool2d,
    "hwd": HwdConv2d,
    "ideal_lowpass": IdealLowpassPool2d,
    "kaiser": KaiserPool2d,
    "lift": LiftPool2d,
    "lip": LipPool2d,
    "logsumexp": LogSumExpPool2d,
    "lp": LpPool2d,
    "lps": LpsPool2d,
    "max": MaxPool2d,
    "max_blur": MaxBlurPool2d,
    "median": MedianPool2d,
    "mixed": MixedPool2d,
    "none": NoPool2d,
    "ordinal": OrdinalPool2d,
    "patchify": PatchConv2d,
    "random_mixed": RandomMixedPool2d,
    "reduction": ReductionBlock2d,
    "resize": Resize2d,
    "s3": S3Pool2d,
    "scdown": ScdownConv2d,
    "soft": SoftPool2d,
    "spectral": SpectralPool2d,
    "stochastic": StochasticPool2d,
    "strided": StridedConv2d,
    "subsample": Subsample2d,
    "sum": SumPool2d,
    "tips": TipsPool2d,
    "tree": TreePool2d,
    "unshuffle": UnshuffleConv2d,
    "wavelet": WaveletPool2d,
}


def build(name: str, channels: int, **options: Any) -> Pool2d:
    """The operator called ``name`` (a stem of ``conf/pool``) for maps of ``channels`` channels.

    Raises:
        ValueError: for an unknown name or option, or a value out of range.

    Example:
        >>> import torch
        >>> from cnnpool.pool import build
        >>> build("max_blur", channels=3, filter_size=5)(torch.rand(1, 3, 8, 8)).shape
        torch.Size([1, 3, 4, 4])
    """
    registry.Option(Count).take(f"{name}: channels", channels)
    operator: Pool2d = registry.construct(OPERATORS, "operators", name, channels, **options)
    return operator


__all__ = [
    "OPERATORS",
    "AdaPool2d",
    "AdaptiveAvgPool2d",
    "AdaptiveBlurPool2d",
    "AdaptiveMaxPool2d",
    "AdownBlock2d",
    "ApsPool2d",
    "AsapPool2d",
    "AvgConv2d",
    "AvgPool1d",
    "AvgPool2d",
    "BlurPool1d",
    "BlurPool2d",
    "ConvBlur2d",
    "ConvPool2d",
    "DepthwiseConv2d",
    "DiffStride2d",
    "DppPool2d",
    "FlcPool2d",
    "FractionalMaxPool2d",
    "GatedPool2d",
    "GemPool2d",
    "HaarPool2d",
    "HwdConv2d",
    "IdealLowpassPool2d",
    "KaiserPool2d",
    "LiftPool2d",
    "LipPool2d",
    "LogSumExpPool2d",
    "LpPool1d",
    "LpPool2d",
    "LpsPool2d",
    "MaxBlurPool1d",
    "MaxBlurPool2d",
    "MaxPool1d",
    "MaxPool2d",
    "MedianPool2d",
    "MixedPool2d",
    "NoPool2d",
    "OrdinalPool2d",
    "PatchConv2d",
    "Pool1d",
    "Pool2d",
    "RandomMixedPool2d",
    "ReductionBlock2d",
    "Resize2d",
    "S3Pool2d",
    "ScdownConv2d",
    "SoftPool2d",
    "SpectralPool2d",
    "StochasticPool2d",
    "StridedConv2d",
    "Subsample2d",
    "SumPool2d",
    "TipsPool2d",
    "TreePool2d",
    "UnshuffleConv2d",
    "WaveletPool2d",
    "ada_pool2d",
    "adaptive_blur_pool2d",
    "aps_pool2d",
    "avg_pool1d",
    "avg_pool2d",
    "blur_pool1d",
    "blur_pool2d",
    "build",
    "dpp_pool2d",
    "gated_pool2d",
    "gem_pool2d",
    "ideal_lowpass_pool2d",
    "kaiser_pool2d",
    "lip_pool2d",
    "logsumexp_pool2d",
    "lp_pool1d",
    "lp_pool2d",
    "max_blur_pool1d",
    "max_blur_pool2d",
    "max_pool1d",
    "max_pool2d",
    "max_pool2d_with_winners",
    "max_unpool2d",
    "median_pool2d",
    "mixed_pool2d",
    "ordinal_pool2d",
    "pixel_unshuffle2d",
    "soft_pool2d",
    "spectral_pool2d",
    "stochastic_pool2d",
    "sum_pool2d",
    "tree_pool2d",
    "wavelet_bands2d",
    "wavelet_bank",
]
