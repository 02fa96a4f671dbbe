"""The downsampling probes as callbacks for any Trainer."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import nn

from cnnpool import probe
from cnnpool.explain.maps import routing_figure, shift_figure
from cnnpool.lightning.probe_callback import ProbeCallback
from cnnpool.probe import Batch
from cnnpool.probe.gradient_taps import stage_gradients

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class GradientRouting(ProbeCallback):
    """Zero fraction, coverage, ties and winners of the loss gradient at every stage, and its picture.

    Args:
        samples: images of the probe batch, >= 1; coverage depends on it.
        epsilon: a gradient below epsilon times the sample's largest counts as small, 0..1.
        pictures: draw the gradient of eight images at every stage, ``maps/gradient_routing``.
        options: options of ``ProbeCallback``.
    """

    SHOWN = 8

    def __init__(self, *, samples: int = 128, epsilon: float = 1e-3, pictures: bool = True, **options: Any):
        super().__init__(probe.GradientRouting(samples=samples, epsilon=epsilon), samples=samples, **options)
        self.pictures = pictures

    def figures(
        self, network: nn.Module, stages: Mapping[str, nn.Module], batch: Batch, result: Mapping[str, Any]
    ) -> Mapping[str, "Figure"]:
        if not self.pictures:
            return {}
        images, labels, *_ = batch.first(self.SHOWN)
        taps = stage_gradients(network, stages, images, labels)
        gradients = {stage: tap.gradient for stage, tap in taps.items()}
        return {"maps/gradient_routing": routing_figure(images.float(), gradients)}


class ShiftInvariance(ProbeCallback):
    """Consistency and accuracy under shifts, and the change of every stage.

    Args:
        presets: protocols by name, as in ``cnnpool.probe.consistency.PRESETS``.
        samples: images of the probe batch, >= 2.
        max_shift_px: largest shift of the stage measures and of the picture, in pixels, >= 1.
        map_samples: images for the picture of the accuracy under every shift, ``maps/accuracy_over_shifts``,
            with (2 max_shift_px + 1)^2 forward passes each, >= 0; 0: none.
        options: options of ``ProbeCallback``.
    """

    def __init__(
        self,
        *,
        presets: Sequence[str] = ("distinct",),
        samples: int = 256,
        max_shift_px: int = 3,
        map_samples: int = 0,
        **options: Any,
    ):
        own = {"presets": list(presets), "max_shift_px": max_shift_px, "map_samples": map_samples}
        super().__init__(probe.build("invariance", samples=samples, **own), samples=samples, **options)

    def figures(
        self, network: nn.Module, stages: Mapping[str, nn.Module], batch: Batch, result: Mapping[str, Any]
    ) -> Mapping[str, "Figure"]:
        if not (accuracy := result.get("accuracy_over_shifts")):
            return {}
        return {
            "maps/accuracy_over_shifts": shift_figure({"accuracy of shifted images": accuracy}, "accuracy")
        }


class Aliasing(ProbeCallback):
    """Share of each stage's energy that subsampling folds onto lower frequencies.

    Args:
        samples: images of the probe batch, >= 1.
        options: options of ``ProbeCallback``.
    """

    def __init__(self, *, samples: int = 16, **options: Any):
        super().__init__(probe.Aliasing(samples=samples), samples=samples, **options)


class Cost(ProbeCallback):
    """Parameters, FLOPs, bytes saved for backward, and time per image.

    Args:
        samples: images of the probe batch, >= 1.
        options: options of ``ProbeCallback``.
    """

    def __init__(self, *, samples: int = 32, **options: Any):
        super().__init__(probe.Cost(samples=samples, timed_samples=samples), samples=samples, **options)
