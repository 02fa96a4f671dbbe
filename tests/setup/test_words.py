"""Docstrings and comments begin with a subject or a verb."""

import ast
import io
import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = sorted(path for room in ("cnnpool", "scripts", "tests") for path in (ROOT / room).rglob("*.py"))
# At the start, after a sentence, in a paragraph of its own.
QUESTION = re.compile(r"(?:\A|[.!?]\s+|\n\s*\n\s*)(?:What|Who|Whoever|Those who|That which|That what)\b")
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def begun_by_a_question(source):
    """(line, text) of every docstring and comment with a sentence that begins with a question word."""
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
