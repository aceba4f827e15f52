"""Stands for MXNet: as much of it as the recorder of `dlprof run` touches, with operators that only
sleep. The profiler writes what MXNet's would."""

from . import autograd, context, ndarray, profiler  # noqa: F401
from . import ndarray as nd  # noqa: F401
from . import gluon  # noqa: F401
