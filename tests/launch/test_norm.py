import pytest

from cnnpool.choices import stage_settings
from cnnpool.launch.compose import Request, jobs_of

CONVOLVING = (
    "strided", "conv_blur", "conv_pool", "depthwise", "patchify", "avg_conv", "reduction", "unshuffle",
    "adown", "scdown", "hwd",
)  # fmt: skip


def settings(*overrides):
    (job,) = jobs_of(Request(overrides))
    assert not job.mistake
    return job.settings


@pytest.mark.parametrize("pool", CONVOLVING)
def test_operators_that_convolve_normalise_where_the_network_does(pool):
    assert settings(f"pool={pool}")["pool"]["norm"] == "batch"
    assert settings(f"pool={pool}", "model=allconv")["pool"]["norm"] == "batch"
    assert settings(f"pool={pool}", "model=allconv", "model.norm=false")["pool"]["norm"] == "none"


def test_the_normalisation_can_be_chosen():
    assert settings("pool=strided", "pool.norm=none")["pool"]["norm"] == "none"


def test_a_stage_of_its_own_normalises_too():
    found = stage_settings(settings("pool=max", "pool@stage.s2=strided"), ("s1", "s2"))
    assert "norm" not in found["s1"] and found["s2"]["norm"] == "batch"
    inherited = stage_settings(settings("pool=strided"), ("s1", "s2"))
    assert inherited["s1"] == inherited["s2"] and inherited["s2"]["norm"] == "batch"


def test_every_job_of_a_sweep_has_the_norm_of_its_own_model():
    jobs = jobs_of(Request(("pool=strided", "model=allconv", "model.norm=true,false"), multirun=True))
    assert [job.settings["pool"]["norm"] for job in jobs] == ["batch", "none"]
