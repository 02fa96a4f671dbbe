import json
import re
from importlib.metadata import EntryPoint

import pytest
import torch
from hydra.core.config_store import ConfigStore
from matplotlib.patches import Circle, Rectangle
from torch import nn
from torch.nn import functional as F

import cnnpool
from cnnpool import explain, pool, readout, registry
from cnnpool.explain.example import IMAGES, example, number, tie
from cnnpool.explain.operator import batch, found, options_text
from cnnpool.explain.picture import figure
from cnnpool.explain.text import text


def images(*texts):
    return batch(list(texts))


def test_max_of_the_first_image_worked_by_hand():
    shown = example("max")
    assert shown.outputs[0, 0].tolist() == [[4, 5], [2, 6]]
    # The 4s tie: the first, x[1,0], takes all of the upstream 1.
    expected = [[0, 0, 0, 0], [1, 0, 0, 2], [0, 3, 4, 0], [0, 0, 0, 0]]
    assert shown.gradients[0, 0].tolist() == expected
    assert example("max", ties="split").gradients[0, 0, 1].tolist() == [0.5, 0.5, 0, 2]


@pytest.mark.parametrize(("name", "size", "cells"), [("stochastic", 3, 9), ("max", 6, 36)])
def test_a_window_has_all_its_inputs(name, size, cells):
    shown = example(name, torch.rand(1, 1, size, size).double(), kernel_size=size, stride=1, padding=0)
    assert shown.windows.sum((2, 3)).eq(cells).all()


def test_only_an_operator_that_picks_inputs_has_ties_and_says_so_where_it_differs_from_its_kind():
    equal = images("2 2; 2 2")
    for name in ("avg", "gated", "lip", "strided", "lp", "gem", "logsumexp"):
        assert example(name, equal).tie(0, 0) == ""
    assert example("max", equal).tie(0, 0).endswith("rule first: (0,0)")
    assert example("random_mixed").facts["gradient"].endswith("; here 12 of 16 inputs get none")
    assert example("lps").facts["gradient"].endswith("; in training, as here, every input gets some")


def test_commands_that_it_offers_are_its_own_and_work(capsys):
    assert (
        explain.main(["max", "kernel_size=3,2"]) == explain.main(["flatten"]) == explain.main(["lift"]) == 0
    )
    said = capsys.readouterr().out
    assert "explain max ties=split" in said and "explain max kernel_size=3 stride=1" not in said
    assert "train pool=max 'pool.kernel_size=[3, 2]'" in said and "readout=flatten readout.hidden=0" in said
    assert "lift kernel_size=3" not in said
    with pytest.raises(ValueError, match="max has no option 'channels'; choose from"):
        explain.main(["max", "channels=2"])


def test_the_gradient_of_the_mean_loss_is_each_samples_own_divided_by_n():
    shown = example("avg", images("1 2; 3 4", "5 6; 7 8", "0 0; 0 1"))
    x = shown.images.clone().requires_grad_()
    y = F.avg_pool2d(x, 2)
    y.retain_grad()
    (y * shown.upstream).sum((1, 2, 3)).mean().backward()
    torch.testing.assert_close(shown.gradients / 3, x.grad, rtol=0, atol=1e-15)
    torch.testing.assert_close(shown.upstream / 3, y.grad, rtol=0, atol=1e-15)


def test_the_text_says_in_numbers_where_the_mean_of_the_loss_enters():
    said = text(example("max", images("1 2; 3 4", "6 5; 0 0")))
    # Each sample has one window, whose winner gets dL_n/dy = 1, halved by the mean over two samples.
    assert "  dL/dy = dL_1/dy / 2   dL/dx = dL_1/dx / 2\n  0.5                     0   0\n" in said
    assert "  dL/dy = dL_2/dy / 2   dL/dx = dL_2/dx / 2\n  0.5                   0.5   0\n" in said
    # The winners are 4 and 6.
    assert "sample 1: 4 / 2   sample 2: 6 / 2   sum: 5, the mean over the samples\n" in said
    assert "With reduction='sum' there is no 1/N, and dL/dw = 10.\n" in said


def test_the_command_draws(tmp_path):
    path = tmp_path / "gap.png"
    assert explain.main(["gap", "--image", str(path)]) == 0
    assert path.read_bytes()[:4] == b"\x89PNG"


