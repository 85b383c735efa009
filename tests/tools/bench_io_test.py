#!/usr/bin/env python3
"""bench io: what it prints, refuses, takes from a tuning, and leaves behind. What it measures:
tests/engine/machine/io_bench_test.cc."""

import json
import os
import signal
import subprocess

import cli_testing
from cli_testing import CliTest, bytes_of, counts_bytes, refuse_io_uring, run

BLOCK = 65536
SMALL = ("--size", "8MiB", "--block", "64KiB", "--depth", "4")
PERCENTILES = ("p50_seconds", "p90_seconds", "p99_seconds", "p999_seconds", "max_seconds")


class BenchIoTest(CliTest):
    def bench(self, *args, path=None, **kwargs):
        return run("bench", "io", "--path", path or self.swap, *args, **kwargs)

    def measure(self, *args, **kwargs):
        result = self.bench(*args, "--json", **kwargs)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("\n"), 1)
        self.assertEqual(os.listdir(self.swap), [], "left on the path")
        return json.loads(result.stdout)

    def assert_phase(self, phase):
        """The figures of one measurement agree with each other."""
        moved = phase["read_bytes"] + phase["written_bytes"]
        self.assertGreater(phase["seconds"], 0)
        self.assertGreaterEqual(phase["cpu_seconds"], 0)
        self.assertLess(phase["cpu_seconds"], 60)
        self.assertAlmostEqual(phase["bytes_per_second"] / (moved / phase["seconds"]), 1, places=6)
        self.assertAlmostEqual(phase["bytes_per_second"],
                               phase["read_bytes_per_second"] + phase["write_bytes_per_second"],
                               delta=1e-6 * phase["bytes_per_second"])
        latency = phase["latency"]
        in_order = [latency[key] for key in PERCENTILES]
        self.assertEqual(in_order, sorted(in_order))
        self.assertGreater(in_order[0], 0)
        self.assertLessEqual(in_order[-1], phase["seconds"])


