"""Jobs of a command line, with Hydra's own composition as the oracle."""

import hashlib
import itertools
import json
import re
from functools import cache
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf, open_dict

from cnnpool.choices import stage_settings
from cnnpool.cli_parser import train_parser
from cnnpool.launch import compose as composing
from cnnpool.launch import conf_dir
from cnnpool.launch.compose import Request, jobs_of
from cnnpool.launch.hydra_compose import Composer

FAR = """\
# @package _global_
defaults: [{override /launch: processes}, {override /pool: wide}]
out: elsewhere
hydra: {sweeper: {params: {seed: "range(0,3)", pool.kernel_size: "2,4"}}}
"""
WEIGHTS = "model: {arch: resnet18, weights: w.pth}\n"
FILES = {
    "experiment/open.yaml": "# @package _global_\ndefaults: [{override /pool: '???'}]\n",
    "experiment/far.yaml": FAR,
    "experiment/mode.yaml": "# @package _global_\nhydra: {mode: MULTIRUN}\n",
    "pool/wide.yaml": "name: avg\nkernel_size: 4\n",
    "probe/mine.yaml": "defaults: [default]\ngradient: {samples: 4}\n",
    "alone.yaml": "defaults: [train, {override pool: avg}, _self_]\nseed: 5\n",
    "experiment/tuned.yaml": "# @package _global_\ndefaults: [{override /model: timm}]\n"
    f"{WEIGHTS}fit: {{lr: 0.5}}\n",
    "experiment/quick.yaml": "# @package _global_\n"
    f"defaults: [{{override /model: timm}}, {{override /fit: smoke}}]\n{WEIGHTS}",
    "begun.yaml": f"defaults: [train, {{override model: timm}}, _self_]\n{WEIGHTS}",
}


@pytest.fixture
def mine(tmp_path):
    """A folder of choices, and what leads to it on the command line."""
    for name, text in FILES.items():
        path = tmp_path / "a folder's" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return "a folder's"


def asked(line, mine=None):
    found = train_parser().parse_intermixed_args(line.split(" "))
    return Request(found.overrides, found.multirun, mine and Path(mine), found.config_name, found.max_jobs)


def expected(lines, number=None):
    """(folder, settings) that Hydra's compose API gives for one job."""
    with initialize_config_dir(str(conf_dir()), job_name="train", version_base="1.3"):
        composing.name_runs_by(())
        config = compose("train", list(lines), return_hydra_config=True)
        HydraConfig.instance().cfg = config
        node = config.hydra
        node.job.num = number or 0
        place = node.run.dir if number is None else Path(node.sweep.dir, node.sweep.subdir)
        folder = Path(place).absolute()
        with open_dict(config):
            del config["hydra"]
        return folder, OmegaConf.to_container(config, resolve=True)


SWEEPS = {
    "pool=max,avg seed=0,1": [["pool=max", "pool=avg"], ["seed=0", "seed=1"]],
    "pool=glob(m*,exclude=max_*) fit=smoke": [["pool=max", "pool=median", "pool=mixed"], ["fit=smoke"]],
    "seed=range(2,8,step=3) pool=choice(sum,avg)": [["seed=2", "seed=5"], ["pool=sum", "pool=avg"]],
    "fit.lr=1e-2 pool.kernel_size=[2,3],3": [
        ["fit.lr=0.01"],
        ["pool.kernel_size=[2,3]", "pool.kernel_size=3"],
    ],
    "+probe.diagonal.samples=4,5 probe.gradient={samples:3}": [
        ["+probe.diagonal.samples=4", "+probe.diagonal.samples=5"],
        ["probe.gradient={samples:3}"],
    ],
    "probe.gradient={samples:3} probe.gradient.epsilon=0.1,0.2": [
        ["probe.gradient={samples:3}"],
        ["probe.gradient.epsilon=0.1", "probe.gradient.epsilon=0.2"],
    ],
    "pool@stage.s2=inherit,avg ~probe.cost seed=3 data.root='a b,c'": [
        ["pool@stage.s2=inherit", "pool@stage.s2=avg"],
        ["~probe.cost"],
        ["seed=3"],
        ["data.root='a b,c'"],
    ],
    "hydra.sweep.subdir=${hydra:job.num}/${hydra.job.override_dirname} seed=1,2 pool=avg": [
        ["hydra.sweep.subdir=${hydra:job.num}/${hydra.job.override_dirname}"],
        ["seed=1", "seed=2"],
        ["pool=avg"],
    ],
    "out=${oc.env:NOPE,there} model.width=1,2 fit.max_steps=${model.width}": [
        ["out=${oc.env:NOPE,there}"],
        ["model.width=1", "model.width=2"],
        ["fit.max_steps=${model.width}"],
    ],
    "model=allconv pool=strided model.norm=false,true": [
        ["model=allconv"],
        ["pool=strided"],
        ["model.norm=False", "model.norm=True"],
    ],
}


