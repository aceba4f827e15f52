class Context:
    def __init__(self, device_type):
        self.device_type = device_type
