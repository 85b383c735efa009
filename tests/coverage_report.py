#!/usr/bin/env python3
"""What the tests of a build with counters (the preset `coverage`) have run.

    tests/coverage_report.py FOLDER [LAYER...]      layers: io swap, unless named

Says of each source of those layers how many of its lines have run, the ones below 90% first, and then
which ways into an error nothing has taken: a line that returns an error and has not run, and a call
whose error is passed on and never came. A process that ends by _exit or a signal counts nothing.
Exit code 1 where a source has less than 90%."""

import collections
import json
import os
import re
import subprocess
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WANTED_PERCENT = 90
# Lines that make an error, or hand one on; and calls whose error goes to the caller.
RETURNS_ERROR = re.compile(r"\breturn\b.*(Error\(|ErrnoStatus\(|Annotate\(|[Ss]tatus\b)|\bFail\(")
PASSES_ON = re.compile(r"\b(RETURN_IF_ERROR|ASSIGN_OR_RETURN)\(")


def counted(folder):
    """[file][line] -> (runs, whether every branch of it that is no exception was taken)."""
    lines = collections.defaultdict(dict)
    for directory, _, names in os.walk(folder):
        files = [name for name in names if name.endswith(".gcda")]
        if not files:
            continue
        text = subprocess.run(["gcov", "--json-format", "--stdout", "--branch-probabilities", *files],
                              cwd=directory, capture_output=True, text=True, check=True).stdout
        for document in filter(None, text.splitlines()):
            add(json.loads(document), lines)
    return lines


def add(document, lines):
    for file in document["files"]:
        # Where the compiler stood, which is not where the counters lie.
        path = os.path.normpath(os.path.join(document["current_working_directory"], file["file"]))
        path = os.path.relpath(path, SOURCE)
        for line in file["lines"]:
            number, runs = line["line_number"], line["count"]
            taken = [branch["count"] > 0 for branch in line["branches"] if not branch["throw"]]
            before, branches = lines[path].get(number, (0, [False] * len(taken)))
            if len(branches) == len(taken):  # as everywhere but in templates
                branches = [a or b for a, b in zip(branches, taken)]
            lines[path][number] = (before + runs, branches)


def source_lines(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read().splitlines()


def untaken(path, lines):
    """(line, text) of each way into an error that nothing has taken."""
    text = source_lines(path)
    for number, (runs, branches) in sorted(lines.items()):
        line = text[number - 1].strip()
        if runs == 0 and RETURNS_ERROR.search(line) and not line.endswith("OkStatus();"):
            yield number, line
        elif runs > 0 and PASSES_ON.search(line) and False in branches:
            yield number, line


def main():
    folder, layers = sys.argv[1], sys.argv[2:] or ["io", "swap"]
    lines = counted(folder)
    shares = []
    for path in sorted(lines):
        if path.split(os.sep)[0] in layers and path.endswith(".cc"):
            run = sum(1 for runs, _ in lines[path].values() if runs > 0)
            shares.append((100 * run / len(lines[path]), run, len(lines[path]), path))
    if not shares:
        sys.exit(f"nothing in {folder} has counted a line of {', '.join(layers)}")
    below = sorted(share for share in shares if share[0] < WANTED_PERCENT)
    for percent, run, all_lines, path in below:
        print(f"{percent:5.1f}%  {run} of {all_lines} lines  {path}")
    total = sum(share[2] for share in shares)
    print(f"{len(shares) - len(below)} of {len(shares)} sources have {WANTED_PERCENT}% or more; "
          f"all together {100 * sum(share[1] for share in shares) / total:.1f}% of {total} lines")
    ways = [(path, *way) for *_, path in shares for way in untaken(path, lines[path])]
    print(f"\n{len(ways)} ways into an error that nothing has taken:")
    for path, number, line in ways:
        print(f"{path}:{number}: {line}")
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
