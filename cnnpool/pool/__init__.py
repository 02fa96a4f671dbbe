"""Operators that shrink a feature map, (N, C, H, W) -> (N, C, H', W').

All of them, modules and functions, refuse a number out of range, an unknown word, a map that does not fit or
of which nothing would be left, and a dtype that they cannot pool, such as float8 or uint16, by a ValueError
in one line. Windows and sizes are those of ``avg_pool2d``; unless an operator says otherwise, cells in the
padding or the overhang take no part, and half precision is summed in float32. Examples follow ``import
torch`` and ``from cnnpool.pool import *``.
"""

from typing import Any

from cnnpool import registry
from cnnpool.pool.adaptive import AdaptiveAvgPool2d as AdaptiveAvgPool2d
from cnnpool.pool.adaptive import AdaptiveMaxPool2d as AdaptiveMaxPool2d
from cnnpool.pool.adaptive import Resize2d as Resize2d
from cnnpool.pool.adaptive_blur import AdaptiveBlurPool2d as AdaptiveBlurPool2d
from cnnpool.pool.adaptive_blur import adaptive_blur_pool2d as adaptive_blur_pool2d
from cnnpool.pool.aps import ApsPool2d as ApsPool2d
from cnnpool.pool.aps import MaxApsPool2d as MaxApsPool2d
from cnnpool.pool.aps import aps_pool2d as aps_pool2d
from cnnpool.pool.aps import polyphase_unpool2d as polyphase_unpool2d
from cnnpool.pool.avg import AvgPool2d as AvgPool2d
from cnnpool.pool.avg import SumPool2d as SumPool2d
from cnnpool.pool.avg import avg_pool2d as avg_pool2d
from cnnpool.pool.avg import sum_pool2d as sum_pool2d
from cnnpool.pool.axes import Pool1d as Pool1d
from cnnpool.pool.axes import Pool3d as Pool3d
from cnnpool.pool.base import Pool2d as Pool2d
from cnnpool.pool.blur import BlurPool2d as BlurPool2d
from cnnpool.pool.blur import MaxBlurPool2d as MaxBlurPool2d
from cnnpool.pool.blur import blur_pool2d as blur_pool2d
from cnnpool.pool.blur import max_blur_pool2d as max_blur_pool2d
from cnnpool.pool.dpp import DppPool2d as DppPool2d
from cnnpool.pool.dpp import dpp_pool2d as dpp_pool2d
from cnnpool.pool.fourier import AsapPool2d as AsapPool2d
from cnnpool.pool.fourier import DiffStride2d as DiffStride2d
from cnnpool.pool.fourier import FlcPool2d as FlcPool2d
from cnnpool.pool.fourier import IdealLowpassPool2d as IdealLowpassPool2d
from cnnpool.pool.fourier import SpectralPool2d as SpectralPool2d
from cnnpool.pool.fourier import ideal_lowpass_pool2d as ideal_lowpass_pool2d
from cnnpool.pool.fourier import spectral_pool2d as spectral_pool2d
from cnnpool.pool.lip import LipPool2d as LipPool2d
from cnnpool.pool.lip import lip_pool2d as lip_pool2d
from cnnpool.pool.lp import GemPool2d as GemPool2d
from cnnpool.pool.lp import LpPool2d as LpPool2d
from cnnpool.pool.lp import gem_pool2d as gem_pool2d
from cnnpool.pool.lp import lp_pool2d as lp_pool2d
from cnnpool.pool.lps import LpsPool2d as LpsPool2d
from cnnpool.pool.lps import TipsPool2d as TipsPool2d
from cnnpool.pool.max import MaxPool2d as MaxPool2d
from cnnpool.pool.max import max_pool2d as max_pool2d
from cnnpool.pool.max import max_pool2d_with_winners as max_pool2d_with_winners
from cnnpool.pool.max_unpool import max_unpool2d as max_unpool2d
from cnnpool.pool.mixed import GatedPool2d as GatedPool2d
from cnnpool.pool.mixed import MixedPool2d as MixedPool2d
from cnnpool.pool.mixed import RandomMixedPool2d as RandomMixedPool2d
from cnnpool.pool.mixed import TreePool2d as TreePool2d
from cnnpool.pool.mixed import gated_pool2d as gated_pool2d
from cnnpool.pool.mixed import mixed_pool2d as mixed_pool2d
from cnnpool.pool.mixed import tree_pool2d as tree_pool2d
from cnnpool.pool.ordinal import MedianPool2d as MedianPool2d
from cnnpool.pool.ordinal import OrdinalPool2d as OrdinalPool2d
from cnnpool.pool.ordinal import median_pool2d as median_pool2d
from cnnpool.pool.ordinal import ordinal_pool2d as ordinal_pool2d
from cnnpool.pool.random_max import FractionalMaxPool2d as FractionalMaxPool2d
from cnnpool.pool.random_max import S3Pool2d as S3Pool2d
from cnnpool.pool.soft import AdaPool2d as AdaPool2d
from cnnpool.pool.soft import LogSumExpPool2d as LogSumExpPool2d
from cnnpool.pool.soft import SoftPool2d as SoftPool2d
from cnnpool.pool.soft import ada_pool2d as ada_pool2d
from cnnpool.pool.soft import logsumexp_pool2d as logsumexp_pool2d
from cnnpool.pool.soft import soft_pool2d as soft_pool2d
from cnnpool.pool.stochastic import StochasticPool2d as StochasticPool2d
from cnnpool.pool.stochastic import stochastic_pool2d as stochastic_pool2d
from cnnpool.pool.strided import AvgConv2d as AvgConv2d
from cnnpool.pool.strided import ConvBlur2d as ConvBlur2d
from cnnpool.pool.strided import ConvPool2d as ConvPool2d
from cnnpool.pool.strided import DepthwiseConv2d as DepthwiseConv2d
from cnnpool.pool.strided import ReductionBlock2d as ReductionBlock2d
from cnnpool.pool.strided import StridedConv2d as StridedConv2d
from cnnpool.pool.subsample import NoPool2d as NoPool2d
from cnnpool.pool.subsample import Subsample2d as Subsample2d
from cnnpool.pool.unshuffle import PatchConv2d as PatchConv2d
from cnnpool.pool.unshuffle import UnshuffleConv2d as UnshuffleConv2d
from cnnpool.pool.unshuffle import pixel_unshuffle2d as pixel_unshuffle2d
from cnnpool.pool.wavelet import HaarPool2d as HaarPool2d
from cnnpool.pool.wavelet import LiftPool2d as LiftPool2d
from cnnpool.pool.wavelet import WaveletPool2d as WaveletPool2d
from cnnpool.pool.wavelet import wavelet_bands2d as wavelet_bands2d
from cnnpool.pool.wavelet import wavelet_bank as wavelet_bank

OPERATORS: dict[str, type[Pool2d]] = {
    "ada": AdaPool2d,
    "adaptive_avg": AdaptiveAvgPool2d,
    "adaptive_blur": AdaptiveBlurPool2d,
    "adaptive_max": AdaptiveMaxPool2d,
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
    "ideal_lowpass": IdealLowpassPool2d,
    "lift": LiftPool2d,
    "lip": LipPool2d,
    "logsumexp": LogSumExpPool2d,
    "lp": LpPool2d,
    "lps": LpsPool2d,
    "max": MaxPool2d,
    "max_aps": MaxApsPool2d,
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
    """The operator called ``name`` for maps of ``channels`` channels.

    Example:
        >>> build("max_blur", channels=3, filter_size=5)(torch.rand(1, 3, 8, 8)).shape
        torch.Size([1, 3, 4, 4])
    """
    operator: Pool2d = registry.construct(OPERATORS, "operators", name, channels, **options)
    return operator


# Every name above that belongs to this package; "as" exports them for mypy.
__all__ = sorted(
    name for name, one in vars().items() if getattr(one, "__module__", "").startswith("cnnpool.pool.")
)
__all__ += ["OPERATORS", "build"]