def test_a_tie_is_named_with_the_rule_that_decides_it():
    first, split = text(example("max")), text(example("max", ties="split"))
    assert "of window [1 3; 4 4]  tie: 4 at (1,0) and (1,1); rule first: (1,0)\n" in first
    assert "tie: 4 at (1,0) and (1,1); rule split: (1,0) and (1,1)\n" in split
    assert first.count("tie:") == split.count("tie:") == 1
    assert "rule last: (1,1)" in text(example("max", ties="last"))


def test_where_no_rule_of_ties_decides_none_is_named():
    # aps and stochastic take one of the equal 4s too, but by its phase and by chance.
    for name in ("avg", "aps", "stochastic", "subsample", "gap", "median"):
        assert "tie:" not in text(example(name))


def test_a_tie_is_between_values_of_the_window_that_the_output_is_one_of():
    image, window = torch.tensor([[2.0, 1], [1, 1]]), torch.tensor([[True, True], [True, False]])
    to = torch.tensor([[0.0, 0], [1, 0]])
    assert tie(image, window, 1.0, to) == "tie: 1 at (0,1) and (1,0); rule last: (1,0)"
    assert not tie(image, window, 2.0, torch.tensor([[1.0, 0], [0, 0]]))
    assert not tie(image, window, 1.0, torch.tensor([[1.0, 0], [1, 0]]))


def test_windows_are_where_the_operator_slides_them():
    tiles = [(i, j, 2) for i in (0, 2) for j in (0, 2)]
    for name, cells in (
        ("max", [(i, j, 3) for i in (0, 1) for j in (0, 1)]),
        *(("median", tiles), ("stochastic", tiles), ("aps", tiles), ("gmp", [(0, 0, 4)])),
        ("subsample", [(i, j, 1) for i in (0, 2) for j in (0, 2)]),
    ):
        expected = torch.zeros(len(cells), 4, 4, dtype=torch.bool)
        for window, (i, j, size) in zip(expected, cells, strict=True):
            window[i : i + size, j : j + size] = True
        options = {"kernel_size": 3, "stride": 1} if name == "max" else {}
        assert all(torch.equal(windows, expected) for windows in example(name, **options).windows), name


def test_a_draw_is_said_to_be_one_with_its_seed_and_the_evaluation_beside_it():
    for name in ("stochastic", "s3", "fractional_max", "random_mixed", "lps"):
        said = text(example(name))
        assert "One random draw in training mode, seed 0" in said
        assert "y (this draw)" in said and "y (evaluation)" in said
    # The expectation, sum x^2 / sum x of 1 3 4 4.
    assert example("stochastic").evaluated[0, 0, 0, 0] == pytest.approx(42 / 12)


def test_the_example_leaves_the_random_numbers_of_its_caller_alone():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    example("stochastic")
    assert torch.equal(torch.get_rng_state(), before)


def test_the_phase_of_aps_is_the_one_of_the_largest_norm_printed():
    said = text(example("aps")).split("-- sample 2 --")
    # Squares of 1 2 0 6, of 3 0 2 1, of 4 1 1 2 and of 4 5 0 4.
    for start, square in {"0::2,0::2": 41, "0::2,1::2": 14, "1::2,0::2": 22, "1::2,1::2": 57}.items():
        kept = ", kept" if square == 57 else ""
        assert f"x[{start}]: ||x_k||_2 = {number(square**0.5)}{kept}\n" in said[0]
    assert "x[0::2,0::2]: ||x_k||_2 = 7.348, kept\n" in said[1] and said[1].count("kept") == 1
    # The maximum comes first: of the phases of [4 4 5 5; 4 6 6 5; 2 6 6 4; 3 3 4 4], around the edge, that of
    # 4 5 6 4 is the strongest.
    said = text(example("max_aps", IMAGES[:1]))
    assert "m = [4 4 5 5; 4 6 6 5; 2 6 6 4; 3 3 4 4]\n" in said and said.count("kept") == 1
    assert f"m[0::2,1::2]: ||m_k||_2 = {number(93**0.5)}, kept\n" in said
    for square in (81, 77, 86):
        assert f"||m_k||_2 = {number(square**0.5)}\n" in said
    assert re.findall(r"of window \[(.*)\]", said) == ["3 2; 4 1", "1 0; 4 5", "2 6; 0 2", "0 1; 1 4"]


