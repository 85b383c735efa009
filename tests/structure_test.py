#!/usr/bin/env python3
"""Holds the sources to the shape that docs/ARCHITECTURE.md describes.

    tests/structure_test.py --source DIR --build DIR [--compiler g++]

Checks: every folder has a floor and includes only downwards, modules make no loop, every source
has its header, a class holds one idea, LibTorch stays where it belongs, and io/ alone renames and removes; every tests/**/*_test.cc is compiled into a test program; what
a source names of ours it includes; headers compile alone (with SPILLWAY_HEADERS_ALONE=1); the format is clang-format's, docs are wrapped evenly, their tables and pictures are current and their links
lead somewhere; nothing names a path of one machine. Python's standard library only. Exit code 0 when all hold.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from wrap_docs import wrap

# Every folder with sources, from the ground up: a folder includes itself and those before it. What a
# folder answers stands in docs/ARCHITECTURE.md.
FLOORS = [
    "io/base", "io",
    "swap/plan", "swap/device", "swap/store", "swap/mover", "swap/forecast",
    "engine/base", "engine/numeric", "engine/measures", "engine/machine", "engine/cuda", "engine/options", "engine/model",
    "engine/families",
    "engine/chat", "engine/tokenizers", "engine/media", "engine/data",
    "engine/ranks", "engine/estimate", "engine/tuning", "engine/weights", "engine/adapters",
    "engine/run", "engine/config", "engine/report", "engine/train", "engine/inspect",
    "engine/torch", "engine/datasets", "engine/generation", "engine/layers", "engine/tasks",
    "swap/device/cuda", "engine/torch/cuda",
    "tools", "tools/compute", "examples", "bench",
]
# Leaves, whose headers nobody includes but those named.
LEAVES = {"swap/device/cuda": {"engine/torch/cuda"}, "engine/torch/cuda": set(),
          "tools": {"tools/compute"}, "tools/compute": set()}
# Variants of a folder's sources, of which a build takes one: they stand where their folder does.
VARIANTS = ("/absent", "/nccl")
# What engine/torch/cuda_support.h declares, in a build with CUDA.
WITH_CUDA = {"engine/torch/cuda/cuda_support.cc"}
# The highest floor that the tests in a folder of tests/ may use: their layer's.
TEST_FLOORS = {"io": "io", "swap": "swap/forecast", "sim": "swap/mover", "device": "swap/mover",
               "cuda": "swap/device/cuda", "engine": "engine/inspect"}
# What a plan is made of: plain values, which no thread shares.
PURE, NOT_PURE = "swap/plan", "io/base/mutex.h"
# Folders that may include LibTorch's headers: the program (tools) is linked without it.
TORCH_FOLDERS = {"engine/torch", "engine/torch/cuda", "engine/datasets", "engine/generation", "engine/layers",
                 "engine/tasks", "tools/compute", "examples", "tests/torch", "tests/tools"}

# A class larger than this holds several ideas, unless its header says why not.
MOST_LINES, MOST_FIELDS = 500, 20

# What another project includes, and of how many headers of ours it hears by that at most.
PUBLIC_HEADERS, MOST_REACHED = ("engine/torch/model.h", "engine/torch/train.h"), 24

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


def floor_of(path):
    """The folder in FLOORS that a source lies in, or None."""
    folder = os.path.dirname(path)
    for variant in VARIANTS:
        folder = folder.removesuffix(variant)
    return folder if folder in FLOORS else None


def check_floors(sources):
    for path in sources.cpp:
        is_test = path.startswith("tests/")
        own = TEST_FLOORS.get(path.split("/")[1]) if is_test else floor_of(path)
        if own is None:
            if path.startswith(("io/", "swap/", "engine/")):
                yield f"{path} lies in no room: {os.path.dirname(path)} is not in FLOORS"
            continue
        for name in sources.includes[path]:
            target = floor_of(name)
            if target is None:
                if name.startswith(("io/", "swap/", "engine/")):
                    yield f"{path} includes {name}, which lies in no room"
            elif FLOORS.index(target) > FLOORS.index(own):
                yield f"{path} includes {name}: {own} lies below {target}"
            elif target in LEAVES and own != target and own not in LEAVES[target] and not is_test:
                yield f"{path} includes {name}: nobody above it may know {target}"
            if name.startswith("absl/synchronization/"):
                yield f"{path} includes {name}: use io/base/mutex.h and std types, which TSan can follow"
        if own == PURE and not is_test and NOT_PURE in sources.reached(path):
            yield f"{path} reaches {NOT_PURE}: {PURE} is pure"


def check_public_headers(sources):
    for path in PUBLIC_HEADERS:
        reached = sources.reached(path) - {path}
        if len(reached) > MOST_REACHED:
            yield f"{path} reaches {len(reached)} headers, more than {MOST_REACHED}: {', '.join(sorted(reached))}"


def check_modules(sources):
    """A module is a header and the source of its name. Includes between modules make no loop."""
    module = lambda path: path.rsplit(".", 1)[0]
    edges = {}
    for path in sources.cpp:
        if path.startswith("tests/"):
            continue
        targets = edges.setdefault(module(path), set())
        targets.update(module(name) for name in sources.includes[path] if name in sources.includes)
        targets.discard(module(path))

    def reaches(start, goal):
        seen, queue = set(), [start]
        while queue:
            for target in edges.get(queue.pop(), ()):
                if target not in seen:
                    seen.add(target)
                    queue.append(target)
        return goal in seen

    in_loops = sorted(name for name in edges if reaches(name, name))
    if in_loops:
        yield "modules include each other in a loop: " + ", ".join(in_loops)


def check_sources_have_headers(sources):
    for path in sources.cpp:
        if not path.endswith(".cc") or not path.startswith(("io/", "swap/", "engine/")):
            continue
        if path[:-3] + ".h" in sources.includes or any(v + "/" in path for v in VARIANTS):
            continue
        if path in WITH_CUDA or "engine/tasks/all_tasks.h" in sources.includes[path]:
            continue
        yield f"{path} has no header of its name: merge it with what it belongs to, or give it one"


ANONYMOUS = re.compile(r"^namespace \{\n(.*?)^\}  // namespace$", re.M | re.S)
# A function, a type, an alias or a constant, at the start of a line.
OWN_NAME = re.compile(
    r"^(?:(?:template <[^\n]*>\n)?[A-Za-z_][\w:<>,&*\s\[\]]*?[\s&*]([A-Za-z_]\w*)\((?!\*)[^;{}]*?\)(?: const)? \{"
    r"|(?:class|struct|enum class|enum|union) (\w+)[^;\n]*\{|using (\w+) = "
    r"|(?:constexpr|const) [^=;(]*?\b(k\w+)(?:\[[^\]]*\])* ?[={])", re.M)


def check_own_names(sources, build):
    """Sources that are compiled together (spillway_compile_together) may not use a name of their own for two things:
    those of a folder never, others as this build has them."""
    together = {}
    for unit, members, _ in compiled_units(build) or []:
        if len(members) > 1:
            together |= {os.path.relpath(member, os.path.realpath(sources.root)): os.path.basename(unit)
                         for member in members}
    users = {}
    for path in sources.cpp:
        if not path.endswith(".cc") or not path.startswith(("io/", "swap/", "engine/", "tools/", "tests/")):
            continue
        if path.startswith("tests/preload/"):  # each a library of its own
            continue
        for region in ANONYMOUS.findall(sources.text(path)):
            for found in OWN_NAME.findall(region):
                name = next(group for group in found if group)
                if name not in ("TEST", "TEST_F", "TEST_P"):
                    for where in {os.path.dirname(path), together.get(path, path)}:
                        users.setdefault((where, name), set()).add(path)
    for (folder, name), files in sorted(users.items()):
        if len(files) > 1:
            yield f"{folder}: {name} stands in {', '.join(sorted(files))}: name two things twice, or write one once"


CLASS = re.compile(r"^(?:class|struct) (?:\w+\(.*?\) )?([\w:]+)(?: final)?(?: :[^{;]*)? \{$", re.M)
FIELD = re.compile(r"^  (?! )[^(){}/#]*\b\w+_(?:\[\w+\])?(?: ABSL_\w+\(\w+\))?(?:\{[^}]*\}| = [^;]*)?;", re.M)
REASON = re.compile(r"^// Large because ", re.M)


def check_classes(sources):
    """Judges classes, not files: a header with a class, and the source of its name."""
    for path in sources.cpp:
        if not path.endswith(".h") or not path.startswith(("io/", "swap/", "engine/")):
            continue
        text = sources.text(path)
        if REASON.search(text):
            continue
        source = path[:-2] + ".cc"
        for found in CLASS.finditer(text):
            body = text[found.end():text.find("\n};", found.end())]
            private = body.split(" private:", 1)[1] if " private:" in body else ""
            fields = len(FIELD.findall(re.sub(r"<[^;]*>", "", private)))
            if fields > MOST_FIELDS:
                yield f"{path}: {found[1]} has {fields} fields (up to {MOST_FIELDS}; or say '// Large because ...')"
            if source in sources.includes and re.search(rf"^[^\n;]*\b{found[1]}::\w+\(", sources.text(source), re.M):
                lines = text.count("\n") + sources.text(source).count("\n")
                if lines > MOST_LINES:
                    yield (f"{path}: {found[1]} and what stands with it have {lines} lines "
                           f"(up to {MOST_LINES}; or say '// Large because ...')")


def check_torch_stays_outside(sources):
    for path in sources.cpp:
        own = ("tests/" + path.split("/")[1]) if path.startswith("tests/") else floor_of(path)
        if own is None or own in TORCH_FOLDERS:
            continue
        if sources.needs_torch(path):
            chain = sorted(f for f in sources.reached(path)
                           if any(TORCH_INCLUDE.match(i) for i in sources.includes[f]))
            yield f"{path} includes LibTorch through {', '.join(chain)}: {own} does not know it"


def compiled_units(build):
    """(what the compiler reads, its sources, its command) of all that the build compiles; or None."""
    commands = os.path.join(build, "compile_commands.json")
    if not os.path.exists(commands):
        return None
    with open(commands, encoding="utf-8") as f:
        compiled = json.load(f)
    units = []
    for command in compiled:
        path = os.path.join(command["directory"], command["file"])
        together = [path]
        if "/Unity/" in path and os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                together = re.findall(r'^#include "([^"]+)"', f.read(), re.M)
        units.append((path, [os.path.realpath(source) for source in together], command.get("command", "")))
    return units


def compiled_sources(build):
    """(source, compiler's command) of all that the build compiles, also where several are one; or None."""
    units = compiled_units(build)
    return units and [(source, command) for _, sources, command in units for source in sources]


def cuda_flags(build):
    """The compiler's flags for CUDA's headers; None when the build found none."""
    for source, command in compiled_sources(build) or []:
        if source.endswith("/swap/device/cuda/cuda_device.cc"):
            folders = re.findall(r"(?:-isystem |-I)(\S+)", command)
            return [flag for folder in folders for flag in ("-isystem", folder)
                    if os.path.exists(os.path.join(folder, "cuda_runtime_api.h"))]
    return None


def check_tests_are_registered(sources, build):
    found = compiled_sources(build)
    if found is None:
        yield f"{build}/compile_commands.json is missing: configure with CMake first"
        return
    compiled = {source for source, _ in found}
    without_cuda = cuda_flags(build) is None
    if without_cuda:
        print(f"[  SKIPPED ] structure.cuda: no CUDA headers: {' and '.join(CUDA_FOLDERS)} are not built")
    # The preset quick leaves LibTorch's part out.
    without_torch = not any(path.endswith("/engine/torch/train.cc") for path in compiled)
    for path in sources.files:
        if without_cuda and path.startswith(CUDA_FOLDERS):
            continue
        if without_torch and path.startswith("tests/torch/"):
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


# What stands in io/ alone: elsewhere files are reached through io/file_system.h.
OWN_WAY_TO_FILES = re.compile(r"\bstd::filesystem\b|(?<![\w.>:])(?:std::|::)?(?:rename|renameat2?|unlink|unlinkat|rmdir"
                              r"|mkdir|mkdirat|mkdtemp|mkstemp|mkostemp|usleep)(?=\()")


def check_one_way_to_files(sources):
    for path in sources.cpp:
        if not path.startswith(("swap/", "engine/", "tools/", "examples/")):
            continue
        found = set(OWN_WAY_TO_FILES.findall(NO_CODE.sub(" ", sources.text(path))))
        for name in sorted(found | {"<filesystem>"} & {f"<{name}>" for name in sources.includes[path]}):
            yield f"{path} has {name}: files are reached through io/file_system.h"


# What is no code: comments, texts, includes, and the names of tests.
NO_CODE = re.compile(r"""//[^\n]*|R"(\w*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'|^\s*\#\s*include[^\n]*|^TEST\(.*$""",
                     re.M)
# Types, aliases, constants and macros: those that a header gives to all, and those declared anywhere in a source.
GIVEN = re.compile(r"^(?:template <[^\n]*>\s*\n?)?(?:class|struct|enum class|enum|union) (?:\w+\([^)]*\) )?(\w+)(?: final)?(?: :[^;{]*)?\s*\{"
                   r"|^using (\w+) =|^(?:inline )?constexpr [\w:<>*,& ]+? \*?(k[A-Z]\w*)(?:\[|\s*=|\{|;)|^#define (\w+)", re.M)
DECLARED = re.compile(r"\b(?:class|struct|enum class|enum|union|using|typename|auto|namespace|define) (?:ABSL_\w+(?:\([^)]*\))? )?(\w+)"
                      r"|\b(k[A-Z]\w*)(?=\s*(?:\[[^\]]*\]\s*)?(?:=|\{|,|;|\n\s*\}))")
# Not a member's, nor another namespace's, nor a call but a macro's.
NAMED = re.compile(r"(?<![\w.>:])([A-Z_]{3,}\b|\w+\b(?!\s*\())")


def check_names_are_included(sources):
    """What a source names of ours is declared in what it includes. Sources are compiled together, in groups that
    differ from build to build: there a neighbour's include stands in for one that is missing."""
    code = {path: NO_CODE.sub(" ", sources.text(path)) for path in sources.cpp}
    declared = {path: {a or b for a, b in DECLARED.findall(text)} for path, text in code.items()}
    homes = {}
    for path, text in code.items():
        if path.endswith(".h"):
            for names in GIVEN.findall(text):
                homes.setdefault(next(filter(None, names)), set()).add(path)
    for path, text in code.items():
        reached = sources.reached(path)
        known = set().union(*(declared[other] for other in reached))
        for name in sorted(set(NAMED.findall(text)) - known):
            givers = {home for home in homes.get(name, ()) if path.startswith("tests/") or not home.startswith("tests/")}
            if givers and not givers & reached:
                yield f"{path} names {name} and does not include {' or '.join(sorted(givers))}"


def check_headers_are_self_contained(sources, build, compiler):
    """A header whose .cc includes it first is proven by the build; the others are compiled alone, where that is asked
    for: it takes minutes, and what it sees beyond check_names_are_included is a missing include of another's library."""
    for path in sources.cpp:
        if path.endswith(".h") and "#pragma once" not in sources.text(path):
            yield f"{path} has no #pragma once"
    if not os.environ.get("SPILLWAY_HEADERS_ALONE"):
        return
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


def check_format(sources):
    tool = shutil.which("clang-format")
    if not tool:
        print("[  SKIPPED ] structure.format: clang-format is not installed")
        return
    files = [f for f in sources.cpp]
    done = subprocess.run([tool, "--dry-run", "-Werror", *files], cwd=sources.root, text=True, capture_output=True)
    if done.returncode:
        wrong = sorted({m for m in re.findall(r"^(\S+?):\d+:\d+: error", done.stderr, re.M)})
        for path in wrong or [done.stderr.strip()[:300]]:
            yield f"{path} is not formatted: clang-format -i {path}"


def check_docs_are_wrapped(sources):
    for path in sources.files:
        if path.endswith(".md") and wrap(sources.text(path)) != sources.text(path):
            yield f"{path} is not wrapped evenly: tests/wrap_docs.py {path}"


def check_docs_are_current(sources):
    """Tables of measurements and pictures are what their scripts make."""
    for script in ("docs/write_tables.py", "docs/draw_pictures.py"):
        done = subprocess.run([sys.executable, os.path.join(sources.root, script), "--check"], text=True, capture_output=True)
        yield from done.stdout.splitlines()
        if done.returncode and not done.stdout:
            yield f"{script} --check failed: {done.stderr.strip()[-300:]}"


def check_docs_links(sources):
    """Links between documents lead to a file and, behind #, to one of its headings."""
    fenced, heading = re.compile(r"^```.*?^```$", re.M | re.S), re.compile(r"^#+ +(.+?) *$", re.M)

    def anchors(path):
        for title in heading.findall(fenced.sub("", sources.text(path))):
            yield re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title)).lower().replace(" ", "-")

    for path in (f for f in sources.files if f.endswith(".md")):
        for link in re.findall(r"\]\(([^)\s]+)\)", fenced.sub("", sources.text(path))):
            target, _, anchor = link.partition("#")
            if target.startswith(("http:", "https:")):
                continue
            name = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
            if not os.path.exists(os.path.join(sources.root, name)):
                yield f"{path}: nothing is at {link}"
            elif anchor and anchor not in set(anchors(name)):
                yield f"{path}: {name} has no heading for #{anchor}"


