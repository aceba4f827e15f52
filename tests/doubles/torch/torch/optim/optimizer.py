from ..profiler import operator

hooks = []


def register_optimizer_step_post_hook(hook):
    hooks.append(hook)


class Optimizer:
    def __init__(self, parameters):
        self.param_groups = [{"params": parameters}]

    def step(self):
        with operator("Optimizer.step#SGD.step", "user_annotation"):
            pass
        for hook in hooks:
            hook(self, (), {})