def test_lps_shows_its_logits_and_the_shares_drawn():
    shown = example("lps", tau=20.0)
    pattern = re.compile(r"x\[(\d)::2,(\d)::2\]: logit = (\S+), weight (\S+)")
    for n, parts in enumerate(shown.phases):
        mixed, best = 0.0, {}
        for i, j, score, weight in (map(float, pattern.fullmatch(part).groups()) for part in parts):
            phase = IMAGES[n, 0, int(i) :: 2, int(j) :: 2]
            mixed += weight * phase
            # The first of equal logits.
            best.setdefault(score, phase)
        torch.testing.assert_close(mixed, shown.outputs[n, 0], rtol=1e-3, atol=1e-3)
        assert torch.equal(shown.evaluated[n, 0], best[max(best)])


class MinPool2d(nn.Module):
    """Somebody else's operator, which states nothing."""

    def __init__(self, channels: int, *, stride: int = 2):
        super().__init__()
        self.stride = stride

    def forward(self, x):
        return -F.max_pool2d(-x, self.stride)


class Half(pool.AvgPool2d):
    """Somebody else's operator that can be trained."""


def test_operators_of_other_packages_need_state_nothing(monkeypatch, capsys):
    kinds = {"minpool": MinPool2d, "half": Half}
    points = {name: EntryPoint(name, f"{__name__}:{kind.__name__}", "") for name, kind in kinds.items()}
    monkeypatch.setattr(registry, "_foreign", lambda group: points if group == "cnnpool.operators" else {})
    for group in ("pool", "readout"):
        monkeypatch.setitem(ConfigStore.instance().repo, group, {})
    monkeypatch.setattr(EntryPoint, "load", lambda self: globals()[self.value.split(":")[1]])
    assert explain.main(["minpool"]) == 0
    said = capsys.readouterr().out
    assert "y = not stated" in said and "paper: not stated" in said
    assert "y[0,0] = 1  from  x[0,0]=1 (1)  of window [1 3; 4 4]" in said
    assert "next:" not in said and "derive minpool from cnnpool.pool.Pool2d" in said
    assert explain.main(["half"]) == 0
    assert Half in map(type, network_of(capsys.readouterr().out).modules())


def network_of(said):
    """The network that the command after ``next:`` would train."""
    [line] = [line for line in said.splitlines() if line.startswith("next:")]
    return cnnpool.classifier(*line.partition(" train ")[2].split(), "model.width=2").model


def boxes(axes):
    """Rectangles on ``axes``."""
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


def test_the_picture_draws_windows_in_the_colours_of_their_outputs_and_marks_the_winners():
    inputs, outputs = figure(example("max", kernel_size=3, stride=1)).axes[4:6]
    assert [box.get_center().round(6).tolist() for box in boxes(inputs)] == [[1, 1], [2, 1], [1, 2], [2, 2]]
    assert all(2.4 < box.get_width() < 3 for box in boxes(inputs))
    assert len({box.get_width() for box in boxes(inputs)}) == 4
    colours = [[box.get_edgecolor() for box in boxes(axes)] for axes in (inputs, outputs)]
    assert colours[0] == colours[1] and len(set(colours[0])) == 4
    circles = [patch for patch in inputs.patches if isinstance(patch, Circle)]
    # Of the second image 7 wins the windows on the left, 5 those on the right.
    assert [circle.center for circle in circles] == [(0, 2), (1, 1), (0, 2), (1, 1)]
    assert [circle.get_edgecolor() for circle in circles] == colours[0]
    assert len({circle.radius for circle in circles if circle.center == (0, 2)}) == 2


def test_a_window_around_the_edge_has_a_border_on_either_side():
    centres = [box.get_center().tolist() for box in boxes(figure(example("max_aps", IMAGES[:1])).axes[0])]
    expected = [[1.5, 0.5], [0, 0.5], [3, 0.5], [1.5, 2.5], [0, 2.5], [3, 2.5]]
    torch.testing.assert_close(torch.tensor(centres), torch.tensor(expected), rtol=0, atol=1e-6)


def test_an_input_counts_as_without_gradient_only_where_its_derivative_is_zero():
    shown = example("logsumexp", images("0 0 0 0; 0 0 0 0; 0 0 0 0; 0 0 0 6"), "readout")
    # softmax(10 x): e^-60 for a zero beside the 6.
    assert "8.757e-27" in (said := text(shown)) and "\n0 of 16 inputs get no gradient" in said
    # Fourier transforms round the zeros of an input that counts for no output.
    assert "e-3" not in text(example("flc"))


