#!/usr/bin/env python3
"""`spillway bench io` beside fio, in pairs of about two seconds, one right after the other.

  bench/io_vs_fio.py --spillway build/release/spillway --path /nvme/scratch --op read
  bench/io_vs_fio.py ... --op write --verify          checksums on our side, none on fio's
  sudo bench/io_vs_fio.py ... --as-nobody             both as user nobody, 8 MiB of locked memory
  bench/io_vs_fio.py ... --no-uring                   both under a seccomp filter; fio's psync, --threads jobs
  bench/io_vs_fio.py ... --demand                     latency of demand reads under full write-back

Disks swing several-fold within minutes, so only pairs count: the answer is the median of the
ratios of pairs with its 90% interval (order statistics). Both sides move the same bytes: direct
I/O in order on one file of --size, laid out by writing it once just before each measurement
(fallocate, then direct writes of the same block and depth, then a sync), for the same wall time.
The order inside a pair alternates.

fio gets what makes it fast: io_uring with --fixedbufs and --registerfiles (--plain-fio: without;
where the limit of locked memory refuses them, as for nobody, without), its own ring flags, and no
scrambling of what it writes (--scramble_buffers=0), which we do not do either, and its buffers
in transparent huge pages as ours are (glibc.malloc.hugetlb; --small-pages: without, which cost
it half its rate where this was written). Processor time is
user and system time of the measured phase: fio's own figure for its job, ours from getrusage.

Needs Python 3, fio and a built spillway. Exit code 1 where a limit given with --at-least or
--cpu-at-most is missed.
"""

import argparse
import ctypes
import json
import math
import os
import platform
import resource
import struct
import subprocess
import sys

NOBODY = 65534
MEMLOCK_BYTES = 8 << 20
IO_URING_CALLS = (425, 426, 427)  # setup, enter, register: the same on every architecture


def refuse_io_uring():
    """From here on io_uring's calls fail with EPERM in this process and its children."""
    ld_nr, jump_equal, allow = 0x20, 0x15, 0x7FFF0000
    refuse = 0x00050000 | 1
    calls = len(IO_URING_CALLS)
    code = [(ld_nr, 0, 0, 0)]
    code += [(jump_equal, calls - i, 0, call) for i, call in enumerate(IO_URING_CALLS)]
    code += [(0x06, 0, 0, allow), (0x06, 0, 0, refuse)]
    filters = b"".join(struct.pack("HBBI", *instruction) for instruction in code)
    buffer = ctypes.create_string_buffer(filters)

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filters", ctypes.c_void_p)]

    program = Program(len(code), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, set_seccomp, mode_filter = 38, 22, 2
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) != 0 or \
            libc.prctl(set_seccomp, mode_filter, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


def restrict(args):
    """What the child process does before it starts the program."""
    def apply():
        if args.as_nobody:
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (MEMLOCK_BYTES, MEMLOCK_BYTES))
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        if args.no_uring:
            refuse_io_uring()
    return apply


def run(args, command):
    # Both sides get what the flags say, whatever was tuned here.
    environment = dict(os.environ, SPILLWAY_PROFILE="off")
    if not args.small_pages:
        environment["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=restrict(args),
                          env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with exit code {done.returncode}:\n"
                 f"{done.stdout}{done.stderr}")
    return done.stdout


def fio_command(args, name, rw):
    # psync has one block in flight a job; as many jobs as we have threads share the file.
    jobs = args.threads if args.no_uring else 1
    command = ["fio", "--name=side", f"--filename={name}", f"--rw={rw}", f"--size={args.size}",
               f"--bs={args.block}", "--direct=1", "--output-format=json", "--fallocate=posix",
               "--scramble_buffers=0", "--refill_buffers=0", "--group_reporting"]
    if args.no_uring:
        command += ["--ioengine=psync"]
    else:
        command += ["--ioengine=io_uring", f"--iodepth={args.depth}"]
        if args.fixed:
            command += ["--fixedbufs=1", "--registerfiles=1"]
    return command, jobs


def measure_fio(args, op):
    name = os.path.join(args.path, ".io_vs_fio.dat")
    try:
        layout, _ = fio_command(args, name, "write")
        run(args, layout + ["--end_fsync=1"])
        rw = {"read": "read", "write": "write", "mixed": "rw"}[op]
        command, jobs = fio_command(args, name, rw)
        if jobs > 1:
            # Each job goes through a part of the file of its own, as threads of ours take turns.
            part = size_bytes(args.size) // jobs // size_bytes(args.block) * size_bytes(args.block)
            command = [c for c in command if not c.startswith("--size=")]
            command += [f"--size={part}", f"--offset_increment={part}", f"--numjobs={jobs}", "--thread"]
        command += ["--time_based", f"--runtime={args.seconds}"]
        job = json.loads(run(args, command))["jobs"][0]
    finally:
        if os.path.exists(name):
            os.unlink(name)
    moved = job["read"]["io_bytes"] + job["write"]["io_bytes"]
    seconds = max(job["read"]["runtime"], job["write"]["runtime"]) / 1e3
    # In percent of the time of all jobs together.
    cpu_seconds = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1e3
    return moved / seconds, cpu_seconds / moved


