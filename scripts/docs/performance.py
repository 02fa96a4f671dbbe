"""Write docs/performance.md from results files of ``cnnpool bench --out``."""

import json
from pathlib import Path

from scripts.benchmarks import curves, figures
from scripts.benchmarks.operators import document

docs = Path(__file__).resolve().parents[2] / "docs"
files = [json.loads(path.read_text()) for path in sorted((docs / "bench").glob("*.json"))]
operators = document([results for results in files if results["suite"] == "pool"])
runs = [figures.section(results) for results in files if results["suite"] in figures.TITLES]
runs += [curves.section(results) for results in files if results["suite"] == "scale"]
(docs / "performance.md").write_text("\n".join([operators, *runs]))
print(f"wrote {docs / 'performance.md'}")
