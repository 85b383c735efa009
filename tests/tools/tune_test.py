#!/usr/bin/env python3
"""tune, bench swap, and what a run does with a tuning."""

import json
import os
import resource
import signal
import subprocess
import sys
import time

import cli_testing
from cli_testing import CliTest, bytes_of, counts_bytes, edit_tuning, environment, read_json, read_text, run

TINY = ("--quick", "--seconds", "1", "--size", "8MiB")
ADAMW = {"optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}, "bf16": {"enabled": True}}


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

    def test_json_is_one_object(self):
        result = self.tune(*TINY, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        found = json.loads(result.stdout)
        self.assertEqual(result.stdout.count("\n"), 1)
        (chosen,) = [shape for shape in found["shapes"] if shape["chosen"]]
        self.assertEqual((chosen["block_bytes"], chosen["depth"]),
                         (found["block_bytes"], found["depth"]))
        self.assertEqual([path["path"] for path in found["paths"]], [self.swap])
        self.assertEqual(found["profile"], self.profile)

    def test_several_paths_have_a_rate_each(self):
        other = self.path("swap2")
        os.mkdir(other)
        result = self.tune(*TINY, "--json", swap=f"{self.swap},{other}")
        self.assertEqual(result.returncode, 0, result.stderr)
        found = json.loads(result.stdout)
        self.assertEqual([path["path"] for path in found["paths"]], [self.swap, other])
        for rates in found["paths"] + [found]:
            for key in ("read", "write", "mixed"):
                self.assertGreater(rates[key + "_bytes_per_second"], 0)

    def test_bad_flags(self):
        missing = self.path("missing")
        self.assert_run(self.tune(swap=missing), 2, missing, "create it")
        self.assert_run(self.tune(swap=self.data), 2, "is not a directory")
        self.assert_run(self.tune(swap=f"{self.swap},{self.swap}/."), 2, "given twice")
        self.assert_run(self.tune(swap=self.swap + ","), 2, "--swap")
        self.assert_run(self.tune("--seconds", "0"), 2, "--seconds")
        self.assert_run(self.tune("--size", "1MiB"), 2, "--size", "at least 8MiB")
        self.assert_run(self.tune("--size", "many"), 2, "--size")
        self.assert_run(self.tune("--qick"), 2, "did you mean --quick?")
        self.assert_run(run("tune"), 2, "--swap")
        self.assertFalse(os.path.exists(self.profile))

    def test_what_can_not_be_kept_is_shown_and_said(self):
        self.variables = {"SPILLWAY_PROFILE": "off"}
        result = self.tune(*TINY, "--json")
        self.assert_run(result, 0, "not kept", "SPILLWAY_PROFILE=off")
        self.assertIsNone(json.loads(result.stdout)["profile"])
        null = self.path("null")
        os.symlink("/dev/null", null)
        self.variables = {"SPILLWAY_PROFILE": null}
        self.assert_run(self.tune(*TINY), 0, "no regular file", "not kept")
        self.assertEqual(os.readlink(null), "/dev/null")
        self.variables = {"SPILLWAY_PROFILE": "/proc/nowhere/p.json"}
        self.assert_run(self.tune(*TINY), 1, "not kept", "/proc/nowhere")

    def test_too_little_room_is_found_at_once(self):
        self.assert_run(self.tune("--size", "900TiB"), 1, self.swap)
        self.assertEqual(os.listdir(self.swap), [])

    def test_control_c_leaves_nothing(self):
        process = self.start(["tune", "--swap", self.swap, "--size", "8MiB"],
                             stdout=subprocess.PIPE, env=environment() | self.variables)
        while "tuning" not in (line := process.stderr.readline()):
            self.assertNotEqual(line, "", "it ended before it measured anything")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 1, err)
        self.assertIn("stopped by SIGINT", err)
        self.assertEqual(out, "")
        self.assertEqual(os.listdir(self.swap), [])
        self.assertFalse(os.path.exists(self.profile))

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
        self.assertIn("nothing is kept, and nothing left behind", process.stderr.read())
        self.assertLess(512 * usage.ru_oublock, size // 2)
        self.assertEqual(os.listdir(self.swap), [])
        self.assertFalse(os.path.exists(self.profile))

    def test_tunings_at_the_same_time_are_both_kept(self):
        processes = [self.start(["tune", "--swap", self.swap, *TINY], stderr=subprocess.DEVNULL,
                                env=environment() | self.variables) for _ in range(3)]
        for process in processes:
            self.assertEqual(process.wait(timeout=600), 0)
        self.edit(lambda entry: self.assertGreater(entry["depth"], 0))
        self.assertEqual(os.listdir(self.swap), [])


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

    def test_flags_and_the_config_win(self):
        aio = {"block_size": 131072, "queue_depth": 5}
        self.write("ds.json", json.dumps({**ADAMW, "aio": aio}))
        log, resolved = self.train("given", "--io-engine", "threads", config=self.path("ds.json"))
        self.assertIn("3 threads, 5 blocks of 128 KiB in flight", log)
        self.assertNotIn("(tuned)", log)
        self.assertEqual(resolved["io-engine"]["source"], "--io-engine")
        self.assertIn("ds.json", resolved["aio.block_size"]["source"])
        self.assertEqual(resolved["aio.intra_op_parallelism"]["source"], "tune")

    def test_stale_ones_are_named_with_the_remedy_and_not_used(self):
        def device(entry):
            return entry["devices"][0]
        for change, words in (
                (lambda e: e.update(unix_seconds=int(time.time()) - 40 * 86400), "40 days old"),
                (lambda e: e.update(kernel="5.0"), "the kernel is another"),
                (lambda e: e.update(cpus=e["cpus"] + 1), "CPUs"),
                (lambda e: e.update(locked_memory_bytes=12345), "limit of locked memory"),
                (lambda e: device(e).update(serial="other"), "another serial number"),
                (lambda e: device(e).update(size_bytes=1 << 20), "another size"),
                (lambda e: device(e).update(filesystem="xfs2"), "another file system")):
            good = read_text(self.profile)
            self.edit(change)
            with self.subTest(words):
                log, resolved = self.train("out-" + words.replace(" ", "-"))
                self.assertIn("is not used: ", log)
                self.assertIn(words, log)
                self.assertIn("spillway tune --swap " + self.swap, log)
                self.assertNotIn("(tuned)", log)
                self.assertEqual(resolved["io-engine"]["source"], "default")
            self.write("cache/profile.json", good)

    def test_one_of_another_machine_is_named_and_not_used(self):
        profile = self.edit(lambda entry: None)
        profile["machines"] = {"elsewhere": dict(*profile["machines"].values(), host="node7")}
        self.write("cache/profile.json", json.dumps(profile))
        log, resolved = self.train("foreign")
        self.assertIn("another machine (node7)", log)
        self.assertIn("spillway tune --swap " + self.swap, log)
        self.assertEqual(resolved["io-engine"]["source"], "default")

    def test_a_broken_one_is_a_warning_and_replaced(self):
        self.write("cache/profile.json", "{broken")
        self.assertIn("is broken", self.train("broken")[0])
        result = self.tune(*TINY)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.edit(lambda entry: None)
        self.assertIn("(tuned)", self.train("mended")[0])

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

    def test_json_and_table(self):
        result = self.bench("--block", "128KiB", "--depth", "4", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        found = json.loads(result.stdout)
        self.assertEqual((found["block_bytes"], found["depth"]), (131072, 4))
        for link in ("nvme_to_host", "host_to_nvme"):
            self.assertGreater(found[link]["alone"], 0)
            self.assertGreater(found[link]["both_ways"], 0)
        self.assertIsNone(found["host_to_device"])
        self.assertIn(found["binding"], ("disk", "checksum"))
        self.assertEqual(os.listdir(self.swap), [])
        table = self.bench("--io-engine", "threads")
        self.assertEqual(table.returncode, 0, table.stderr)
        for line in table.stdout.splitlines():
            self.assertLessEqual(len(line), 80, line)
        for word in ("threads", "NVMe to host", "memory copy", "checksums", "binds"):
            self.assertIn(word, table.stdout)

    def test_null_needs_no_disk(self):
        def null(*args):
            return run("bench", "swap", "--null", "--seconds", "1", *args)
        result = null("--workers", "1", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        found = json.loads(result.stdout)
        self.assertEqual((found["engine"], found["workers"], found["tile_bytes"]),
                         ("null", 1, 3 << 20))
        for sort in ("with_checksums", "without_checksums"):
            for who in ("worker", "mover", "all"):
                self.assertGreater(found[sort][who]["median"], 0)
        table = null()
        self.assertEqual(table.returncode, 0, table.stderr)
        self.assertIn("the mover, busy", table.stdout)
        for line in table.stdout.splitlines():
            self.assertLessEqual(len(line), 80, line)
        self.assert_run(null("--swap", self.swap), 2, "--null", "--swap")
        self.assert_run(run("bench", "swap"), 2, "--swap", "--null")

    def test_bad_flags(self):
        self.assert_run(self.bench("--block", "1000"), 2, "--block", "4096")
        self.assert_run(self.bench("--depth", "0"), 2, "--depth")
        self.assert_run(self.bench("--block", "1GiB", "--depth", "64"), 2, "in flight")
        self.assert_run(self.bench("--io-engine", "aio"), 2, "io_uring")
        self.assert_run(self.bench("--workers", "0"), 2, "--workers")
        self.assert_run(self.bench("--dept", "4"), 2, "did you mean --depth?")
        self.assert_run(run("bench", "swap", "--swap", self.path("no")), 2, "does not exist")


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    cli_testing.main()
