#!/usr/bin/env python3
"""Steps with narrower state beside steps with fp32 moments: a shape of GPT-2's on NVMe, in turns.

  python3 bench/moments.py [--program build/release/spillway] [--work out/moments] [--layers 16]
                           [--rounds 5] [--steps 4] [--kinds 8bit,fp8,bf16,none,24bit] [--json FILE] [-- TRAIN FLAGS]

--kinds: --moments 8bit, fp8 and bf16, `none`: --moments bf16 --master none, and `24bit`: --moments 8bit
--master 24bit.

A round trains --steps steps with each; the first two of each warm up and are not counted. Prints of
each kind the median seconds of a step, bytes read and written a parameter and step, and bytes of
state a parameter in the store, then the ratios of each round and their medians. 16 layers of 1600 take
11 GB of disk (--no-commit keeps one copy of the state).
"""
import argparse
import json
import os
import random
import shutil
import statistics
import struct
import subprocess
import sys

FLAGS = {"fp32": [], "8bit": ["--moments", "8bit"], "fp8": ["--moments", "fp8"],
         "bf16": ["--moments", "bf16"],
         "none": ["--moments", "bf16", "--master", "none"],
         "24bit": ["--moments", "8bit", "--master", "24bit"]}


def prepare(args):
    os.makedirs(args.work, exist_ok=True)
    model = os.path.join(args.work, "model")
    os.makedirs(model, exist_ok=True)
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 50257,
              "n_positions": 1024, "n_embd": 1600, "n_layer": args.layers, "n_head": 25}
    with open(os.path.join(model, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    drawn = random.Random(1)
    with open(os.path.join(args.work, "tokens.bin"), "wb") as file:
        for _ in range(20000):
            file.write(struct.pack("<H", int(50257 * drawn.random() ** 3)))
    block = 12 * 1600 * 1600 + 13 * 1600
    return (50257 + 1024) * 1600 + args.layers * block + 2 * 1600


def folder_bytes(folder):
    return sum(os.stat(os.path.join(parent, name)).st_blocks * 512
               for parent, _, names in os.walk(folder) for name in names)


def train(args, kind, parameters):
    swap, output = os.path.join(args.work, "swap"), os.path.join(args.work, "run")
    shutil.rmtree(swap, ignore_errors=True)
    shutil.rmtree(output, ignore_errors=True)
    os.makedirs(swap)
    process = subprocess.Popen(
        [args.program, "train", "--model", os.path.join(args.work, "model"),
         "--data", os.path.join(args.work, "tokens.bin"), "--output", output, "--swap", swap,
         "--offload", "nvme", "--seq-len", "64", "--micro-batch", "1", "--steps", str(args.steps),
         "--device-memory", "500MiB", "--host-memory", "1500MiB", "--no-export", "--no-commit",
         *FLAGS[kind], *args.flags], stderr=subprocess.PIPE, text=True)
    stored = 0
    lines = []
    for line in process.stderr:
        lines.append(line)
        if line.startswith("step "):
            stored = max(stored, folder_bytes(swap))
    if process.wait() != 0:
        sys.exit("".join(lines[-5:]))
    with open(os.path.join(output, "metrics.jsonl"), encoding="utf-8") as file:
        rows = [json.loads(line) for line in file][2:]
    return {"seconds": statistics.median(row["seconds"] for row in rows),
            "read": statistics.mean(row["bytes"]["nvme_read"] for row in rows) / parameters,
            "written": statistics.mean(row["bytes"]["nvme_written"] for row in rows) / parameters,
            "stored": stored / parameters}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", default="build/release/spillway")
    parser.add_argument("--work", default="out/moments")
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--kinds", default="8bit")
    parser.add_argument("--json")
    parser.add_argument("flags", nargs="*")
    args = parser.parse_args()
    if args.steps < 3:
        sys.exit("--steps must be 3 or more: two warm up")
    kinds = ["fp32"] + args.kinds.split(",")
    if not set(kinds) <= set(FLAGS):
        sys.exit("--kinds must be of 8bit, fp8, bf16, none, 24bit")
    parameters = prepare(args)
    print(f"{parameters / 1e6:.0f}M parameters, 1 x 64 tokens")
    found = {kind: [] for kind in kinds}
    for number in range(args.rounds):
        for kind in kinds if number % 2 == 0 else kinds[::-1]:
            found[kind].append(train(args, kind, parameters))
            one = found[kind][-1]
            print(f"round {number + 1}  {kind}  {one['seconds']:.2f} s  {one['read']:.2f} B read and "
                  f"{one['written']:.2f} B written a parameter, {one['stored']:.2f} B stored", flush=True)
    ratios = {kind: [one["seconds"] / full["seconds"] for full, one in zip(found["fp32"], found[kind])]
              for kind in kinds[1:]}
    for kind, all_rounds in ratios.items():
        print(f"{kind} / fp32 " + " ".join(f"{ratio:.3f}" for ratio in all_rounds)
              + f", median {statistics.median(all_rounds):.3f}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"parameters": parameters, "rounds": found, "ratios": ratios}, file, indent=1)
    for name in ("swap", "run"):
        shutil.rmtree(os.path.join(args.work, name))


if __name__ == "__main__":
    main()
