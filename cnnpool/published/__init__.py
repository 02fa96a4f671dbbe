"""Networks of torchvision, of timm and of installed packages, with the downsampling of one's choice."""

from cnnpool.published.build import PUBLISHED, Operators, Published, build
from cnnpool.published.sources import NetworkSource

__all__ = ["PUBLISHED", "NetworkSource", "Operators", "Published", "build"]