def test_the_picture_says_what_decided_and_marks_no_winner_where_all_inputs_count():
    assert not any(isinstance(p, Circle) for p in figure(example("avg")).axes[0].patches)
    for name, said in {"max": "tie: 4", "aps": "kept", "stochastic": "One random draw"}.items():
        assert said in figure(example(name)).get_supxlabel()


def test_images_are_typed_row_by_row():
    for texts, expected in (
        (["1 2; 3 4"], [[[1, 2], [3, 4]]]),
        (["1,2;3,4;"], [[[1, 2], [3, 4]]]),
        (["-1 .5 1e2"], [[[-1, 0.5, 100]]]),
        (["1 2", "3 4"], [[[1, 2]], [[3, 4]]]),
    ):
        found = batch(texts)
        assert found.dtype == torch.float64 and found[:, 0].tolist() == expected


def test_what_is_no_image_is_refused_in_one_line():
    for texts, message in (
        (["1 2; 3"], "'1 2; 3': rows of equal length are needed"),
        ([""], "'': rows of equal length are needed"),
        (["1 x"], "'1 x': 'x' is not a finite number"),
        (["1 inf"], "'inf' is not a finite number"),
        (["1 2", "1 2; 3 4"], "the images of a batch have one size, got 1x2 and 2x2"),
        (["1 " * 17], "at most 16 rows and columns, got 1x17"),
        (["1"] * 9, "at most 8 images, got 9"),
    ):
        with pytest.raises(ValueError, match=f"^--values.*{message}"):
            batch(texts)


def test_own_options_and_numbers_worked_by_hand(capsys):
    rows = "1 2 3; 4 9 6; 7 8 5"
    assert explain.main(["max", "kernel_size=2", "stride=1", "--values", rows]) == 0
    said = capsys.readouterr().out
    # 9 in the middle wins all four windows, and takes 1 + 2 + 3 + 4.
    assert said.count("== max") == 1 and "== max (kernel_size=2, stride=1) ==" in said
    assert "x       y\n1 2 3   9 9\n4 9 6   9 9\n7 8 5\n" in said
    assert "1 2              0  0  0\n3 4              0 10  0\n                 0  0  0\n" in said
    assert "8 of 9 inputs get no gradient" in said and "dL_1" not in said


def test_a_room_before_the_name_tells_an_operator_from_a_readout(capsys):
    explain.main(["gem", "--values", "2 2 2 2; 2 2 2 2"])
    assert "y[0,1] = 2" in capsys.readouterr().out
    explain.main(["readout=gem", "p=1", "--values", "1 2 3 2; 2 2 2 2"])
    said = capsys.readouterr().out
    assert "x         y\n1 2 3 2   2\n2 2 2 2\n" in said and "dy[0,1]" not in said
    assert "dy[0,0]/dx\n0.125 0.125 0.125 0.125\n" in said and "train readout=gem readout.p=1\n" in said
    explain.main(["pool=avg", "pool.kernel_size=4"])
    # Of all 16 pixels, of sum 36.
    assert "1 3 2 0   2.25\n" in capsys.readouterr().out


def test_every_option_is_listed_with_its_default_and_legal_values():
    groups = (("pool", pool.OPERATORS), ("readout", readout.READOUTS))
    for group, name, entry in [(group, *one) for group, table in groups for one in table.items()]:
        said, options = options_text(group, name).splitlines(), registry.options_of(entry)
        assert said[0].startswith("options of") if options else said == [f"{name} takes no options"]
        for key, option in options.items():
            (line,) = (line for line in said if line.split()[0] == key)
            default = json.dumps(option.default).replace('"', "")
            assert option.words in line and line.split()[1].strip("[,") in default, (name, key)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["max", "kernel=3"], "max has no option 'kernel'; did you mean 'kernel_size'?"),
        (["max", "kernel_size=0"], "max: kernel_size must be a whole number from 1 to 1,024.*, got 0"),
        (["max", "kernel_size=5"], "output would be empty for a 4x4 map"),
        (["max", "padding=2"], "padding must be at most half of kernel_size=2, got 2"),
        (["flatten", "hidden=1000000000"], "hidden=1000000000 is too large to explain: at most 64"),
        (["adaptive_avg", "output_size=20"], "400 outputs are too many to explain: at most 256"),
        (["max", "avg"], "explain takes one operator.*got 'avg' too"),
        (["readout=max_blur"], "no readout named 'max_blur'"),
        (["pool=gapp"], "no operator named 'gapp'"),
        (["mxa"], "no operator named 'mxa'; did you mean 'max'?"),
        (["max", "--image", "no/x.png"], "--image no/x.png: there is no folder no"),
        (["max", "--image", "x.gif"], "--image x.gif: give a file that ends in .png, .svg, .pdf"),
        (["max", "--batch", "--values", "1 2; 3 4"], "--batch: repeat --values, once for each image"),
        (["max", "=3"], "expected KEY=VALUE, got '=3'"),
    ],
)
def test_a_mistake_is_answered_in_one_line_before_anything_is_computed(words, message, monkeypatch):
    if "--image" in words:
        monkeypatch.setattr("cnnpool.explain.example.example", lambda *_: pytest.fail("computed"))
    with pytest.raises(ValueError, match=message) as error:
        explain.main(words)
    assert "\n" not in str(error.value)


