"""Calls that become modules: the copy is the same function, or a part of it stays as it is."""

import copy
import pickle
import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import cnnpool

MEAN = torch.tensor(0.5)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 4, 3), nn.Linear(4, 2)

    def pooled(self, x):
        return F.max_pool2d(F.relu(self.conv(x)), 2)

    def forward(self, x):
        return self.head(self.pooled(x).mean((2, 3)))


class Masked(Net):
    def forward(self, x, mask=None):
        return super().forward(x if mask is None else x * mask)


class Skipping(Net):
    def forward(self, x, skip):
        return super().forward(x if skip is None else x + skip)


class Joining(Net):
    def forward(self, x, skip):
        return super().forward(x + skip)


class Centred(Net):
    def forward(self, x):
        return super().forward(x - MEAN)


class Layered(Net):
    def pooled(self, x):
        return F.max_pool2d(self.conv(x), 2) if isinstance(self.conv, nn.Conv2d) else x


class Switched(Net):
    def pooled(self, x):
        with torch.set_grad_enabled(self.training):
            return super().pooled(x)


class Several(Net):
    def forward(self, *images):
        return super().forward(images[0])


class OfTensors(Net):
    def forward(self, x):
        return super().forward(2 * x if isinstance(x, torch.Tensor) else x["image"])


class Frozen(Net):
    def pooled(self, x):
        with torch.no_grad():
            return super().pooled(x)


class Half(Net):
    def pooled(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return super().pooled(x).float()


class Whole(Net):
    def pooled(self, x):
        with torch.autocast("cpu", enabled=False), torch.enable_grad():
            return super().pooled(x)


class Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sign()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class StraightThrough(Net):
    def pooled(self, x):
        return Sign.apply(super().pooled(x))


class Whether(Net):
    def forward(self, x):
        return super().forward(x) * (1 if torch.is_grad_enabled() else 2)


class OfRandom(Net):
    def forward(self, x):
        return super().forward(2 * x if random.random() < 0.9 else x)


class OfNumpy(Net):
    def forward(self, x):
        return super().forward(2 * x if np.random.random() < 0.9 else x)


class ToTheSize(Net):
    def pooled(self, x):
        return F.avg_pool2d(self.conv(x), (x.size(2) - 2, x.size(3) - 2))


class Adding(Net):
    def __init__(self):
        super().__init__()
        self.seen, self.calls, self.total = [], 0, torch.zeros(())


class Listing(Adding):
    def forward(self, x):
        self.seen.append(1)
        return super().forward(x)


class Numbering(Adding):
    def forward(self, x):
        self.calls += 1
        return super().forward(x)


class Summing(Adding):
    def forward(self, x):
        self.total.add_(1)
        return super().forward(x) * self.total


class Constant(Net):
    def forward(self, x):
        return super().forward(x) + torch.zeros(2).add_(1)


class Chain(nn.Sequential):
    def forward(self, x):
        return F.max_pool2d(super().forward(x), 2)


class Registered(Net):
    known = {}  # noqa: RUF012

    def __init_subclass__(cls):
        Registered.known[cls.__name__] = cls


class Member(Registered):
    pass


def patched():
    model = Net()
    model.forward = lambda x: model.pooled(x)
    return model


STAY = [
    Masked, Skipping, Several, OfTensors, Frozen, Half, Whole, StraightThrough, Whether, OfRandom, OfNumpy,
    ToTheSize, Listing, Numbering, Summing, Constant, Chain, Switched, patched,
]  # fmt: skip


@pytest.mark.parametrize("make", STAY)
def test_what_a_graph_does_not_hold_stays_as_it_is_and_nothing_is_drawn_or_written(make):
    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    model = make()
    drawn = random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist()
    made = cnnpool.as_modules(model)
    assert [type(part) for part in made.modules()] == [type(part) for part in model.modules()]
    assert (random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist()) == drawn
    assert vars(made).keys() == vars(model).keys()
    for one in (made, model):
        assert not any((getattr(one, "seen", ()), getattr(one, "calls", 0), getattr(one, "total", 0)))
    assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("make", [Joining, Centred, Layered, Member])
def test_a_graph_holds_tensors_of_the_file_several_arguments_and_what_a_class_makes_of_its_own(make):
    model = make()
    made = pickle.loads(pickle.dumps(cnnpool.as_modules(model)))
    x = torch.rand(2, 3, 8, 8)
    images = (x, x) if make is Joining else (x,)
    assert isinstance(made, make) and isinstance(made.max_pool2d, nn.MaxPool2d)
    assert torch.equal(made(*images), model(*images)) and Registered.known == {"Member": Member}


class Full(Net):
    """Uses neither all that it has nor the same buffer after a new one is loaded."""

    def __init__(self):
        super().__init__()
        self.classes, self.unused, self.weight = 2, nn.Linear(4, 1), nn.Parameter(torch.ones(1))
        self.register_buffer("mean", torch.full((3,), 0.5))
        self.parts = nn.ModuleList([nn.Conv2d(4, 4, 1)])

    def pooled(self, x):
        return self.parts[0](super().pooled(x - self.mean[None, :, None, None]))

    def loss(self, x):
        return self(x).square().sum()


@pytest.mark.parametrize(
    "by", [lambda made: made, copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))]
)
def test_a_copy_keeps_its_class_its_hooks_its_methods_and_what_its_forward_does_not_use(by):
    model, x = Full().eval(), torch.randn(2, 3, 9, 9)
    made = by(cnnpool.as_modules(model))
    assert isinstance(made, Full) and repr(made.max_pool2d) == repr(nn.MaxPool2d(2)) and made.classes == 2
    assert not any(part.training for part in made.modules()) and len(made.parts) == 1
    assert torch.equal(made.loss(x), model.loss(x))
    assert list(made.state_dict()) == list(model.state_dict())
    made.load_state_dict(model.state_dict() | {"mean": torch.zeros(3)})
    shown = copy.deepcopy(model)
    shown.mean.zero_()
    assert torch.equal(made(x), shown(x))
    made.max_pool2d = nn.AvgPool2d(2)
    assert torch.equal(copy.deepcopy(made)(x), made(x)) and not torch.equal(made(x), shown(x))


