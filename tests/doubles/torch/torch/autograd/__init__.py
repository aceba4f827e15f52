from . import profiler  # noqa: F401


def backward(tensors):
    from ..profiler import operator

    for layer in range(3):
        with operator("autograd::engine::evaluate_function: AddmmBackward0"):
            pass
