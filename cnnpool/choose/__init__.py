"""Choose the downsampling for one network and one data set, within a budget."""

from cnnpool.cli_parser import Parser, add_configuration
from cnnpool.system.progress import loading

EXAMPLES = """\
examples:
  cnnpool choose data=mnist data.limit=1000 choose.budget=30min
  cnnpool choose data=image_folder data.root=photos choose.budget=2h choose.pools=max,avg,max_blur
  cnnpool choose data=mnist choose.pools=max,max+kernel_size=3,max+readout=gap choose.margin=0.002
  cnnpool choose data=cifar10 choose.metric=consistency choose.cost=time launch=processes
  cnnpool choose data=mnist choose.tune=fit.lr:[0.003,0.01,0.03] choose.budget=3h

Rerun the same command to resume a study that was stopped by Ctrl-C, a crash or the end of its budget, which
may be raised. How it decides: docs/choose.md.
"""


def main(arguments: list[str]) -> int:
    """``cnnpool choose``; returns the exit status."""
    args = parser().parse_intermixed_args(arguments)
    args.words = arguments
    from cnnpool.system.process import share_cores

    share_cores()
    with loading("scipy"):
        from cnnpool.choose.command import choose

    return choose(args)


def parser() -> Parser:
    about = "Which downsampling for this network and these images, within a time budget."
    found = Parser("cnnpool choose", about, EXAMPLES)
    overrides = "choose.KEY=VALUE, or a setting of cnnpool train"
    found.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=overrides)
    add_configuration(found)
    return found
