"""What makers of golden numbers of transformers' models share."""

import json

import numpy
import torch


def values(name: str, index: int, count: int) -> numpy.ndarray:
    """The weights of tensor number `index`, in the order of names; tests/torch has the formula, too."""
    i = numpy.arange(count, dtype=numpy.float64)
    noise = numpy.sin(i * 12.9898 + (index + 1) * 78.233) * 43758.5453
    noise = 2 * (noise - numpy.floor(noise)) - 1
    if "norm" in name.lower():
        return (1 if name.endswith(".weight") else 0) + 0.2 * noise
    return (0.5 if name.endswith(".weight") else 0.1) * noise


def fill(named):
    """With those weights; of a state dict running statistics stay as they are."""
    with torch.no_grad():
        for index, (name, tensor) in enumerate(sorted(named.items())):
            if "running" not in name and "tracked" not in name:
                made = values(name, index, tensor.numel())
                tensor.copy_(torch.from_numpy(made).float().view(tensor.shape))


def project(tensor) -> float:
    """One number that any wrong, swapped or misplaced element would change."""
    flat = tensor.detach().double().flatten()
    return (flat * torch.cos(torch.arange(flat.numel(), dtype=torch.float64))).sum().item()


def digests(named) -> dict:
    """Norm and projection of each."""
    return {name: [tensor.norm().item(), project(tensor)] for name, tensor in sorted(named.items())}


def gradients(named) -> dict:
    return digests({name: p.grad for name, p in named.items() if p.requires_grad})


def rounded(tensor) -> list:
    return [round(x, 7) for x in tensor.flatten().tolist()]


def train(optimizer, steps, losses_of, clip=None) -> list:
    """The losses of so many steps; losses_of(step) makes those of its micro-batches, one by one."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        total = 0.0
        for loss in losses_of(step):
            loss.backward()
            total += loss.item()
        if clip:
            torch.nn.utils.clip_grad_norm_(parameters, clip)
        optimizer.step()
        losses.append(total)
    return losses


def adamw(parameters, rate=2e-3):
    return torch.optim.AdamW(parameters, lr=rate, weight_decay=0.01)


def document(made) -> str:
    """As JSON, a line for each."""
    return json.dumps(made, separators=(",", ":")).replace('},"', '},\n"')


def write(variants, measure):
    torch.set_num_threads(1)
    print(document({name: measure(config) for name, config in variants.items()}))
