"""Forward and backward of one operator on a small example, number by number."""

import argparse
import sys
from pathlib import Path

from cnnpool.cli_parser import Parser

EXAMPLES = """\
examples:
  cnnpool explain max
  cnnpool explain gap --image gap.png
"""


def main(arguments: list[str]) -> int:
    """``cnnpool explain [OPERATOR] [--image FILE]``; returns the exit status.

    Raises:
        ValueError: for an unknown operator, or a picture that cannot be written.
    """
    asked = parser().parse_args(arguments)

    from cnnpool.explain.example import examples
    from cnnpool.explain.text import text

    shown = examples(asked.operator)
    sys.stdout.write("\n".join(map(text, shown)))
    if asked.image:
        _save(asked.image, shown)
    return 0


def parser() -> Parser:
    """The arguments of ``cnnpool explain``."""
    found = Parser(
        prog="cnnpool explain",
        description="Forward and backward of one operator on two 4x4 images, number by number.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    found.add_argument("operator", nargs="?", default="max", help="a pool or a readout (default: max)")
    found.add_argument("--image", type=Path, metavar="FILE", help="also draw it, as .png, .svg or .pdf")
    return found


def _save(path: Path, shown: list) -> None:
    from cnnpool.explain.picture import figure

    for index, example in enumerate(shown):
        target = path if index == 0 else path.with_stem(f"{path.stem}-{index + 1}")
        try:
            figure(example).savefig(target, dpi=120)
        except (OSError, ValueError) as error:
            raise ValueError(f"--image {target}: {error}") from None
        sys.stdout.write(f"wrote {target}\n")
