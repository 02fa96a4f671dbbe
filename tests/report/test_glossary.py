import runpy
from pathlib import Path

from cnnpool.probe import declared
from cnnpool.probe.consistency import PRESETS
from cnnpool.report import find, main
from cnnpool.report.comparison import compare
from cnnpool.report.document import glossary

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_script_writes():
    page = runpy.run_path(str(ROOT / "scripts" / "docs" / "glossary.py"))["glossary"]()
    assert (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8") == page
    for one in declared():
        key = [("<preset>" if part in PRESETS else part) for part in one.key.split(".")]
        assert f"`{'.'.join(key)}`" in page
    assert all(f"| `{name}` | {preset.source} |" in page for name, preset in PRESETS.items())


def test_everything_that_a_table_shows_is_defined_under_it(shelf):
    shelf.sweep(max=[0.9, 0.91], avg=[0.8, 0.81])
    comparison = compare(find([shelf.root]))
    words = dict(glossary(comparison))
    for one in (comparison.metric, *comparison.measures):
        assert words[one.quantity.title.replace("<px>", "d")].startswith(one.quantity.definition)
    assert words["test accuracy"].endswith("Higher is better.")
    assert "relative change at d px" in words and "<" not in "".join(words)
    assert main([str(shelf.root)]) == 0
    page = (shelf.root / "report" / "report.html").read_text()
    assert "Glossary" in page and words["FLOPs"] in page
