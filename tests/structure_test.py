#!/usr/bin/env python3
"""Holds the sources to the shape that docs/ARCHITECTURE.md describes.

    tests/structure_test.py --source DIR --build DIR [--compiler g++]

Checks: includes never point from a left layer to a right one, and LibTorch stays
where it belongs; every tests/**/*_test.cc is compiled into a test program; headers
are self-contained; the format is clang-format's; nothing names a path of one
machine. Python's standard library only. Exit code 0 when all hold.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

# Folder -> the folders whose headers it may include. The most specific folder counts.
# A test mirrors its source, and may use what that may.
ALLOWED = {
    "io": {"io"},
    "swap": {"io", "swap"},
    "swap/device/cuda": {"io", "swap", "swap/device/cuda"},
    "engine": {"io", "swap", "engine", "engine/cuda"},  # and its subfolders
    "engine/cuda": {"io", "swap", "engine", "engine/cuda"},  # .cu files and what launches them
    "engine/torch": {"io", "swap", "engine", "engine/cuda", "engine/torch"},
    "engine/torch/cuda": {"io", "swap", "swap/device/cuda", "engine", "engine/cuda", "engine/torch", "engine/torch/cuda"},
    "tools": {"io", "swap", "engine", "engine/torch", "tools"},
    "examples": {"io", "swap", "engine", "engine/torch", "examples"},
    "bench": {"io", "swap", "engine", "engine/torch", "bench"},
    "sim": {"io", "swap"},  # tests/sim only: the simulated disk
    "cuda": {"io", "swap", "swap/device/cuda"},  # tests/cuda only: swap/device/cuda on a stand-in for libcudart
    "device": {"io", "swap"},  # tests/device only: the suite that every device passes
}
# Headers in engine/ that show LibTorch's types: the public ones, for those who bring a model.
TORCH_HEADERS = {"engine/torch/model.h", "engine/torch/train.h"}
# Folders that may include LibTorch's headers, directly or through TORCH_HEADERS.
TORCH_FOLDERS = {"engine/torch", "engine/torch/cuda", "tools", "examples", "bench", "tests/torch", "tests/tools"}

LONG_FILE_LINES = 400  # a hint that a file holds two ideas; never a failure

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.M)
TORCH_INCLUDE = re.compile(r"^(torch|ATen|c10|caffe2)/")
# Folders of one machine, or of one person's account.
MACHINE_PATH = re.compile(r"(?<![\w.$}/-])/(?:work|root|home/[a-z]\w*)(?:/|\b(?=[\"'`\s]))")
TEXT_FILES = (".cc", ".h", ".cu", ".cmake", ".md", ".json", ".py", ".sh", ".txt", ".supp")
# What includes CUDA's headers, which a build may do without (cmake/SpillwayCudaHeaders.cmake).
CUDA_FOLDERS = ("swap/device/cuda/", "tests/cuda/")


class Sources:
    def __init__(self, root):
        self.root = root
        self.files = []
        for folder, names, files in os.walk(root):
            names[:] = sorted(n for n in names if n not in {".git", ".deps", "build", "out", "__pycache__"})
            for name in sorted(files):
                self.files.append(os.path.relpath(os.path.join(folder, name), root))
        self.cpp = [f for f in self.files if f.endswith((".h", ".cc", ".cu"))]
        self.includes = {f: [a or b for a, b in INCLUDE.findall(self.text(f))] for f in self.cpp}

    def text(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as f:
            return f.read()

    def reached(self, path):
        """All of our own headers that `path` includes, however far down, and itself."""
        seen, queue = {path}, [path]
        while queue:
            for name in self.includes[queue.pop()]:
                if name in self.includes and name not in seen:
                    seen.add(name)
                    queue.append(name)
        return seen

    def needs_torch(self, path):
        return any(TORCH_INCLUDE.match(i) for f in self.reached(path) for i in self.includes[f])


def folder_of(path, folders):
    """The longest of `folders` that `path` lies in, or None."""
    inside = [f for f in folders if path.startswith(f + "/")]
    return max(inside, key=len) if inside else None


def check_include_direction(sources):
    for path in sources.cpp:
        is_test = path.startswith("tests/")
        layer = folder_of(path[len("tests/"):] if is_test else path, ALLOWED)
        if layer is None and path.startswith("tests/torch/"):
            layer = "engine/torch"
        if layer is None:
            continue
        for name in sources.includes[path]:
            target = folder_of(name, ALLOWED)
            if target and target not in ALLOWED[layer]:
                yield f"{path} includes {name}: {layer} may include {', '.join(sorted(ALLOWED[layer]))}"
            if name.startswith("absl/synchronization/"):
                yield f"{path} includes {name}: use io/base/mutex.h and std types, which TSan can follow"


def check_torch_stays_outside(sources):
    for path in sources.cpp:
        own = folder_of(path, set(ALLOWED) | {"tests/" + f for f in ALLOWED} | TORCH_FOLDERS)
        if own is None or own in TORCH_FOLDERS or path in TORCH_HEADERS:
            continue
        if sources.needs_torch(path):
            chain = sorted(f for f in sources.reached(path)
                           if any(TORCH_INCLUDE.match(i) for i in sources.includes[f]))
            yield f"{path} includes LibTorch through {', '.join(chain)}: {own} does not know it"


def cuda_flags(build):
    """The compiler's flags for CUDA's headers; None when the build found none."""
    commands = os.path.join(build, "compile_commands.json")
    if os.path.exists(commands):
        with open(commands, encoding="utf-8") as f:
            for command in json.load(f):
                if command["file"].endswith("/swap/device/cuda/cuda_device.cc"):
                    folders = re.findall(r"(?:-isystem |-I)(\S+)", command.get("command", ""))
                    return [flag for folder in folders for flag in ("-isystem", folder)
                            if os.path.exists(os.path.join(folder, "cuda_runtime_api.h"))]
    return None


def check_tests_are_registered(sources, build):
    commands = os.path.join(build, "compile_commands.json")
    if not os.path.exists(commands):
        yield f"{commands} is missing: configure with CMake first"
        return
    with open(commands, encoding="utf-8") as f:
        compiled = {os.path.realpath(os.path.join(c["directory"], c["file"])) for c in json.load(f)}
    without_cuda = cuda_flags(build) is None
    if without_cuda:
        print(f"note: no CUDA headers were found; {' and '.join(CUDA_FOLDERS)} are not built")
    for path in sources.files:
        if without_cuda and path.startswith(CUDA_FOLDERS):
            continue
        if path.startswith("tests/gpu/"):  # the preset cuda's, taken by folder
            if "tests/gpu/*.cc" not in sources.text("cmake/SpillwayCudaKernels.cmake"):
                yield f"{path} is in no test program: cmake/SpillwayCudaKernels.cmake does not take its folder"
        elif path.startswith("tests/") and path.endswith("_test.cc"):
            if os.path.realpath(os.path.join(sources.root, path)) not in compiled:
                yield f"{path} is in no test program: add its folder to CMakeLists.txt (spillway_tests)"
        if path.startswith("tests/") and path.endswith("_test.py"):
            name = os.path.basename(path)[:-len("_test.py")]
            if not re.search(rf"\b{name}\b", sources.text("CMakeLists.txt")):
                yield f"{path} is in no test: name it in CMakeLists.txt"
        if path.startswith("tests/") and path.endswith(".cc") and not path.endswith("_test.cc"):
            by_name = path in sources.text("cmake/SpillwayCuda.cmake")  # the preset cuda's
            if re.search(r"^TEST(_F|_P)?\(", sources.text(path), re.M) and not by_name:
                yield f"{path} holds tests but is not named *_test.cc, so nothing builds it"


def check_headers_are_self_contained(sources, build, compiler):
    """A header whose .cc includes it first is proven by the build; the others are compiled alone."""
    flags = ["-std=c++20", "-fsyntax-only", "-x", "c++", "-I", sources.root]
    unpacked = os.path.join(sources.root, ".deps", "debian", "usr", "include")
    if os.path.isdir(unpacked):
        flags += (["--sysroot", os.path.dirname(os.path.dirname(unpacked))]
                  if os.path.exists(os.path.join(unpacked, "stdlib.h")) else ["-isystem", unpacked])
    cuda = cuda_flags(build)
    flags += cuda or []
    alone = []
    for path in sources.cpp:
        if not path.endswith(".h") or sources.needs_torch(path):
            continue
        if cuda is None and path.startswith(CUDA_FOLDERS):
            continue
        source = path[:-2] + ".cc"
        first = sources.includes.get(source, [None])[:1]
        if first != [path]:
            alone.append(path)

    def compile_alone(path):
        program = f'#include "{path}"\n#include "{path}"\n'
        done = subprocess.run([compiler, *flags, "-"], input=program, text=True, capture_output=True)
        return [] if done.returncode == 0 else [f"{path} is not self-contained: {done.stderr.splitlines()[0:3]}"]

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for findings in pool.map(compile_alone, alone):
            yield from findings
    for path in sources.cpp:
        if path.endswith(".h") and "#pragma once" not in sources.text(path):
            yield f"{path} has no #pragma once"


def check_format(sources):
    tool = shutil.which("clang-format")
    if not tool:
        print("note: clang-format is not installed; the format is not checked")
        return
    files = [f for f in sources.cpp]
    done = subprocess.run([tool, "--dry-run", "-Werror", *files], cwd=sources.root, text=True, capture_output=True)
    if done.returncode:
        wrong = sorted({m for m in re.findall(r"^(\S+?):\d+:\d+: error", done.stderr, re.M)})
        for path in wrong or [done.stderr.strip()[:300]]:
            yield f"{path} is not formatted: clang-format -i {path}"


def check_nothing_names_a_machine(sources):
    for path in sources.files:
        scripts = path.startswith(("tools/", ".ci/")) and "." not in os.path.basename(path)
        if not (path.endswith(TEXT_FILES) or scripts) or path == "tests/structure_test.py":
            continue
        if path.startswith("tests/golden/") and os.path.getsize(os.path.join(sources.root, path)) > 100_000:
            continue
        for number, line in enumerate(sources.text(path).splitlines(), 1):
            found = MACHINE_PATH.search(line)
            if found:
                yield f"{path}:{number} names a path of one machine: {line.strip()[:100]}"


def note_long_files(sources):
    for path in sources.cpp:
        lines = sources.text(path).count("\n")
        if lines > LONG_FILE_LINES:
            print(f"note: {path} has {lines} lines; more than {LONG_FILE_LINES} usually hold two ideas")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--compiler", default="g++")
    options = parser.parse_args()

    sources = Sources(options.source)
    checks = [
        ("include direction", check_include_direction(sources)),
        ("LibTorch stays outside", check_torch_stays_outside(sources)),
        ("tests are registered", check_tests_are_registered(sources, options.build)),
        ("headers are self-contained",
         check_headers_are_self_contained(sources, options.build, options.compiler)),
        ("format", check_format(sources)),
        ("nothing names a machine", check_nothing_names_a_machine(sources)),
    ]
    failed = False
    for name, findings in checks:
        findings = list(findings)
        print(f"{'FAILED' if findings else 'ok':6} {name}")
        for finding in findings:
            print("  " + finding)
        failed = failed or bool(findings)
    note_long_files(sources)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
