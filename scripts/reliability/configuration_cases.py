"""Cases for the fuzz of the configuration: command lines, and files of a folder of one's own."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOMS = (
    "data",
    "model",
    "pool",
    "readout",
    "probe",
    "fit",
    "experiment",
    "launch",
    "log",
    "choose",
    "nosuch",
)
ODD = (
    "null", "true", "", "0", "-1", "-0.0", "1e308", "1e999", "-.inf", "nan", "0x1F", "0b1", "0o17", "1_000",
    "1:30", "9" * 400, "9" * 5000, "1" + "0" * 19, "2001-01-01", "3+4j", "''", '""', "'\\''", "x" * 5000,
    "a b", "a:b", "a=b", "[", "]", "{", "}", ",", "[1,2", "{a:1", "[1,[2,[3]]]", "{a:{b:{c:1}}}",
    "{_target_:os.system}", "{name:max}", "[max]", "???", "~", "../../../etc/passwd", "/etc/passwd",
    "/dev/zero", "file:///etc/passwd", "harm", "pkg://harm", "harm.x", "os.system", "http://127.0.0.1:1/x",
    "\\", "\\,", "$", "${", "${}", "${}}", "${a", "%s%n", "\u202e", "\u0301", "\ufeff", "\U0001f600",
    "\udcff", "\x1b[31m", "\x07", "a\nb", "\r", "\t", "\x00", "\u2028", "٣", "ℵ", "İ",
    "torchvision:resnet18", "timm:x", "x:y:z", "timm:../../x", "torchvision:", ":", "max,avg", "keep",
    "inherit", "none",
)  # fmt: skip
REFERENCES = (
    "${seed}", "${pool}", "${pool.name}", "${nosuch}", "${.}", "${..}", "${...name}", "${hydra:}",
    "${hydra:runtime.cwd}", "${hydra:run.dir}", "${oc.env:HOME}", "${oc.env:NOSUCH}", "${oc.env:NOSUCH,3}",
    "${oc.env:}", "${oc.decode:'[1,2]'}", "${oc.decode:'{_target_: os.system}'}",
    "${oc.create:{_target_:os.system}}", "${oc.deprecated:seed}", "${oc.select:seed}",
    "${oc.select:nosuch,4}", "${oc.dict.keys:pool}", "${oc.dict.values:pool}", "${run_name:}",
    "${run_name:1,2}", "${norm_of_model:}", "${now:%Y}", "${now:}", "${python_version:}",
    "${python_version:micro}", "${eval:1+1}", "${nosuch:1}", "${${seed}}", "${oc.env:${oc.env:HOME}}",
    "${oc.decode:${oc.env:HOME}}", "${seed}${seed}", "${fit.epochs}", "${hydra.run.dir}", "${out}",
)  # fmt: skip
FUNCTIONS = (
    "range(3)", "range(0,1e9)", "range(0,3,0)", "range(3,0)", "range(0,1,1e-9)", "interval(0,1)",
    "choice(1,2)", "choice()", "glob(*)", "glob([*],exclude=m*)", "glob(../*)", "sort(3,1,2)",
    "sort(a,1,null)", "shuffle(1,2)", "shuffle(range(1000000))", "tag(a,b,choice(1,2))", "int(x)",
    "int('7')", "float(1e999)", "str([1])", "bool(x)", "json_str({a:1})", "extend_list(1,2)",
    "int(float(str(1)))", "int(9,8)", "nosuch(1)", "range()", "int(${seed})", "sort(range(3),reverse=true)",
)  # fmt: skip
NODES = (
    "_target_: os.system\n_args_: [touch harm]\n", '"\\x5ftarget_": os.system\n',
    "hydra:\n  searchpath: [pkg://harm]\n", "hydra:\n  callbacks:\n    x:\n      _target_: harm.X\n",
    "hydra: {job_logging: {handlers: {x: {'()': os.system}}}}\n", "hydra: {launcher: {_target_: harm.X}}\n",
    "hydra: {sweeper: {_target_: harm.X}}\n", "hydra: {run: {dir: /tmp}}\n", "hydra: 3\n",
    "hydra: {mode: MULTIRUN}\n", "hydra: {sweeper: {params: {seed: 'range(3)'}}}\n",
    "hydra: {output_subdir: ../x}\n", "hydra: {env: {x: 1}}\n", "hydra: {job: {chdir: true}}\n",
    "hydra: {job: {env_set: {PATH: x}}}\n", "hydra: null\n", "defaults: [harm]\n",
    "defaults: [/pool: mine]\n", "defaults: [_self_, _self_]\n", "defaults: {a: b}\n", "defaults: 3\n",
    "defaults: [{override /pool: avg}]\n", "defaults: [{override hydra/launcher: harm}]\n",
    "defaults: ['${seed}']\n", "defaults: [{override hydra/job_logging: colorlog}]\n",
    "defaults: [{optional /nosuch: x}]\n", "defaults: [{/pool@a.b: max}]\n",
    "defaults: [{/data: [mnist, digits]}]\n", "defaults: [../../etc/passwd]\n", "defaults: [pkg://harm]\n",
    "defaults: [null]\n", "x: !!python/object/apply:os.system [touch harm]\n",
    "x: !!python/name:os.system\n", "x: !harm 1\n", "x: !!binary aGk=\n", "x: !!set {a, b}\n",
    "x: !!omap [a: 1]\n", "x: !!float nan\n", "x: !!int 99x\n", "x: &a [*a]\n",
    "a: &a {b: 1}\nc:\n  <<: *a\n", "<<: [1]\n", "<<: {name: avg}\n", "? [a, b]\n: 1\n", "? {a: 1}\n: 2\n",
    "1: 2\n", "null: 1\n", "true: 1\n", "1.5: x\n", "'': 1\n", "a.b: 1\n", "'a b': 1\n", "a=b: 1\n",
    "x: |\n  text\n", "x: >-\n  text\n", "x: 'a\n\n  b'\n", "--- \nname: max\n---\nname: avg\n", "...\n",
    "%YAML 1.1\n---\nname: max\n", "- a\n- b\n", "3\n", "text\n", "\ufeffname: max\n", "x: 2001-01-01\n",
    "x: 2001-01-01T00:00:00Z\n", "x: 0x10\n", "x: 1_000\n", "x: 1:30\n", "x: 010\n", "x: .inf\n", "x: ~\n",
    "x: 1e5\n", "x: yes\n", "y: 1\n", "seed: 3\n", "seed: [1]\n", "pool: 3\n", "pool: {}\n", "pool: null\n",
    "stage: 3\n", "stage: {s1: 3}\n", "stage: {s1: {name: nosuch}}\n", "probe: {cost: 3}\n",
    "probe: [cost]\n", "fit: {lr: '${fit.lr}'}\n", "api_token: x\n", "data: {password: x}\n", "out: /\n",
    "out: ''\n", "name: 3\n", "name: [max]\n", "name: '../../x'\n", "name: null\n", "name: ???\n",
)  # fmt: skip
HEADERS = (
    "",
    "",
    "",
    "# @package _global_\n",
    "# @package hydra\n",
    "# @package hydra.callbacks\n",
    "# @package pool\n",
    "# @package stage.s1\n",
    "# @package ..\n",
)
DEPTHS = (3, 30, 300, 3000, 30_000)


@dataclass(frozen=True)
class Case:
    """Words after ``cnnpool train``, the files of the folder ``mine``, and whether all is checked."""

    words: list[str]
    files: dict[str, bytes] = field(default_factory=dict)
    dry: bool = True


def cases(conf: Path, count: int, chance: random.Random) -> Iterator[Case]:
    """``count`` cases made from the files of ``conf``."""
    files = {str(path.relative_to(conf)): path.read_bytes() for path in sorted(conf.rglob("*.yaml"))}
    keys = sorted({key for name, text in files.items() for key in _keys(name, text)})
    for number in range(count):
        make = _of_words if number % 2 else _of_files
        case = make(files, keys, chance)
        yield Case(case.words, case.files, dry=chance.random() < 0.7)


def _keys(name: str, text: bytes) -> Iterator[str]:
    """The dotted keys of a file, as on the command line, and the choice itself."""
    room = str(Path(name).parent).replace("/", ".")
    if room != ".":
        yield room
    stack: list[tuple[str, Any]] = [("" if room in (".", "experiment") else room, yaml.safe_load(text))]
    while stack:
        path, node = stack.pop()
        if isinstance(node, dict):
            stack += [
                (f"{path}.{key}".lstrip("."), below) for key, below in node.items() if key != "defaults"
            ]
        elif path:
            yield path


def _of_words(files: dict[str, bytes], keys: list[str], chance: random.Random) -> Case:
    words = [_word(files, keys, chance) for _ in range(chance.choice((1, 1, 1, 2, 3)))]
    return Case([*words, *(["-m"] if chance.random() < 0.3 else [])])


def _word(files: dict[str, bytes], keys: list[str], chance: random.Random) -> str:
    key = chance.choice(keys) if chance.random() < 0.8 else chance.choice(ROOMS)
    key = chance.choice(
        (
            key,
            key,
            key,
            key.upper(),
            f"{key}.x",
            f"{key}[0]",
            f"{key}@stage.s1",
            f"{key}@hydra",
            f"'{key}'",
            key.replace(".", "/"),
        )
    )
    word = f"{chance.choice(('', '', '', '+', '++', '~'))}{key}={_value(files, chance)}"
    return _flipped(word, chance) if chance.random() < 0.25 else word


def _value(files: dict[str, bytes], chance: random.Random) -> str:
    names = [Path(name).stem for name in files]
    kind = chance.random()
    if kind < 0.08:
        depth = chance.choice(DEPTHS)
        return chance.choice(
            (
                "[" * depth + "]" * depth,
                "{a:" * depth + "1" + "}" * depth,
                "${" * depth + "}" * depth,
                "int(" * depth + "1" + ")" * depth,
            )
        )
    pools = (ODD, REFERENCES, FUNCTIONS, names)
    value = chance.choice(chance.choice(pools))
    return chance.choice(
        (
            value,
            value,
            value,
            f"'{value}'",
            f'"{value}"',
            f"[{value}]",
            f"{{a:{value}}}",
            f"{value},{chance.choice(ODD)}",
        )
    )


def _flipped(text: str, chance: random.Random) -> str:
    """The text with bits of it flipped, as a shell could hand it over."""
    altered = bytearray(text.encode("utf-8", "surrogateescape"))
    for _ in range(chance.choice((1, 1, 1, 4))):
        altered[chance.randrange(len(altered))] ^= 1 << chance.randrange(8)
    return bytes(altered).replace(b"\0", b"").decode("utf-8", "surrogateescape")


def _of_files(files: dict[str, bytes], keys: list[str], chance: random.Random) -> Case:
    source = chance.choice(sorted(files))
    room = chance.choice([str(Path(source).parent), "pool", "experiment"])
    alter: Callable[[bytes, random.Random], bytes] = chance.choice(
        (_bits, _cut, _swapped, _added, _added, _added, _deep)
    )
    content = chance.choice(HEADERS).encode() + alter(files[source], chance)
    words = ["--config-dir", "mine"]
    if room == ".":
        return Case([*words, "--config-name", "mine"], {"mine.yaml": content})
    words.append(f"{'+' if room == 'experiment' and chance.random() < 0.1 else ''}{room}=mine")
    if chance.random() < 0.2:
        words.append(_word(files, keys, chance))
    name = f"{room}/mine.yaml" if chance.random() < 0.95 else source
    return Case(words, {name: content})


def _bits(content: bytes, chance: random.Random) -> bytes:
    altered = bytearray(content or b"\n")
    for _ in range(chance.choice((1, 1, 3, 9))):
        altered[chance.randrange(len(altered))] ^= 1 << chance.randrange(8)
    return bytes(altered)


def _cut(content: bytes, chance: random.Random) -> bytes:
    begin = chance.randrange(len(content) + 1)
    return content[:begin] + content[chance.randrange(begin, len(content) + 1) :]


def _swapped(content: bytes, chance: random.Random) -> bytes:
    """Another value, or a key in another spelling, on one line."""
    lines = content.decode().split("\n")
    place = chance.randrange(len(lines))
    key, colon, _ = lines[place].partition(":")
    value = chance.choice((*ODD, *REFERENCES))
    lines[place] = chance.choice(
        (
            f"{key}: {value}",
            f'"{key.strip()}"{colon} {value}',
            f"{key}{colon} '{value}'",
            f"{key}{colon} [{value}]",
            value,
        )
    )
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def _added(content: bytes, chance: random.Random) -> bytes:
    nodes = "".join(chance.choice(NODES) for _ in range(chance.choice((1, 1, 2))))
    return chance.choice((nodes.encode(), content + b"\n" + nodes.encode(), nodes.encode() + content))


def _deep(content: bytes, chance: random.Random) -> bytes:
    depth = chance.choice(DEPTHS)
    text = chance.choice(
        (
            f"x: {'[' * depth}{']' * depth}",
            f"x: {'{a: ' * depth}1{'}' * depth}",
            "[" * depth,
            f"x: {'- ' * depth}1",
            "\n".join(" " * i + "a:" for i in range(min(depth, 1000))),
            f"x: '{'${' * depth}{'}' * depth}'",
            f"x: {'9' * depth}",
            "a0: &a0 [x, x]\n" + "\n".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 40)),
        )
    )
    return content + b"\n" + text.encode()
