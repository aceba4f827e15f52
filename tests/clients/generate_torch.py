"""The work of generate.py with PyTorch: a recurrent network that adds a token to each row in a pass,
and is trained on its answers by their reward (REINFORCE, advantages within a group).

A waiting side computes products whose results are not used, as the cores may share caches and power:
then a side is nearly as fast beside a waiting side as beside a working one. The separate
measurements of each side also have such a waiting side beside them.
"""

import torch
from torch.nn.functional import cross_entropy

WIDTH, WORDS, LAYERS = 256, 512, 2
PIECE = 16    # tokens of a backward pass: answers are cut into pieces, every second one is a row
RING = 4096   # answers whose tokens are stored


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, WIDTH)
        self.layers = torch.nn.GRU(WIDTH, WIDTH, LAYERS)
        self.head = torch.nn.Linear(WIDTH, WORDS)


class Shared:
    """Weights and tokens in shared memory; made before both sides are started."""

    def __init__(self, longest):
        torch.set_num_threads(1)
        torch.manual_seed(1)
        network = Network()
        self.weights = torch.nn.utils.parameters_to_vector(network.parameters()).detach().share_memory_()
        self.tokens = torch.zeros(RING, longest + 1, dtype=torch.int64).share_memory_()


class Waiting:
    def __init__(self, shared):
        torch.set_num_threads(1)
        self.shared, self.network = shared, Network()
        self.load()
        self.scratch = torch.rand(16, WIDTH)
        self.scratches = [torch.rand(WIDTH, 3 * WIDTH) for _ in range(2 * LAYERS)]

    def resume(self):
        pass

    def spin(self):
        """Products with as many weights as the network has."""
        for weights in self.scratches:
            torch.mm(self.scratch, weights)

    def wait(self, changed):
        """Waits for the other side, which needs `changed` meanwhile."""
        changed.release()
        self.spin()
        changed.acquire()

    def load(self):
        torch.nn.utils.vector_to_parameters(self.shared.weights.clone(), self.network.parameters())


class Generator(Waiting):
    requests_max = 256

    def __init__(self, shared):
        super().__init__(shared)
        self.state = torch.zeros(LAYERS, self.requests_max, WIDTH)
        self.rows = torch.zeros(3, self.requests_max, dtype=torch.int64)
        self.word, self.number, self.place = self.rows

    def load(self):
        super().load()
        layers = self.network.layers
        self.cells = [[getattr(layers, f"{kind}_l{layer}").detach() for kind in
                       ("weight_ih", "weight_hh", "bias_ih", "bias_hh")] for layer in range(LAYERS)]

    def begin(self, row, answer):
        """The prompt is one word."""
        self.state[:, row] = 0
        self.rows[:, row] = torch.tensor((answer % WORDS, answer % RING, 0))

    def end(self, row, last):
        self.state[:, row] = self.state[:, last]
        self.rows[:, row] = self.rows[:, last]

    @torch.inference_mode()
    def step(self, count):
        self.shared.tokens[self.number[:count], self.place[:count]] = self.word[:count]
        x = self.network.words.weight[self.word[:count]]
        for state, cell in zip(self.state, self.cells):
            x = torch.gru_cell(x, state[:count], *cell)
            state[:count] = x
        self.word[:count] = torch.multinomial(torch.softmax(self.network.head(x), 1), 1)[:, 0]
        self.place[:count] += 1
        self.shared.tokens[self.number[:count], self.place[:count]] = self.word[:count]


class Trainer(Waiting):
    def __init__(self, shared):
        super().__init__(shared)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=1e-4)

    def update(self, answers, lengths):
        tokens = [self.shared.tokens[answer % RING, :length + 1] for answer, length in
                  zip(answers, lengths)]
        rewards = torch.stack([(answer[1:] % 2 == 0).float().mean() for answer in tokens])
        advantages = rewards - rewards.mean()
        rows, weights = [], []
        for answer, advantage in zip(tokens, advantages):
            for start in range(0, len(answer) - 1, PIECE):
                rows.append(answer[start:start + PIECE + 1])
                weights.append(advantage)
        rows, weights = rows[::2], weights[::2]
        padded = torch.nn.utils.rnn.pad_sequence(rows, padding_value=-100)
        hidden, _ = self.network.layers(self.network.words(padded[:-1].clamp(min=0)))
        losses = cross_entropy(self.network.head(hidden).flatten(0, 1), padded[1:].flatten(),
                               reduction="none").view(padded.shape[0] - 1, -1)
        loss = (losses * torch.stack(weights)).sum() / sum(lengths)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def save(self):
        with torch.no_grad():
            self.shared.weights.copy_(torch.nn.utils.parameters_to_vector(self.network.parameters()))
