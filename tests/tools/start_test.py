#!/usr/bin/env python3
"""What a command loads: LibTorch comes with what computes, and OpenMP with it, and with nothing else."""

import os
import re
import shutil
import subprocess
import tempfile

import cli_testing
from cli_testing import CliTest, environment, program, run

LIBRARY = "libspillway_compute.so"


class Loading(CliTest):
    def loaded(self, *arguments, code):
        """The files that the dynamic linker opens for a command, which ends with `code`."""
        logs = tempfile.mkdtemp(dir=self.dir)
        result = run(*arguments, variables={"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": os.path.join(logs, "of")}, cwd=self.dir)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        names = os.listdir(logs)
        self.assertEqual(len(names), 1, "the program starts no other, and not itself again")
        with open(os.path.join(logs, names[0]), encoding="utf-8", errors="replace") as file:
            text = file.read()
        self.assertIn("libc.so", text)
        return text

    def test_what_computes_nothing_loads_no_libtorch(self):
        self.assertEqual(run(*self.flags()).returncode, 0)
        for arguments, code in (
                (["--help"], 0),
                (["--version"], 0),
                (["train", "--help"], 0),
                (["inspect", self.output], 0),
                (["doctor", "--swap", self.swap], 0),
                (["clean", "--swap", self.swap], 0),
                (["report", self.output], 0),
                (["export", "--from", self.output, "--to", self.path("exported")], 0),
                (["tokenize", "--tokenizer", "bytes", "--data", self.write("text.txt", "some text"), "--out", self.path("t.bin")], 0),
                (["bench", "adam", "--params", "1000"], 0),
                (["flagrant"], 2),
                ([*self.flags(), "--no-such-flag"], 2),
                (self.flags(lr="fast"), 2),
                (self.flags(device="tpu"), 2),
                (["estimate", "--model", self.model, "--dry-run", "perhaps"], 2),
                (["estimate", "--model", self.path("nowhere")], 2),
                (["generate", "--model", self.model, "--prompt", ""], 2),
                (["generate", "--model", self.model, "--prompt", "a", "--host-memory", "much"], 2)):
            with self.subTest(" ".join(map(str, arguments))):
                files = self.loaded(*arguments, code=code)
                for library in ("libtorch", "libgomp", LIBRARY):
                    self.assertNotIn(library, files)

    def test_what_computes_loads_it(self):
        files = self.loaded("generate", "--model", self.path("nowhere"), "--prompt", "a", code=2)
        self.assertIn("libtorch_cpu.so", files)
        self.assertIn(LIBRARY, files)

    def test_openmp_is_told_how_to_wait_before_it_is_loaded(self):
        plain = {name: value for name, value in environment().items() if not name.startswith(("OMP_", "GOMP_"))}
        for given, waits in (({}, ("PASSIVE", "10000")), ({"GOMP_SPINCOUNT": "7"}, ("PASSIVE", "7")),
                             ({"OMP_WAIT_POLICY": "ACTIVE", "GOMP_SPINCOUNT": "9"}, ("ACTIVE", "9"))):
            with self.subTest(given):
                said = subprocess.run([program(), "generate", "--model", self.path("nowhere"), "--prompt", "a"],
                                      env=plain | given | {"OMP_DISPLAY_ENV": "verbose"}, timeout=600, check=False,
                                      capture_output=True, text=True).stderr
                self.assertEqual(re.findall(r"(?:OMP_WAIT_POLICY|GOMP_SPINCOUNT) = '(.*)'", said), list(waits), said)


class Moving(CliTest):
    """The program with, without and beside the wrong library."""

    def setUp(self):
        super().setUp()
        self.moved = self.path("moved")
        os.mkdir(self.moved)
        shutil.copy(program(), os.path.join(self.moved, "spillway"))
        self.library = os.path.join(self.moved, LIBRARY)

    def run_moved(self):
        return subprocess.run([os.path.join(self.moved, "spillway"), *map(str, self.flags())],
                              capture_output=True, text=True, env=environment(), timeout=600)

    def test_both_together(self):
        shutil.copy(os.path.join(os.path.dirname(program()), LIBRARY), self.library)
        result = self.run_moved()
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_without_it(self):
        result = self.run_moved()
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn(self.library + " is missing", result.stderr)
        self.assertIn("moved together", result.stderr)
        doctor = subprocess.run([os.path.join(self.moved, "spillway"), "doctor", "--swap", self.swap],
                                capture_output=True, text=True, env=environment(), timeout=600)
        self.assertEqual(doctor.returncode, 1, doctor.stdout)
        self.assertIn(LIBRARY, doctor.stdout)

    def test_one_that_is_none(self):
        with open(self.library, "w", encoding="utf-8") as file:
            file.write("not a library")
        result = self.run_moved()
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("does not load", result.stderr)
        self.assertIn("LibTorch", result.stderr)

    def test_another_version_of_it(self):
        source = os.path.join(self.dir, "other.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write("void *spillway_compute_library(const char *version) { return 0; }")
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            self.skipTest("no compiler to make a library of another version with")
        subprocess.run([compiler, "-shared", "-fPIC", source, "-o", self.library], check=True)
        result = self.run_moved()
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("is not of spillway", result.stderr)


if __name__ == "__main__":
    cli_testing.main()
