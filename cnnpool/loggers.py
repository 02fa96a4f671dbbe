"""Loggers beside a run's own folder: the options of ``conf/log``, checked."""

import os
from dataclasses import dataclass
from importlib.util import find_spec

from cnnpool.registry import check_fields

UNSENT = ("offline", "disabled", "dryrun")


@dataclass(frozen=True, kw_only=True)
class TensorBoard:
    """TensorBoard alone, which every run has."""

    def __post_init__(self) -> None:
        check_fields(self, "log")

    def refuse_missing(self) -> None:
        """Nothing is missing."""


@dataclass(frozen=True, kw_only=True)
class Csv(TensorBoard):
    """A table too, ``csv/metrics.csv`` in the run's folder."""


@dataclass(frozen=True, kw_only=True)
class Wandb(TensorBoard):
    """Weights & Biases too; server, entity and key come from its environment variables alone.

    Args:
        project: that runs belong to.

    Raises:
        ValueError: if an option is out of range.
    """

    project: str = "cnnpool"

    def refuse_missing(self) -> None:
        """Raise if the log cannot be written, before training starts.

        Raises:
            ValueError: without the package, or without a key in the environment.
        """
        _refuse_without("wandb")
        if not os.environ.get("WANDB_API_KEY") and os.environ.get("WANDB_MODE") not in UNSENT:
            raise ValueError(
                "log=wandb needs a key in the environment variable WANDB_API_KEY, or WANDB_MODE=offline"
            )


@dataclass(frozen=True, kw_only=True)
class MLflow(TensorBoard):
    """MLflow too; the server and its credentials come from its environment variables alone.

    Args:
        experiment: that runs belong to.

    Raises:
        ValueError: if an option is out of range.
    """

    experiment: str = "cnnpool"

    def refuse_missing(self) -> None:
        """Raise if the log cannot be written, before training starts.

        Raises:
            ValueError: without the package, or without a server or database in the environment.
        """
        _refuse_without("mlflow")
        if not os.environ.get("MLFLOW_TRACKING_URI"):
            raise ValueError(
                "log=mlflow needs a server or database in the environment variable MLFLOW_TRACKING_URI, "
                "such as sqlite:///mlflow.db"
            )


LOGGERS: dict[str, type[TensorBoard]] = {
    "csv": Csv,
    "mlflow": MLflow,
    "tensorboard": TensorBoard,
    "wandb": Wandb,
}


def _refuse_without(package: str) -> None:
    if find_spec(package) is None:
        raise ValueError(f"log={package} needs the package {package}: pip install 'cnnpool[{package}]'")
