"""Calls that become modules: the copy is the same function, or a part of it stays as it is."""

import copy
import functools
import pickle
from types import FunctionType

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import cnnpool

MEAN, COUNT = torch.tensor(0.5), 3


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head, self.odd = nn.Conv2d(3, 4, 3), nn.Linear(4, 2), Odd()
        self.register_buffer("mean", torch.full((3, 1, 1), 0.5))
        self.seen, self.calls, self.total, self.sizes, self.relu = [], 0, torch.zeros(()), (2, 2), F.relu

    @property
    def is_training(self):
        return self.training

    def given(self, x):
        return x

    def pooled(self, x):
        return F.max_pool2d(F.relu(self.conv(x)), 2)

    def forward(self, x):
        return self.head(self.pooled(self.given(x)).mean((2, 3)))


class Odd(nn.Module):
    def __call__(self, x):
        return 2 * super().__call__(x)

    def forward(self, x):
        return x


def net(given):
    return type("Other", (Net,), {"given": given})()


def helper(x):
    with torch.no_grad():
        return 2 * x


def plain(self, x):
    return 2 * x


class Given:
    """Each method does to the images what a graph may not hold."""

    def branch(self, x):
        return 2 * x if self.calls else x

    def loop(self, x):
        for scale in self.sizes:
            x = x * scale
        return x

    def comparison(self, x):
        return x * (x is not None)

    def context(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return x

    def type_of_tensor(self, x):
        return x * torch.is_tensor(x)

    def mode(self, x):
        return F.dropout(x, training=self.conv.training)

    def mode_by_a_property(self, x):
        return F.dropout(x, training=self.is_training)

    def draw(self, x):
        return x * torch.rand(())

    def append(self, x):
        self.seen.append(1)
        return x

    def append_by_another_name(self, x):
        seen = self.seen
        seen.append(1)
        return x

    def count(self, x):
        self.calls = 1
        return x

    def total(self, x):
        return x * self.total.add_(1)

    def shifted(self, x):
        # A graph would make another tensor.
        x += 1
        return x

    def tensor_of_the_file(self, x):
        return x - MEAN

    def other_code(self, x):
        return helper(x)

    def child_with_a_call_of_its_own(self, x):
        return self.odd(x)

    def option(self, x, scale=1):
        return scale * x

    def several(self, *x):
        return x[0]

    @torch.no_grad()
    def decorated(self, x):
        return 2 * x

    @functools.wraps(plain)
    def wrapped(self, x):
        return helper(x)

    nowhere = FunctionType(plain.__code__.replace(co_filename="<nowhere>"), globals())


class ToTheSize(Net):
    def pooled(self, x):
        return F.avg_pool2d(self.conv(x), (x.size(2) - 2, x.size(3) - 2))


class Asked(Net):
    def __getattr__(self, name):
        return 1 + self.training if name == "scale" else super().__getattr__(name)

    def given(self, x):
        return x * self.scale


class Chain(nn.Sequential):
    def forward(self, x):
        return F.max_pool2d(x, 2)


class Registered(Net):
    known = {}  # noqa: RUF012

    def __init_subclass__(cls):
        Registered.known[cls.__name__] = cls


def patched():
    model = Net()
    model.forward = lambda x: model.pooled(x)
    return model


def hooked():
    model = Net()
    model.register_forward_hook(lambda *_: None)
    return model


STAY = [functools.partial(net, one) for one in vars(Given).values() if isinstance(one, FunctionType)]
STAY += [ToTheSize, Asked, Chain, Registered, patched, hooked]


@pytest.mark.parametrize("make", STAY)
def test_code_that_a_graph_may_not_hold_stays_as_it_is_and_is_not_run(make):
    model, drawn = make(), torch.get_rng_state().tolist()
    made = cnnpool.as_modules(model)
    assert [type(part) for part in made.modules()] == [type(part) for part in model.modules()]
    assert torch.get_rng_state().tolist() == drawn
    assert vars(made).keys() == vars(model).keys() and torch.is_grad_enabled()
    for one in (made, model):
        assert not any((getattr(one, "seen", ()), getattr(one, "calls", 0), getattr(one, "total", 0)))


def calculation(self, x):
    """Straight code."""
    y, z = x - self.mean[None, :], -x
    parts = [y * self.calls, z / COUNT]
    parts.append(F.avg_pool2d(x, self.sizes[0], 1, 1)[..., :-1, :-1])
    return self.relu(torch.cat(parts, 1).unflatten(1, (3, -1)).sum(dim=1, dtype=torch.float32)).clamp(max=9)


def writing(self, x):
    self.mean.add_(1)
    return x * self.mean


@pytest.mark.parametrize("given", [plain, calculation, writing])
def test_straight_code_becomes_a_graph_of_the_same_values_and_effects(given):
    model, x = net(given), torch.rand(2, 3, 8, 8)
    made, model = cnnpool.as_modules(model), copy.deepcopy(model)
    assert isinstance(made, type(model)) and isinstance(made.max_pool2d, nn.MaxPool2d)
    assert hasattr(made, "avg_pool2d") == (given is calculation)
    assert torch.equal(made(x), model(x)) and torch.equal(made.mean, model.mean)


class Looped(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(3, 3, 3, padding=1) for _ in range(3))

    def forward(self, x):
        for conv in self.convs:
            x = F.max_pool2d(conv(x), 2)
        return self.convs[-1](x)


def test_each_turn_of_a_loop_over_children_has_a_module_of_its_own():
    model, x = Looped(), torch.rand(2, 3, 16, 16)
    made = cnnpool.as_modules(model)
    assert [one for one, _ in made.named_children()] == [
        "convs",
        *(f"max_pool2d{n}" for n in ("", "_2", "_3")),
    ]
    assert torch.equal(made(x), model(x))


class Joining(Net):
    def forward(self, x: "Net | None", other: Net) -> Net:
        return self.head(self.pooled(x + other).mean((2, 3)))


def test_several_arguments_are_kept_whatever_their_types():
    model, x = Joining(), torch.rand(2, 3, 8, 8)
    made = cnnpool.as_modules(model)
    assert hasattr(made, "max_pool2d") and torch.equal(made(x, other=x), model(x, x))


class Full(Net):
    """Uses neither all that it has nor the same buffer after a new one is loaded."""

    def __init__(self):
        super().__init__()
        self.classes, self.unused, self.weight = 2, nn.Linear(4, 1), nn.Parameter(torch.ones(1))
        self.register_buffer("mean", torch.full((3,), 0.5))
        self.last = nn.Conv2d(4, 4, 1)

    def pooled(self, x):
        return self.last(F.max_pool2d(self.conv(x - self.mean[:, None, None]), 2))

    def loss(self, x):
        return self(x).square().sum()


@pytest.mark.parametrize(
    "by", [lambda made: made, copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))]
)
def test_a_copy_keeps_its_class_its_hooks_its_methods_and_what_its_forward_does_not_use(by):
    model, x = Full().eval(), torch.randn(2, 3, 9, 9)
    made = by(cnnpool.as_modules(model))
    assert isinstance(made, Full) and repr(made.max_pool2d) == repr(nn.MaxPool2d(2)) and made.classes == 2
    assert not any(part.training for part in made.modules())
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
