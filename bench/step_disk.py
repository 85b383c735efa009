#!/usr/bin/env python3
"""Shows that a disk-bound training step uses the disk: GPT-2 XL's shape at 1 x 256 tokens with
everything on NVMe, beside fio with the same block, depth and mix, in turns.

  python3 bench/step_disk.py [--program build/release/spillway] [--work out/step_disk]
                             [--layers 48] [--rounds 5] [--steps 3] [--fio-seconds 4]
                             [--block BYTES --depth N] [--timeline] [--json FILE] [-- TRAIN FLAGS]

Every round lets the training take --steps steps, stops it (SIGSTOP), runs fio for --fio-seconds, and lets
it go on; the step that the pause fell into is not counted, nor are the first two, which warm up.
Of every counted step it prints
  - the share of the step in which the disk had requests in flight: the kernel's own I/O time
    (io_ticks of /sys/dev/block/MAJ:MIN/stat), and busy_seconds.disk of metrics.jsonl;
  - bytes moved a second of the whole step, beside fio's median;
  - bytes of metrics.jsonl beside those of /proc/PID/io.
The last lines say whether what must hold does; exit code 1 where it does not:
  in flight at least 90% of the step; a rate within 10% of fio's; the kernel's I/O time within 5% of
  busy_seconds.disk.
The whole shape takes 18.7 GB of disk (--no-commit keeps one copy of the state), and fio 1 GiB; fewer
--layers take less. Needs fio, and a swap path on a block device that nobody else uses.
--timeline also prints what the disk did in the course of the counted steps, in 40 parts each.
"""
import argparse
import bisect
import json
import os
import random
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import threading
import time

SECTOR = 512
FIO_MIB = 1024
MOST_OTHERS = 0.03  # of our own bytes, that other programs may move in a step
PARTS = 40  # of a step in the timeline


class Device:
    """The counters of the block device below a folder."""

    def __init__(self, folder):
        number = os.stat(folder).st_dev
        self.folder = f"/sys/dev/block/{os.major(number)}:{os.minor(number)}"
        if not os.path.exists(self.folder + "/stat"):
            sys.exit(f"{folder} is on no block device ({self.folder} is missing): give another --work")

    def sample(self):
        # Documentation/block/stat.rst: 2 read sectors, 6 write sectors, 9 io_ticks in ms.
        with open(self.folder + "/stat") as file:
            fields = [int(word) for word in file.read().split()]
        return {"time": time.monotonic(), "read": fields[2] * SECTOR, "written": fields[6] * SECTOR,
                "busy": fields[9] / 1e3, "inflight": fields[8]}


class Watch(threading.Thread):
    """Samples device and process a few hundred times a second, and when metrics.jsonl grew."""

    def __init__(self, device, process, metrics, interval=0.004):
        super().__init__(daemon=True)
        self.device, self.process, self.metrics, self.interval = device, process, metrics, interval
        self.samples, self.times, self.rows = [], [], []  # rows: the device as each row was written
        self.ended = False

    def run(self):
        lines, size = 0, 0
        while not self.ended:
            sample = self.device.sample()
            self.samples.append(sample)
            self.times.append(sample["time"])
            try:
                now = os.path.getsize(self.metrics)
            except OSError:
                now = 0
            if now != size:
                size = now
                with open(self.metrics, "rb") as file:
                    found = file.read().count(b"\n")
                for _ in range(found - lines):
                    self.rows.append(dict(sample, **self.process_bytes()))
                lines = found
            time.sleep(self.interval)

    def process_bytes(self):
        try:
            with open(f"/proc/{self.process.pid}/io") as file:
                fields = dict(line.split(": ") for line in file.read().splitlines())
            return {"process_read": int(fields["read_bytes"]),
                    "process_written": int(fields["write_bytes"])}
        except OSError:
            return {"process_read": None, "process_written": None}

    def between(self, begin, end):
        return self.samples[bisect.bisect_left(self.times, begin):bisect.bisect_right(self.times, end)]


def fio_command(folder, block, depth, *flags):
    return ["fio", "--name=step", f"--filename={folder}/fio", f"--size={FIO_MIB}m", "--direct=1",
            "--ioengine=io_uring", f"--bs={block}", f"--iodepth={depth}", "--output-format=json",
            "--fixedbufs=1", "--registerfiles=1", "--scramble_buffers=0", *flags]


