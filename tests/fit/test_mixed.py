"""Loss and accuracy of mixed images."""

import pytest
import torch
from torch.nn import functional as F

from cnnpool.fit.classifier import score


def test_the_class_with_the_largest_share_is_the_correct_one():
    logits = torch.tensor([[3.0, 1.0, 0.0], [0.0, 1.0, 2.0]])
    shares = torch.tensor([[0.6, 0.4, 0.0], [0.0, 0.7, 0.3]])
    assert score(torch.tensor(1.5), logits, shares).tolist() == [1.5, 1.0, 2.0]
    assert score(torch.tensor(1.5), logits, torch.tensor([0, 2])).tolist() == [1.5, 2.0, 2.0]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_whole_shares_give_the_loss_of_labels(smoothing):
    logits, labels = (
        torch.randn(5, 4, generator=torch.Generator().manual_seed(0)),
        torch.tensor([0, 3, 1, 2, 2]),
    )
    of_labels, of_shares = (
        F.cross_entropy(logits, answers, reduction="sum", label_smoothing=smoothing)
        for answers in (labels, F.one_hot(labels, 4).float())
    )
    torch.testing.assert_close(of_labels, of_shares)