def test_a_torch_that_makes_no_function_of_a_graphs_code_leaves_all_calls(monkeypatch):
    assert type(cnnpool.as_modules(Net())) is not Net
    monkeypatch.setattr("cnnpool.surgery.calls.function_of_code", None)
    assert type(cnnpool.as_modules(Net())) is Net


def test_hooks_that_a_forward_does_not_see_run_as_before():
    model, x, ran = Net(), torch.randn(2, 3, 9, 9, requires_grad=True), []
    model.register_full_backward_hook(lambda *_: ran.append("backward"))
    model.register_load_state_dict_pre_hook(lambda *_: ran.append("load"))
    made = cnnpool.as_modules(model)
    assert hasattr(made, "max_pool2d")
    made(x).sum().backward()
    made.load_state_dict(model.state_dict())
    assert ran == ["backward", "load"]


@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated")
def test_a_network_with_a_weight_that_was_computed_is_copied():
    model, x = nn.Sequential(nn.utils.weight_norm(nn.Conv2d(3, 3, 3)), Net()), torch.randn(2, 3, 9, 9)
    model(x).sum().backward()
    made = cnnpool.as_modules(model)
    assert hasattr(made[1], "max_pool2d") and torch.equal(made(x), model(x))


def test_the_copy_exports_compiles_and_scripts():
    model, x = Net(), torch.randn(2, 3, 9, 9)
    made = cnnpool.as_modules(model)
    forms = torch.export.export(made, (x,)).module(), torch.compile(made, backend="eager", fullgraph=True)
    for form in (*forms, torch.jit.script(made)):
        assert torch.equal(form(x), model(x))
