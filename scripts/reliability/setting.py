"""How each fault is made: in the process and the folder of the command that meets it."""

import json
import os
import resource
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread

from PIL import Image

from cnnpool import training
from cnnpool.fit import Classifier, checkpoints, results
from cnnpool.fit.checkpoints import Checkpoints
from cnnpool.pool import dispatch
from cnnpool.system.atomic import write_json
from scripts.reliability.attempt import QUICK, command

LAST = Path("here/checkpoints/last.ckpt")
HELD = []


def trained(*overrides, folder="here", cut=False):
    """A quick run in ``folder``; ``cut``: killed just before its results are written."""

    def before():
        if cut:
            results.write = lambda *content: os._exit(9)

    arguments = ["train", *QUICK, f"hydra.run.dir={folder}", *overrides]
    status, _, err = command(arguments, Path.cwd(), before)
    if status != (9 if cut else 0):
        raise RuntimeError(err)


def cut_with(change=lambda: None, *overrides):
    """A run that was cut, to which ``change`` is done then."""

    def before():
        trained(*overrides, cut=True)
        change()

    return before


def removed():
    """The command stands in a folder that is no more."""
    Path("gone").mkdir()
    os.chdir("gone")
    Path.cwd().rmdir()


def write(name, content):
    def before():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return before


def flip_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def disk_full_after(writes):
    def before():
        kept, count = os.fsync, [0]

        def fsync(descriptor):
            count[0] += 1
            if count[0] > writes:
                raise OSError(28, "No space left on device")
            kept(descriptor)

        os.fsync = fsync
        # Each epoch is saved, as if it took a second.
        checkpoints.SHORTEST_S = 0.0

    return before


def signalled(signum):
    def before():
        Checkpoints.on_validation_start = lambda *arguments: os.kill(os.getpid(), signum)

    return before


def failing():
    """The training of ``avg`` needs too much memory."""
    kept = training.train

    def train(config, *arguments):
        if config["pool"]["name"] == "avg":
            raise MemoryError
        return kept(config, *arguments)

    training.train = train


def little_memory():
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + (300 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def killed_jobs():
    """Processes that work in a run's folder are killed, as by a kernel that is out of memory."""

    def kill():
        while True:
            # Folders and files come and go meanwhile.
            with suppress(OSError, ValueError):
                for path in Path("outputs").rglob("status.json"):
                    state = json.loads(path.read_text())
                    if state["state"] == "running":
                        os.kill(state["pid"], signal.SIGKILL)
            time.sleep(0.01)

    Thread(target=kill, daemon=True).start()


def images(damage=lambda path: None):
    """Two folders of images, of which one of the training images is damaged."""
    for part, count in (("train", 8), ("test", 2)):
        for name in ("ant", "bee"):
            folder = Path("photos", part, name)
            folder.mkdir(parents=True)
            for index in range(count):
                image = Image.new("RGB", (28, 28), (index * 9, index * 7, index * 5))
                image.save(folder / f"{index}.png")
    damage(Path("photos/train/bee/3.png"))


def without_network_or_proxy():
    def hook(event, arguments):
        if event == "socket.connect" and arguments[0].family != socket.AF_UNIX:
            raise OSError(101, "Network is unreachable")

    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        os.environ.pop(name, None)
    sys.addaudithook(hook)


def another():
    """The folder of a run, b, with nothing in it yet."""
    Path("runs/b").mkdir()
    Path("runs/b/.cnnpool").write_text(json.dumps({"id": "b"}))


def two_kinds():
    trained(folder="runs/a")
    results = json.loads(Path("runs/a/results.json").read_text())
    # An entry changed by hand would be damage.
    del results["content_sha256"]
    another()
    write_json(Path("runs/b/results.json"), {**results, "data_sha256": "0" * 64, "seed": 1})


def half_a_report():
    trained(folder="runs/a")
    another()
    write_json(Path("runs/b/status.json"), {"state": "failed", "error": "the loss became nan", "pid": 1})


def others():
    Path("photos").rename("insects")
    images(lambda path: Image.new("RGB", (28, 28), "white").save(path))


def two_folders():
    images()
    others()


def other_images():
    images()
    trained("data=image_folder", "data.root=photos")
    others()


def deleted():
    """The run's folder is gone once it has trained its first epoch."""
    kept = Classifier.on_train_epoch_end

    def then(module):
        if module.current_epoch == 1:
            Path("here").rename("gone")
        kept(module)

    Classifier.on_train_epoch_end = then


def without_kernels():
    # Kept, or its end would bring them back.
    HELD.append(dispatch.use(False))
    HELD[-1].__enter__()


def cut_short():
    trained(folder="runs/a")
    trained("seed=1", folder="runs/b")
    path = Path("runs/b/results.json")
    path.write_text(path.read_text()[:200])
