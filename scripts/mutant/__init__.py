"""Small mistakes in our own operators, which their tests must find."""
