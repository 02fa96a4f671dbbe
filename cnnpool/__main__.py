"""``python -m cnnpool`` is ``cnnpool``."""

from cnnpool.cli import main

if __name__ == "__main__":
    main()
