"""Find the commands in the fenced blocks of Markdown pages, and shorten those that take long."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("cnnpool", "make", "python", "tensorboard", "pip", "source", "git", "cd", "export")
SHELLS = ("", "sh", "bash", "shell", "console")
SMOKE = {"train": ["fit=smoke"], "choose": ["fit=smoke", "choose.rounds=3"], "bench": ["--repeat", "1"]}
"""By command of ``cnnpool``, arguments that make it short."""
FEWER = {
    "experiment=every_operator": "pool=max,avg",
    "experiment=mnist_few": "pool=max,avg",
    "experiment=mnist_operators": "pool=max,avg",
    "out=outputs/openclipart": "pool=keep,max_blur",
}
"""By a word of a sweep of many choices, some of them."""
SKIPPED = (
    (r"^(make|pip|source|git|cd|export) |^python -m (venv|pip|pytest)\b", "installs or prepares"),
    (r"launch=(slurm|ray)\b", "needs a cluster"),
    (r"--weights\b", "downloads published weights"),
    (r"data=(torchvision|huggingface)\b", "downloads a published data set"),
    (r"--config-dir\b", "needs the reader's own folder of settings"),
    (r"--device cuda|fit\.devices=", "needs several devices or a GPU"),
    (r"^python scripts/", "generates a page from runs made at full length"),
)


@dataclass(frozen=True)
class Command:
    """A command line, or a Python program, as a page shows it.

    Args:
        page: name of the file.
        line: number in it, from 1.
        text: on one line, without its comment; of a program all lines.
        program: whether it is Python.
    """

    page: str
    line: int
    text: str
    program: bool = False

    @property
    def words(self) -> list[str]:
        """Of a command line, without the path of a virtual environment before the first."""
        first, *rest = shlex.split(self.text)
        return [first.removeprefix(".venv/bin/"), *rest]

    def skip_reason(self) -> str:
        """The reason why a fresh clone on one machine without a network cannot run it; empty if it can."""
        line = "" if self.program else f"{shlex.join(self.words)} "
        return next((reason for pattern, reason in SKIPPED if re.search(pattern, line)), "")

    def shortened(self) -> list[str]:
        """The words with smoke settings, and no more than two seeds."""
        words = [re.sub(r"^(seed=\d+,\d+)[\d,]*$", r"\1", word) for word in self.words]
        words = [re.sub(r"^choose\.budget=.*$", "choose.budget=20min", word) for word in words]
        # A number of images; the data sets that commands are tried on are small.
        words = [re.sub(r"^data\.val_size=\d{2,}$", "data.val_size=0.1", word) for word in words]
        if words[0] != "cnnpool" or len(words) < 2 or "--help" in words:
            return words
        extra = list(SMOKE.get(words[1], []))
        if words[1] == "train":
            if any(word.startswith("fit=") for word in words):
                extra.remove("fit=smoke")
            if "-m" in words and not any(word.startswith("seed=") for word in words):
                extra.append("seed=0,1")
        return [*words, *extra]


def fewer(words: list[str]) -> list[str]:
    """The words with some choices alone where they ask for very many."""
    for word in FEWER.keys() & set(words):
        key, few = FEWER[word].partition("=")[0], FEWER[word]
        words = [*(other for other in words if not other.startswith(f"{key}=")), few]
    return words


def commands(path: Path) -> list[Command]:
    """All commands in the fenced blocks of the page at ``path``.

    Raises:
        ValueError: for a block of commands with a line that begins with no known program.
    """
    found = []
    for language, line, lines in _blocks(path.read_text(encoding="utf-8")):
        if language == "python":
            found.append(Command(path.name, line, "\n".join(lines), program=True))
        elif language in SHELLS:
            found += _command_lines(path.name, line, lines)
    return found


def _blocks(text: str) -> Iterator[tuple[str, int, list[str]]]:
    """(language, number of the first line, lines) of every fenced block."""
    begin, language, lines = 0, "", []
    for number, line in enumerate(text.splitlines(), 1):
        fence = re.match(r"```+\s*(\w*)", line)
        if fence and not begin:
            begin, language, lines = number + 1, fence.group(1), []
        elif fence:
            yield language, begin, lines
            begin = 0
        elif begin:
            lines.append(line)


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
