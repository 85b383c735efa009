#!/usr/bin/env python3
"""Makes packed.json and packed/KIND/ from bitsandbytes: what matrices become in int8 and nf4.

    make_packed.py FOLDER        # tests/golden

packed.json has, for matrices whose values follow a formula, digests (FNV-1a, 64 bits) of the codes,
scales and restored values. FOLDER/packed/KIND is a directory of weights as transformers saves a
model that bitsandbytes has quantised. Made with bitsandbytes 0.50, transformers 5.23 and torch
2.11, on one thread.
"""

import json
import os
import sys

import bitsandbytes.functional as bnb
import numpy
import torch
from bitsandbytes.backends.default import ops
from safetensors.torch import save_file

SHAPES = [(96, 80), (70, 33), (3, 1), (256, 320), (1, 64)]


def matrix(rows, columns):
    """Exact in fp32: tests/engine/numeric/packed_matrix_test.cc has the same."""
    i = numpy.arange(rows * columns, dtype=numpy.int64)
    values = ((i * 40503 + 12345) % 4096 - 2048).astype(numpy.float32) * numpy.float32(2.0 ** -12)
    values = values.reshape(rows, columns)
    values *= (numpy.float32(2.0) ** (numpy.arange(rows) % 3))[:, None].astype(numpy.float32)
    values[rows // 2:rows // 2 + 1] = 0
    return torch.from_numpy(values.reshape(rows, columns))


def digest(tensor):
    value = 0xcbf29ce484222325
    for byte in tensor.contiguous().view(torch.uint8).flatten().tolist():
        value = ((value ^ byte) * 0x100000001b3) % 2 ** 64
    return f"{value:016x}"


def values_of(restored):
    return {dtype: digest(restored.to(getattr(torch, torch_name)))
            for dtype, torch_name in (("fp32", "float32"), ("bf16", "bfloat16"), ("fp16", "float16"))}


def restored_nf4(packed, state):
    """By the reference: the CPU's AVX-512 kernel takes other blocks' scales where columns are no
    multiple of 64."""
    absmax = state.absmax
    if state.nested:
        absmax = bnb.dequantize_blockwise(absmax, state.state2) + state.offset
    compute = ops._dequantize_4bit_compute
    return getattr(compute, "__wrapped__", compute)(
        packed.reshape(-1), absmax, state.code, 64, state.shape, torch.float32)


def nf4(values, nested):
    packed, state = bnb.quantize_4bit(values, blocksize=64, compress_statistics=nested,
                                      quant_type="nf4")
    restored = restored_nf4(packed, state)
    made = {"codes": digest(packed), "absmax": digest(state.absmax), "values": values_of(restored)}
    if nested:
        absmax = bnb.quantize_4bit(values, blocksize=64, quant_type="nf4")[1].absmax
        # Ours is the exact mean, rounded, and torch's depends on the processor where sums are not exact.
        assert state.offset.item() == absmax.double().mean().float().item()
        made |= {"nested_absmax": digest(state.state2.absmax), "mean": state.offset.item()}
    return made


def int8(values):
    codes, scales, _ = bnb.int8_vectorwise_quant(values)
    return {"codes": digest(codes), "absmax": digest(scales),
            "values": values_of(bnb.int8_vectorwise_dequant(codes, scales))}


def saved(folder, kind, values):
    """The tensors of a Linear and what goes with them, as its state_dict has them."""
    tensors = {"norm.weight": torch.ones(4)}
    if kind == "int8":
        codes, scales, _ = bnb.int8_vectorwise_quant(values)
        tensors |= {"layer.weight": codes, "layer.SCB": scales,
                    "layer.weight_format": torch.tensor(0, dtype=torch.uint8)}
    else:
        packed, state = bnb.quantize_4bit(values, blocksize=64, compress_statistics=kind == "nf4",
                                          quant_type="fp4" if kind == "fp4" else "nf4")
        tensors["layer.weight"] = packed
        tensors |= {f"layer.weight.{k}": v for k, v in state.as_dict(packed=True).items()}
    os.makedirs(os.path.join(folder, "packed", kind), exist_ok=True)
    save_file(tensors, os.path.join(folder, "packed", kind, "model.safetensors"))


def main():
    torch.set_num_threads(1)
    folder = sys.argv[1]
    made = []
    for rows, columns in SHAPES:
        values = matrix(rows, columns)
        made.append({"rows": rows, "columns": columns, "int8": int8(values),
                     "nf4": nf4(values, True), "nf4 with fp32 scales": nf4(values, False)})
    with open(os.path.join(folder, "packed.json"), "w", encoding="utf-8") as file:
        file.write(json.dumps(made, indent=1) + "\n")
    for kind in ("int8", "nf4", "nf4_fp32_scales", "fp4"):
        saved(folder, kind, matrix(40, 24))


if __name__ == "__main__":
    main()
