from ...profiler import operator

hooks = []


class Hook:
    def __init__(self, hook):
        self.hook = hook
        hooks.append(hook)

    def remove(self):
        hooks.remove(self.hook)


def register_module_forward_pre_hook(hook):
    return Hook(hook)


class Linear:
    def __call__(self):
        for hook in hooks:
            hook(self, ())
        with operator("aten::linear"):
            pass
