"""The tables of a comparison for a paper: LaTeX with booktabs."""

from cnnpool import tables
from cnnpool.report.columns import main_columns, measure_tables
from cnnpool.report.comparison import Comparison


def render(comparison: Comparison) -> str:
    """The tables of the report as ``tabular`` environments; the preamble needs booktabs."""
    shown = [main_columns(comparison), *measure_tables(comparison)]
    return "% needs \\usepackage{booktabs}\n" + "\n".join(
        tables.latex(columns) for columns in shown if columns
    )
