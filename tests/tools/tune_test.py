#!/usr/bin/env python3
"""tune, bench swap, and what a run does with a tuning."""

import json
import os
import resource
import signal
import sys

import cli_testing
from cli_testing import CliTest, bytes_of, counts_bytes, edit_tuning, environment, read_json, run

TINY = ("--quick", "--seconds", "1", "--size", "8MiB")


class TuneTest(CliTest):
    def setUp(self):
        super().setUp()
        self.profile = self.path("cache/profile.json")
        self.variables = {"SPILLWAY_PROFILE": self.profile}

    def tune(self, *args, swap=None, **kwargs):
        return run("tune", "--swap", swap or self.swap, *args, variables=self.variables, **kwargs)

    def edit(self, change):
        return edit_tuning(self.profile, change)

    def train(self, name, *flags, **changes):
        self.output = self.path(name)
        result = run(*self.flags(**{"seq_len": 8, "no_export": True, **changes}), *flags,
                     variables=self.variables)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr, read_json(self.output, "config.resolved.json")


class Tune(TuneTest):
    def test_finds_keeps_and_leaves_nothing(self):
        result = self.tune(*TINY)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(os.listdir(self.swap), [])
        for line in result.stdout.splitlines():
            self.assertTrue(len(line) <= 80 or "/" in line, line)
        self.assertRegex(result.stdout, r"chosen: (io_uring|threads), \d+ blocks of ")
        self.assertIn("kept in " + self.profile, result.stdout)
        self.assertEqual(read_json(self.profile)["version"], 2)

    def test_what_can_not_be_kept_is_shown_and_said(self):
        self.variables = {"SPILLWAY_PROFILE": "off"}
        result = self.tune(*TINY, "--json")  # profile_file_test.cc has what else is in the way
        self.assert_run(result, 0, "not kept", "SPILLWAY_PROFILE=off")
        self.assertIsNone(json.loads(result.stdout)["profile"])
        self.variables = {"SPILLWAY_PROFILE": "/proc/nowhere/p.json"}
        self.assert_run(self.tune(*TINY), 1, "not kept", "/proc/nowhere")

    def test_control_c_ends_the_first_writing_of_the_files(self):
        if not counts_bytes(self.swap):
            self.skipTest("the kernel does not count bytes on this file system")
        # Long enough to come into the middle, and far less than that is written.
        size = 2 << 30
        process = self.start(["tune", "--swap", self.swap, "--size", size],
                             env=environment() | self.variables)
        self.assertIn("writing the files", process.stderr.readline())
        self.wait_for(lambda: bytes_of(process.pid, "write_bytes") > 0, process)
        process.send_signal(signal.SIGINT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 1)
        text = process.stderr.read()
        self.assertIn("stopped by SIGINT", text)
        self.assertIn("nothing is kept, and nothing left behind", text)
        self.assertLess(512 * usage.ru_oublock, size // 2)
        self.assertEqual(os.listdir(self.swap), [])
        self.assertFalse(os.path.exists(self.profile))


class UseOfATuning(TuneTest):
    def setUp(self):
        super().setUp()
        self.keep_tuning(self.profile, block_bytes=65536, depth=7, threads=3, engine="threads")

    def test_a_run_uses_it_and_says_so(self):
        log, resolved = self.train("tuned")
        self.assertIn("I/O engine: 3 threads, 7 blocks of 64 KiB in flight (tuned)", log)
        for key, value in (("aio.block_size", 65536), ("aio.queue_depth", 7),
                           ("aio.intra_op_parallelism", 3), ("io-engine", "threads")):
            self.assertEqual(resolved[key], {"value": value, "source": "tune"})

    def test_a_stale_one_is_named_with_the_remedy_and_not_used(self):
        self.edit(lambda entry: entry["devices"][0].update(serial="other"))
        log, resolved = self.train("stale")
        for words in ("is not used: ", "another serial number", "spillway tune --swap " + self.swap):
            self.assertIn(words, log)
        self.assertNotIn("(tuned)", log)
        self.assertEqual(resolved["io-engine"]["source"], "default")

    def test_estimate_and_bench_use_it(self):
        result = run("bench", "swap", "--swap", self.swap, "--size", "8MiB", "--seconds", "1",
                     "--json", variables=self.variables)
        self.assertEqual(result.returncode, 0, result.stderr)
        found = json.loads(result.stdout)
        self.assertEqual((found["engine"], found["block_bytes"], found["depth"], found["tuned"]),
                         ("threads", 65536, 7, True))


def few_stacks():
    """Addresses for no more than three threads."""
    resource.setrlimit(resource.RLIMIT_STACK, (1 << 30, 1 << 30))
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


class BenchAdam(CliTest):
    def bench(self, *args, **kwargs):
        return run("bench", "adam", "--params", 100000, *args, **kwargs)

    def test_flags_are_read_as_everywhere(self):
        found = json.loads(self.bench("--params", "1k", "--threads", "01", "--json").stdout)
        self.assertEqual((found["parameters"], found["threads"]), (1000, 1))
        self.assert_run(self.bench("--threads", "257"), 2, "--threads '257'", "from 1 to 256")
        self.assert_run(self.bench("--threads", "x"), 2, "--threads 'x'")
        self.assert_run(self.bench("--params", "0"), 2, "--params '0'")
        self.assert_run(self.bench("--params", "900T"), 3, "--params 900T", "are free: give at most")

    def test_threads_that_do_not_start(self):
        result = self.bench("--threads", 8, preexec_fn=few_stacks)
        self.assert_run(result, 1, "starts no more threads", "--threads")


class BenchSwap(TuneTest):
    def bench(self, *args, **kwargs):
        return run("bench", "swap", "--swap", self.swap, "--size", "8MiB", "--seconds", "1", *args,
                   **kwargs)

    def test_workers_that_do_not_start_or_have_no_memory(self):
        result = self.bench("--workers", 8, "--io-engine", "threads", "--io-threads", 1,
                            preexec_fn=few_stacks)
        self.assert_run(result, 1, "does not start 8 threads", "--workers")
        self.assert_run(self.bench("--workers", 256, preexec_fn=few_stacks), 3,
                        "256 --workers", "of memory", "are free")
        self.assertEqual(os.listdir(self.swap), [])

    def test_null_needs_no_disk(self):
        def null(*args):
            return run("bench", "swap", "--null", "--seconds", "1", *args)
        table = null("--workers", "1")
        self.assertEqual(table.returncode, 0, table.stderr)
        self.assertIn("the mover, busy", table.stdout)
        self.assert_run(null("--swap", self.swap), 2, "--null", "--swap")
        self.assert_run(run("bench", "swap"), 2, "--swap", "--null")


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    cli_testing.main()
