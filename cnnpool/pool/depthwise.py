"""A learnt filter per channel, with a stride."""

from cnnpool.pool.strided import StridedConv2d


class DepthwiseConv2d(StridedConv2d):
    """Strided convolution, one filter per channel: y_c = act(norm(w_c * x_c))[::s] (Howard 2017, MobileNet).

    A learnt counterpart of average and blur pooling: channels do not mix, k^2 C weights. Gradient, edges and
    options are those of ``StridedConv2d``.
    """

    formula = "act(norm(sum_i w_ci x_ci + b_c))"
    paper = "Howard 2017, arXiv:1704.04861"
    mixes = False
