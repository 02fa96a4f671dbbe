import json
import subprocess
import sys
from pathlib import Path

from cnnpool.launch.folders import choice_name
from cnnpool.run_folder.checkpoint import load


def test_an_unknown_command_is_one_line_and_status_2(call):
    status, _, err = call("trian")
    assert status == 2
    assert err.startswith("error: no command 'trian'; did you mean 'train'?") and err.count("\n") == 1


def test_a_run_leaves_the_documented_files_in_a_stable_folder(call, in_a_folder):
    status, out, err = call("train", "pool=avg", "seed=3", *call.quick)
    assert status == 0, err
    (results,) = in_a_folder.rglob("results.json")
    folder = results.parent
    assert folder.parts[-1] == "seed3"
    assert folder.relative_to(in_a_folder).parts[:3] == ("outputs", "digits", "convnet")
    assert folder.parts[-2].startswith("avg+")
    for name in (".hydra/config.yaml", "train.log", "metrics.jsonl", "checkpoints/last.ckpt", "status.json"):
        assert (folder / name).exists()
    content = json.loads(results.read_text())
    assert content["pool"]["name"] == "avg" and content["seed"] == 3
    assert content["deterministic"] is True
    assert "pool=avg" in content["overrides"]
    header, row = (line.split() for line in out.splitlines() if "val loss" in line or "epoch 1/1" in line)
    assert header == ["train", "loss", "train", "accuracy", "val", "loss", "val", "accuracy", "time"]
    assert len(row) == 10 and "the train loss includes fit.label_smoothing=0.1, the others do not" in out
    assert "epoch 1/1" in (folder / "train.log").read_text()


def test_a_sweep_goes_on_after_a_failing_job_and_says_so(call, in_a_folder):
    status, out, err = call("train", "-m", "pool=max,avg", "fit.lr=0.01,1e30", *call.quick)
    assert status == 1
    assert len(list(in_a_folder.rglob("results.json"))) == 2
    # A line a run, none of its epochs.
    assert out.count("/seed0   test accuracy ") == 2 and "epoch 1/1" not in out
    logs = [path.with_name("train.log").read_text() for path in in_a_folder.rglob("results.json")]
    assert all("epoch 1/1" in log for log in logs)
    assert "4 jobs: 2 done, 2 failed" in out
    assert err.count("lower fit.lr") == 1 and "/seed0 and 1 more: " in err
    states = [json.loads(p.read_text())["state"] for p in in_a_folder.rglob("status.json")]
    assert sorted(states) == ["done", "done", "failed", "failed"]


def test_one_override_sets_every_stage_and_one_sets_a_single_stage(call, in_a_folder):
    overrides = ["pool=avg", "pool@stage.s2=max", "stage.s2.kernel_size=3"]
    status, _, err = call("train", *overrides, *call.quick)
    assert status == 0, err
    (results,) = in_a_folder.rglob("results.json")
    stages = json.loads(results.read_text())["stages"]
    assert stages["s1"]["name"] == "avg" and stages["s1"]["kernel_size"] == 2
    assert stages["s2"]["name"] == "max" and stages["s2"]["kernel_size"] == 3


def test_scripts_are_doors_to_the_same_commands():
    script = Path(__file__).parents[2] / "scripts" / "train.py"
    done = subprocess.run([sys.executable, script, "fit.lr=-1"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("error: fit.lr must be a number above 0")


def test_choice_names_are_the_same_in_any_order():
    assert choice_name("max", []) == "max"
    assert choice_name("max", ["pool.kernel_size=3"]) == "max+kernel_size=3"
    parts = ["readout=gap", "pool@stage.s2=avg", "stage.s2.kernel_size=3"]
    assert choice_name("blur", parts) == choice_name("blur", parts[::-1])
    assert choice_name("blur", parts) == "blur+readout=gap+s2.kernel_size=3+s2=avg"
    assert "/" not in choice_name("max", ["data.path=/a/b"])


def test_a_network_takes_what_it_needs_from_the_training_images_before_the_first_step(call, in_a_folder):
    status, _, err = call("train", "model=airbench", "fit.max_steps=1", "hydra.run.dir=run", *call.quick)
    assert status == 0, err
    weight = load(Path("run/checkpoints/last.ckpt"))["state_dict"]["model.features.0.weight"]
    # Not the pixels' own axes, and in both signs.
    assert weight.count_nonzero() == weight.numel() and weight[:4].equal(-weight[4:])


def test_one_image_is_too_little_to_normalise_a_map_of_one_pixel(call):
    options = ["model=sprint", "model.pad_ends=false", "data.batch_size=4", "fit.accumulate=4"]
    assert call("train", *call.quick, *options)[::2] == (
        2,
        "error: batch normalisation of a 1x1 map needs at least two images at once: "
        "give it more by data.batch_size=4 and fit.accumulate=4\n",
    )
