#!/usr/bin/env python3
"""Makes optimizers.json: 20 steps of torch.optim on a few hundred fp32 parameters.

    make_optimizers.py > optimizers.json

Made with torch 2.11, single-tensor paths (foreach=False, fused=False); Lion, which torch does not
have, is written here as its paper has it (Chen et al., 2023, program 1). The first half of
the parameters decays, the second does not. Numbers are fp32, written exactly.
"""

import json

import torch

STEPS = 20
COUNT = 300


def gradients():
    """The same for every case; element 0 stays zero, magnitudes cover ten decades."""
    generator = torch.Generator().manual_seed(20)
    scale = torch.logspace(-8, 2, COUNT)
    scale[0] = 0
    return [torch.randn(COUNT, generator=generator) * scale for _ in range(STEPS)]


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr, betas):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (beta1, beta2), lr = group["betas"], group["lr"]
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.mul_(1 - lr * group["weight_decay"])
                p.add_(torch.sign(m * beta1 + (1 - beta1) * p.grad), alpha=-lr)
                m.mul_(beta2).add_(p.grad, alpha=1 - beta2)


def run(make_optimizer, weight_decay, keys):
    """The parameters and the state planes in `keys` after the last step."""
    start = torch.randn(COUNT, generator=torch.Generator().manual_seed(1))
    halves = [torch.nn.Parameter(half.clone()) for half in start.chunk(2)]
    optimizer = make_optimizer([{"params": [halves[0]], "weight_decay": weight_decay},
                                {"params": [halves[1]], "weight_decay": 0.0}])
    for gradient in gradients():
        for half, part in zip(halves, gradient.chunk(2)):
            half.grad = part.clone()
        optimizer.step()

    def joined(tensors):
        return torch.cat([t.detach() for t in tensors]).tolist()

    result = {"weight": joined(halves)}
    for key in keys:
        result[key] = joined([optimizer.state[half][key] for half in halves])
    return result


def main():
    one_by_one = {"foreach": False, "fused": False}
    moments = ["exp_avg", "exp_avg_sq"]
    cases = []
    for fields, make, keys in (
        ({"kind": "adamw", "learning_rate": 1e-3, "weight_decay": 0.1},
         lambda p: torch.optim.AdamW(p, lr=1e-3, **one_by_one), moments),
        ({"kind": "adamw", "learning_rate": 3e-2, "beta1": 0.8, "beta2": 0.95, "eps": 1e-6,
          "weight_decay": 0.01},
         lambda p: torch.optim.AdamW(p, lr=3e-2, betas=(0.8, 0.95), eps=1e-6, **one_by_one),
         moments),
        ({"kind": "adam", "learning_rate": 1e-3, "weight_decay": 0.1},
         lambda p: torch.optim.Adam(p, lr=1e-3, **one_by_one), moments),
        ({"kind": "sgd", "learning_rate": 1e-2, "weight_decay": 0.1},
         lambda p: torch.optim.SGD(p, lr=1e-2, **one_by_one), []),
        ({"kind": "sgd", "learning_rate": 1e-2, "weight_decay": 0.1, "momentum": 0.9},
         lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, **one_by_one), ["momentum_buffer"]),
        ({"kind": "sgd", "learning_rate": 1e-2, "weight_decay": 0.0, "momentum": 0.9,
          "dampening": 0.3},
         lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, dampening=0.3, **one_by_one),
         ["momentum_buffer"]),
        ({"kind": "sgd", "learning_rate": 1e-2, "weight_decay": 0.1, "momentum": 0.9,
          "nesterov": True},
         lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, nesterov=True, **one_by_one),
         ["momentum_buffer"]),
        ({"kind": "lion", "learning_rate": 1e-3, "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.99},
         lambda p: Lion(p, lr=1e-3, betas=(0.9, 0.99)), ["exp_avg"]),
    ):
        cases.append({"spec": fields, "after": run(make, fields["weight_decay"], keys)})
    start = torch.randn(COUNT, generator=torch.Generator().manual_seed(1)).tolist()

    def short(values):
        # Nine digits give every fp32 back exactly.
        return [float(f"{value:.9g}") for value in values]

    for case in cases:
        case["after"] = {key: short(values) for key, values in case["after"].items()}
    print('{"start":%s,\n"gradients":[\n%s\n],\n"cases":[\n%s\n]}' %
          (json.dumps(short(start)),
           ",\n".join(json.dumps(short(g.tolist())) for g in gradients()),
           ",\n".join(json.dumps(case) for case in cases)))


if __name__ == "__main__":
    main()
