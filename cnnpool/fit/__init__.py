"""Lightning's parts of a training. Only this package and ``cnnpool.lightning`` import Lightning."""

from lightning.pytorch import Callback
from lightning.pytorch.loggers import Logger

from cnnpool.fit.classifier import Classifier
from cnnpool.fit.datamodule import Images
from cnnpool.fit.run_state import Run
from cnnpool.fit.single_image import Prediction
from cnnpool.run_folder.errors import DivergedError

__all__ = ["Callback", "Classifier", "DivergedError", "Images", "Logger", "Prediction", "Run"]