def measure_spillway(args, op):
    command = [args.spillway, "bench", "io", "--path", args.path, "--op", op, "--size", args.size,
               "--block", args.block, "--depth", str(args.depth), "--io-threads", str(args.threads),
               "--seconds", str(args.seconds), "--json"]
    if args.verify:
        command.append("--verify")
    result = json.loads(run(args, command))
    expected = "threads" if args.no_uring else "io_uring"
    if result["engine"] != expected:
        sys.exit(f"spillway used the engine {result['engine']} and not {expected}")
    moved = result["read_bytes"] + result["written_bytes"]
    return result["bytes_per_second"], result["cpu_seconds"] / moved, result


def size_bytes(text):
    units = {"k": 10, "m": 20, "g": 30, "t": 40}
    digits = text.lower().removesuffix("ib")
    return int(digits[:-1]) << units[digits[-1]] if digits[-1] in units else int(digits)


def interval(ratios):
    """Median and the narrowest symmetric pair of order statistics that covers it in 90%."""
    ordered = sorted(ratios)
    n = len(ordered)
    median = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    low = 0
    outside = 0.0
    for k in range(n // 2):
        outside += 2 * math.comb(n, k) / 2 ** n
        if outside > 0.1:
            break
        low = k
    return median, ordered[low], ordered[n - 1 - low]


def compare(args, op):
    peer = f"psync, {args.threads} jobs" if args.no_uring else \
        "io_uring, fixed buffers and files" if args.fixed else "io_uring"
    print(f"{op}{' --verify' if args.verify else ''}: spillway against fio "
          f"({peer}), {args.pairs} pairs of {args.seconds:g} s")
    print(f"{'pair':>5} {'spillway MB/s':>14} {'fio MB/s':>10} {'ratio':>7} {'cpu ratio':>10}")
    rates, cpus, features = [], [], None
    for pair in range(args.pairs):
        if pair % 2 == 0:
            ours, our_cpu, features = measure_spillway(args, op)
            theirs, their_cpu = measure_fio(args, op)
        else:
            theirs, their_cpu = measure_fio(args, op)
            ours, our_cpu, features = measure_spillway(args, op)
        rates.append(ours / theirs)
        cpus.append(our_cpu / their_cpu if their_cpu > 0 else float("nan"))
        print(f"{pair + 1:5} {ours / 1e6:14.0f} {theirs / 1e6:10.0f} {rates[-1]:7.3f} {cpus[-1]:10.2f}",
              flush=True)
    median, low, high = interval(rates)
    cpu_median, cpu_low, cpu_high = interval(cpus)
    print(f"median ratio {median:.3f} (90% interval {low:.3f} to {high:.3f})")
    print(f"processor time per byte {cpu_median:.2f} x fio's ({cpu_low:.2f} to {cpu_high:.2f})")
    print(f"engine {features['engine']}, on: {', '.join(features['features']) or 'nothing'}")
    for refused in features["refused"]:
        print(f"refused: {refused['feature']}: {refused['reason']}")
    missed = []
    if args.at_least is not None and median < args.at_least:
        missed.append(f"{op}: ratio {median:.3f} is below {args.at_least}")
    if args.cpu_at_most is not None and cpu_median > args.cpu_at_most:
        missed.append(f"{op}: processor time {cpu_median:.2f} x is above {args.cpu_at_most}")
    print()
    return missed


def demand(args):
    print(f"demand reads under full write-back, {args.pairs} times {args.seconds:g} s each\n"
          f"{'time':>5} {'alone p99':>10} {'loaded p99':>11} {'bound':>8} {'within':>7}   in ms")
    within = []
    for time in range(args.pairs):
        _, _, result = measure_spillway(args, "demand")
        within.append(result["within_bound"])
        print(f"{time + 1:5} {result['unloaded']['latency']['p99_seconds'] * 1e3:10.2f} "
              f"{result['latency']['p99_seconds'] * 1e3:11.2f} {result['bound_seconds'] * 1e3:8.2f} "
              f"{'yes' if within[-1] else 'no':>7}", flush=True)
    print(f"within the bound: {sum(within)} of {len(within)}")
    return [] if 2 * sum(within) > len(within) else ["demand: more often above the bound than not"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spillway", default="build/release/spillway")
    parser.add_argument("--path", required=True, help="a directory on the disk")
    parser.add_argument("--op", default="read,write,mixed", help="separated by commas")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--size", default="1g")
    parser.add_argument("--block", default="1m")
    parser.add_argument("--depth", type=int, default=32)
    parser.add_argument("--threads", type=int, default=4, help="of --no-uring")
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--as-nobody", action="store_true")
    parser.add_argument("--no-uring", action="store_true")
    parser.add_argument("--plain-fio", action="store_true")
    parser.add_argument("--small-pages", action="store_true", help="fio's buffers as it gets them")
    parser.add_argument("--demand", action="store_true")
    parser.add_argument("--at-least", type=float, help="exit 1 below this median ratio")
    parser.add_argument("--cpu-at-most", type=float, help="exit 1 above this median")
    args = parser.parse_args()
    args.fixed = not (args.plain_fio or args.as_nobody or args.no_uring)
    args.path = os.path.abspath(args.path)
    args.spillway = os.path.abspath(args.spillway)
    if args.as_nobody and os.geteuid() != 0:
        sys.exit("--as-nobody becomes another user: run it as root")
    if platform.system() != "Linux":
        sys.exit("io_uring is Linux's")
    if args.demand:
        missed = demand(args)
    else:
        missed = [line for op in args.op.split(",") for line in compare(args, op)]
    for line in missed:
        print(line)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
