"""Times steps of a small GPT-like transformer in plain PyTorch on the processor, for comparison
with dlsim's estimate of transformer:layers=L,width=W,heads=H,sequence=S,vocabulary=V,positions=S,
dropout=no: median seconds of forward, backward and update.

Usage: transformer_step.py LAYERS WIDTH HEADS SEQUENCE BATCH VOCABULARY [STEPS [THREADS]]
"""
import statistics
import sys
import time


def make(layers, width, heads, sequence, vocabulary):
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            batch, tokens, _ = x.shape
            parts = self.qkv(self.norm1(x)).view(batch, tokens, 3, heads, width // heads)
            q, k, v = parts.permute(2, 0, 3, 1, 4)
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(attended.transpose(1, 2).reshape(batch, tokens, width))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(vocabulary, width)
            self.positions = nn.Embedding(sequence, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, vocabulary, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, tokens, targets):
            x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
            scores = self.head(self.norm(self.blocks(x)))
            return F.cross_entropy(scores.view(-1, vocabulary), targets.view(-1))

    return Transformer()


def main():
    import torch
    layers, width, heads, sequence, batch, vocabulary = (int(x) for x in sys.argv[1:7])
    steps = int(sys.argv[7]) if len(sys.argv) > 7 else 12
    torch.manual_seed(0)
    if len(sys.argv) > 8:
        torch.set_num_threads(int(sys.argv[8]))
    model = make(layers, width, heads, sequence, vocabulary)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens, targets = (torch.randint(vocabulary, (batch, sequence)) for _ in range(2))
    times = []
    for _ in range(steps + 2):  # the first two are warm-up
        at = [time.perf_counter()]
        optimizer.zero_grad()
        loss = model(tokens, targets)
        at.append(time.perf_counter())
        loss.backward()
        at.append(time.perf_counter())
        optimizer.step()
        at.append(time.perf_counter())
        times.append([b - a for a, b in zip(at, at[1:])] + [at[-1] - at[0]])
    parts = [statistics.median(column) for column in zip(*times[2:])]
    whole = [row[-1] for row in times[2:]]
    print(f"{torch.get_num_threads()} threads: forward {parts[0]:.4g} backward {parts[1]:.4g} "
          f"update {parts[2]:.4g} step {parts[3]:.4g} s (least {min(whole):.4g}, most "
          f"{max(whole):.4g})")


if __name__ == "__main__":
    main()
