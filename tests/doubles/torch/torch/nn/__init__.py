from . import modules  # noqa: F401
from .modules import Linear  # noqa: F401
