import pytest
import torch
from torch import nn
from torch.nn import functional as F

import cnnpool
from cnnpool.fit import Classifier


def test_draws_are_of_seed_epoch_step_and_process(monkeypatch):
    def drawn(seed=0, epoch=0, step=0, process=0):
        monkeypatch.setattr(Classifier, "current_epoch", epoch)
        monkeypatch.setattr(Classifier, "global_rank", process)
        Classifier(model=nn.Flatten(), seed=seed).on_train_batch_start(None, step)
        return torch.rand(()).item()

    others = [drawn(**{one: 1}) for one in ("seed", "epoch", "step", "process")]
    assert len({drawn(), *others}) == 5 and drawn() == drawn()


def test_the_weights_to_start_from_are_those_of_the_seed():
    made = [cnnpool.classifier("data=digits", seed=seed).state_dict() for seed in (0, 0, 1)]
    (key,) = [key for key in made[0] if key.endswith("classifier.weight")]
    assert torch.equal(made[0][key], made[1][key]) and not torch.equal(made[0][key], made[2][key])


def test_label_smoothing_is_of_training_alone():
    classifier = Classifier(model=nn.Flatten(), fit={"label_smoothing": 0.2})
    logits, labels = torch.tensor([[2.0, 0.0, 1.0]]), torch.tensor([0])
    plain = F.cross_entropy(logits, labels)
    assert classifier.eval().loss(logits, labels) == plain
    assert classifier.train().loss(logits, labels) == F.cross_entropy(logits, labels, label_smoothing=0.2)


@pytest.mark.parametrize("training", [True, False])
def test_an_image_is_predicted_by_the_network_in_evaluation_mode_which_keeps_its_own(training):
    data = {"in_channels": 1, "size": [2, 2], "classes": ["a", "b"], "mean": [0.25], "std": [0.5]}
    network = nn.Sequential(nn.Flatten(), nn.Linear(4, 2), nn.Dropout(0.99))
    classifier, image = Classifier(model=network, data=data).train(training), torch.rand(1, 2, 2)
    said = classifier.predict(image)
    assert classifier.training == network[2].training == training
    normalised = (image[None] - 0.25) / 0.5
    shares = network.eval()(normalised).softmax(1)[0]
    assert said.name == "ab"[shares.argmax()] and said.probability == pytest.approx(shares.max().item())
    (batch,) = classifier.eval().predict_step((normalised, torch.tensor([0])))
    torch.testing.assert_close(batch, shares)
