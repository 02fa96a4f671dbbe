"""Measure an existing model without training it."""

import argparse

from cnnpool.cli_parser import Parser
from cnnpool.system.progress import loading

EXAMPLES = """\
examples:
  cnnpool probe outputs/mnist/convnet/max/seed0
  cnnpool probe outputs/mnist/convnet/max/seed0/checkpoints/best.ckpt --probes gradient,aliasing
  cnnpool probe torchvision:resnet18 --data cifar10 --swap max_blur --samples 64
  cnnpool probe timm:resnet18 --weights default --data image_folder --root photos --size 224
  cnnpool probe outputs/mine/seed0 data.skip_unreadable=true --samples 64
  cnnpool probe mypackage.mymodule:build --checkpoint weights.pt --data mnist

A model of torchvision or timm has random weights unless --weights or --checkpoint is given: its figures then
describe the architecture alone, and are marked as untrained. mypackage.mymodule:build is imported and called
twice without arguments, each time with another seed: weights that differ are random.

--swap measures the model as it is and swapped, prints both with their difference, and writes the second into
a folder within that of the first.
"""


def main(arguments: list[str]) -> int:
    """``cnnpool probe MODEL``; returns the exit status. Mistakes are a ValueError of one line."""
    args = parser().parse_intermixed_args(arguments)

    # torch and torchvision would make --help slow.
    with loading("PyTorch"):
        from cnnpool.inspection.command import examine

    return examine(args, arguments)


def parser() -> Parser:
    found = Parser("cnnpool probe", "Measure an existing model without training it.", EXAMPLES)
    add = found.add_argument
    add(
        "model",
        metavar="MODEL",
        help="a run's folder, its checkpoint, torchvision:NAME, timm:NAME, MODULE:FUNCTION",
    )
    settings = "a setting of the data, as data.skip_unreadable=true; those of cnnpool train data=NAME --help"
    add("settings", nargs="*", metavar="data.KEY=VALUE", help=settings)
    add("--data", metavar="NAME", help="data set (default: the run's, else digits)")
    where = "folder of the data (default: the run's for its own data, else $CNNPOOL_DATA or data)"
    add("--root", metavar="DIR", help=where)
    fetch = "download missing data (default: only those named by --data, not a run's)"
    add("--download", action=argparse.BooleanOptionalAction, help=fetch)
    add("--size", type=int, metavar="PX", help="resize the images to PX x PX pixels")
    add("--checkpoint", metavar="FILE", help="weights to load: a state_dict, or a checkpoint with one")
    add(
        "--weights",
        metavar="NAME",
        help="published weights of torchvision or timm: default, their name, or a file of them",
    )
    add(
        "--swap",
        metavar="NAME",
        help="measure again with the downsampling replaced by this operator, or the head by this readout",
    )
    add(
        "--swap-set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="an option of the operator or readout that --swap puts in",
    )
    add(
        "--all", action="store_true", help="with --swap: every number at every stage, not the first few alone"
    )
    add("--where", metavar="WHERE", help="what to swap: pool, conv, head, or a regular expression of names")
    add("--probes", metavar="NAMES", help="measurements, separated by commas; all for every one")
    add("--set", metavar="PROBE.KEY=VALUE", action="append", default=[], help="an option of a measurement")
    add("--samples", type=int, metavar="N", help="use, and decode, at most N test images")
    add("--seed", type=int, default=0, metavar="N", help="seed of random weights (default: 0)")
    add("--device", default="cpu", metavar="NAME", help="where to compute: cpu, cuda, ... (default: cpu)")
    add("--out", metavar="DIR", help="folder of results.json and pictures (default: outputs/probe/MODEL)")
    return found