@pytest.mark.parametrize("line", SWEEPS)
def test_each_job_of_a_sweep_is_what_hydra_composes_for_it(line):
    words = line.replace("'a b,c'", "'a_b,c'").split(" ")
    words = [word.replace("'a_b,c'", "'a b,c'") for word in words]
    jobs = jobs_of(Request(words, multirun=True))
    lines = [list(each) for each in itertools.product(*SWEEPS[line])]
    assert len(jobs) == len(lines)
    for number, (job, each) in enumerate(zip(jobs, lines, strict=True)):
        folder, settings = expected(each, number)
        assert (job.settings, job.sweep) == (settings, True)
        assert job.folder == folder


def test_whole_configurations_made_from_one_composition_are_hydras():
    lines = [
        "pool=lp",
        "seed=3",
        "pool.p=1.5",
        "hydra.sweep.dir=x",
        "~probe.cost",
        "fit.epochs=2",
        "data.root=a",
    ]
    overrides = OverridesParser.create().parse_overrides(lines)
    with initialize_config_dir(str(conf_dir()), job_name="train", version_base="1.3"):
        composing.name_runs_by(())
        composer = Composer("train")
        few = OverridesParser.create().parse_overrides(["pool=lp", "hydra.sweep.dir=x", "~probe.cost"])
        composer.job(few, quickly=True)
        made = composer.job(overrides, quickly=True)
        whole = compose("train", lines, return_hydra_config=True)
    assert OmegaConf.to_container(made) == OmegaConf.to_container(whole)


def test_configurations_that_differ_in_values_are_composed_once(monkeypatch):
    composed, whole = [], Composer._composed

    def counting(composer, overrides, *of_a_sweep):
        if not of_a_sweep:
            composed.append([override.input_line for override in overrides])
        return whole(composer, overrides, *of_a_sweep)

    monkeypatch.setattr(Composer, "_composed", counting)
    jobs = jobs_of(Request(["pool=max,avg", "seed=range(5)", "fit.lr=0.1,0.2"], multirun=True))
    assert len(jobs) == 20 and composed == [["pool=max"], ["pool=avg"]]


@pytest.mark.parametrize(
    ("line", "folders"),
    [
        ("pool=avg fit.lr=0.1", ["outputs/digits/convnet/avg+fit.lr=0.1/seed0"]),
        ("++experiment=mnist_fast", ["outputs/mnist_fast/mnist/sprint/max/seed0"]),
        ("+pool=avg +probe=none", ["outputs/digits/convnet/avg+probe=none/seed0"]),
        ("experiment=mnist_fast", ["outputs/mnist_fast/mnist/sprint/max/seed0"]),
        ("pool=avg hydra.mode=RUN", ["outputs/digits/convnet/avg/seed0"]),
        ("hydra.run.dir=here", ["here"]),
        ("-m hydra.sweep.dir=here seed=0,1", [f"here/digits/convnet/max/seed{seed}" for seed in (0, 1)]),
        ("-m hydra.sweep.subdir=${hydra.job.num} seed=0,1", ["outputs/0", "outputs/1"]),
        (
            "hydra.mode=MULTIRUN pool=max,avg",
            [f"outputs/digits/convnet/{pool}/seed0" for pool in ("max", "avg")],
        ),
        ("-m pool=max", ["outputs/digits/convnet/max/seed0"]),
        ("seed=1 seed=2", ["outputs/digits/convnet/max/seed2"]),
        (
            "-m experiment=open pool=max,avg",
            [f"outputs/open/digits/convnet/{p}/seed0" for p in ("max", "avg")],
        ),
        ("experiment=mode seed=0,1", [f"outputs/mode/digits/convnet/max/seed{seed}" for seed in (0, 1)]),
        (
            "-m experiment=far pool.kernel_size=4",
            [f"elsewhere/far/digits/convnet/wide+kernel_size=4/seed{seed}" for seed in range(3)],
        ),
        ("pool=wide probe=mine", ["outputs/digits/convnet/wide+probe=mine/seed0"]),
        ("-m pool=glob(wi*)", ["outputs/digits/convnet/wide/seed0"]),
        ("-cn alone", ["outputs/digits/convnet/avg/seed5"]),
        ("-cn alone.yaml pool=wide", ["outputs/digits/convnet/wide/seed5"]),
    ],
)
def test_jobs_and_their_folders(line, folders, mine, tmp_path):
    assert [str(job.folder.relative_to(tmp_path)) for job in jobs_of(asked(line, mine))] == folders


