#!/usr/bin/env python3
"""Runs all fuzz targets in turn, on all cores, until they have tried many inputs together.

    tools/build fuzz spillway_fuzz
    tests/fuzz/many_inputs.py [--inputs 40000000] [--seconds N] [--jobs N] [--keep] [TARGET...]

A turn is cmake/run_fuzz: first what the target's test does, and then --turn seconds (30) of more. It
ends when there are so many inputs, after so many seconds, or by Ctrl-C, and prints a result for
docs/measurements.json: date, inputs, findings, the most memory, and the inputs of each target. Its
exit code is 1 where something was found; the others go on.

--keep writes what was learnt to corpus/TARGET/learnt.tar.gz: of all that build/fuzz/corpus holds a
small set of small inputs that reach what the seeds do not.
"""

import argparse
import concurrent.futures
import datetime
import gzip
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# Of what is kept for a target.
MOST_FILES = 60
MOST_BYTES = 64 << 10
MOST_FILE_BYTES = 4 << 10


def targets():
    """The name of each, and how many inputs its test tries."""
    found = {}
    for source in sorted(HERE.glob("*_fuzz.cc")):
        for name, runs in re.findall(r"^SPILLWAY_FUZZ\((\w+), (\d+)\)", source.read_text(), re.M):
            found[name] = int(runs)
    return found


class Tally:
    """What has been tried and found, by all turns. Any thread."""

    def __init__(self):
        self.lock = threading.Lock()
        self.inputs, self.found, self.peak_mib = {}, [], 0

    def add(self, target, output, code):
        with self.lock:
            for tried, mib in re.findall(r"no finding in (\d+) inputs, at most (\d+) MiB", output):
                self.inputs[target] = self.inputs.get(target, 0) + int(tried)
                self.peak_mib = max(self.peak_mib, int(mib))
            if code != 0:
                self.found.append(target)
                print(output, flush=True)

    def total(self):
        with self.lock:
            return sum(self.inputs.values())


def fuzz(program, target, runs, seconds, tally):
    """One turn of a target."""
    done = subprocess.run(
        [ROOT / "cmake/run_fuzz", program, target, str(runs), HERE, program.parent], text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ, SPILLWAY_FUZZ_SECONDS=str(seconds)))
    tally.add(target, done.stdout, done.returncode)


def run_turns(program, chosen, options, tally):
    """Rounds of all targets but those in which something was found, until there are enough inputs."""
    end = time.monotonic() + options.seconds

    def turn(target):
        if tally.total() < options.inputs and time.monotonic() < end:
            fuzz(program, target, chosen[target], options.turn, tally)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        while tally.total() < options.inputs and time.monotonic() < end:
            left = [target for target in chosen if target not in tally.found]
            if not left:
                return
            for _ in pool.map(turn, left):
                pass
            print(f"{tally.total():,} inputs so far", flush=True)


def merge(program, target):
    """The smallest of what is learnt by which more of the program is reached than by the seeds."""
    seeds, learnt = HERE / "corpus" / target, program.parent / "corpus" / target
    with tempfile.TemporaryDirectory() as scratch:
        known, small = pathlib.Path(scratch, "known"), pathlib.Path(scratch, "small")
        known.mkdir()
        small.mkdir()
        names = set()
        for path in sorted(seeds.rglob("*")):
            if path.is_file() and path.name != "learnt.tar.gz":
                shutil.copy(path, known / f"seed-{len(names)}")
                names.add(f"seed-{len(names)}")
        for path in learnt.iterdir() if learnt.is_dir() else []:
            if path.stat().st_size <= MOST_FILE_BYTES:
                shutil.copy(path, small)
        options = "detect_container_overflow=0:allocator_may_return_null=1"
        subprocess.run(
            [program, "-merge=1", "-use_counters=0", "-rss_limit_mb=1024", "-malloc_limit_mb=64", "-max_len=65536", known,
             small], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=dict(os.environ, SPILLWAY_FUZZ_TARGET=target, ASAN_OPTIONS=options, TMPDIR=scratch))
        return sorted((path.read_bytes() for path in known.iterdir() if path.name not in names), key=lambda c: (len(c), c))


def keep(program, target):
    """Replaces the target's archive, the same bytes for the same inputs."""
    plain, taken = io.BytesIO(), 0
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for content in merge(program, target)[:MOST_FILES]:
            taken += len(content)
            if taken > MOST_BYTES:
                break
            member = tarfile.TarInfo(f"{len(archive.getnames()):02}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        count = len(archive.getnames())
    path = HERE / "corpus" / target / "learnt.tar.gz"
    if count == 0:
        path.unlink(missing_ok=True)
    else:
        path.write_bytes(gzip.compress(plain.getvalue(), mtime=0))
    print(f"{target}: {count} inputs are kept", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/fuzz/spillway_fuzz")
    parser.add_argument("--inputs", type=int, default=40_000_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--turn", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    known = targets()
    unknown = set(options.targets) - set(known)
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    chosen = {name: runs for name, runs in known.items() if not options.targets or name in options.targets}
    program = options.program.resolve()
    if not program.exists():
        parser.error(f"{program} is not there: tools/build fuzz spillway_fuzz makes it")
    tally = Tally()
    try:
        run_turns(program, chosen, options, tally)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    if options.keep:
        for target in chosen:
            keep(program, target)
    if tally.inputs or tally.found:
        found = f"findings in {', '.join(sorted(tally.found))}" if tally.found else "no finding"
        print(f"Last on {datetime.date.today()}: {tally.total():,} inputs over {len(tally.inputs)} targets, {found}, "
              f"at most {tally.peak_mib} MiB.")
        print(", ".join(f"{name} {count:,}" for name, count in sorted(tally.inputs.items())))
    return 1 if tally.found else 0


if __name__ == "__main__":
    sys.exit(main())
