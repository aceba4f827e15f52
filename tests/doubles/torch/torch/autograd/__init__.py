from . import profiler  # noqa: F401


hooks = []  # called during each backward pass
running = False


def backward(tensors):
    global running
    from ..profiler import operator

    running = True
    for layer in range(3):
        with operator("autograd::engine::evaluate_function: AddmmBackward0"):
            pass
    for hook in hooks:
        hook()
    running = False
