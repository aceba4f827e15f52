from . import trainer
from .trainer import Trainer  # noqa: F401