TUNED = "fit=finetune"


@cache
def fitted(*lines):
    return expected(lines)[1]["fit"]


@pytest.mark.parametrize(
    ("line", "recipes"),
    [
        ("model=timm:resnet18 model.weights=w.pth", [[TUNED]]),
        ("model=torchvision:resnet18 model.weights=default", [[TUNED]]),
        ("model=timm:resnet18", [[]]),
        ("model=timm:resnet18 model.weights=null", [[]]),
        ("model=timm:resnet18 model.weights=w.pth fit=default", [["fit=default"]]),
        ("model=timm:resnet18 model.weights=w.pth fit=smoke", [["fit=smoke"]]),
        ("fit.lr=0.5 model=timm:resnet18 model.weights=w.pth", [[TUNED, "fit.lr=0.5"]]),
        (
            "-m model=timm model.arch=resnet18 fit.lr=1,2 model.weights=w.pth,null",
            [[TUNED, "fit.lr=1"], ["fit.lr=1"], [TUNED, "fit.lr=2"], ["fit.lr=2"]],
        ),
        ("-m model=timm:resnet18 model.weights=w.pth fit=default,finetune", [["fit=default"], [TUNED]]),
        ("experiment=tuned", [[TUNED, "fit.lr=0.5"]]),
        ("-m experiment=tuned fit.epochs=1,2", [[TUNED, "fit.lr=0.5", f"fit.epochs={n}"] for n in (1, 2)]),
        ("experiment=tuned fit=default", [["fit=default", "fit.lr=0.5"]]),
        ("experiment=quick", [["fit=smoke"]]),
        ("-cn begun", [[TUNED]]),
        ("-cn begun model.weights=null", [[]]),
    ],
)
def test_a_network_with_weights_is_fine_tuned_unless_a_recipe_is_chosen(line, recipes, mine):
    jobs = jobs_of(asked(line, mine))
    assert [job.settings["fit"] for job in jobs] == [fitted(*recipe) for recipe in recipes]
    tuned = [TUNED in recipe for recipe in recipes]
    assert [job.overrides.count(TUNED) for job in jobs] == tuned
    assert [f"+{TUNED}" in job.name for job in jobs] == tuned
    assert [job.on_recipe.startswith(f"recipe {TUNED}, ") for job in jobs] == tuned


def test_fine_tuning_chosen_by_itself_and_by_hand_are_one_run():
    line = "model=timm:resnet18 model.weights=w.pth"
    assert jobs_of(asked(line))[0].folder == jobs_of(asked(f"{line} {TUNED}"))[0].folder
    own, default = map(fitted, (TUNED, "fit=default"))
    assert own.keys() == default.keys() and own["lr"] < default["lr"]


def test_an_own_probe_extends_ours(mine):
    (job,) = jobs_of(asked("probe=mine", mine))
    assert job.settings["probe"]["gradient"] == {"samples": 4, "epsilon": 0.001, "every_epochs": 1}


