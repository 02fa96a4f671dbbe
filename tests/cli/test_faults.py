"""Mistakes beyond wrong keys and values: files, references, missing data, a loss that diverges."""

import pytest

MISTAKES = {
    "data.root=???": "data.root: Missing mandatory value",
    "seed=${oc.env:NOPE}": "Environment variable 'NOPE' not found",
    "seed=": "seed must be a whole number",
    "fit.lr=1e-3x": "lr='1e-3x' is not a number",
    "pool.kernel_size=[2,2,2]": "kernel_size=(2, 2, 2) is not",
    "pool=max,avg": "Ambiguous value for argument 'pool=max,avg'",
    "fit.checkpoint_every_minutes=-1": "fit.checkpoint_every_minutes must be at least 0",
    "launch.name=elsewhere": "name='elsewhere' is not one of 'local', 'processes'",
}


@pytest.mark.parametrize("override", MISTAKES)
def test_a_mistake_is_one_line_and_status_2(call, tmp_path, override):
    status, _, err = call("train", *call.quick, override)
    assert status == 2 and MISTAKES[override] in err and err.count("\n") == 1
    assert not list(tmp_path.rglob("*.ckpt"))


def test_missing_data_is_named_with_the_remedy(call):
    status, _, err = call("train", "data=mnist", "data.root=nowhere", "data.download=false")
    assert status == 2 and "nowhere/MNIST" in err and "data.root=FOLDER" in err and err.count("\n") == 1


NESTED = "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10))])
FILES = {
    "tab": (b"name: max\n\tkernel_size: 2\n", "line 2"),
    "twice": (b"name: max\nkernel_size: 2\nkernel_size: 3\n", "duplicate key"),
    "latin": (b"name: max\xff\n", "is not UTF-8 text"),
    "bomb": (NESTED.encode(), "values by its aliases"),
    "loop": (b"name: max\nkernel_size: &a [*a]\n", "aliases"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_configuration_file_that_cannot_be_read_is_named(call, tmp_path, name):
    content, said = FILES[name]
    (tmp_path / "mine" / "pool").mkdir(parents=True)
    (tmp_path / "mine" / "pool" / f"{name}.yaml").write_bytes(content)
    status, _, err = call("train", "--config-dir", "mine", f"pool={name}", *call.quick)
    assert status == 2 and f"{name}.yaml" in err and said in err and err.count("\n") == 1


def test_a_loss_that_diverges_fails_the_run_with_step_batch_and_checkpoint(call, tmp_path):
    wild = ["fit.lr=1e30", "fit.optimizer=sgd", "fit.warmup=0.0", "data.batch_size=8"]
    status, _, err = call("train", *call.quick, *wild)
    assert status == 1
    assert "the loss became" in err and "at epoch 0, step" in err and "batch" in err
    assert "lower fit.lr" in err and "the last checkpoint is of step 0" in err and err.count("\n") == 1
    assert not list(tmp_path.rglob("*.ckpt"))
