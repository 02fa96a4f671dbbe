"""From a command line of ``cnnpool train`` to jobs that run."""

from pathlib import Path


def conf_dir() -> Path:
    """The folder of the configuration: inside the package in a wheel, beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"
