"""Networks of torchvision, timm and installed packages, with configurable downsampling."""

from cnnpool.published.build import PUBLISHED, Operators, Published, build
from cnnpool.published.sources import NetworkSource, own_options

__all__ = ["PUBLISHED", "NetworkSource", "Operators", "Published", "build", "own_options"]
