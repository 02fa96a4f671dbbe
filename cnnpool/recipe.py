"""How to train: the options of ``conf/fit``, checked."""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le

from cnnpool.bounds import AboveZero, AtLeastZero, Count, CountOrZero, ShareBelowOne
from cnnpool.registry import check_fields

LEAST_LOGGED = 20


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Optimiser, schedule and budget of one run.

    Args:
        epochs: passes over the training split, >= 1.
        max_steps: stop after so many steps, for a quick check; null: no limit.
        optimizer: adamw, sgd (Nesterov momentum 0.9), or muon (orthogonal steps of convolutions, else adamw).
        lr: highest learning rate, > 0.
        weight_decay: decoupled for adamw and muon, L2 for sgd; only on weights of two or more axes, >= 0.
        schedule: one_cycle (linear up, linear down to zero), cosine (half a wave down to zero) or constant.
        warmup: share of all steps in which the learning rate rises linearly, 0..1.
        label_smoothing: 0..1 (1 excluded).
        head_rate: learning rate of the last layer, in multiples of ``lr``, > 0.
        layer_decay: factor by which the learning rate falls with every resolution above the last layer, > 0
            and at most 1 (Howard 2018, arXiv:1801.06146, by resolutions in place of layers).
        freeze: resolutions, the image's first, whose layers are not trained, >= 0.
        freeze_norm: train no batch normalisation, and keep its statistics.
        accumulate: micro-batches into which each batch is split to save memory, >= 1. The gradient is that
            of the whole batch, but batch normalisation sees micro-batches.
        precision: 32-true, bf16-mixed (autocast), or auto: bf16-mixed where the processor multiplies bf16.
        devices: number of devices, >= 1; each takes its share of every batch.
        strategy: ddp (a process per device, gradients averaged), or auto: that, where there are several.
        channels_last: memory format of model and images.
        keep_memory: let the C library keep freed blocks, which saves page faults on a CPU (Linux).
        deterministic: refuse (true), allow (false) or warn of operations that do not repeat bit for bit;
            auto is true on the CPU, where it is free, and warn elsewhere. Allowed on a GPU, cuDNN tries its
            ways of a convolution and takes the fastest.
        log_every_steps: write the training loss every so many steps, >= 1; auto: every 50 steps, and more
            often where a run would have fewer than 20 of them.
        checkpoint_every_minutes: within an epoch too, save where a stopped run goes on, >= 0; 0: at every
            step.
        pictures: draw winner maps, shift maps and the operator's worked example at the end.
        progress: a progress bar; auto: on a terminal, and in a log a line now and then within long epochs.

    Raises:
        ValueError: if an option is out of range.
    """

    epochs: Count = 5
    max_steps: Count | None = None
    optimizer: Literal["adamw", "muon", "sgd"] = "adamw"
    lr: AboveZero = 0.01
    weight_decay: AtLeastZero = 0.05
    schedule: Literal["one_cycle", "cosine", "constant"] = "one_cycle"
    warmup: ShareBelowOne = 0.2
    label_smoothing: ShareBelowOne = 0.1
    head_rate: AboveZero = 1.0
    layer_decay: Annotated[float, Gt(0), Le(1)] = 1.0
    freeze: CountOrZero = 0
    freeze_norm: bool = False
    accumulate: Count = 1
    precision: Literal["auto", "32-true", "bf16-mixed"] = "auto"
    devices: Annotated[int, Ge(1), Le(1024)] = 1
    strategy: Literal["auto", "ddp"] = "auto"
    channels_last: bool = True
    keep_memory: bool = True
    deterministic: Literal["auto", "warn"] | bool = "auto"
    log_every_steps: Literal["auto"] | Count = "auto"
    checkpoint_every_minutes: Annotated[float, Ge(0), Le(10**6)] = 10.0
    pictures: bool = True
    progress: Literal["auto"] | bool = "auto"

    def __post_init__(self) -> None:
        check_fields(self, "fit")

    def log_interval(self, total: int) -> int:
        """Steps between two records of the training loss, in a run of ``total`` steps."""
        if self.log_every_steps != "auto":
            return self.log_every_steps
        return min(50, max(total // LEAST_LOGGED, 1))

    def learning_rate(self, step: int, total: int) -> float:
        """The learning rate of step 0..total-1: a pure function, so that a resumed run needs no state."""
        if self.schedule == "constant" and not self.warmup:
            return self.lr
        rise = self.warmup * total
        if step < rise:
            return self.lr * (step + 1) / (rise + 1)
        progress = (step - rise) / max(total - rise, 1)
        match self.schedule:
            case "one_cycle":
                return self.lr * (1 - progress)
            case "cosine":
                return self.lr * (1 + math.cos(math.pi * progress)) / 2
        return self.lr
