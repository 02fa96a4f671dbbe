"""Errors of data sets; every message names the files and the remedy."""

ONE_CLASS = (
    "training is on one class an image: list the file and class of each in a CSV for data=image_table "
    "data.table=CSV"
)


class DataError(ValueError):
    """Files that are missing, damaged or not what they claim to be; the message names them and the remedy."""


class DownloadError(DataError):
    """A data set that no address provides; another run would wait for the same failure."""
