#!/usr/bin/env python3
"""doctor, and the program's front door: help, versions, subcommands that do not exist."""

import json
import os
import resource
import subprocess
import unittest

import cli_testing
from cli_testing import CliTest, environment, program, run


class Doctor(CliTest):
    def lines(self, result):
        """{(section, name): line} of doctor --json."""
        return {(line["section"], line["name"]): line for line in json.loads(result.stdout)["lines"]}

    def test_page(self):
        before = sorted(os.listdir(self.dir))
        result = run("doctor", "--swap", self.swap, cwd=self.dir)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(result.stderr, "")
        lines = result.stdout.splitlines()
        self.assertIn(f"Path {self.swap}", lines)
        for line in lines:
            self.assertTrue(len(line) <= 80 or self.dir in line or "/" in line, line)
        for word in ("io_uring", "locked memory", "O_DIRECT", "free space", "budgets", "huge pages",
                     "instructions", "LibTorch", "GPU", "launcher"):
            self.assertIn(word, result.stdout)
        self.assertRegex(lines[-1], r"^\d+ ok, \d+ to improve, 0 bad$")
        self.assertEqual(sorted(os.listdir(self.dir)), before, "left behind")
        self.assertEqual(os.listdir(self.swap), [], "left behind")

    def test_other_ways_to_say_where(self):
        os.mkdir(self.path("rank0"))
        self.assertEqual(run("doctor", "--swap", self.path("rank{rank}")).returncode, 0)
        result = run("doctor", cwd=self.swap)
        self.assert_run(result, 0, "Path .\n")

    def test_addresses_that_train_would_be_refused_for(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (500 << 20, 500 << 20))
        result = run("doctor", "--swap", self.swap, "--json", preexec_fn=limit)
        self.assertEqual(result.returncode, 1, result.stderr)
        line = self.lines(result)["Compute", "LibTorch"]
        self.assertEqual(line["mark"], "bad")
        self.assertIn("`ulimit -v` allows", line["found"])

    @unittest.skipUnless(os.environ.get("SPILLWAY_FAKE_NVML"), "needs the stand-in for NVML")
    def test_gpus(self):
        def doctor(**variables):
            path = os.path.dirname(os.environ["SPILLWAY_FAKE_NVML"])
            path += ":" + os.environ.get("LD_LIBRARY_PATH", "")
            env = environment() | {"LD_LIBRARY_PATH": path} | variables
            found = json.loads(subprocess.run([program(), "doctor", "--swap", self.swap, "--json"],
                                              capture_output=True, text=True, env=env).stdout)
            return found, {line["name"]: line for line in found["lines"]}
        found, lines = doctor()
        self.assertEqual(found["facts"]["gpus"], [
            {"name": "Stand-in 0", "free_bytes": 70 << 30, "total_bytes": 80 << 30},
            {"name": "Stand-in 1", "free_bytes": 70 << 30, "total_bytes": 80 << 30}])
        self.assertIn("590.55.55, CUDA 13.1", lines["GPU driver"]["found"])
        self.assertIn("Stand-in 1, 70 GiB free of 80 GiB", lines["GPU 1"]["found"])
        self.assertEqual(lines["device"]["mark"], "warn")
        self.assertIn("no CUDA", lines["device"]["found"])
        _, lines = doctor(FAKE_NVML_DEVICES="0")
        self.assertEqual(lines["GPU"]["mark"], "warn")
        self.assertIn("none, though there is a driver", lines["GPU"]["found"])
        _, lines = doctor(FAKE_NVML_ERROR="18")
        self.assertIn("stand-in error 18", lines["GPU driver"]["found"])


class FrontDoor(CliTest):
    def test_output_that_can_not_be_written(self):
        """On a disk that is full, or closed; a reader who has seen enough is no error."""
        for words in (["doctor", "--swap", self.swap], ["--help"]):
            with open("/dev/full", "wb") as full:
                result = subprocess.run([program(), *words], stdout=full, stderr=subprocess.PIPE,
                                        text=True, env=environment())
            self.assertEqual(result.returncode, 1)
            self.assertIn("standard output cannot be written: No space left", result.stderr)
            reading, writing = os.pipe()
            os.close(reading)
            ignoring = subprocess.run([program(), *words], stdout=writing, stderr=subprocess.PIPE,
                                      text=True, env=environment(), restore_signals=False)
            os.close(writing)
            self.assertEqual((ignoring.returncode, ignoring.stderr), (0, ""))
        # An answer that is longer than a buffer, and an error that is already said.
        with open("/dev/full", "wb") as full:
            for words, code in ((["inspect", self.many_tensors()], 1), (["tran"], 2)):
                result = subprocess.run([program(), *words], stdout=full, stderr=subprocess.PIPE,
                                        text=True, env=environment())
                self.assertEqual(result.returncode, code)
                self.assertEqual("standard output cannot be written" in result.stderr, code == 1)

    def many_tensors(self):
        return self.write("many.safetensors",
                          cli_testing.safetensors({f"tensor {i}": [1] for i in range(2000)}))

    def test_help_and_version(self):
        result = run()
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("doctor", result.stderr)
        for words in (["--help"], ["help"]):
            result = run(*words)
            self.assertEqual(result.returncode, 0)
            self.assertIn("inspect", result.stdout)
        self.assert_run(run("help", "doctor"), 0, "--swap", "Example")
        result = run("--version")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"^spillway \d+\.\d+\.\d+\n$")

    def test_unknown_words(self):
        self.assert_run(run("tran", "--model", "x"), 2, "unknown subcommand tran; did you mean train?")
        self.assert_run(run("xyzzy"), 2, "unknown subcommand xyzzy (spillway --help")
        self.assert_run(run("--versio"), 2, "unknown argument --versio; did you mean --version?")
        self.assert_run(run("bench", "adam", "--parms", "1"), 2, "unknown argument --parms; did you mean --params?")
        self.assert_run(run("bench", "adam", "--nonsense", "1"), 2, "--nonsense (spillway bench adam --help lists")


if __name__ == "__main__":
    cli_testing.main()