def check_mutations_fit(sources):
    """Mutants are built when they are asked for; that their sources have changed is said at once."""
    mutation = re.compile(r"^spillway_(sim|cluster)_mutant\((\w+) (\S+)\s+\[==\[(.*?)\]==\]",
                          re.MULTILINE | re.DOTALL)
    for table in ("tests/sim/mutations.cmake", "tests/cluster/cluster_mutants.cmake"):
        found = mutation.findall(sources.text(table))
        if len(found) < 10:
            yield f"{table} has {len(found)} mutations that can be read"
        for kind, name, source, text in found:
            path = source if kind == "sim" else "engine/run/" + source
            times = sources.text(path).count(text)
            if times != 1:
                yield f"{table}: {path} holds {times} times what {name} replaces"


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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--compiler", default="g++")
    options = parser.parse_args()

    sources = Sources(options.source)
    checks = [
        ("every include points down", check_floors(sources)),
        ("public headers reach few", check_public_headers(sources)),
        ("no loop between modules", check_modules(sources)),
        ("sources have headers", check_sources_have_headers(sources)),
        ("classes are one idea", check_classes(sources)),
        ("own names of what is compiled together", check_own_names(sources, options.build)),
        ("LibTorch stays outside", check_torch_stays_outside(sources)),
        ("one way to files", check_one_way_to_files(sources)),
        ("tests are registered", check_tests_are_registered(sources, options.build)),
        ("what is named is included", check_names_are_included(sources)),
        ("headers are self-contained",
         check_headers_are_self_contained(sources, options.build, options.compiler)),
        ("format", check_format(sources)),
        ("docs are wrapped evenly", check_docs_are_wrapped(sources)),
        ("docs are current", check_docs_are_current(sources)),
        ("links in docs", check_docs_links(sources)),
        ("mutations fit their sources", check_mutations_fit(sources)),
        ("nothing names a machine", check_nothing_names_a_machine(sources)),
    ]
    failed = False
    for name, findings in checks:
        findings = list(findings)
        print(f"{'FAILED' if findings else 'ok':6} {name}")
        for finding in findings:
            print("  " + finding)
        failed = failed or bool(findings)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
