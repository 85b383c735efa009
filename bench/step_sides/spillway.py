"""Our own side: `spillway train` on a model of random weights and random tokens."""
import json
import math
import os
import random
import shutil
import statistics
import struct
import subprocess

from .shapes import data_flags
from .side import DidNotRun, counted, ended, others_text, read_json, watch


def version(program):
    try:
        found = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"{program} does not run ({error}): build it, or give --program") from None
    return found.stdout.strip()


def median_of(rows, *keys):
    values = []
    for row in rows:
        for key in keys:
            row = row[key]
        values.append(row)
    return statistics.median(values)


def write_weights(path, shape):
    """Random bf16 weights of a GPT-2 of that shape, as one safetensors file."""
    w, v = shape.width, shape.vocabulary
    tensors = {"wte.weight": [v, w], "wpe.weight": [1024, w]}
    for layer in range(shape.layers):
        for name, rows, columns in (("attn.c_attn", w, 3 * w), ("attn.c_proj", w, w),
                                    ("mlp.c_fc", w, 4 * w), ("mlp.c_proj", 4 * w, w)):
            tensors[f"h.{layer}.{name}.weight"] = [rows, columns]
            tensors[f"h.{layer}.{name}.bias"] = [columns]
        for name in ("ln_1", "ln_2"):
            tensors |= {f"h.{layer}.{name}.weight": [w], f"h.{layer}.{name}.bias": [w]}
    tensors |= {"ln_f.weight": [w], "ln_f.bias": [w]}
    header, end = {}, 0
    for name, dimensions in tensors.items():
        begin, end = end, end + 2 * math.prod(dimensions)
        header[f"transformer.{name}"] = {"dtype": "BF16", "shape": dimensions,
                                         "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    random.seed(2)
    values = struct.pack("<65536f", *(random.gauss(0, 0.02) for _ in range(65536)))
    block = b"".join(values[i + 2:i + 4] for i in range(0, len(values), 4))
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        while end > 0:
            end -= file.write(block[:end])


class Spillway:
    ours = True

    def __init__(self, work, name, shape, flags, clip=0.0, accumulate=1, environment=None, nice=None,
                 times_steps=1, weights=False, program=None):
        self.work, self.name, self.shape, self.flags = work, name, shape, flags
        self.program = program or work.program
        self.clip, self.accumulate, self.environment = clip, accumulate, environment
        self.nice, self.weights = nice, weights
        self.steps = work.steps * (1 if work.tiny else times_steps)

    def prepare_model(self):
        model = self.work.path("weights" if self.weights else "model")
        os.makedirs(model, exist_ok=True)
        with open(os.path.join(model, "config.json"), "w", encoding="utf-8") as file:
            json.dump(self.shape.config(), file)
        weights = os.path.join(model, "model.safetensors")
        if self.weights and not os.path.exists(weights):
            write_weights(weights, self.shape)
        return model

    def command(self):
        return [self.program, "train", "--model", self.prepare_model(), *data_flags(self.work, self.shape),
                "--output", self.work.path("run"), "--dtype", "bf16",
                "--micro-batch", str(self.shape.micro_batch), "--accumulate", str(self.accumulate),
                "--steps", str(self.steps), "--clip", str(self.clip), "--no-commit", "--no-export",
                *self.shape.flags, *self.flags]

    def run(self):
        command, swap, output = self.command(), self.work.path("swap"), self.work.path("run")
        os.makedirs(swap, exist_ok=True)
        metrics = os.path.join(output, "metrics.jsonl")
        try:
            watched = watch(command, self.work.path("spillway.log"), self.work.timeout, metrics,
                            self.environment, self.nice)
            if watched.exit_code != 0:
                raise DidNotRun(ended(watched))
            with open(metrics, encoding="utf-8") as file:
                rows = [json.loads(line) for line in file]
            about = read_json(os.path.join(output, "run.json")) or {}
        finally:
            shutil.rmtree(output, ignore_errors=True)
            shutil.rmtree(swap, ignore_errors=True)
        return self.figures(rows, watched, command) | {
            "predicted_seconds": rows[0]["predicted_seconds"],
            "predicted_at_observed_rates_seconds": about.get("predicted_at_observed_rates_seconds")}

    def figures(self, rows, watched, command):
        steps = counted(rows)
        found = {
            "seconds": median_of(steps, "seconds"), "resident_bytes": watched.resident_bytes,
            "step_seconds": [row["seconds"] for row in rows],
            # A write may end, and count, in the next step.
            "read_bytes": statistics.mean(row["bytes"]["nvme_read"] for row in steps),
            "written_bytes": statistics.mean(row["bytes"]["nvme_written"] for row in steps),
            "compute_seconds": median_of(steps, "busy_seconds", "compute"),
            "disk_seconds": median_of(steps, "busy_seconds", "disk"),
            "update_seconds": median_of(steps, "busy_seconds", "update"),
            "update": steps[-1]["update"], "others_cores": watched.others_cores,
            "command": command}
        found["moved_bytes"] = found["read_bytes"] + found["written_bytes"]
        found |= self.kernel_bytes(watched.samples, len(rows))
        found["text"] = (
            f"{found['seconds']:.3f} s a step (compute {found['compute_seconds']:.2f}, disk "
            f"{found['disk_seconds']:.2f}, update {found['update_seconds']:.2f}; {found['update']}), "
            f"{found['resident_bytes'] / 2**30:.2f} GiB resident")
        if found["moved_bytes"]:
            kernel = found["kernel_moved_bytes"]
            found["text"] += (f", {found['read_bytes'] / 1e9:.2f} GB read and "
                              f"{found['written_bytes'] / 1e9:.2f} written"
                              + (f" (kernel / metrics {kernel / found['moved_bytes']:.3f})"
                                 if kernel is not None else ""))
        found["text"] += others_text(watched)
        return found

    def kernel_bytes(self, samples, rows):
        """Of a step, by /proc/PID/io at the rows around the counted ones; None where they were missed."""
        steps = counted(list(range(rows)))
        first, last = steps[0] - 1, steps[-1]
        if last >= len(samples) or samples[first] == samples[last]:
            return {"kernel_read_bytes": None, "kernel_written_bytes": None,
                    "kernel_moved_bytes": None}
        read, written = ((samples[last][i] - samples[first][i]) / len(steps) for i in (0, 1))
        return {"kernel_read_bytes": read, "kernel_written_bytes": written,
                "kernel_moved_bytes": read + written}


class Disk:
    """What `bench io` finds the disk to do; mixed: half of it each way."""
    NAME = "disk"
    ours = True

    def __init__(self, work, name=NAME, op="mixed", program=None):
        self.work, self.name, self.op, self.program = work, name, op, program or work.program

    def run(self):
        folder = self.work.path("disk")
        os.makedirs(folder, exist_ok=True)
        size, seconds = ("256MiB", "0.2") if self.work.tiny else ("1GiB", "2")
        found = subprocess.run(
            [self.program, "bench", "io", "--path", folder, "--op", self.op, "--size", size,
             "--seconds", seconds, "--json"], capture_output=True, text=True, check=False)
        if found.returncode != 0:
            raise DidNotRun(found.stderr.strip().splitlines()[-1])
        rate = json.loads(found.stdout)["bytes_per_second"]
        return {"bytes_per_second": rate, "text": f"{rate / 1e9:.2f} GB/s, {self.op}"}
