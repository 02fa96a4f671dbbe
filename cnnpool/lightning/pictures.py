"""A figure to a logger that takes pictures: TensorBoard, Weights & Biases or MLflow."""

from typing import Any

from lightning.pytorch.loggers import Logger
from matplotlib.figure import Figure


def log_figure(logger: Logger, tag: str, figure: Figure, step: int) -> bool:
    """Log ``figure``; returns whether the logger takes pictures."""
    if hasattr(logger, "log_image"):
        logger.log_image(key=tag, images=[figure], step=step)
        return True
    experiment: Any = getattr(logger, "experiment", None)
    if hasattr(experiment, "add_figure"):
        experiment.add_figure(tag, figure, step)
        return True
    if hasattr(experiment, "log_figure") and hasattr(logger, "run_id"):
        experiment.log_figure(logger.run_id, figure, f"{tag}_{step:06d}.png")
        return True
    return False
