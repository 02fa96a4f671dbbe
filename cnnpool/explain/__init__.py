"""Forward and backward of one operator on a small example, number by number."""

import sys
from argparse import Namespace
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cnnpool.cli_parser import Parser, assignment
from cnnpool.system.next_command import next_lines
from cnnpool.system.progress import loading

if TYPE_CHECKING:
    from cnnpool.explain.operator import Group

EXAMPLES = """\
examples:
  cnnpool explain max
  cnnpool explain max kernel_size=3 stride=1 ties=split
  cnnpool explain avg --values "1 2 3 4; 5 6 7 8"
  cnnpool explain max --batch
  cnnpool explain max --values "1 3; 4 4" --values "2 0; 1 5"
  cnnpool explain readout=gem p=4 --image gem.png
  cnnpool explain --list
"""
GROUPS: tuple["Group", ...] = ("pool", "readout")
MORE: dict[str, dict[str, Any]] = {
    "kernel_size": {"kernel_size": 3, "stride": 1},
    "ties": {"ties": "split"},
}
"""By an operator's option, options to try next."""
PICTURES = (".png", ".svg", ".pdf")


def main(arguments: list[str]) -> int:
    """``cnnpool explain``; returns the exit status. Mistakes are a ValueError of one line."""
    args = parser().parse_intermixed_args(arguments)
    group, word, options = chosen(args.words)
    picture = _picture(args.image) if args.image else None

    with loading("PyTorch"):
        from cnnpool.explain.example import IMAGES, example
        from cnnpool.explain.operator import batch, build, entry_of, found, listing, options_text
        from cnnpool.explain.operator import shown as as_typed
        from cnnpool.explain.text import text
        from cnnpool.pool import Pool2d

    if args.list:
        sys.stdout.write(listing())
        return 0
    if args.batch and len(args.values) == 1:
        raise ValueError("--batch: repeat --values, once for each image of the batch")
    where, name = found(word, group)
    images = batch(args.values) if args.values else IMAGES if args.batch else IMAGES[:1]
    shown = example(name, images, where, **options)
    sys.stdout.write(f"{text(shown)}\n{options_text(where, name)}")
    if picture:
        from cnnpool.explain.picture import figure

        try:
            figure(shown).savefig(picture, dpi=120)
        except OSError as error:
            raise ValueError(f"--image {picture}: {error}") from None
        sys.stdout.write(f"wrote {picture}\n")
    prefix = f"{where}=" if group else ""
    size = images.shape[2], images.shape[3]
    tried = [key for key in MORE if key not in options and _works(build, where, name, size, MORE[key])]
    sys.stdout.write(f"\nask more:\n{_more(prefix + name, where, tried, args)}\n")
    kept = [f"{where}.{key}={as_typed(value)}" for key, value in shown.options.items()]
    if where == "pool" and not issubclass(entry_of(where, name), Pool2d):
        sys.stdout.write(f"to train with it, derive {name} from cnnpool.pool.Pool2d\n")
    else:
        sys.stdout.write(next_lines(("cnnpool", "train", f"{where}={name}", *kept)))
    return 0


def _works(build: Callable[..., object], *arguments: object) -> bool:
    try:
        build(*arguments)
    except ValueError:
        return False
    return True


def _more(operator: str, group: "Group", keys: Iterable[str], asked: Namespace) -> str:
    shows = {"kernel_size": "windows that overlap", "ties": "what equal inputs get"}
    rows = [(" ".join([operator, *(f"{k}={v}" for k, v in MORE[key].items())]), shows[key]) for key in keys]
    values = "1 2; 3 4" if group == "pool" else "1 2 3 4; 5 6 7 8; 4 3 2 1; 8 7 6 5"
    rows += [(f"{operator} --batch", "two images, and where the mean over them enters")] * (not asked.batch)
    rows += [(f'{operator} --values "{values}"', "numbers of your own")] * (not asked.values)
    rows += [("--list", "the other operators")]
    width = max(len(words) for words, _ in rows)
    return "".join(f"  cnnpool explain {words:{width}}  {about}\n" for words, about in rows)


def parser() -> Parser:
    usage = "cnnpool explain [OPERATOR [KEY=VALUE ...]] [--batch] [--values ROWS] [--image FILE] | --list"
    about = "Forward and backward of one operator on a batch of small images, number by number."
    result = Parser("cnnpool explain", about, EXAMPLES, usage)
    add = result.add_argument
    words = "a pool or a readout (default: max), and any of its options as KEY=VALUE"
    add("words", nargs="*", metavar="OPERATOR", help=words)
    values = 'an image of your own, such as "1 2; 3 4"; repeat it for a batch (default: one of 4x4)'
    add("--values", action="append", default=[], metavar="ROWS", help=values)
    add("--batch", action="store_true", help="two images, and where the mean over them enters the gradient")
    add("--image", type=Path, metavar="FILE", help="also draw it, as .png, .svg or .pdf")
    add("--list", action="store_true", help="list the operators, grouped by their gradient")
    return result


def chosen(words: list[str]) -> tuple["Group | None", str, dict[str, object]]:
    """(group, operator, options) of ``max kernel_size=3``, or of ``readout=gem p=4``."""
    names = [word for word in words if "=" not in word]
    given = dict(assignment(word) for word in words if "=" in word)
    groups = [group for group in GROUPS if group in given]
    if len(names) + len(groups) > 1:
        extra = [*names, *(f"{group}={given[group]}" for group in groups)][1]
        raise ValueError(f"explain takes one operator, and options as KEY=VALUE; got {extra!r} too")
    group = groups[0] if groups else None
    name = str(given.pop(group)) if group else (names or ["max"])[0]
    return group, name, {key.removeprefix("pool.").removeprefix("readout."): given[key] for key in given}


def _picture(path: Path) -> Path:
    """The file to draw to; refused before any computation if it cannot be written."""
    path = path if path.suffix else path.with_name(f"{path.name}.png")
    if path.suffix.lower() not in PICTURES:
        raise ValueError(f"--image {path}: give a file that ends in {', '.join(PICTURES)}")
    if not path.parent.is_dir():
        raise ValueError(f"--image {path}: there is no folder {path.parent}")
    return path
