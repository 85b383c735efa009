#!/usr/bin/env python3
"""A step of GPT-2 124M's shape at 4 x 256 tokens: Spillway with everything on NVMe in
768 MiB + 768 MiB, against plain PyTorch with everything in memory (bf16 autocast, fused
AdamW, no checkpointing), in alternating runs.

  python3 bench/step_vs_pytorch.py [--program build/release/spillway] [--work out/step]
                                   [--pairs 5] [--steps 6] [--clip 0]

Needs torch and transformers in the Python that runs it. Prints each pair's seconds a step
(the median of a run's steps but the first two), their ratio, and the median ratio.
"""
import argparse
import json
import os
import random
import statistics
import struct
import subprocess
import sys
import time

CONFIG = {
    "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 50257,
    "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12,
    "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
}


def run_pytorch(steps, clip):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(**{k: v for k, v in CONFIG.items() if k != "architectures"}))
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, fused=True)
    seconds = []
    for _ in range(steps):
        tokens = torch.randint(0, 50257, (4, 256))
        begin = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(tokens, labels=tokens).loss
        loss.backward()
        if clip > 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"seconds": seconds, "torch": torch.__version__}))


def run_spillway(args, extra):
    output = os.path.join(args.work, "run")
    subprocess.run(
        [args.program, "train", "--model", os.path.join(args.work, "model"), "--data",
         os.path.join(args.work, "tokens.bin"), "--output", output, "--dtype", "bf16",
         "--seq-len", "256", "--micro-batch", "4", "--steps", str(args.steps), "--clip",
         str(args.clip), "--no-commit", "--no-export", "--overwrite"] + extra,
        check=True, stderr=subprocess.PIPE)
    with open(os.path.join(output, "metrics.jsonl")) as file:
        return [json.loads(line) for line in file]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/spillway")
    parser.add_argument("--work", default="out/step")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--clip", type=float, default=0.0)
    parser.add_argument("--pytorch-child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.pytorch_child:
        run_pytorch(args.steps, args.clip)
        return

    swap = os.path.join(args.work, "swap")
    os.makedirs(os.path.join(args.work, "model"), exist_ok=True)
    os.makedirs(swap, exist_ok=True)
    with open(os.path.join(args.work, "model", "config.json"), "w") as file:
        json.dump(CONFIG, file)
    random.seed(1)
    with open(os.path.join(args.work, "tokens.bin"), "wb") as file:
        for _ in range(60000):
            file.write(struct.pack("<H", random.randrange(50257)))

    nvme = ["--swap", swap, "--offload", "nvme", "--device-memory", "768MiB",
            "--host-memory", "768MiB"]
    ratios = []
    for pair in range(args.pairs):
        rows = run_spillway(args, nvme)[2:]
        ours = statistics.median(row["seconds"] for row in rows)
        child = subprocess.run(
            [sys.executable, os.path.abspath(__file__), "--pytorch-child", "--steps",
             str(args.steps), "--clip", str(args.clip)],
            check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        peer = json.loads(child.stdout)
        theirs = statistics.median(peer["seconds"][2:])
        ratios.append(ours / theirs)
        busy = rows[-1]["busy_seconds"]
        print(f"pair {pair + 1}: spillway {ours:.2f} s (compute {busy['compute']:.2f}, disk "
              f"{busy['disk']:.2f}, update {busy['update']:.2f}; {rows[-1]['update']}), PyTorch "
              f"{peer['torch']} {theirs:.2f} s, ratio {ours / theirs:.2f}; resident "
              f"{max(row['peak_bytes']['rss'] for row in rows) / 2**30:.2f} GiB", flush=True)
    print(f"median ratio {statistics.median(ratios):.2f} over {len(ratios)} pairs")


if __name__ == "__main__":
    main()
