"""Small models with synthetic batches, for training on a processor's cores."""

import torch
from torch import nn


class Attention(nn.Module):
    """A causal transformer of two layers over at most `tokens` tokens."""

    def __init__(self, words=1000, width=128, tokens=64):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.place = nn.Parameter(torch.zeros(tokens, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, words)
        mask = nn.Transformer.generate_square_subsequent_mask(tokens)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, tokens):
        count = tokens.shape[1]
        hidden = self.layers(self.embed(tokens) + self.place[:count],
                             mask=self.mask[:count, :count], is_causal=True)
        return self.head(hidden).flatten(0, 1)


def make_mlp():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
        nn.Linear(512, 10))


def make_cnn():
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 8 * 8, 256), nn.ReLU(), nn.Linear(256, 10))


def images(batch, shape):
    return torch.randn(batch, *shape), torch.randint(0, 10, (batch,))


def sentences(batch, count=64):
    tokens = torch.randint(0, 1000, (batch, count + 1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].flatten()


def unequal_sentences(batch):
    """All sentences of a batch have the length of its longest, which is uniform between 16 and
    112."""
    return sentences(batch, int(torch.randint(16, 113, ())))


# name: (model, batch of n samples)
MODELS = {
    "mlp": (make_mlp, lambda n: images(n, (1, 28, 28))),
    "cnn": (make_cnn, lambda n: images(n, (3, 32, 32))),
    "transformer": (Attention, sentences),
    "unequal": (lambda: Attention(tokens=112), unequal_sentences),
}


def make(name):
    """Returns the model and the function that makes a batch, both equal in all processes."""
    torch.manual_seed(1)
    model, batch = MODELS[name]
    return model(), batch