def run_fio(args, folder, read_part):
    command = fio_command(folder, args.block, args.depth, "--rw=rw", "--time_based=1",
                          f"--rwmixread={round(100 * read_part)}", f"--runtime={args.fio_seconds}")
    # Its buffers in huge pages, as ours are: without, it has half its rate on some disks.
    environment = os.environ | {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    found = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment)
    job = json.loads(found.stdout)["jobs"][0]
    return {"read": job["read"]["bw_bytes"], "written": job["write"]["bw_bytes"],
            "rate": job["read"]["bw_bytes"] + job["write"]["bw_bytes"],
            "read_part": job["read"]["io_bytes"] / max(1, job["read"]["io_bytes"] + job["write"]["io_bytes"])}


def prepare(args):
    swap = os.path.join(args.work, "swap")
    shutil.rmtree(args.work, ignore_errors=True)
    os.makedirs(os.path.join(args.work, "model"))
    os.makedirs(swap)
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 50257,
              "n_positions": 1024, "n_embd": 1600, "n_layer": args.layers, "n_head": 25,
              "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1}
    with open(os.path.join(args.work, "model", "config.json"), "w") as file:
        json.dump(config, file)
    # Any tokens do: this measures the disk, not learning.
    random.seed(1)
    with open(os.path.join(args.work, "tokens.bin"), "wb") as file:
        for _ in range(20000):
            file.write(struct.pack("<H", int(50257 * random.random() ** 3)))
    # Written once: blocks that never were are read without the disk.
    subprocess.run(fio_command(swap, 1 << 20, 16, "--rw=write"), stdout=subprocess.DEVNULL, check=True)
    return swap


def engine_shape(args, log_path):
    """Block and depth of the training, from the engine's own line, where none were given."""
    with open(log_path) as file:
        found = re.search(r"I/O engine:.*?(\d+) blocks of (\d+) KiB", file.read())
    args.depth = args.depth or (int(found[1]) if found else 32)
    args.block = args.block or (int(found[2]) << 10 if found else 1 << 20)


def wait_for_rows(watch, process, count):
    while len(watch.rows) < count:
        if process.poll() is not None:
            return False
        time.sleep(0.01)
    return True


