"""Loggers beside a run's own folder: the options of ``conf/log``, checked."""

import os
from dataclasses import dataclass
from importlib.util import find_spec
from typing import ClassVar

from cnnpool.registry import check_fields


@dataclass(frozen=True, kw_only=True)
class TensorBoard:
    """TensorBoard alone, which every run has."""

    package: ClassVar[str] = ""
    needs: ClassVar[str] = ""

    def __post_init__(self) -> None:
        check_fields(self, "log")

    def refuse_missing(self) -> None:
        """Raise a ValueError if the log cannot be written, before training starts."""
        name = self.package
        if name and find_spec(name) is None:
            raise ValueError(f"log={name} needs the package {name}: pip install 'cnnpool[{name}]'")
        if not self.is_addressed():
            raise ValueError(f"log={name} needs {self.needs}")

    def is_addressed(self) -> bool:
        return True


@dataclass(frozen=True, kw_only=True)
class Csv(TensorBoard):
    """A table too, ``csv/metrics.csv`` in the run's folder."""


@dataclass(frozen=True, kw_only=True)
class Wandb(TensorBoard):
    """Weights & Biases too; server, entity and key come from its environment variables alone.

    Args:
        project: that runs belong to.
    """

    project: str = "cnnpool"

    package: ClassVar[str] = "wandb"
    needs: ClassVar[str] = "a key in the environment variable WANDB_API_KEY, or WANDB_MODE=offline"

    def is_addressed(self) -> bool:
        mode = os.environ.get("WANDB_MODE")
        return bool(os.environ.get("WANDB_API_KEY")) or mode in ("offline", "disabled", "dryrun")


@dataclass(frozen=True, kw_only=True)
class MLflow(TensorBoard):
    """MLflow too; the server and its credentials come from its environment variables alone.

    Args:
        experiment: that runs belong to.
    """

    experiment: str = "cnnpool"

    package: ClassVar[str] = "mlflow"
    needs: ClassVar[str] = (
        "a server or database in the environment variable MLFLOW_TRACKING_URI, such as sqlite:///mlflow.db"
    )

    def is_addressed(self) -> bool:
        return bool(os.environ.get("MLFLOW_TRACKING_URI"))


LOGGERS: dict[str, type[TensorBoard]] = {
    "csv": Csv,
    "mlflow": MLflow,
    "tensorboard": TensorBoard,
    "wandb": Wandb,
}
