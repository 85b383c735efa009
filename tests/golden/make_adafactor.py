#!/usr/bin/env python3
"""Makes adafactor.json: steps of Adafactor on a matrix and a vector in fp32.

    make_adafactor.py > adafactor.json

Made with torch 2.11's torch.optim.Adafactor, whose rate is relative to the parameters' size, and
with transformers 5's Adafactor without scale_parameter and relative_step, as its Trainer makes it.
Numbers are fp32, written exactly.
"""

import json

import torch
from transformers.optimization import Adafactor

STEPS = 6
SHAPES = [(6, 50), (37,)]


def tensors(generator, scale):
    return [torch.randn(shape, generator=generator) * scale for shape in SHAPES]


def gradients():
    """Of very different sizes by row, by column and by step: some updates are clipped, some not. (None
    as small as what torch takes for zero.)"""
    generator = torch.Generator().manual_seed(23)
    for step in range(STEPS):
        matrix, vector = tensors(generator, 10.0 ** (step % 3 - 1))
        rows = torch.logspace(-3, 1, matrix.shape[0])[:, None]
        yield [matrix * rows * torch.logspace(1, -2, matrix.shape[1]), vector]


def run(make):
    parameters = [torch.nn.Parameter(p) for p in tensors(torch.Generator().manual_seed(1), 0.05)]
    optimizer = make(parameters)
    for each in gradients():
        for parameter, gradient in zip(parameters, each):
            parameter.grad = gradient.clone()
        optimizer.step()
    return flat(parameters)


def flat(values):
    # Nine digits give every fp32 back exactly.
    return [float(f"{x:.9g}") for each in values for x in each.detach().flatten().tolist()]


def main():
    def transformers(**options):
        return lambda p: Adafactor(p, scale_parameter=False, relative_step=False, **options)

    def torchs(**options):
        return lambda p: torch.optim.Adafactor(p, foreach=False, **options)

    cases = [
        {"spec": {"learning_rate": 1e-3, "weight_decay": 0.0}, "make": transformers(lr=1e-3)},
        {"spec": {"learning_rate": 1e-2, "weight_decay": 0.1, "decay_rate": 0.5,
                  "clip_threshold": 0.3},
         "make": transformers(lr=1e-2, weight_decay=0.1, decay_rate=-0.5, clip_threshold=0.3)},
        {"spec": {"learning_rate": 1e-2, "weight_decay": 0.1, "scale_parameter": True},
         "make": torchs(lr=1e-2, weight_decay=0.1)},
    ]
    lines = [json.dumps({"spec": case["spec"], "after": run(case["make"])}) for case in cases]
    print('{"start":%s,\n"gradients":[\n%s\n],\n"cases":[\n%s\n]}' %
          (json.dumps(flat(tensors(torch.Generator().manual_seed(1), 0.05))),
           ",\n".join(json.dumps(flat(each)) for each in gradients()), ",\n".join(lines)))


if __name__ == "__main__":
    main()
