"""TensorBoard's tab *Downsampling*: the contents of ``cnnpool compare``, live."""
