"""A network that answers no better than one that has never seen an image."""

from collections.abc import Sequence


def warning(accuracy: float, counts: Sequence[int]) -> str:
    """The warning about an accuracy that always naming the commonest class would have reached; else nothing.

    Args:
        accuracy: share of the test images classified correctly, 0..1.
        counts: test images of each class.

    Returns:
        A sentence where the accuracy lies no more than two standard errors (binomial, of so many images)
        above the share of the commonest class; empty elsewhere, and where all images have one class.
    """
    total, most = sum(counts), max(counts)
    share = most / total
    error = (share * (1 - share) / total) ** 0.5
    if most == total or accuracy > share + 2 * error:
        return ""
    return (
        f"the network learned nothing that helps on the test images: accuracy {100 * accuracy:.1f} %, and "
        f"{100 * share:.1f} % by always naming the commonest class. Try a lower fit.lr, or more fit.epochs"
    )
