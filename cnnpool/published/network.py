"""A network of another package in the shape that training and probes expect, and its operators."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from cnnpool.model.base import Cnn
from cnnpool.published.weights import Loaded


@dataclass(frozen=True)
class Operators:
    """An operator for every stage, and others for single ones.

    Args:
        common: ``name`` and options of the operator that replaces the downsampling of every stage; ``keep``
            for the network's own.
        own: the same by stage, for stages that have an operator of their own.
    """

    common: Mapping[str, Any]
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def of(self, stage: str) -> Mapping[str, Any]:
        """``name`` and options of the operator at ``stage``."""
        return self.own.get(stage, self.common)


class Published(Cnn):
    """Images (N, C, H, W), C = 1 or 3, to logits (N, num_classes), by a network made for three channels.

    Images of one channel are repeated. Of several outputs in training, such as Inception's auxiliary logits,
    the first counts.

    Args:
        network: (N, 3, H, W) to logits.
        stages: the downsampling operators by stage, in order.
        operators: ``name`` and options of the operator at every stage, as results.json has them.
        loaded: the weights that it starts from.
    """

    def __init__(
        self,
        network: nn.Module,
        stages: Mapping[str, nn.Module],
        operators: Mapping[str, Mapping[str, Any]],
        loaded: Loaded,
    ):
        nn.Module.__init__(self)
        self.network = network
        self.stages = dict(stages)
        self.operators = {stage: dict(operator) for stage, operator in operators.items()}
        self.loaded = loaded

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor | tuple[Tensor, ...] = self.network(x.expand(-1, 3, -1, -1))
        return logits if isinstance(logits, Tensor) else logits[0]
