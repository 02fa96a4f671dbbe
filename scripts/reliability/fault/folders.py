"""Folders and files that are taken, damaged, or full."""

from scripts.reliability.fault.attempt import GOES_ON, Fault
from scripts.reliability.fault.disks import (
    disk_full_after,
    kernels_on_a_full_disk,
    kernels_without_a_folder,
)
from scripts.reliability.fault.setting import removed, trained, used, write

FOLDERS = [
    Fault(
        "a file in the run's place", "train out=file", ("file", "another folder"), before=write("file", "")
    ),
    Fault("a working directory that was removed", "train", ("working directory", "cd to"), before=removed),
    Fault("a folder that cannot be made", "train hydra.run.dir=/proc/x", ("/proc/x", "another folder")),
    Fault(
        "a folder in use",
        "train hydra.run.dir=here",
        ("here is in use by pid", "wait for it, or stop it"),
        before=used,
    ),
    Fault(
        "a folder of another finished run",
        "train hydra.run.dir=here pool=avg",
        ("here", "pool.name: max -> avg", "another folder"),
        before=trained,
        keeps=("here/results.json",),
    ),
    Fault(
        "results.json damaged",
        "train hydra.run.dir=here",
        ("results.json is damaged", "delete it"),
        before=write("here/results.json", "{half"),
        keeps=("here/results.json",),
    ),
    Fault(
        "the disk is full",
        "train hydra.run.dir=here",
        ("No space left on device", GOES_ON),
        1,
        disk_full_after(8),
    ),
    Fault(
        "the disk is full at a checkpoint",
        "train hydra.run.dir=here fit.epochs=3",
        ("No space left on device", GOES_ON),
        1,
        disk_full_after(16),
        ("here/checkpoints/last.ckpt",),
    ),
    Fault(
        "the disk of the compiled kernels is full",
        "train hydra.run.dir=here",
        (),
        0,
        kernels_on_a_full_disk,
        ("here/results.json",),
        0,
        ("cannot be kept in", "No space left on device; make room there", "NUMBA_CACHE_DIR"),
    ),
    Fault(
        "no folder for compiled kernels",
        "train hydra.run.dir=here",
        (),
        0,
        kernels_without_a_folder,
        ("here/results.json",),
        0,
        ("compiled kernels cannot be kept", "NUMBA_CACHE_DIR"),
    ),
    Fault(
        "a folder with files of others",
        "train hydra.run.dir=here",
        ("here holds files that no run wrote (thesis.tex)", "choose an empty folder"),
        before=write("here/thesis.tex", "mine"),
        keeps=("here/thesis.tex",),
    ),
    Fault(
        "the home folder for a run",
        "train hydra.run.dir=${oc.env:HOME}",
        ("cannot be a run's folder", "choose another"),
    ),
]
