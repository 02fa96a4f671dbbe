"""Forward and backward of one operator on a small example, number by number."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cnnpool.cli_parser import Parser, assignment
from cnnpool.system.next_command import next_lines
from cnnpool.system.progress import loading

if TYPE_CHECKING:
    from cnnpool.explain.example import Example
    from cnnpool.explain.operator import Room

EXAMPLES = """\
examples:
  cnnpool explain max
  cnnpool explain max kernel_size=3 stride=1 ties=split
  cnnpool explain avg --values "1 2 3 4; 5 6 7 8"
  cnnpool explain max --values "1 3; 4 4" --values "2 0; 1 5"
  cnnpool explain readout=gem p=4 --image gem.png
"""
ROOMS: dict[str, "Room"] = {"pool": "pool", "readout": "readout"}


def main(arguments: list[str]) -> int:
    """``cnnpool explain [OPERATOR] [KEY=VALUE ...] [--values ROWS] [--image FILE]``; returns the exit status.

    Raises:
        ValueError: for an unknown operator or option, a value out of range, images that are none, or a
            picture that cannot be written.
    """
    asked = parser().parse_intermixed_args(arguments)
    room, name, options = chosen(asked.words)

    with loading("PyTorch"):
        from cnnpool.explain.example import IMAGES, example, examples, readable
        from cnnpool.explain.operator import options_text
        from cnnpool.explain.text import text
        from cnnpool.explain.values import batch

    images = batch(asked.values) if asked.values else IMAGES
    if options:
        shown = [example(name, images, room, **{**readable(name), **options})]
    else:
        shown = examples(name, images, room)
    if len(shown) > 1:
        titles = ", ".join(one.title for one in shown)
        sys.stdout.write(f"{len(shown)} examples on the same {len(shown[0].images)} images: {titles}\n\n")
    sys.stdout.write("\n".join(map(text, shown)))
    sys.stdout.write(f"\n{options_text(name, room)}")
    if asked.image:
        _save(asked.image, shown)
    where = room or "pool"
    given = [word for word in asked.words if "=" in word and word.partition("=")[0] not in ROOMS]
    kept = [f"{where}.{_bare(word)}" for word in given]
    sys.stdout.write(next_lines(("cnnpool", "train", f"{where}={name}", *kept)))
    return 0


def parser() -> Parser:
    """The arguments of ``cnnpool explain``."""
    found = Parser(
        prog="cnnpool explain",
        usage="cnnpool explain [OPERATOR [KEY=VALUE ...]] [--values ROWS] [--image FILE]",
        description="Forward and backward of one operator on a batch of small images, number by number.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = found.add_argument
    add(
        "words",
        nargs="*",
        metavar="OPERATOR",
        help="a pool or a readout (default: max), and any of its options as KEY=VALUE",
    )
    add(
        "--values",
        action="append",
        default=[],
        metavar="ROWS",
        help='an image of your own, such as "1 2; 3 4"; repeat it for a batch (default: two 4x4 images)',
    )
    add("--image", type=Path, metavar="FILE", help="also draw it, as .png, .svg or .pdf")
    return found


def chosen(words: list[str]) -> tuple["Room | None", str, dict[str, object]]:
    """(room, operator, options) of ``max kernel_size=3``, or of ``readout=gem p=4``.

    Raises:
        ValueError: for a second operator.
    """
    names = [word for word in words if "=" not in word]
    given = dict(assignment(word) for word in words if "=" in word)
    rooms = [room for room in ROOMS if room in given]
    if len(names) + len(rooms) > 1:
        extra = [*names, *(f"{room}={given[room]}" for room in rooms)][1]
        raise ValueError(f"explain takes one operator, and options as KEY=VALUE; got {extra!r} too")
    room = ROOMS[rooms[0]] if rooms else None
    name = str(given.pop(room)) if room else (names or ["max"])[0]
    return room, name, {_bare(key): value for key, value in given.items()}


def _bare(option: str) -> str:
    """An option without the room that may stand before it."""
    return option.removeprefix("pool.").removeprefix("readout.")


def _save(path: Path, shown: list["Example"]) -> None:
    from cnnpool.explain.picture import figure

    for index, example in enumerate(shown):
        drawn = path if path.suffix else path.with_name(f"{path.name}.png")
        target = drawn if index == 0 else drawn.with_stem(f"{drawn.stem}-{index + 1}")
        try:
            figure(example).savefig(target, dpi=120)
        except (OSError, ValueError) as error:
            raise ValueError(f"--image {target}: {error}") from None
        sys.stdout.write(f"wrote {target}\n")