@pytest.mark.parametrize("file", sorted((conf_dir() / "experiment").iterdir()), ids=lambda file: file.stem)
def test_an_experiment_measures_what_its_user_asks_for(file):
    (job,) = jobs_of(asked(f"experiment={file.stem} probe=none"))
    assert job.settings["probe"] == {}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("pool=max,avg", "pool=max,avg: several values make a sweep, by -m: cnnpool train -m pool=max,avg;"),
        ("seed=range(3)", "cnnpool train -m seed=range(3)"),
        ("-m fit.lr=interval(0,1)", "an interval has infinitely many values"),
        ("-m pool=glob(zz*)", "pool=glob(zz*): it matches no value"),
        ("-m seed=range(5,5)", "seed=range(5,5): it matches no value"),
        ("-m pool=max,nope", "no pool/nope; did you mean 'none'?"),
        ("-m pool=max hydra.job.name=a,b", "can be given"),
        ("-m hydra.sweep.dir=a,b", "the jobs of a sweep share Hydra's own settings"),
        ("-m launch=local,processes", "all jobs of a sweep share one launcher"),
        ("-m launch=processes launch.jobs=1,2", "all jobs of a sweep share one launcher"),
        ("pool={name:avg}", "a choice is made by its name"),
        ("-m fit={lr:1},{lr:2}", "a choice is made by its name"),
        ("-m pool=[max],[avg]", "a choice is made by its name"),
        ("experiment=null", "a choice is made by its name"),
        ("+pool@stage.s1=max", "leave out the sign before pool@stage.s1"),
        ("pool@stage.s9=max", "there are pool@stage.s1, pool@stage.s2"),
        ("hydra.run.dir=null", "names no folder"),
        ("-m pool=max,avg hydra.run.dir=here", "hydra.run.dir=here: is for a single run"),
        ("pool=max hydra.sweep.subdir=here", "hydra.sweep.subdir=here: is for sweeps"),
        ("experiment=open", "You must specify 'pool'"),
        ("-m experiment=far,mode", "experiment=far is a separate sweep"),
        ("-cn nope", "no nope.yaml"),
        ("-cn ../alone", "--config-name ../alone"),
        ("seed=${seed}", "Recursive interpolation"),
        ("seed=${oc.env:NOPE}", "set it, or give a default by ${oc.env:NOPE,DEFAULT}"),
        ("hydra.mode=both", "hydra.mode"),
        ("=3", "=3: expected KEY=VALUE, e.g. pool=max"),
        ("~=3", "~=3: expected KEY=VALUE"),
        ("fit=finetune ~fit.lr", "~fit.lr: the run would have its default: type fit.lr=0.01"),
        ("~probe.cost.every_epochs", "type probe.cost.every_epochs=0"),
        ("fit.seed=1", "did you mean 'seed'?"),
        ("hydra.verbose=true", "because some others name code: a configuration cannot"),
        (
            "model=mynet:build",
            'with [project.entry-points."cnnpool.networks"] mine = "mynet:build"; in Python',
        ),
        ("model=mynet.py:MyNet", 'mine = "mynet:MyNet"'),
        ("model=MyNet", 'mine = "MODULE:NAME"; in Python cnnpool.train and cnnpool.load take model='),
    ],
)
def test_a_mistake_is_one_line_that_names_it(line, said, mine):
    with pytest.raises(ValueError, match=re.escape(said)) as mistake:
        jobs_of(asked(line, mine))
    assert "\n" not in str(mistake.value) and len(str(mistake.value)) < 400


@pytest.mark.parametrize(
    "flag", ["--experimental-rerun=x", "--hydra-help", "--config-path=x", "--config-di=x", "-r"]
)
def test_flags_of_hydras_own_are_refused(flag, call):
    assert call.refused(flag, "pool=max") == f"error: unrecognized arguments: {flag}; see --help\n"


def test_options_and_overrides_stand_in_any_order(mine, tmp_path):
    found = train_parser().parse_intermixed_args(["pool=wide", "-m", "seed=0,1", "-cd", mine, "data.crop=1"])
    assert found.overrides == ["pool=wide", "seed=0,1", "data.crop=1"]
    assert found.multirun and found.config_dir == Path(mine)


@pytest.mark.parametrize(("most", "count"), [(5, 6), (2, 9)])
def test_more_jobs_than_a_sweep_may_have_are_refused_before_any_is_composed(most, count, monkeypatch):
    monkeypatch.setattr(Composer, "job", None)
    line = f"-m --max-jobs {most} seed=range(0,{10**12}) pool=max,avg,sum"
    size = (most + 1) * min(3, most + 1)
    with pytest.raises(ValueError, match=rf"at least {size} jobs \(seed: {most + 1} x pool: 3\)") as mistake:
        jobs_of(asked(line))
    assert f"--max-jobs {size}" in str(mistake.value)


