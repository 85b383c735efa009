#!/usr/bin/env python3
"""Writes files of torch.save, and what is in them.

    make_torch_files.py FOLDER        # tests/golden

FOLDER/torch_files/NAME are the files, FOLDER/torch_files.json has the values of those that are
read by their tensors' names, and null for those that are refused. Made with torch 2.11.
"""

import collections
import json
import os
import sys

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 3)
        torch.nn.init.constant_(self.layer.weight, 0.5)
        torch.nn.init.constant_(self.layer.bias, -1)

    def forward(self, x):
        return self.layer(x)


def tensors():
    table = torch.arange(12, dtype=torch.float32).reshape(3, 4) / 4 - 1
    return collections.OrderedDict(
        table=table, tied=table, rows=table[1:], half=torch.tensor([1.5, -2, 2 ** -24]).half(),
        brain=torch.tensor([[3.0, -0.25]]).bfloat16(), count=torch.tensor(7),
        mask=torch.tensor([True, False]), empty=torch.zeros(0, 5),
        parameter=torch.nn.Parameter(torch.full((2, 2), 0.125)), one_row=table[:, :1][:1])


def read_files():
    plain = tensors()
    yield "zip.bin", plain, plain, {}
    yield "legacy.bin", plain, plain, {"_use_new_zipfile_serialization": False}
    yield "protocol4.pt", dict(plain), plain, {"pickle_protocol": 4}
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    state = net.state_dict()
    wrapped = {"module." + name: value for name, value in state.items()}
    trained = {"epoch": 3, "loss": 0.5, "optimizer": optimizer.state_dict(), "model": wrapped}
    yield "training.pt", trained, state, {}
    yield "training_legacy.pt", trained, state, {"_use_new_zipfile_serialization": False}
    yield "lightning.ckpt", {"pytorch-lightning_version": "2.0", "state_dict": state}, state, {}


def refused_files():
    yield "strided.pt", {"a": torch.arange(6.0).reshape(2, 3).t()}
    yield "sparse.pt", {"a": torch.eye(3).to_sparse()}
    yield "number.pt", {"a": torch.ones(2), "b": 3}
    yield "tensor.pt", torch.ones(3)
    yield "quantised.pt", {"a": torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8)}


def main():
    folder = sys.argv[1]
    os.makedirs(os.path.join(folder, "torch_files"), exist_ok=True)
    path = lambda name: os.path.join(folder, "torch_files", name)
    torch.manual_seed(1)
    said = {}
    for name, saved, values, options in read_files():
        torch.save(saved, path(name), **options)
        said[name] = {key: {"shape": list(value.shape), "values": value.double().flatten().tolist()}
                      for key, value in values.items()}
    for name, saved in refused_files():
        torch.save(saved, path(name))
        said[name] = None
    torch.save(Net(), path("module.pt"))
    torch.jit.save(torch.jit.script(Net()), path("script.pt"))
    said |= {"module.pt": None, "script.pt": None}
    with open(os.path.join(folder, "torch_files.json"), "w", encoding="utf-8") as file:
        file.write(json.dumps(said, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
