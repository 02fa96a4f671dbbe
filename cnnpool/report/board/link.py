"""The address at which TensorBoard shows a comparison as it should be looked at."""

from urllib.parse import quote, urlencode

HOST = "http://localhost:6006"
# The first group decides the colour: the seeds of a choice share one, with their mean.
CHOICE = r"^(?:_mean/)?(.*?)(?:/seed\d+)?$"
SHOWN = "^(val|test|epoch|gradient/zero_fraction|gradient/coverage|invariance/consistency)/"


def link() -> str:
    """Time series by choice, unsmoothed, what decides first; for TensorBoard on this machine's usual port."""
    query = {"runColorGroup": f"regex:{CHOICE}", "smoothing": "0", "tagFilter": SHOWN}
    return f"{HOST}/?{urlencode(query, quote_via=quote)}#timeseries"