def test_a_sweep_of_as_many_jobs_as_it_may_have_is_composed():
    assert len(jobs_of(asked("-m --max-jobs 3 seed=range(3)"))) == 3


@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_a_number_of_jobs_is_a_whole_number_from_one_on(call, number):
    assert "--max-jobs" in call.refused("--max-jobs", number)


def test_jobs_that_differ_only_in_what_changes_no_result_get_folders_of_their_own(capsys):
    jobs = jobs_of(asked("-m data.root=a/b,a fit.devices=1,2 pool=max"))
    names = [job.folder.parent.name for job in jobs]
    digest = hashlib.sha256(b"a/b").hexdigest()[:8]
    roots = (f"b-{digest}", "a")
    assert names == [f"max+data.root={root}+fit.devices={n}" for root in roots for n in (1, 2)]
    said = "data.root differs between the jobs, so it is part of their folders' names\n"
    assert capsys.readouterr().err == said
    (single,) = jobs_of(asked("data.root=a fit.keep_memory=false pool=max"))
    assert single.folder.parent.name == "max"


def test_a_name_has_no_component_over_100_bytes_whatever_is_set(monkeypatch):
    monkeypatch.setattr("cnnpool.launch.compose.check", lambda settings: None)
    long, other = (f"/{name * 60}/{name * 90}/best.ckpt" for name in "ab")
    many = [f"probe.gradient.samples=1{n:030}" for n in range(3)]
    lines = [
        ["model=torchvision:resnet18", f"model.weights={long}"],
        ["model=torchvision:resnet18", f"model.weights={other}"],
        [f"+model.{'k' * 200}=1"],
        ["out=o", *(f"+data.{key}=1" for key in "abcdefghijklmnopqrstuvwxyz"), f"data.limit={10**90}"],
        *([one] for one in many),
    ]
    jobs = [jobs_of(Request(line))[0] for line in lines]
    names = [job.name for job in jobs]
    assert max(len(part.encode()) for name in names for part in name.split("/")) <= 100
    assert len({*names}) == len(names)
    assert [f"+model.weights=best-{hashlib.sha256(path.encode()).hexdigest()[:8]}/" in names[n]
            for n, path in enumerate((long, other))] == [True, True]  # fmt: skip


def test_two_folders_of_images_have_two_folders_of_runs():
    roots = ("photos", "/a/photos", "b/photos", "./photos")
    names = [jobs_of(Request(["data=image_folder", f"data.root={root}"]))[0].name for root in roots]
    assert names[0] == names[3] == "image_folder-photos/convnet/max/seed0"
    assert len({*names}) == 3 and all(name.startswith("image_folder-photos") for name in names)
    # Published images are the same wherever they lie.
    assert jobs_of(Request(["data=mnist", "data.root=b/photos"]))[0].name == "mnist/convnet/max/seed0"


def test_a_probe_left_out_is_named_so():
    assert jobs_of(asked("~probe.cost"))[0].name == "digits/convnet/max+probe.cost=off/seed0"


def test_jobs_asked_for_twice_run_once_and_that_is_said(capsys):
    jobs = jobs_of(asked("-m seed=0,0,1 pool=max,max"))
    assert [job.settings["seed"] for job in jobs] == [0, 1]
    assert capsys.readouterr().err == "4 of 6 jobs repeat others and are left out\n"
    # A stage that inherits max and one that has it are one run.
    jobs = jobs_of(asked("-m pool=max,avg pool@stage.s2=max,inherit seed=0,1"))
    names = ["max+s2=max", "avg+s2=max", "avg+s2=inherit"]
    assert [job.folder.parent.name for job in jobs[::2]] == names and len(jobs) == 6
    assert capsys.readouterr().err == "2 of 8 jobs repeat others and are left out\n"
    jobs = jobs_of(asked("-m pool=max pool.kernel_size=3 pool@stage.s2=max,inherit"))
    assert [job.settings["stage"]["s2"].get("kernel_size") for job in jobs] == [2, None]
    # Those that repeat on purpose have folders of their own.
    assert len(jobs_of(asked("-m seed=0,0 hydra.sweep.subdir=${hydra.job.num}"))) == 2


