"""Write docs/performance.md from results files of ``cnnpool bench --out``."""

import json
from pathlib import Path

from cnnpool.bench.page import document

docs = Path(__file__).resolve().parents[1] / "docs"
files = [json.loads(path.read_text()) for path in sorted((docs / "bench").glob("*.json"))]
(docs / "performance.md").write_text(document(files))
print(f"wrote {docs / 'performance.md'}")
