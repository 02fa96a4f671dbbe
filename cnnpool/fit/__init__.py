"""Lightning's parts of a training. Only this room and ``cnnpool.lightning`` import Lightning."""

from cnnpool.fit.classifier import Classifier, DivergedError, Prediction
from cnnpool.fit.datamodule import Images
from cnnpool.fit.run_state import Run

__all__ = ["Classifier", "DivergedError", "Images", "Prediction", "Run"]