def test_different_jobs_in_one_folder_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"^outputs/here would be the folder of two jobs \(seed: 0 -> 1\)"):
        jobs_of(asked("-m seed=0,1 hydra.sweep.subdir=here"))
    with pytest.raises(ValueError, match=r"data.size: 8 -> 9"):
        jobs_of(asked("-m data.size=8,9 hydra.sweep.subdir=here"))
    assert not list(tmp_path.iterdir())


def test_a_seed_leads_to_no_folder_above(tmp_path, monkeypatch):
    monkeypatch.setattr("cnnpool.launch.compose.check", lambda settings: None)
    (job,) = jobs_of(asked("seed=../../../../.."))
    assert job.folder.is_relative_to(tmp_path / "outputs/digits/convnet/max")


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (["--cfg", "job", "-p", "pool"], "# @package pool\nname: avg\n"),
        (["-c", "job", "-p", "pool.name"], "avg\n"),
        (["--cfg", "job", "-p", "data.limit"], "null\n"),
        (["--cfg", "job"], "root: ${oc.env:CNNPOOL_DATA,data}\n"),
        (["--cfg", "job", "--resolve"], "root: data\n"),
        (["--cfg", "all"], "dir: ${out}/${run_name:}\n"),
        (["--cfg", "hydra", "--resolve"], "dir: outputs/digits/convnet/avg/seed0\n"),
        (["--info", "defaults-tree"], "    pool: avg\n"),
        (["--info", "searchpath"], f"file://{conf_dir()}"),
        (["--info", "config"], "Config search path"),
        (["--info=defaults", "model=timm:resnet18", "model.weights=w.pth"], "| fit/finetune"),
        (["--cfg", "job", "-p", "fit.lr", "model=timm:resnet18", "model.weights=w.pth"], "0.003\n"),
        (["--info=plugins"], "Installed Hydra Plugins"),
    ],
)
def test_the_configuration_is_shown_and_nothing_is_run(options, shown, call, tmp_path):
    status, out, err = call("train", "pool=avg", *options)
    assert (status, err) == (0, "") and shown in out
    assert not list(tmp_path.iterdir())


def test_a_part_that_is_not_there_is_named(call):
    for part in ("pool.zz", "data.size.x", "data.name.ig"):
        assert call.refused("--cfg", "job", "-p", part).startswith(f"error: --package {part}")


@pytest.mark.parametrize(
    "options", [["--cfg", "job", "-m"], ["--info", "all", "--cfg", "job"], ["--resolve"]]
)
def test_options_that_do_not_go_together_are_refused(options, call):
    assert "--cfg" in call.refused(*options)


def test_settings_are_plain_json():
    (job,) = jobs_of(asked("pool.kernel_size=[2,3] fit.max_steps=null"))
    assert json.loads(json.dumps(job.settings)) == job.settings


def test_an_option_that_all_swept_choices_have_is_given_once():
    jobs = jobs_of(Request(["pool=lp,gem", "pool.p=2.5"], multirun=True))
    assert [(job.settings["pool"]["name"], job.settings["pool"]["p"]) for job in jobs] == [
        ("lp", 2.5),
        ("gem", 2.5),
    ]
    with pytest.raises(ValueError, match=r"pool\.p"):
        jobs_of(Request(["pool=lp,max", "pool.p=2.5"], multirun=True))


CONVOLVING = (
    "strided", "conv_blur", "conv_pool", "depthwise", "patchify", "avg_conv", "reduction", "unshuffle",
)  # fmt: skip


def settings(*overrides):
    return jobs_of(Request(overrides))[0].settings


def test_operators_that_convolve_normalise_where_the_network_of_their_job_does_unless_told_otherwise():
    line = f"pool={','.join(CONVOLVING)}", "model=allconv", "model.norm=true,false"
    jobs = jobs_of(Request(line, multirun=True))
    assert [job.settings["pool"]["norm"] for job in jobs] == ["batch", "none"] * len(CONVOLVING)
    assert settings("pool=strided", "pool.norm=none")["pool"]["norm"] == "none"


def test_a_stage_of_its_own_normalises_too():
    found = stage_settings(settings("pool=max", "pool@stage.s2=strided"), ("s1", "s2"))
    assert "norm" not in found["s1"] and found["s2"]["norm"] == "batch"
    inherited = stage_settings(settings("pool=strided"), ("s1", "s2"))
    assert inherited["s1"] == inherited["s2"] and inherited["s2"]["norm"] == "batch"
