"""``cnnpool train --help``: the options, every choice, and the keys of those that are chosen."""

import sys
import textwrap

from omegaconf import OmegaConf, open_dict

from cnnpool.cli_parser import train_parser
from cnnpool.launch.compose import Request
from cnnpool.launch.composer import opened
from cnnpool.launch.config import SECTIONS
from cnnpool.launch.overrides import parse

WIDTH = 100
CLOSING = """\
examples:
  cnnpool train data=mnist pool=max
  cnnpool train pool=max pool.kernel_size=3 pool.ties=split
  cnnpool train pool=blur pool@stage.s2=avg stage.s2.kernel_size=3
  cnnpool train readout=gap fit=smoke
  cnnpool train -m pool=max,avg,strided seed=0,1,2,3,4
  cnnpool train pool=max --cfg job          (print the configuration, run nothing)

exit status:
  0 done, 1 a run failed, 2 a mistake in what was asked, 128 + the signal when stopped
  (130: Ctrl-C, 143: SIGTERM)
"""


def show_help(request: Request) -> None:
    """Print the help of ``cnnpool train`` with the choices of ``request``.

    Raises:
        ValueError: if these cannot be composed.
    """
    with opened(request.config_name, request.config_dir) as composer:
        config = composer.job(parse(request.overrides))
        with open_dict(config):
            del config["hydra"]
        names = {key: [name for name in composer.names(key) if name != "inherit"] for key in SECTIONS}
    choices = "".join(_choice(key, found) for key, found in names.items() if found)
    sys.stdout.write(
        f"{train_parser().format_help()}\nchoices (KEY=NAME):\n{choices}\n"
        f"settings (KEY=VALUE):\n{textwrap.indent(OmegaConf.to_yaml(config), '  ')}\n{CLOSING}"
    )


def _choice(key: str, names: list[str]) -> str:
    indent = " " * 14
    return (
        textwrap.fill(", ".join(names), WIDTH, initial_indent=f"  {key:<12}", subsequent_indent=indent) + "\n"
    )