def test_the_next_command_trains_what_was_explained(capsys):
    for words, command in (
        (["max", "pool.kernel_size=3", "stride=1"], "train pool=max pool.kernel_size=3 pool.stride=1"),
        (["readout=gem", "p=4"], "train readout=gem readout.p=4"),
        (["gem", "readout.p=4"], "train pool=gem pool.p=4"),
    ):
        explain.main(words)
        said = capsys.readouterr().out.splitlines()[-1]
        assert said.startswith("next: ") and said.endswith(f" {command}")


def test_the_answer_comes_first_with_one_image_and_further_questions(capsys):
    assert explain.main(["max"]) == 0
    said = capsys.readouterr().out
    first = "== max ==\ny = max_i x_i\ngradient: sparse: each output passes its gradient to a few inputs"
    assert said.startswith(first) and said.count("of window") == 4 and "1/N" not in said
    assert "given: 1, 2, ... can be followed through; in training dL/dy comes from the layer above\n" in said
    assert "  cnnpool explain max ties=split  " in said and "  cnnpool explain --list  " in said
    assert explain.main(["max", "--batch"]) == 0
    assert "-- sample 2 --" in (said := capsys.readouterr().out) and "1/N = 1/2" in said
    assert said.count("given: ") == 1 and "--batch" not in said and "each sample by itself." in said


def test_batch_norm_is_said_to_be_that_of_evaluation():
    for shown in (example("strided", norm="batch"), example("conv_pool", norm="batch")):
        assert "Shown in evaluation: batch norm" in (said := text(shown)) and "by itself." not in said
        assert "Shown in evaluation: batch norm" in figure(shown).get_supxlabel()


def test_an_example_of_one_channel_says_what_it_cannot_show():
    for shown, said in (
        (example("reduction"), "which the convolution takes"),
        (example("simpool"), "and the layer norm of a single value is always 0"),
        (example("patchify", norm="layer"), "and the layer norm of a single value is always 0"),
    ):
        assert f"The example has one channel, {said}" in text(shown)
    # Four pixels of a cell.
    assert "one channel" not in text(example("unshuffle", norm="layer")) + text(example("strided"))


def test_an_option_that_may_change_the_formula_is_named_beside_it_and_no_other():
    changing = (
        "aps choose=min",
        "aps filter_size=3",
        "lp form=sum",
        "haar orthonormal=false",
        "lift bands=ll",
    )
    for words in changing:
        _, name, options = explain.chosen(words.split())
        remark = f"  (formula of the defaults, which {words.split()[1]} may change)\n"
        assert f"{pool.OPERATORS[name].formula}{remark}" in text(example(name, **options))
    for words in ("max ties=last ceil_mode=true", "blur filter_size=5", "aps choose=max"):
        _, name, options = explain.chosen(words.split())
        assert "of the defaults" not in text(example(name, **options))


def test_a_number_kept_as_another_is_shown_as_itself():
    for name, said in {"gem": "p (from p.raw) = [3]", "mixed": "mix (from mix.raw) = [0.5]"}.items():
        assert f"\n{said}\n" in text(example(name))
    assert "p (from p.raw) = [2]\n" in text(example("lp", learnable=True))
    assert ".raw" not in text(example("gem", learnable=False))


def test_filters_that_adapt_differ_from_tap_to_tap():
    slopes = example("adaptive_blur").derivatives[0, 0]
    assert len(slopes[:2, :2].unique()) == 4


