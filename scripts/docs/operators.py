"""Write docs/operators.md from the code."""

from pathlib import Path

from cnnpool.explain.catalogue import catalogue

path = Path(__file__).resolve().parents[2] / "docs" / "operators.md"
path.parent.mkdir(exist_ok=True)
path.write_text(catalogue())
print(f"wrote {path}")
