"""Alter words of a command line, and see that each is fine or refused in one line.

usage: python scripts/reliability/fuzz_configuration.py [N] [SEED]

N command lines (default 3000) of ``cnnpool train --cfg job --resolve`` in this process: known keys with
odd values, references, functions of Hydra, depth, or bits flipped. Prints one JSON object; status 1 if
anything crashed, hung, or said other than one line that a terminal can show.
"""

import io
import random
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import yaml

from cnnpool import cli
from cnnpool.launch import conf_dir
from cnnpool.schema import GROUPS, names, options_of
from cnnpool.system.output import Visible
from scripts.reliability.fuzzing import Hung, fuzz, patience

COUNTS = ("cases", "fine", "refused", "crashed", "hung", "not one line")
VALUES = (
    "null", "true", "", "0", "-1", "1e308", "-.inf", "nan", "0x1F", "1_000", "1:30", "9" * 5000, "x" * 5000,
    "2001-01-01", "''", "'\\''", "a b", "a:b", "a=b", "[", "}", ",", "[1,[2,[3]]]", "{a:{b:1}}", "{name:max}",
    "{_target_:os.system}", "???", "~", "../../../etc/passwd", "/dev/zero", "pkg://harm", "os.system", "\\",
    "$", "${", "${}", "${a", "%s%n", "\u202e", "\u0301", "\ufeff", "\U0001f600", "\udcff", "\x1b[31m",
    "a\nb", "\r", "\x00", "\u2028", "٣", "torchvision:resnet18", "timm:../../x", ":", "max,avg", "keep",
    "${seed}", "${pool}", "${nosuch}", "${...name}", "${hydra:run.dir}", "${oc.env:NOSUCH}",
    "${oc.decode:'[1,2]'}", "${oc.create:{_target_:os.system}}", "${now:}", "${eval:1+1}", "${${seed}}",
    "range(3)", "range(0,1e9)", "range(0,1,1e-9)", "interval(0,1)", "choice()", "glob(../*)",
    "sort(a,1,null)", "shuffle(range(1000000))", "int(x)", "float(1e999)", "nosuch(1)", "range()",
    "[" * 300 + "]" * 300, "${" * 300 + "}" * 300, "int(" * 3000 + "1" + ")" * 3000,
)  # fmt: skip


def main(arguments: list[str]) -> int:
    keys = sorted({*all_keys(), *(key for path in conf_dir().rglob("*.yaml") for key in known_keys(path))})

    def altered(chance: random.Random) -> str:
        words = [word(keys, chance) for _ in range(chance.choice((1, 1, 2)))] + ["-m"] * chance.choice((0, 1))
        outcome, said = tried(words)
        if outcome in COUNTS[3:]:
            print(f"{outcome}: {words} -> {said!r}"[:2000], file=sys.stderr)
        return outcome

    return fuzz(arguments, COUNTS, altered)


def all_keys() -> Iterator[str]:
    """Every option of every choice, as on the command line."""
    for group in GROUPS:
        for name in names(group):
            place = f"{group}.{name}" if group in ("callback", "probe") else group
            yield from (f"{place}.{option}" for option in options_of(group, name))


def known_keys(path: Path) -> Iterator[str]:
    """The dotted keys of a file of settings, as on the command line, and its group."""
    group = str(path.parent.relative_to(conf_dir())).replace("/", ".")
    stack = [("" if group in (".", "experiment") else group, yaml.safe_load(path.read_text()))]
    while stack:
        key, node = stack.pop()
        if key:
            yield key
        if isinstance(node, dict):
            stack += [(f"{key}.{name}".lstrip("."), one) for name, one in node.items() if name != "defaults"]


def word(keys: list[str], chance: random.Random) -> str:
    """One word: a key, perhaps misspelt, with an odd value, or some bits of that flipped."""
    key = chance.choice(keys)
    altered = (key.upper(), f"{key}.x", f"{key}[0]", f"{key}@stage.s1", key.replace(".", "/"))
    key = chance.choice((key, key, *altered))
    value = chance.choice(VALUES)
    value = chance.choice((value, value, f"'{value}'", f"[{value}]", f"{{a:{value}}}", f"{value},1"))
    text = f"{chance.choice(('', '', '+', '++', '~'))}{key}={value}"
    if chance.random() < 0.75:
        return text
    altered = bytearray(text.encode("utf-8", "surrogateescape"))
    altered[chance.randrange(len(altered))] ^= 1 << chance.randrange(8)
    return bytes(altered).replace(b"\0", b"").decode("utf-8", "surrogateescape")


def tried(words: list[str]) -> tuple[str, str]:
    """The outcome of a command line, and what was said on stderr."""
    content, status = io.BytesIO(), 0
    # As on a terminal: control characters are escapes there.
    err = Visible(content, "utf-8", "backslashreplace", line_buffering=True)
    try:
        with patience(), redirect_stdout(io.StringIO()), redirect_stderr(err):
            cli.main(["train", "--cfg", "job", "--resolve", *words])
    except SystemExit as end:
        status = int(end.code or 0)
    except Hung:
        return "hung", ""
    except BaseException as error:
        return "crashed", f"{type(error).__name__}: {error}"
    said = content.getvalue().decode()
    if status == 0:
        return "fine", said
    # A line of information before it is no refusal.
    line = said[said.find("error: ") :]
    shown = all(unicodedata.category(mark) not in ("Cc", "Zl", "Zp") for mark in line[:-1])
    if status == 2 and line.startswith("error: ") and line.endswith("\n") and shown:
        return "refused", line
    return "not one line", f"{status}: {said}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