class Figures(BenchIoTest):
    def test_figures_of_two_paths(self):
        other = self.path("swap2")
        os.mkdir(other)
        found = self.measure(*SMALL, "--op", "mixed", "--verify", "--io-engine", "threads", "--io-threads", "3",
                             path=f"{self.swap},{other}")
        self.assert_phase(found)
        self.assertEqual((found["read_bytes"], found["written_bytes"]), (4 << 20, 4 << 20))
        self.assertEqual(found["latency"]["count"], (8 << 20) // BLOCK)
        self.assertEqual((found["op"], found["paths"], found["size_bytes"]), ("mixed", [self.swap, other], 8 << 20))
        self.assertEqual((found["block_bytes"], found["depth"]), (BLOCK, 4))
        self.assertEqual((found["tuned"], found["verify"]), ([], True))
        self.assertEqual((found["engine"], found["threads"], found["features"]), ("threads", 3, []))
        self.assertEqual(os.listdir(other), [])

    def test_the_table(self):
        for op in ("read", "demand"):
            result = self.bench(*SMALL, "--op", op, "--seconds", "0.1")
            self.assertEqual(result.returncode, 0, result.stderr)
            for line in result.stdout.splitlines():
                self.assertLessEqual(len(line), 80, line)
            for words in ("GB/s", "blocks of 64 KiB, 4 in flight", "latency in ms", "p99.9",
                          "engine: ", "processor"):
                self.assertIn(words, result.stdout)
            self.assertNotIn("tuned", result.stdout)
            self.assertEqual("bound for p99" in result.stdout, op == "demand")
        self.assertIn("engine: threads, 3 threads",
                      self.bench(*SMALL, "--io-engine", "threads", "--io-threads", "3").stdout)

    def test_features_are_shown_on_and_refused(self):
        found = self.measure(*SMALL, "--poll")
        if found["engine"] != "io_uring":
            self.skipTest("no io_uring here")
        table = self.bench(*SMALL, "--poll").stdout
        for feature in found["features"]:
            self.assertIn(f"  with {feature}\n", table)
        names = found["features"] + [refused["feature"] for refused in found["refused"]]
        self.assertIn("IOPOLL", names)
        for refused in found["refused"]:
            self.assertIn("without " + refused["feature"], table)

    def test_why_there_is_no_io_uring(self):
        found = self.measure(*SMALL, preexec_fn=refuse_io_uring)
        (refused,) = found["refused"]
        self.assertEqual((found["engine"], refused["feature"]), ("threads", "io_uring"))
        self.assertIn("seccomp", refused["reason"])
        table = self.bench(*SMALL, preexec_fn=refuse_io_uring).stdout
        self.assertIn(" threads\n  without io_uring: ", table)
        self.assertIn("seccomp", table)
        for line in table.splitlines():
            self.assertLessEqual(len(line), 80, line)
        # Threads that were asked for stand in for nothing.
        asked = self.measure(*SMALL, "--io-engine", "threads", preexec_fn=refuse_io_uring)
        self.assertEqual(asked["refused"], [])


class Refusals(BenchIoTest):
    def test_wrong_flags(self):
        for flags, words in (
                (("--block", "1000"), ("--block", "4096")),
                (("--size", "many"), ("--size",)),
                (("--size", "1MiB"), ("--size 1 MiB", "at least 32MiB", "--block or --depth")),
                (("--op", "copy"), ("--op", "demand")),
                (("--seconds", "nan"), ("--seconds 'nan'",)),
                (("--op", "demand", "--verify"), ("--verify", "demand")),
                (("--dept", "4"), ("did you mean --depth?",))):
            with self.subTest(flags):
                result = self.bench(*flags)
                self.assert_run(result, 2, *words)
                self.assertEqual(result.stdout, "")
        self.assert_run(run("bench", "io"), 2, "--path")
        self.assertEqual(os.listdir(self.swap), [])

    def test_bad_paths(self):
        missing = self.path("missing")
        self.assert_run(self.bench(path=missing), 2, missing, "create it")
        self.assert_run(self.bench(path=self.data), 2, "is not a directory")
        self.assert_run(self.bench(path=f"{self.swap},{self.swap}/."), 2, "given twice")
        self.assert_run(self.bench(path=self.swap + ","), 2, "--path")
        self.assert_run(self.bench("--size", "900TiB"), 1, self.swap, "free there", "--size")
        self.assertEqual(os.listdir(self.swap), [])


class Stopped(BenchIoTest):
    def setUp(self):
        super().setUp()
        if not counts_bytes(self.swap):
            self.skipTest("the kernel does not count bytes on this file system")

    def stop(self, number, *flags, ready):
        """Stops it as soon as `ready(pid)`; what it printed."""
        process = self.start(["bench", "io", "--path", self.swap, *flags], stdout=subprocess.PIPE)
        self.wait_for(lambda: ready(process.pid), process)
        process.send_signal(number)
        out, err = process.communicate(timeout=600)
        self.assertEqual(os.listdir(self.swap), [])
        self.assertEqual(out, "")
        return process.returncode, err

    def test_control_c_while_it_measures(self):
        code, err = self.stop(signal.SIGINT, *SMALL, "--seconds", "600",
                              ready=lambda pid: bytes_of(pid, "read_bytes") > 16 << 20)
        self.assertEqual(code, 1, err)
        self.assertIn("stopped by SIGINT: nothing is left behind", err)

    def test_a_signal_while_it_writes_its_files(self):
        code, err = self.stop(signal.SIGTERM, "--size", "2GiB", "--seconds", "600",
                              ready=lambda pid: bytes_of(pid, "write_bytes") > 8 << 20)
        self.assertEqual(code, 1, err)
        self.assertIn("stopped by SIGTERM", err)


class Tuned(BenchIoTest):
    def setUp(self):
        super().setUp()
        self.profile = self.path("profile.json")
        self.variables = {"SPILLWAY_PROFILE": self.profile}
        self.keep_tuning(self.profile, block_bytes=BLOCK, depth=7, threads=3, engine="threads")

    def found(self, *flags):
        found = self.measure("--size", "8MiB", *flags, variables=self.variables)
        return found["engine"], found.get("threads"), found["block_bytes"], found["depth"]

    def test_it_is_used_and_said(self):
        self.assertEqual(self.found(), ("threads", 3, BLOCK, 7))
        self.assertEqual(
            self.measure("--size", "8MiB", variables=self.variables)["tuned"],
            ["engine", "block", "depth", "threads"])
        table = self.bench("--size", "8MiB", variables=self.variables).stdout
        self.assertIn("blocks of 64 KiB, 7 in flight", table)
        self.assertIn("engine: threads, 3 threads\ntuned: engine, block, depth, threads (spillway "
                      "tune)\n", table)


if __name__ == "__main__":
    cli_testing.main()
