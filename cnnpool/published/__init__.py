"""Networks of torchvision, of timm and of installed packages, with the downsampling of one's choice."""

from cnnpool.published.build import PUBLISHED, build
from cnnpool.published.network import Operators, Published
from cnnpool.published.sources import NetworkSource

__all__ = ["PUBLISHED", "NetworkSource", "Operators", "Published", "build"]
