"""Folders that are taken, full, or somebody else's, and the identity of a run."""

from pathlib import Path

from PIL import Image

from cnnpool.fit import Classifier
from cnnpool.pool import dispatch
from scripts.reliability.fault.attempt import GOES_ON, Fault
from scripts.reliability.fault.setting import (
    HELD,
    cut_with,
    disk_full_after,
    images,
    removed,
    trained,
    used,
    write,
)

PHOTOS = ("data=image_folder", "data.root=photos")


def trained_on(change):
    """A finished run on images to which ``change`` is done then."""

    def before():
        images(lambda path: None)()
        trained(*PHOTOS)
        change()

    return before


def others():
    Path("photos").rename("insects")
    images(lambda path: Image.new("RGB", (28, 28), "white").save(path))()


def two_folders():
    images(lambda path: None)()
    others()


def meanwhile(change):
    """``change`` is done once the run has trained its first epoch."""

    def before():
        kept = Classifier.on_train_epoch_end

        def then(module):
            if module.current_epoch == 1:
                change()
            kept(module)

        Classifier.on_train_epoch_end = then

    return before


def without_kernels():
    # Kept, or its end would bring them back.
    HELD.append(dispatch.use(False))
    HELD[-1].__enter__()


FOLDERS = [
    Fault(
        "a file in the run's place", "train out=file", ("file", "another folder"), before=write("file", "")
    ),
    Fault("a working directory that was removed", "train", ("working directory", "cd to"), before=removed),
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
        "the disk is full at a checkpoint",
        "train hydra.run.dir=here fit.epochs=3",
        ("No space left on device", GOES_ON),
        1,
        disk_full_after(16),
        ("here/checkpoints/last.ckpt",),
    ),
    Fault(
        "the home folder for a run",
        "train hydra.run.dir=${oc.env:HOME}",
        ("cannot be a run's folder", "choose another"),
    ),
    Fault(
        "other images, the same settings",
        "train hydra.run.dir=here data=image_folder data.root=photos",
        ("finished run on other data", "data_sha256: ", "another folder"),
        before=trained_on(others),
        keeps=("here/results.json",),
    ),
    Fault(
        "the same images at another place",
        "train hydra.run.dir=here data=image_folder data.root=moved",
        (),
        0,
        trained_on(lambda: Path("photos").rename("moved")),
        ("here/results.json",),
        lines=0,
        out=("is finished already",),
    ),
    Fault(
        "a sweep over folders of images",
        "train -m data=image_folder data.root=photos,insects",
        ("data.root differs between the jobs",),
        0,
        two_folders,
        ("outputs/*/*/*data.root=photos*/*/results.json", "outputs/*/*/*data.root=insects*/*/results.json"),
        out=("2 jobs: 2 done",),
    ),
    Fault("a job twice in a sweep", "train -m seed=0,0", ("1 of 2 jobs repeat others",), 0),
    Fault(
        "a folder that holds somebody's files",
        "train hydra.run.dir=here",
        ("here holds files that no run wrote", "an empty folder"),
        before=lambda: (write("here/.thesis.part", "half")(), write("here/sub/.a.1.part", "")()),
        keeps=("here/.thesis.part", "here/sub/.a.1.part"),
    ),
    Fault(
        "the run's folder is deleted while it trains",
        "train hydra.run.dir=here fit.epochs=3",
        ("here", "was deleted", "while its run went on"),
        1,
        meanwhile(lambda: Path("here").rename("gone")),
    ),
    Fault(
        "another run takes the folder meanwhile",
        "train hydra.run.dir=here fit.epochs=3",
        ("here was deleted or replaced while its run went on",),
        1,
        meanwhile(write("here/.cnnpool", '{"id": "another"}')),
    ),
    Fault(
        "other kernels on resume",
        "train hydra.run.dir=here",
        (),
        0,
        cut_with(without_kernels),
        lines=0,
        out=("trained with compiled kernels: faster so far, now with compiled kernels: none",),
    ),
]