def test_no_line_of_many_derivatives_is_longer_than_a_screen(capsys):
    rows = "; ".join(["1 2 3 4 5 6"] * 6)
    for words in (["gap"], ["blur", "filter_size=5"], ["avg", "kernel_size=3", "stride=1"]):
        explain.main([*words, "--values", rows])
        lines = capsys.readouterr().out.partition("options")[0].splitlines()
        assert max(map(len, lines)) <= 110 and any(line.startswith("dy[0,0]/dx") for line in lines)
    # A third of a third of 36 equal shares.
    assert "0.1111 0.1111 0.1111      0      0      0" in "\n".join(lines)


def test_names_are_understood_as_people_say_them():
    for meant, words in {
        ("pool", "max"): ("maxpool", "MaxPool2d", "max_pool2d", "max pooling", "torch.nn.MaxPool2d"),
        ("pool", "avg"): ("avgpool", "AveragePooling"),
        ("pool", "max_blur"): ("MaxBlurPool",),
        ("pool", "adaptive_avg"): ("AdaptiveAvgPool2d",),
        ("pool", "gem"): ("GeM",),
        ("pool", "strided"): ("StridedConv2d", "conv2d", "conv", "nn.Conv2d", "F.conv2d", "convolution"),
        ("readout", "gmp"): ("GMP",),
        ("readout", "flatten"): ("fc", "fully connected"),
    }.items():
        assert {found(word) for word in words} == {meant}


def test_the_list_has_every_name_once_in_its_group(capsys):
    assert explain.main(["--list"]) == 0
    begin, *groups = capsys.readouterr().out.split("\n\n")
    assert begin.splitlines()[1].split() == ["max", "avg", "blur", "max_blur", "strided"]
    listed = [name for group in groups for line in group.splitlines()[1:] for name in line.split()]
    assert sorted(listed) == sorted([*pool.OPERATORS, *readout.READOUTS])
    (sparse,) = (group for group in groups if group.startswith("sparse: "))
    assert "max" in sparse.split() and "avg" not in sparse.split()


def test_a_zero_that_a_relu_made_names_it():
    shown = example("strided", images("1 -3; -4 -2"))
    # Padded by zeros the kernel 0.5 0.6 / 0.8 0.9 lies on the image: 0.5 - 1.8 - 3.2 - 1.8.
    assert "y[0,0] = 0  from  no input: ReLU sets -6.3 to 0" in text(shown)
    # At 0, which nothing sets.
    assert "y[1,0] = 0  from  no input: at 0 the slope of ReLU is 0" in text(
        example("strided", kernel_size=1)
    )
    # Where derivatives are grids, and where the maximum is 0 by itself.
    low = IMAGES.clone()
    low[0, 0, 3, 0] = -99
    assert "y[1,0]: no input: ReLU sets" in text(example("strided", low))
    assert "ReLU" not in text(example("max", 0 * IMAGES))
    # A ReLU before the blur or the maximum.
    for name in ("conv_blur", "conv_pool"):
        assert "from  no input: the ReLU within sets all that this output uses to 0" in text(
            example(name, -IMAGES)
        )


def test_a_batch_shows_the_gradient_of_the_kernel_of_each_sample_and_their_mean():
    shown = example("strided", images("1 2; 3 4", "5 6; 7 8"), kernel_size=2, padding=0)
    # One window and dL/dy = 1: the gradient of a tap is the pixel under it.
    each = shown.own_gradients["conv.weight"].flatten(1)
    assert each.tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    lines = text(shown).splitlines()
    start = next(n for n, line in enumerate(lines) if "dL/dconv.weight, their mean" in line)
    assert [line.split() for line in lines[start + 1 : start + 3]] == [list("125634"), list("347856")]
    assert "own weights" not in text(example("max", IMAGES))


def test_a_border_that_no_window_covers_is_said_to_be_left_out():
    fact = example("avg", IMAGES, kernel_size=3, stride=2).facts["gradient"]
    assert fact.endswith("7 of 16 inputs lie in a border that no window covers (ceil_mode=true covers it)")
    for name, options in (
        ("avg", {"kernel_size": 3, "stride": 2, "ceil_mode": True}),
        *(("subsample", {}), ("max", {"stride": 3}), ("patchify", {"norm": "layer"})),
        ("max", {"kernel_size": 2, "dilation": 2, "stride": 2}),
    ):
        assert "border" not in example(name, IMAGES, **options).facts["gradient"]
    # Without that option.
    assert example("strided", kernel_size=3, padding=0).facts["gradient"].endswith("that no window covers")