def timeline(watch, begin, end):
    """Of each part of a step: share of the time in flight, GB/s read and written, and how many."""
    parts = []
    for i in range(PARTS):
        a, b = (begin + (end - begin) * (i + k) / PARTS for k in (0, 1))
        inside = watch.between(a, b)
        if len(inside) < 2:
            parts.append((None, 0, 0, 0))
            continue
        span = inside[-1]["time"] - inside[0]["time"]
        parts.append(((inside[-1]["busy"] - inside[0]["busy"]) / span,
                      (inside[-1]["read"] - inside[0]["read"]) / span / 1e9,
                      (inside[-1]["written"] - inside[0]["written"]) / span / 1e9,
                      statistics.mean(sample["inflight"] for sample in inside)))
    return parts


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/spillway")
    parser.add_argument("--work", default="out/step_disk")
    parser.add_argument("--layers", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--fio-seconds", type=float, default=4)
    parser.add_argument("--block", type=int, default=0, help="fio's; default the training's")
    parser.add_argument("--depth", type=int, default=0, help="fio's; default the training's")
    parser.add_argument("--timeline", action="store_true")
    parser.add_argument("--json", help="also write all figures to this file")
    parser.add_argument("train", nargs="*", help="more flags of train, behind --")
    args = parser.parse_args()
    if shutil.which("fio") is None:
        sys.exit("fio is missing: apt-get install fio")

    swap = prepare(args)
    device = Device(swap)
    output = os.path.join(args.work, "run")
    log_path = os.path.join(args.work, "log")
    warm = 2
    total = warm + args.rounds * (args.steps + 1)
    with open(log_path, "w") as log:
        process = subprocess.Popen(
            [args.program, "train", "--model", os.path.join(args.work, "model"), "--data",
             os.path.join(args.work, "tokens.bin"), "--output", output, "--swap", swap, "--offload",
             "nvme", "--seq-len", "256", "--micro-batch", "1", "--steps", str(total),
             "--device-memory", "1GiB", "--host-memory", "3GiB", "--no-commit", "--no-export",
             *args.train], stdout=log, stderr=log)
    watch = Watch(device, process, os.path.join(output, "metrics.jsonl"))
    counted, fio, read_part = [], [], 0.53
    try:
        watch.start()
        alive = wait_for_rows(watch, process, warm)
        engine_shape(args, log_path)
        for round_ in range(args.rounds):
            first = len(watch.rows)
            paused = 1 if round_ else 0  # the step that fio ran in
            end = first + paused + args.steps
            if not alive or not wait_for_rows(watch, process, end):
                break
            counted += list(range(first + paused, end))
            with open(os.path.join(output, "metrics.jsonl")) as file:
                bytes_ = json.loads(file.readlines()[end - 1])["bytes"]
            read_part = bytes_["nvme_read"] / (bytes_["nvme_read"] + bytes_["nvme_written"])
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.2)  # what was in flight comes back
            fio.append(run_fio(args, swap, read_part))
            process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(timeout=120)
    finally:
        watch.ended = True
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
    with open(os.path.join(output, "metrics.jsonl")) as file:
        rows = [json.loads(line) for line in file]
    if len(fio) < args.rounds or not counted:
        with open(log_path) as log:
            sys.exit("the training ended early:\n" + log.read()[-2000:])

    peer = statistics.median(each["rate"] for each in fio)
    print(f"fio: {args.block >> 10} KiB x {args.depth}, {100 * read_part:.0f}% read: "
          + ", ".join(f"{each['rate'] / 1e9:.2f}" for each in fio) + f" GB/s, median {peer / 1e9:.2f}")
    found = []
    for index in counted:
        row, begin, end = rows[index], watch.rows[index - 1], watch.rows[index]
        wall = end["time"] - begin["time"]
        moved = row["bytes"]["nvme_read"] + row["bytes"]["nvme_written"]
        process_moved = (end["process_read"] - begin["process_read"] +
                         end["process_written"] - begin["process_written"])
        figures = {
            "step": row["step"], "seconds": row["seconds"], "wall": wall,
            "in_flight": row["busy_seconds"]["disk"] / row["seconds"],
            "kernel_in_flight": (end["busy"] - begin["busy"]) / wall,
            "kernel_to_metrics": (end["busy"] - begin["busy"]) / row["busy_seconds"]["disk"],
            "rate": moved / row["seconds"], "rate_while_busy": moved / row["busy_seconds"]["disk"],
            "process_to_metrics": process_moved / moved,
            "others": max(0.0, (end["read"] - begin["read"] + end["written"] - begin["written"]) /
                          process_moved - 1),
            "compute": row["busy_seconds"]["compute"], "stall": row["stall_seconds"]}
        found.append(figures)
        print(f"step {figures['step']}: {figures['seconds']:.2f} s (compute {figures['compute']:.2f}), "
              f"in flight {100 * figures['in_flight']:.1f}% (kernel "
              f"{100 * figures['kernel_in_flight']:.1f}%), {figures['rate'] / 1e9:.2f} GB/s "
              f"({figures['rate_while_busy'] / 1e9:.2f} while busy), /proc/PID/io "
              f"{figures['process_to_metrics']:.3f} of metrics"
              + (f"; others moved {100 * figures['others']:.0f}% as much"
                 if figures["others"] > MOST_OTHERS else ""))
        if args.timeline:
            for i, (busy, read, written, depth) in enumerate(
                    timeline(watch, begin["time"], end["time"])):
                if busy is not None:
                    print(f"  {i / PARTS:5.3f}  {100 * min(1, busy):4.0f}%  read {read:5.2f}  written "
                          f"{written:5.2f} GB/s  {depth:6.1f} in flight")

    # The device's own counters are of everybody.
    alone = [each for each in found if each["others"] <= MOST_OTHERS]
    if not alone:
        print("others used the disk in every step: its own counters say little of us")
        alone = found

    def middle(key):
        return statistics.median(each[key] for each in (alone if "kernel" in key else found))

    checks = {
        "in flight at least 90% of the step": (middle("in_flight"), middle("in_flight") >= 0.90),
        "rate of the step / fio's, at least 0.90": (middle("rate") / peer,
                                                    middle("rate") / peer >= 0.90),
        "kernel's I/O time / busy_seconds.disk, 0.95 to 1.05": (
            middle("kernel_to_metrics"), abs(middle("kernel_to_metrics") - 1) <= 0.05),
        "/proc/PID/io / bytes of metrics, 0.95 to 1.05": (
            middle("process_to_metrics"), abs(middle("process_to_metrics") - 1) <= 0.05)}
    print(f"medians of {len(found)} steps (of the kernel's time {len(alone)}, with the disk to ourselves):")
    for name, (value, holds) in checks.items():
        print(f"  {'holds' if holds else 'FAILS'}  {value:.3f}  {name}")
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"fio": fio, "steps": found, "block": args.block, "depth": args.depth,
                       "checks": {name: value for name, (value, _) in checks.items()}}, file, indent=1)
    shutil.rmtree(args.work, ignore_errors=True)
    sys.exit(0 if all(holds for _, holds in checks.values()) else 1)


if __name__ == "__main__":
    main()
