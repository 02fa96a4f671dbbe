"""The quantities that a training reports beside its probes."""

from cnnpool.quantity import Quantity, Shown, count, fraction, ratio


def _scores(split: str, images: str, shown: Shown) -> tuple[Quantity, ...]:
    accuracy = "Images classified correctly, divided by all images"
    return (
        fraction(
            f"{split}.accuracy",
            f"{split} accuracy",
            f"{accuracy}: {images}.",
            better="higher",
            shown=shown,
            headline=True,
        ),
        ratio(
            f"{split}.loss", f"{split} loss", f"Mean cross entropy, {images}.", better="lower", shown="file"
        ),
    )


BY_CLASS = (
    fraction(
        "test.balanced_accuracy",
        "balanced accuracy",
        "Mean over the classes of the accuracy on the test images of each, so that a small class counts as "
        "much as a large one. Reported for data sets of one's own.",
        better="higher",
        shown="compare",
    ),
    fraction(
        "test.class_accuracy.<class>",
        "accuracy on <class>",
        "Test images of the class that are classified correctly, divided by all of the class. Reported for "
        "data sets of one's own; dots in a name become underscores.",
        better="higher",
        shown="compare",
    ),
)
"""How well single classes are told; in reports up to ``cnnpool.fit.by_class.LISTED`` of them."""

TRAINING = (
    *_scores("test", "the test images, once training is over", "probe"),
    *BY_CLASS,
    *_scores("val", "the validation images", "file"),
    *_scores("train", "the training images of one epoch, as they were augmented", "file"),
    ratio("epoch.train_loss", "training loss", "Mean cross entropy of an epoch's training steps."),
    ratio("train.learning_rate", "learning rate", "Learning rate of the step."),
    count(
        "cost.train_images_per_s",
        "images/s",
        "Training images divided by the seconds of training, validation and probes left out.",
        better="higher",
        shown="compare",
        timed=True,
    ),
    Quantity(
        "cost.wall_s",
        "wall time",
        "Seconds from the start of a run to its last measurement, interruptions left out.",
        unit="s",
        better="lower",
        range=(0.0, None),
        shown="compare",
        timed=True,
    ),
    fraction(
        "cost.load",
        "load by others",
        "Processor time that other programs took while the run trained, divided by that of all processors it "
        "could use. Times of a run with more than 10 % say little.",
        shown="file",
    ),
)
