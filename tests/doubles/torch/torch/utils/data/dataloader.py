import time


class _BaseDataLoaderIter:
    """Iterator whose batches arrive after a wait of `seconds`."""

    def __init__(self, workers, seconds):
        self._num_workers, self.seconds = workers, seconds

    def __next__(self):
        time.sleep(self.seconds)
        return sum(range(100))
