from shelf import new_shelf, shelf

__all__ = ["new_shelf", "shelf"]
