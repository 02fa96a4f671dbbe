"""Folders that are taken, full or somebody else's, and runs that cannot be compared or probed."""

from pathlib import Path

from PIL import Image

from cnnpool.fit import Classifier
from cnnpool.pool import dispatch
from scripts.reliability.fault.attempt import GOES_ON, Fault
from scripts.reliability.fault.setting import (
    HELD,
    LAST,
    cut_with,
    disk_full_after,
    flip_bit,
    half_a_report,
    images,
    removed,
    trained,
    two_kinds,
    write,
)

PHOTOS = ("data=image_folder", "data.root=photos")
B = Path("runs/b")


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


def with_another(change):
    """A run in ``runs/a``, and one in ``runs/b`` to which ``change`` is done."""

    def before():
        trained(folder="runs/a")
        trained("seed=1", folder="runs/b")
        change()

    return before


def altered(name, old, new):
    def change():
        path = B / name
        text = path.read_text()
        if old not in text:
            raise RuntimeError(f"{name} holds no {old!r}")
        path.write_text(text.replace(old, new, 1))

    return change


def told(what, change, *out):
    """A fault of one run: it is told on stdout, in one line, and the other is compared."""
    return Fault(
        what, "compare runs --no-board", (), 0, with_another(change), ("runs/report/report.html",), 0, out
    )


FOLDERS = [
    Fault(
        "a file in the run's place", "train out=file", ("file", "another folder"), before=write("file", "")
    ),
    Fault("a working directory that was removed", "train", ("working directory", "cd to"), before=removed),
    Fault(
        "a folder of another finished run",
        "train hydra.run.dir=here pool=avg",
        ("here", "pool.name: max -> avg", "another folder"),
        before=trained,
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
        "other images, the same settings",
        "train hydra.run.dir=here data=image_folder data.root=photos",
        ("finished run on other data", "data_sha256: ", "another folder"),
        before=trained_on(others),
        keeps=("here/results.json",),
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
    Fault(
        "the run's folder is deleted while it trains",
        "train hydra.run.dir=here fit.epochs=3",
        ("here", "was deleted", "while its run went on"),
        1,
        meanwhile(lambda: Path("here").rename("gone")),
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
    Fault(
        "no finished run",
        "compare here",
        ("no finished run", "--status"),
        2,
        cut_with(lambda: None),
        ("here/metrics.jsonl",),
    ),
    Fault(
        "runs that cannot be compared",
        "compare runs",
        ("data_sha256", "tell them apart"),
        2,
        two_kinds,
        ("runs/a/results.json",),
        3,
    ),
    Fault(
        "a failed run among the runs",
        "compare runs --no-board",
        (),
        0,
        half_a_report,
        lines=0,
        out=("runs/b: failed: the loss became nan",),
    ),
    Fault("a model to probe that does not exist", "probe nosuch", ("nosuch", "torchvision:NAME")),
    Fault(
        "a damaged checkpoint to probe",
        "probe here",
        ("last.ckpt", "damaged"),
        2,
        lambda: (trained(), flip_bit(LAST)),
        ("here/results.json",),
    ),
    told(
        "results.json cut short", altered("results.json", "checksum", '"'), "runs/b/results.json is damaged"
    ),
]
