#!/usr/bin/env python3
"""Looks into what nvcc makes of the kernels, for operations that could give other bits than the CPU.

    exact_ptx.py --nvcc NVCC --include DIR --flags "FLAG;FLAG" FILE.cu...

Every floating-point operation must be rounded to nearest and keep subnormals: no fused
multiply-add, no approximation, no flush to zero; and nothing floating may be added atomically.
Division and root must be there at all. Exit code 0 when all hold.
"""

import argparse
import os
import re
import subprocess
import sys

INEXACT = [
    (re.compile(r"\b(fma|mad)\.(rn|rz|rm|rp)?\.?(ftz\.|sat\.)*f(32|64)"), "a fused multiply-add"),
    (re.compile(r"\.ftz\b"), "a flush to zero"),
    (re.compile(r"\.approx\b|\b(div|sqrt|rcp|rsqrt)\.full\b"), "an approximation"),
    (re.compile(r"\b(atom|red)\.[\w.]*\.f(16|32|64)\b|\b(atom|red)\.[\w.]*\bbf16"), "a floating atomic"),
    (re.compile(r"\b(add|sub|mul|div|sqrt)\.(rz|rm|rp)\.f(32|64)"), "another rounding"),
    # Without .rn the driver may fuse a product and a sum when it compiles for a later GPU.
    (re.compile(r"\b(add|sub|mul)\.f(32|64)"), "an operation that may be fused later"),
]
# What the update of Adam consists of; without them this looks at the wrong thing.
PRESENT = ["div.rn.f32", "sqrt.rn.f32", "mul.rn.f32", "add.rn.f32", "add.rn.f64"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nvcc", required=True)
    parser.add_argument("--include", required=True)
    parser.add_argument("--flags", required=True)
    parser.add_argument("sources", nargs="+")
    options = parser.parse_args()

    wrong, everything = [], ""
    for source in options.sources:
        done = subprocess.run(
            [options.nvcc, "-std=c++20", "-arch=compute_90", "-ptx", "-o", "-", "-I", options.include,
             *options.flags.split(";"), source], text=True, capture_output=True)
        if done.returncode:
            print(done.stderr)
            return 1
        everything += done.stdout
        kernel = ""
        for line in done.stdout.splitlines():
            entry = re.search(r"\.entry (\w+)", line)
            kernel = entry.group(1) if entry else kernel
            for pattern, name in INEXACT:
                if pattern.search(line):
                    wrong.append(f"{os.path.basename(source)}: {name} in {kernel}: {line.strip()}")
    for operation in PRESENT:
        if operation not in everything:
            wrong.append(f"no {operation} anywhere: was the update looked at?")
    print(f"{len(re.findall(r'[.]entry', everything))} kernels")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
