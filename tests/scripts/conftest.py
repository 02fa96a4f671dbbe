from shelf import shelf

__all__ = ["shelf"]
