"""TensorBoard's tab *Downsampling*: what ``cnnpool compare`` reports, live.

TensorBoard finds it by the entry point ``tensorboard_plugins``; ``cnnpool.tensorboard.loader`` is its door.
"""
