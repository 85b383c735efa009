#!/usr/bin/env python3
"""Several runs and dead runs: who is refused and told what, what a killed run left, what
--overwrite and `spillway clean` remove and what they never touch."""

import json
import os
import shutil
import signal
import stat
import time
import unittest
from subprocess import DEVNULL

import cli_testing
from cli_testing import CliTest, read_text, run


class RunsTest(CliTest):
    # Wide enough that swap files are large beside locks and records.
    config = dict(cli_testing.TINY, vocab_size=512, n_embd=64, n_layer=2)

    def swap_directories(self):
        return sorted(os.path.join(self.swap, name) for name in os.listdir(self.swap))

    def kill_before_the_first_commit(self, **changes):
        """What a run leaves that had no time to commit."""
        process = self.start(self.flags(steps=1000000, **changes), stderr=DEVNULL)
        output = changes.get("output", self.output)
        self.wait_for(lambda: self.rows(output), process)
        process.kill()
        process.wait()
        self.assertFalse(os.path.exists(os.path.join(output, "manifest-rank0")))

    def clean(self, *flags):
        result = run("clean", "--swap", self.swap, *flags, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def tree(self, path):
        found = {}
        for folder, _, files in os.walk(path):
            for name in files:
                full = os.path.join(folder, name)
                with open(full, "rb") as content:
                    # A killed process' half-written files go as soon as the lock is had.
                    if ".tmp-" not in name and name != "lock":
                        found[full] = content.read()
        return found

    def test_second_owner(self):
        process = self.start(self.flags(steps=1000000), stderr=DEVNULL)
        self.wait_for_rows(process, 1)
        link = self.path("link")
        os.symlink(self.output, link)
        host = read_text("/proc/sys/kernel/hostname").strip()
        for output, changes in ((self.output, {}), (link, {"resume": True}),
                                (os.path.relpath(self.output), {"overwrite": True})):
            self.assert_run(self.train(output=output, **changes), 2,
                            f"in use by process {process.pid} on {host} since 20",
                            f"which runs {self.output}")
        self.assertIsNone(process.poll())
        # The swap directory alone, without the run's OUTPUT in the way.
        found = self.clean("--remove")
        self.assertEqual([one["state"] for one in found["runs"]], ["in use"])
        self.assertIn(f"process {process.pid}", found["runs"][0]["reason"])
        self.assertFalse(found["runs"][0]["removed"])
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 75)
        self.assert_run(self.train(resume=True, steps=self.inspect()["step"] + 1), 0)

    def test_killed_before_the_first_commit(self):
        self.kill_before_the_first_commit()
        before = self.tree(self.dir)
        directory, = self.swap_directories()
        self.assert_run(self.train(), 2, directory, "MiB)", "--overwrite", "--resume",
                        "nothing was touched")
        after = self.tree(self.dir)
        self.assertEqual(after.keys(), before.keys())
        self.assertTrue(after == before, "something was touched")
        self.assert_run(self.train(resume=True), 0, "starting at step 1", "removing what",
                        directory, "MiB)")
        expected = self.inspect()["digest"]
        self.assertEqual(self.swap_directories(), [directory])
        self.kill_before_the_first_commit(output=self.path("out2"))
        self.assert_run(self.train(output=self.path("out2"), overwrite=True), 0,
                        "removed the earlier run", "of swap in")
        self.assertEqual(self.inspect(self.path("out2"))["digest"], expected)

    def test_overwrite(self):
        first = self.train(steps=6)
        self.assert_run(first, 0)
        self.write("out/notes.txt", "mine")
        self.write("out/model/notes.pdf", "mine")
        other = self.path("other")
        os.mkdir(other)
        self.assert_run(self.train(), 2, "committed at step 6", "--resume", "--overwrite")
        self.assert_run(self.train(overwrite=True, resume=True), 2, "contradict")
        # A run that cannot start removes nothing.
        before = self.inspect()["digest"]
        self.assert_run(self.train(overwrite=True, host_memory="1MiB"), 3)
        self.assertEqual(self.inspect()["digest"], before)
        self.assert_run(self.train(overwrite=True, swap=other, seed=7), 0,
                        "removed the earlier run", self.swap)
        self.assertEqual(self.swap_directories(), [])
        self.assertEqual(len(os.listdir(other)), 1)
        self.assertEqual(self.inspect()["step"], 4)
        self.assertNotEqual(self.inspect()["digest"], before)
        self.assertEqual(len(cli_testing.read_rows(self.path("out/metrics.jsonl"))), 4)
        for name in ("out/notes.txt", "out/model/notes.pdf"):
            self.assertTrue(os.path.exists(self.path(name)), name)
        # The Trainer's name; and where there is nothing yet it is no matter.
        self.assert_run(run(*self.flags(), "--overwrite_output_dir"), 0)
        self.assert_run(run(*self.flags(output=self.path("new")), "--overwrite_output_dir",
                            "True"), 0)

    def test_overwrite_takes_copies_too(self):
        persist = self.path("persist")
        self.assert_run(self.train(persist=persist, steps=6), 0)
        result = self.train(persist=persist, overwrite=True, steps=3)
        self.assert_run(result, 0, "the commit of step 6 of the earlier run")
        self.assertEqual([name for name in os.listdir(persist) if name.startswith("step-")],
                         ["step-000000000003"])

    def test_a_move_says_what_it_removes(self):
        self.assert_run(self.train(), 0)
        old, = self.swap_directories()
        other = self.path("other")
        os.mkdir(other)
        self.assert_run(self.train(resume=True, swap=other, steps=6), 0,
                        "the state has moved: removed", old)
        self.assertEqual(self.swap_directories(), [])

    def test_a_moved_output(self):
        """Between its steps, and another run in the place it was in; of two ranks: of one
        RunStorageTest.AMovedOutputTakesTheStoreInItAlong shows it."""
        flags = {"swap": None, "offload": None, "ranks": 2}
        whole, moved, again, copy = (self.path(name) for name in ("whole", "m2", "to", "copy"))
        self.assert_run(self.train(output=whole, steps=6, **flags), 0)
        self.assert_run(self.train(steps=3, **flags), 0)
        before = self.inspect()["digest"]
        os.rename(self.output, moved)
        self.assert_run(self.train(steps=3, seed=7, **flags), 0)
        self.assertNotEqual(self.inspect()["digest"], before)
        found = self.inspect(moved)
        self.assertEqual(found["digest"], before)
        for file in found["files"]:
            self.assertTrue(file["file"].startswith(moved + "/"), file)
        self.assert_run(run("export", "--from", moved, "--to", again), 0)
        self.assertEqual(cli_testing.digest_of(again, "model.safetensors"),
                         cli_testing.digest_of(moved, "model", "model.safetensors"))
        swap, self.swap = self.swap, moved
        self.assertEqual([(one["state"], one["output"]) for one in self.clean("--remove")["runs"]],
                         [("resumable", os.path.realpath(moved))])
        self.swap = swap
        self.assert_run(self.train(output=moved, resume=True, steps=6, **flags), 0,
                        "resuming after step 3")
        expected = self.outcome(whole)
        self.assertEqual(self.outcome(moved), expected)
        shutil.copytree(moved, copy)
        self.assert_run(self.train(output=copy, resume=True, steps=6, **flags), 2, "is a copy")
        self.assertEqual(self.outcome(moved), expected)
        self.assertEqual(len(self.rows()), 3)

    def test_clean(self):
        self.assertEqual(self.clean(), {"runs": [], "dead_bytes": 0, "freed_bytes": 0})
        self.assert_run(run("clean", "--swap", self.swap), 0, "no run has files there")
        self.assert_run(self.train(output=self.path("good")), 0)
        self.kill_before_the_first_commit(output=self.path("killed"))
        self.assert_run(self.train(output=self.path("gone")), 0)
        shutil.rmtree(self.path("gone"))
        self.write("swap/precious.txt", "mine")
        os.mkdir(self.path("swap/spillway-mine"))

        found = self.clean()
        states = {os.path.basename(one["output"]): one["state"] for one in found["runs"]}
        self.assertEqual(states, {"good": "resumable", "killed": "dead", "gone": "dead"})
        dead = [one for one in found["runs"] if one["state"] == "dead"]
        self.assertEqual(found["dead_bytes"], sum(one["bytes"] for one in dead))
        for one in dead:
            self.assertGreater(one["bytes"], 500000)
            self.assertLess(abs(time.time() - one["started"]), 600)
        self.assertEqual(found["freed_bytes"], 0)
        page = run("clean", "--swap", self.swap)
        self.assert_run(page, 0, "dead runs hold", "--remove", "resumable")

        # A new run says so, once; what is dead here is more than a hundredth of no disk, so
        # the notice itself is tested on a small file system (faults_test.py).
        free = os.statvfs(self.swap)
        text = run("clean", "--swap", self.swap, "--remove")
        self.assert_run(text, 0, "removed", "freed")
        self.assertGreaterEqual(os.statvfs(self.swap).f_bfree - free.f_bfree, -100000)
        left = self.clean()
        self.assertEqual([one["state"] for one in left["runs"]], ["resumable"])
        self.assertTrue(os.path.exists(self.path("swap/precious.txt")))
        self.assertTrue(os.path.exists(self.path("swap/spillway-mine")))
        self.assert_run(self.train(output=self.path("good"), resume=True, steps=6), 0)

    def test_the_state_of_finished_runs(self):
        for ranks in (None, 2):
            with self.subTest(ranks=ranks):
                result = self.train(ranks=ranks, overwrite=True)
                self.assert_run(result, 0, f"stays in {self.swap} for --resume; free it: spillway "
                                f"clean --output {self.output} --remove")
                self.assertEqual(len(self.swap_directories()), ranks or 1)
                before = self.inspect()
                # Only where that is asked for, and nothing is lost by it.
                for one in self.clean("--remove")["runs"]:
                    self.assertEqual((one["state"], one["finished"], one["removed"]),
                                     ("resumable", True, False))
                self.assert_run(run("clean", "--swap", self.swap), 0, "which has finished",
                                "--finished --remove frees it")
                model, aside = self.path("out/model"), self.path("aside")
                os.rename(model, aside)
                self.assert_run(run("clean", "--swap", self.swap, "--finished", "--remove"), 0,
                                "neither model/ nor adapter/", "spillway export --from")
                self.assert_run(run("clean", "--output", self.output, "--remove"), 2,
                                "neither model/ nor adapter/", "--force")
                os.rename(aside, model)
                self.assert_run(run("clean", "--output", self.output), 0, "--remove frees it")
                self.assertEqual(self.inspect(), before)

                words = (["--output", self.output] if ranks is None
                         else ["--swap", self.swap, "--finished"])
                self.assert_run(run("clean", *words, "--remove"), 0, "removed", "freed")
                self.assertEqual(self.swap_directories(), [])
                found = self.inspect()
                self.assertEqual((found["kind"], found["step"], found["identity"]),
                                 ("freed", 4, before["identity"]))
                self.assert_run(run("inspect", self.output), 0, "Finished at step 4",
                                "its state was freed")
                self.assert_run(run("report", self.output), 0)
                self.assert_run(run("export", "--from", self.output, "--to", self.path("to")), 2,
                                "its state was freed")
                self.assert_run(self.train(ranks=ranks, resume=True), 0, "finished at step 4",
                                "nothing left to do")
                self.assert_run(self.train(ranks=ranks, resume=True, steps=6), 2,
                                "cannot go on to step 6", "--overwrite")
                self.assert_run(self.train(ranks=ranks), 2, "its state was freed", "--overwrite")
                self.assertTrue(os.path.exists(os.path.join(model, "config.json")))
                self.assertEqual(len(self.rows()), 4)

    def test_clean_refuses_nonsense(self):
        self.assert_run(run("clean"), 2, "--swap", "--output")
        self.assert_run(run("clean", "--output", self.path("none"), "--remove"), 2, "none")
        self.assert_run(run("clean", "--swap", self.path("none")), 2, self.path("none"))
        self.assert_run(run("clean", "--swap", self.swap, "--removed"), 2, "--remove")

    def test_products_follow_the_umask_and_state_is_private(self):
        """The state lies on a swap path, or in OUTPUT itself."""
        private = {"manifest-rank0", "lock", "run-id", "bytes-written"}
        for umask, swap in ((0o022, self.swap), (0o002, None), (0o077, self.swap), (0, self.swap)):
            output = self.path(f"out{umask:o}")
            flags = {"output": output, "swap": swap, "offload": "nvme" if swap else None,
                     "eval_data": self.data, "tensorboard": self.path(f"events{umask:o}"),
                     "trace": self.path(f"trace{umask:o}")}
            result = run(*self.flags(**flags), preexec_fn=lambda mask=umask: os.umask(mask))
            self.assert_run(result, 0)
            # Nobody else may write to where a run keeps its lock and its commit.
            self.assertEqual(self.mode(output), 0o755 & ~umask)
            seen = set()
            for folder, folders, names in os.walk(output):
                for name in folders + names:
                    path = os.path.join(folder, name)
                    is_swap = os.path.relpath(path, output).startswith("spillway-")
                    seen.add("tiles" if is_swap else name)
                    usual = 0o777 if os.path.isdir(path) else 0o666
                    allowed = 0o700 if is_swap or name in private else usual & ~umask
                    self.assertEqual(self.mode(path), allowed & usual, path)
            for name in private | {"model", "model.safetensors", "source", "report.html", "run.json",
                                   "metrics.jsonl", "eval.jsonl", "config.resolved.json"}:
                self.assertIn(name, seen)
            self.assertEqual("tiles" in seen, swap is None)
            for path in (flags["trace"], *os.scandir(flags["tensorboard"])):
                self.assertEqual(self.mode(path), 0o666 & ~umask, path)
            for folder in self.swap_directories():
                self.assertEqual(self.mode(folder), 0o700)
                for entry in os.scandir(folder):
                    self.assertEqual(self.mode(entry) & 0o077, 0, entry.path)
        # One that is there keeps its mode, also for who looks at it.
        os.chmod(output, 0o711)
        self.assert_run(run("report", output), 0)
        self.assertEqual(self.mode(output), 0o711)

    @staticmethod
    def mode(path):
        return stat.S_IMODE(os.stat(path).st_mode)

    def test_planted_files_are_refused(self):
        """Each kind in one place: OwnFiles.WhatWasPlantedIsRefusedAndLeftAlone has all."""
        self.assert_run(self.train(), 0)
        directory, = self.swap_directories()
        precious = self.write("precious", "content")
        for what, plant, path in (
                ("symbolic link", lambda path: os.symlink(precious, path),
                 os.path.join(directory, "tiles")),
                ("hard link", lambda path: os.link(precious, path), self.path("out/metrics.jsonl")),
                ("named pipe", os.mkfifo, os.path.join(directory, "owner")),
                ("directory", os.mkdir, self.path("out/manifest-rank0"))):
            os.rename(path, self.path("aside"))
            plant(path)
            for changes in ({"resume": True}, {"overwrite": True}):
                with self.subTest(what, **changes):
                    result = self.train(steps=6, **changes)
                    self.assert_run(result, 2, f"{path} is a {what}")
                    self.assertEqual(result.stderr.count("error:"), 1, result.stderr)
            os.rmdir(path) if what == "directory" else os.remove(path)
            os.rename(self.path("aside"), path)
            self.assertEqual(read_text(precious), "content")
        self.assert_run(self.train(resume=True, steps=6), 0)

    def test_paths_that_are_no_utf8(self):
        """A commit names where the state lies, in JSON."""
        swap = self.path("swap\udcff")
        os.mkdir(swap)
        self.assert_run(self.train(swap=swap), 2, "is not UTF-8", "--swap")
        self.assertEqual(os.listdir(swap), [])
        self.assert_nothing_left()
        self.output = self.path("out\udcff")
        self.assert_run(self.train(swap=None, offload=None), 2, "is not UTF-8", "--output")
        self.assertFalse(os.path.exists(self.output))

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to be two users")
    def test_a_parent_that_everybody_shares(self):
        os.chmod(self.swap, 0o1777)
        self.assert_run(self.train(), 0)
        # A directory of another user under our name.
        directory, = self.swap_directories()
        shutil.rmtree(self.output)
        shutil.chown(directory, 65534, 65534)
        self.assert_run(self.train(), 2, directory, "belongs to user 65534")
        self.assertEqual(self.clean("--remove")["runs"][0]["state"], "unknown")
        self.assertTrue(os.path.exists(os.path.join(directory, "tiles")))
        shutil.rmtree(directory)
        # A link that the user gave is followed.
        link = self.path("link")
        os.symlink(self.swap, link)
        self.assert_run(self.train(swap=link), 0)
        self.assertEqual(len(self.swap_directories()), 1)
        os.chmod(self.swap, 0o777)
        self.assert_run(self.train(resume=True, steps=6), 0, "not sticky")


if __name__ == "__main__":
    cli_testing.main()
