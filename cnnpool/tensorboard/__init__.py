"""TensorBoard's tab *Downsampling*: the contents of ``cnnpool compare``, live.

TensorBoard finds it by the entry point ``tensorboard_plugins``, which is ``cnnpool.tensorboard.loader``.
"""
