from .module import Linear  # noqa: F401
