"""A document as one HTML file: style and pictures inside, nothing fetched."""

import base64
from collections.abc import Sequence
from html import escape

from cnnpool import tables
from cnnpool.report.document import Block, Code, Heading, Items, Paragraph, Table
from cnnpool.report.plots import Plot

STYLE = """
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 70rem; padding: 1rem; background: #fff; color: #1a1a1a;
       font: 1rem/1.5 system-ui, sans-serif; }
h1, h2, p, li, figcaption, pre { overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.2rem; margin-top: 2rem; }
.wide { overflow-x: auto; margin-bottom: 1rem; }
table { border-collapse: separate; border-spacing: 0; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .35rem .6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #ddd; }
th { border-bottom: 2px solid #1a1a1a; vertical-align: bottom; white-space: normal; overflow-wrap: normal; }
th.words, td.words { text-align: left; }
td.words { white-space: normal; overflow-wrap: normal; min-width: 10rem; }
th:first-child, td:first-child { position: sticky; left: 0; background: #fff; min-width: 0; max-width: 14rem;
                                 white-space: normal; overflow-wrap: break-word; }
th.words:last-child, td.words:last-child { position: sticky; right: 0; background: #fff;
                                           box-shadow: -6px 0 6px -6px #999; }
td.better { color: #00664a; font-weight: 600; } td.worse { color: #a03c00; font-weight: 600; }
figure { margin: 1.5rem 0; } figure img { max-width: 100%; height: auto; }
figcaption { color: #555; font-size: .9rem; }
pre { background: #f4f4f4; padding: .7rem; white-space: pre-wrap; }
@media (max-width: 40rem) {
  th.words:last-child, td.words:last-child { min-width: 7rem; font-size: .8rem; padding: .35rem; }
  th:first-child, td:first-child { max-width: 6rem; }
}
"""


def render(title: str, blocks: Sequence[Block]) -> str:
    """A whole page that can be sent as it is."""
    body = "\n".join(map(_block, blocks))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


def _block(block: Block) -> str:
    match block:
        case Heading(text):
            return f"<h2>{escape(text)}</h2>"
        case Paragraph(text):
            return f"<p>{escape(text)}</p>"
        case Items(items):
            terms = (
                f"<b>{escape(term)}:</b> {escape(text)}" if term else escape(text) for term, text in items
            )
            return "<ul>\n" + "\n".join(f"<li>{item}</li>" for item in terms) + "\n</ul>"
        case Table(columns):
            return f'<div class="wide">{tables.html(columns, ("better", "worse"))}</div>'
        case Code(text):
            return f"<pre>{escape(text)}</pre>"
        case Plot():
            return _figure(block)


def _figure(plot: Plot) -> str:
    picture = base64.b64encode(plot.svg).decode("ascii")
    caption = escape(plot.caption)
    return (
        f'<figure><img src="data:image/svg+xml;base64,{picture}" alt="{caption}">\n'
        f"<figcaption>{caption}</figcaption></figure>"
    )
