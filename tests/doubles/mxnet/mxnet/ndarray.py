from . import profiler


class NDArray:
    shape, dtype = (3, 4), "float32"

    def backward(self):
        for _ in range(3):
            profiler.operator("_backward_FullyConnected")


def waitall():
    profiler.waits += 1
