import pytest
import torch
from torch.nn import functional as F

from cnnpool import explain
from cnnpool.explain.example import IMAGES, example, examples
from cnnpool.explain.picture import figure
from cnnpool.explain.text import number, side_by_side, text


def test_max_of_the_first_image_worked_by_hand():
    shown = example("max")
    assert shown.outputs[0, 0].tolist() == [[4, 5], [2, 6]]
    # The 4s tie: the first, x[1,0], takes all of the upstream 1.
    expected = [[0, 0, 0, 0], [1, 0, 0, 2], [0, 3, 4, 0], [0, 0, 0, 0]]
    assert shown.gradients[0, 0].tolist() == expected


def test_split_ties_share():
    shown = example("max", ties="split")
    assert shown.gradients[0, 0, 1].tolist() == [0.5, 0.5, 0, 2]


def test_overlapping_windows_add_their_gradients():
    shown = example("max", kernel_size=3, stride=1)
    assert shown.outputs[0, 0].tolist() == [[6, 6], [6, 6]]
    assert shown.gradients[0, 0, 2, 2] == 1 + 2 + 3 + 4


@pytest.mark.parametrize("name", ["avg", "gap"])
def test_derivatives_times_upstream_are_the_gradient(name):
    shown = example(name)
    total = (shown.derivatives * shown.upstream.flatten(1)[..., None, None]).sum(1)
    torch.testing.assert_close(total, shown.gradients[:, 0])


def test_the_batch_mean_is_the_gradient_of_the_mean_loss():
    shown = example("max")
    w = torch.ones((), dtype=torch.float64, requires_grad=True)
    losses = (F.max_pool2d(w * IMAGES, 2) * shown.upstream).sum((1, 2, 3))
    (expected,) = torch.autograd.grad(losses.mean(), w)
    assert shown.weight_gradients.mean() == expected


def test_the_text_shows_windows_winners_and_the_batch():
    said = text(example("max"))
    assert "y[0,0] = 4  from  x[1,0]=4 (1)" in said
    assert "12 of 16 inputs get no gradient" in said
    assert "mean: " in said


def test_max_is_shown_with_ties_and_overlap():
    assert [shown.title for shown in examples("max")] == [
        "max", "max (kernel_size=3, stride=1)", "max (ties=split)",
    ]  # fmt: skip


def test_numbers_are_short():
    assert [number(v) for v in (4.0, 0.25, -4 / 3, -0.0)] == ["4", "0.25", "-1.333", "0"]


def test_grids_stand_side_by_side():
    assert side_by_side(["a", "b"], [torch.tensor([[1.0, 10.0]]), torch.tensor([[2.0], [3.0]])]) == [
        "a       b", " 1 10   2", "        3",
    ]  # fmt: skip


def test_the_command_prints_and_draws(tmp_path, capsys):
    path = tmp_path / "gap.png"
    assert explain.main(["gap", "--image", str(path)]) == 0
    assert "== gap ==" in capsys.readouterr().out
    assert path.read_bytes()[:4] == b"\x89PNG"


def test_an_unknown_operator_gets_a_suggestion():
    with pytest.raises(ValueError, match="did you mean 'max'"):
        explain.main(["mxa"])


def test_a_picture_that_cannot_be_written_is_one_line(tmp_path):
    with pytest.raises(ValueError, match="--image"):
        explain.main(["max", "--image", str(tmp_path / "no" / "x.png")])


def test_the_picture_has_a_grid_for_every_step():
    assert len(figure(example("avg")).axes) == 8
