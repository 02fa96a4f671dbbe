"""Every operator that conf/pool offers, and inputs to ask it with."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

CONF = Path(__file__).parents[2] / "conf" / "pool"
STEMS = sorted(path.stem for path in CONF.glob("*.yaml") if path.stem != "inherit")


def pytest_configure(config: pytest.Config) -> None:
    # torch scripts its own forward-mode decompositions on first use, and warns itself for it.
    config.addinivalue_line("filterwarnings", "ignore:`torch.jit.script` is deprecated:FutureWarning")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "stem" in metafunc.fixturenames:
        metafunc.parametrize("stem", STEMS)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture
def conf() -> Path:
    return CONF


@pytest.fixture
def distinct() -> Callable[..., Tensor]:
    """Values between -2 and 2, none equal and none zero, so that no finite difference crosses a tie."""

    def make(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
        count = torch.Size(shape).numel()
        return ((torch.randperm(count).double() + 0.5) * (4 / max(count, 1)) - 2).reshape(shape).to(dtype)

    return make
