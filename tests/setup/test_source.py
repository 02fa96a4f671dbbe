"""The source: no code comes from a file, nothing listens to the world, no sentence begins with What."""

import ast
import io
import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = sorted(ROOT.glob("cnnpool/**/*.py"))
RUNS_CODE = {
    "eval", "exec", "compile", "os.system", "os.popen", "pickle.load", "pickle.loads", "marshal.loads",
    "hydra.utils.instantiate", "hydra.utils.call", "instantiate", "torch.hub.load", "torch.jit.load",
    "torch.export.load", "torch.package.PackageImporter", "yaml.load", "yaml.unsafe_load", "shelve.open",
    "joblib.load", "shutil.unpack_archive",
}  # fmt: skip
OPTIONS = ("allow_pickle", "shell", "weights_only")


def wrong(source):
    """Calls in ``source`` that run code from a file, or trust a file to be plain."""
    found = []
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
        name = ast.unparse(call.func)
        options = {word.arg: ast.unparse(word.value) for word in call.keywords if word.arg in OPTIONS}
        if name in RUNS_CODE:
            found.append(f"{call.lineno}: {name}")
        if name.endswith((".extract", ".extractall")):
            found.append(f"{call.lineno}: {name} writes where an archive says")
        if name == "torch.load" and options.get("weights_only") != "True":
            found.append(f"{call.lineno}: torch.load without weights_only=True")
        if name in ("np.load", "numpy.load") and options.get("allow_pickle", "False") != "False":
            found.append(f"{call.lineno}: {name} with pickles")
        if options.get("shell", "False") != "False":
            found.append(f"{call.lineno}: {name} by a shell")
    return found


def test_no_code_comes_from_a_file():
    found = {path.relative_to(ROOT).as_posix(): wrong(path.read_text(encoding="utf-8")) for path in PACKAGE}
    assert {path: calls for path, calls in found.items() if calls} == {}


def test_what_would_run_code_is_found():
    for source in (
        *("torch.load(path)", "torch.load(path, weights_only=False)", "eval(text)", "pickle.loads(data)"),
        *("np.load(path, allow_pickle=True)", "subprocess.run(text, shell=True)", "yaml.load(text)"),
        *("tar.extractall(folder)", "tarfile.open(path).extract(name)"),
    ):
        assert wrong(source), source


def test_nothing_listens_to_other_machines():
    texts = [*PACKAGE, *ROOT.glob("scripts/**/*.py"), *ROOT.glob("docs/*.md"), ROOT / "README.md"]
    open_to_all = re.compile(r"--bind_all|0\.0\.0\.0|--host[ =]")
    assert [path.name for path in texts if open_to_all.search(path.read_text(encoding="utf-8"))] == []
    from cnnpool.system.next_command import BOARD

    assert BOARD.startswith("http://localhost:")


FILES = sorted(path for room in ("cnnpool", "scripts", "tests") for path in (ROOT / room).rglob("*.py"))
# At the start, after a sentence, in a paragraph of its own.
WORD = re.compile(r"(?:What|Who|Whoever|Those who|That which|That what)\b")
QUESTION = re.compile(rf"(?:\A|[.!?]\s+|\n\s*\n\s*){WORD.pattern}")
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def begun_by_a_question(source):
    """(line, text) of every docstring and comment with a sentence that begins with a question word."""
    if not WORD.search(source):
        return []
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, DOCUMENTED)]
    texts = [(node.body[0].lineno, ast.get_docstring(node) or "") for node in nodes if node.body]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    texts += [(one.start[0], one.string.lstrip("# ")) for one in tokens if one.type == tokenize.COMMENT]
    return [(line, text[:60]) for line, text in texts if QUESTION.search(text)]


def test_no_docstring_or_comment_begins_with_a_question_word():
    found = {
        f"{path.relative_to(ROOT)}:{line}": text
        for path in FILES
        for line, text in begun_by_a_question(path.read_text(encoding="utf-8"))
    }
    assert not found


def test_a_question_word_is_found_at_the_beginning_of_a_sentence_alone():
    for source, lines in [
        ('"""What a run leaves."""', [1]),
        ('"""A run. Who asks for more gets it."""', [1]),
        ('"""A run.\n\nWhoever asks."""', [1]),
        ('"""A run and what it leaves; who asks."""\nx = 1  # what is asked', []),
        ("x = 1\n# What is left.", [2]),
        ('def f():\n    """Whole numbers. Whatever is left."""', []),
        ('x = "What a text."', []),
    ]:
        assert [line for line, _ in begun_by_a_question(source)] == lines
