#!/usr/bin/env python3
"""How far 8-bit moments are from fp32's by the size of a block, on the moments of a real run.

  python3 bench/moment_blocks.py OUTPUT       of a run with --moments fp32, --offload nvme and a commit

Codes all moments of the commit with one scale a block and prints, by size, the relative error (RMS) of
first and second moments and of AdamW's update that is made of them, and how many second moments
become zero, by which an update is divided. Needs numpy.
"""
import glob
import json
import os
import pathlib
import sys

import numpy

CODES = json.loads((pathlib.Path(__file__).parents[1] / "tests/golden/moments.json").read_text())
EXP_AVG, EXP_AVG_SQ = 3, 4


def coded(numbers, signed, block):
    values = numpy.array(CODES["signed" if signed else "unsigned"], numpy.uint32).view(numpy.float32)
    rows = numpy.pad(numbers, (0, -len(numbers) % block)).reshape(-1, block)
    scales = numpy.abs(rows).max(axis=1, keepdims=True)
    limits = (values[1:].astype(float) + values[:-1]) / 2
    codes = numpy.searchsorted(limits, rows / numpy.where(scales == 0, 1, scales))
    return (values[codes] * scales).reshape(-1)[:len(numbers)]


def moments(output):
    manifest = pathlib.Path(glob.glob(os.path.join(output, "manifest*"))[0]).read_bytes()
    body = json.loads(manifest[manifest.index(b"\n") + 1:])
    found = {EXP_AVG: [], EXP_AVG_SQ: []}
    for (_, parameters, *_), tiles in zip(body["units"], body["tiles"]):
        for number, tile in enumerate(tiles):
            first = number * body["tile_parameters"]
            padded = min(body["tile_parameters"], -(-parameters // 2048) * 2048 - first)
            with open(os.path.join(output, body["files"][tile[0]][0]), "rb") as file:
                file.seek(tile[1 + tile[3]])
                for plane, size in body["planes"]:
                    data = file.read(padded * size)
                    if plane in found:
                        found[plane].append(numpy.frombuffer(data, numpy.float32)[:parameters - first])
    return numpy.concatenate(found[EXP_AVG]), numpy.concatenate(found[EXP_AVG_SQ])


def error(there, right):
    return numpy.sqrt(numpy.mean((there.astype(float) - right) ** 2) / numpy.mean(right.astype(float) ** 2))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    first, second = moments(sys.argv[1])
    learned = second > 0
    print(f"{len(first)} parameters\nblock  bytes  first   second  update  zeros")
    for block in (64, 128, 256, 512, 1024, 2048):
        one, two = coded(first, True, block), coded(second, False, block)
        update = error((one / (numpy.sqrt(two) + 1e-8))[learned],
                       (first / (numpy.sqrt(second) + 1e-8))[learned])
        print(f"{block:5}  {2 + 8 / block:.3f}  {error(one, first):.4f}  {error(two, second):.4f}  "
              f"{update:.4f}  {numpy.mean((two == 0) & learned):.1e}")


if __name__ == "__main__":
    main()
