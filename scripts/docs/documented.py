"""Find the commands in the fenced blocks of Markdown pages, and shorten those that take long."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("cnnpool", "make", "python", "tensorboard", "pip", "source", "git", "cd", "export")
SHELLS = ("", "sh", "bash", "shell", "console")


@dataclass(frozen=True)
class Command:
    """A command line, or a Python ``program``, as a line of a page shows it."""

    page: str
    line: int
    text: str
    """On one line, without its comment; of a program all lines."""
    program: bool = False

    @property
    def words(self) -> list[str]:
        """Of a command line, without the path of a virtual environment before the first."""
        first, *rest = shlex.split(self.text)
        return [first.removeprefix(".venv/bin/"), *rest]

    def shortened(self) -> list[str]:
        """The words of a training with smoke settings, and one seed."""
        words = [re.sub(r"^seed=(?:range\()?(\d+)[\d,]*\)?$", r"seed=\1", word) for word in self.words]
        if words[:2] != ["cnnpool", "train"] or "--help" in words:
            return words
        extra = [] if any(word.startswith("fit=") for word in words) else ["fit=smoke"]
        if "-m" in words and not any(word.startswith("seed=") for word in words):
            extra.append("seed=0")
        return [*words, *extra]


def quick(program: str) -> str:
    """``program`` with one epoch, one trial of a search and at most two seeds."""
    once = re.sub(r"""(epochs"?|n_trials)(=|: )\d+""", r"\1\g<2>1", program)
    return re.sub(r"\bseed=(\d+,\d+)[\d,]*", r"seed=\1", once)


def commands(path: Path) -> list[Command]:
    """All commands in the fenced blocks of the page; ValueError for a line in one without a known program."""
    found = []
    for language, line, lines in _blocks(path.read_text(encoding="utf-8")):
        if language == "python":
            found.append(Command(path.name, line, "\n".join(lines), program=True))
        elif language in SHELLS:
            found += _command_lines(path.name, line, lines)
    return found


def _blocks(text: str) -> Iterator[tuple[str, int, list[str]]]:
    """(language, number of the first line, lines) of every fenced block."""
    for found in re.finditer(r"^```+ *(\w*).*\n((?:.*\n)*?)```", text, re.MULTILINE):
        yield found[1], text.count("\n", 0, found.start(2)) + 1, found[2].splitlines()


def _command_lines(page: str, begin: int, lines: list[str]) -> Iterator[Command]:
    """A block is one of commands if its first line is one; with ``$`` before them, the rest is output."""
    prompted = any(line.startswith("$ ") for line in lines)
    joined, start, first = "", begin, True
    for number, line in enumerate(lines, begin):
        start = start if joined else number
        joined += line
        if joined.endswith("\\"):
            joined = joined[:-1]
            continue
        text, joined = joined.strip(), ""
        if prompted and not text.startswith("$ "):
            continue
        words = _split(text.removeprefix("$ "))
        if not words:
            continue
        if words[0].removeprefix(".venv/bin/") not in PROGRAMS:
            if first:
                return
            raise ValueError(f"{page}:{start}: {words[0]!r} is not one of {', '.join(PROGRAMS)}")
        first = False
        yield Command(page, start, shlex.join(words))


def _split(text: str) -> list[str]:
    """The words before a comment; of text that a shell would not take, those between spaces."""
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split()
