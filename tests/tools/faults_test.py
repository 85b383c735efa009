#!/usr/bin/env python3
"""What the world does to a run, from outside: each fault ends in the exit code that belongs to
it, one message a person can act on, nothing wrong on disk and nothing left there, and the last
commit resumes to the bits of a run that nothing happened to. docs/TESTING.md has the table."""

import errno
import glob
import os
import re
import resource
import shutil
import signal
import subprocess
import time

import cli_testing
from cli_testing import CliTest, refuse_io_uring, run

# Fails calls on files of one name (tests/preload/fail_io.cc).
FAIL_IO = os.environ.get("SPILLWAY_FAIL_IO", "")
NOBODY = 65534
MIB = 1 << 20


def works(*words):
    return shutil.which(words[0]) is not None and subprocess.run(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0


class FaultsTest(CliTest):
    config = dict(cli_testing.TINY, vocab_size=512, n_embd=64, n_layer=2)
    steps = 8
    _expected = {}

    def setUp(self):
        super().setUp()
        self.mounts = []
        self.addCleanup(self.unmount_all)

    def unmount_all(self):
        for point in reversed(self.mounts):
            subprocess.run(["umount", "-l", point], check=False)

    def small_disk(self, name, mebibytes, *options):
        """An ext4 of its own in a file, mounted; skips where this machine does not let us."""
        if os.geteuid() != 0:
            self.skipTest("needs root, to mount")
        image, point = self.path(name + ".image"), self.path(name)
        with open(image, "wb") as out:
            out.truncate(mebibytes * MIB)
        os.makedirs(point, exist_ok=True)
        if not works("mkfs.ext4", "-q", "-m", "0", image) or not works(
                "mount", "-o", ",".join(("loop",) + options), image, point):
            self.skipTest("this machine mounts no loop devices")
        self.mounts.append(point)
        return point

    def unmount(self, point):
        self.mounts.remove(point)
        subprocess.run(["umount", point], check=True)

    def command(self, **changes):
        return self.flags(**{"steps": self.steps, "commit_every": 2, **changes})

    def expected(self, steps=None):
        """The digest of a run that nothing happens to, made once."""
        steps = steps or self.steps
        if steps not in FaultsTest._expected:
            output = self.path("undisturbed")
            self.assert_run(run(*self.command(output=output, swap=None, offload=None, steps=steps, commit_every=0)), 0)
            FaultsTest._expected[steps] = self.inspect(output)["digest"]
        return FaultsTest._expected[steps]

    def begin(self, rows=3, variables=None, **changes):
        """A run that would go on for ever, some steps and a commit into it."""
        process = self.start(self.command(steps=1000000, **changes),
                             env=cli_testing.environment() | (variables or {}))
        self.wait_for(lambda: len(self.rows()) >= rows and self.has_commit(), process)
        return process

    def has_commit(self):
        return os.path.exists(os.path.join(self.output, "manifest-rank0"))

    def end_of(self, process):
        _, text = process.communicate(timeout=600)
        return subprocess.CompletedProcess([], process.returncode, "", text)

    def assert_fails(self, result, code, *words):
        self.assertEqual(result.returncode, code, result.stderr)
        errors = [line for line in result.stderr.splitlines() if "error: " in line]
        self.assertEqual(len(errors), 1, result.stderr)
        for word in words:
            self.assertIn(word.lower(), errors[0].lower())

    def assert_resumes(self, **changes):
        """The last commit goes on, to the bits of the undisturbed run of as many steps."""
        step = self.inspect()["step"]
        steps = max(step, self.steps)
        result = run(*self.command(resume=True, steps=steps, **changes))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.inspect()["digest"], self.expected(steps))

    def assert_no_half_files(self):
        for folder, _, files in os.walk(self.output):
            for name in files:
                self.assertIsNone(re.search(r"\.tmp-[0-9a-f]{16}$", name), folder + "/" + name)

    # -- the place ------------------------------------------------------------------------

    def test_swap_path_removed(self):
        persist = self.path("persist")
        process = self.begin(persist=persist, rows=5)
        self.wait_for(lambda: any(os.path.exists(os.path.join(persist, name, "manifest-rank0"))
                                  for name in os.listdir(persist)), process)
        directory, = os.listdir(self.swap)
        shutil.rmtree(os.path.join(self.swap, directory))
        self.assert_fails(self.end_of(process), 1, os.path.join(self.swap, directory),
                          "removed or replaced while the run used it")
        self.assertEqual(os.listdir(self.swap), [])
        # What the commit named is gone; the copy is not.
        self.assert_fails(run(*self.command(resume=True)), 4, "is missing")
        result = run(*self.command(resume=True, persist=persist,
                                   steps=self.newest_copy(persist) + 2))
        self.assert_run(result, 0, "resuming after step")

    def newest_copy(self, persist):
        return max(int(name[5:]) for name in os.listdir(persist) if name.startswith("step-"))

    def test_output_removed(self):
        process = self.begin()
        # In one call: the program makes files there meanwhile.
        os.rename(self.output, self.path("gone"))
        self.assert_fails(self.end_of(process), 1, self.output, "removed or replaced")
        # Whoever has moved it has its commits there. Once they are gone nobody needs their swap.
        self.assertEqual(len(os.listdir(self.swap)), 1)
        shutil.rmtree(self.path("gone"))
        self.assertEqual(run("clean", "--swap", self.swap, "--remove").returncode, 0)
        self.assertEqual(os.listdir(self.swap), [])

    def test_file_system_turns_read_only(self):
        swap = self.small_disk("disk", 64, "errors=remount-ro")
        device = os.path.basename(subprocess.run(
            ["findmnt", "-n", "-o", "SOURCE", swap], capture_output=True, text=True,
            check=True).stdout.strip())
        trigger = f"/sys/fs/ext4/{device}/trigger_fs_error"
        if not os.path.exists(trigger):
            self.skipTest("this kernel has no trigger_fs_error")
        process = self.begin(swap=swap)
        with open(trigger, "w", encoding="ascii") as out:
            out.write("a test")
        self.assert_fails(self.end_of(process), 1, swap, "read-only")
        self.assert_fails(run(*self.command(swap=swap, resume=True)), 1, swap, "read-only")
        self.unmount(swap)
        image = self.path("disk.image")
        subprocess.run(["fsck.ext4", "-fy", image], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False)
        self.assertTrue(works("mount", "-o", "loop", image, swap))
        self.mounts.append(swap)
        self.assert_resumes(swap=swap)

    def test_tmpfs(self):
        if os.geteuid() != 0 or not works("mount", "-t", "tmpfs", "-o", "size=64M", "none",
                                          self.swap):
            self.skipTest("needs root, to mount")
        self.mounts.append(self.swap)
        result = run(*self.command())
        self.assert_run(result, 0, "is on tmpfs", "memory and no drive")
        self.assertEqual(result.stderr.count("is on tmpfs"), 1)
        self.assertEqual(self.inspect()["digest"], self.expected())
        self.assert_run(run(*self.command(resume=True, steps=10)), 0)

    # -- space ----------------------------------------------------------------------------

    def test_small_disk_is_found_at_the_start(self):
        swap = self.small_disk("disk", 4)
        result = run(*self.command(swap=swap))
        self.assert_fails(result, 1, "needs", "free", swap, "--no-commit", "--swap",
                          "nothing was written")
        self.assertEqual(os.listdir(swap), ["lost+found"])
        self.assertFalse(os.path.exists(self.output))
        # What halves it fits.
        self.assert_run(run(*self.command(swap=swap, commit_every=None, no_commit=True)), 0)

    def test_several_things_on_one_small_disk_add_up(self):
        disk = self.small_disk("disk", 7)
        swap, output = os.path.join(disk, "swap"), os.path.join(disk, "out")
        os.mkdir(swap)
        elsewhere = self.path("elsewhere")
        self.assert_run(run(*self.command(swap=swap, output=elsewhere)), 0)
        shutil.rmtree(elsewhere)
        for name in os.listdir(swap):
            shutil.rmtree(os.path.join(swap, name))
        persist = os.path.join(disk, "persist")
        result = run(*self.command(swap=swap, output=output, persist=persist))
        self.assert_fails(result, 1, "swap", "copies of commits in " + persist, "the model in")
        self.assertEqual(os.listdir(swap), [])
        self.assertFalse(os.path.exists(output))
        self.assertFalse(os.path.exists(persist))

    def test_dead_runs_fill_a_small_disk(self):
        swap = self.small_disk("disk", 9)
        process = self.begin(swap=swap)
        process.kill()
        process.wait()
        shutil.rmtree(self.output)
        second = self.path("second")
        result = run(*self.command(swap=swap, output=second))
        self.assert_run(result, 0, "1 dead run holds", f"spillway clean --swap {swap}")
        third = run(*self.command(swap=swap, output=self.path("third")))
        self.assert_fails(third, 1, "spillway clean")
        self.assert_run(run("clean", "--swap", swap, "--remove"), 0, "freed")
        self.assert_run(run(*self.command(swap=swap, output=self.path("third"))), 0)
        self.assertEqual(self.inspect(second)["step"], self.steps)

    def test_disk_of_output_fills_up(self):
        disk = self.small_disk("disk", 16)
        self.output = os.path.join(disk, "out")
        process = self.begin(no_export=True)
        filler = os.path.join(disk, "filler")
        with open(filler, "wb") as out:
            try:
                while True:
                    out.write(b"x" * 4096)
                    out.flush()
            except OSError:
                pass
            try:
                out.close()
            except OSError:
                pass
        self.assert_fails(self.end_of(process), 1, self.output, "no space left")
        self.assert_no_half_files()
        os.remove(filler)
        self.assert_resumes(no_export=True)

    # -- calls that fail ------------------------------------------------------------------

    def failing(self, call, name, number, after):
        if not FAIL_IO:
            self.skipTest("SPILLWAY_FAIL_IO is not set")
        return {"LD_PRELOAD": FAIL_IO, "SPILLWAY_FAIL_CALL": call, "SPILLWAY_FAIL_NAME": name,
                "SPILLWAY_FAIL_AFTER": str(after), "SPILLWAY_FAIL_ERRNO": str(number)}

    def test_calls_that_fail(self):
        eio, full = errno.EIO, errno.ENOSPC
        # The initial state takes a good part of the calls; a run without faults counts them.
        for call, name, number, after, words in (
                ("pread", "/tiles", eio, 60, ("read", "/tiles", "the storage device failed")),
                ("pwrite", "/tiles", eio, 20, ("/tiles", "the storage device failed")),
                ("fdatasync", "/tiles", eio, 2, ("sync", "/tiles", "commit of step 4",
                                                 "the storage device failed")),
                # Costs that commit alone: the run goes on, and ends as its last one has no room either.
                ("write", "/manifest-rank0.tmp-", full, 2, ("commit of step 8", "manifest-rank0",
                                                            "no space left")),
                ("fdatasync", "/manifest-rank0.tmp-", eio, 2, ("commit of step 4",
                                                               "manifest-rank0")),
                ("pwrite", "/metrics.jsonl", full, 5, ("metrics.jsonl", "no space left"))):
            with self.subTest(call=call, name=name, errno=errno.errorcode[number]):
                try:
                    result = run(*self.command(io_engine="threads"), timeout=600,
                                 variables=self.failing(call, name, number, after))
                    self.assert_fails(result, 1, *words)
                    self.assert_no_half_files()
                    self.assertGreaterEqual(self.inspect()["step"], 2)
                    self.assert_resumes(io_engine="threads")
                finally:
                    self.begin_afresh()

    # -- transfers of io_uring that the kernel fails ---------------------------------------

    def with_ring(self, **changes):
        """A run whose state is in memory, so that of the swap there are only a commit's writes."""
        return self.command(io_engine="io_uring", offload="cpu", **changes)

    def test_transfers_of_io_uring_that_fail(self):
        for file, words in (("/dev/full", ("write", "/tiles", "no space left")),
                            ("/proc/self/mem", ("write", "/tiles", "the storage device failed"))):
            with self.subTest(file=file):
                # Behind the first commit, before the next one.
                variables = self.failing("fdatasync", "/manifest-rank0.tmp-", 0, 1)
                del variables["SPILLWAY_FAIL_ERRNO"]
                variables |= {"SPILLWAY_FAIL_FILE": file, "SPILLWAY_FAIL_PLACE": "/tiles"}
                result = run(*self.with_ring(), timeout=600, variables=variables)
                self.assert_fails(result, 1, *words)
                self.assert_no_half_files()
                self.assertEqual(self.inspect()["step"], 2)
                self.assert_resumes(offload="cpu")
                self.begin_afresh()

    def begin_with_ring(self, **changes):
        process = self.begin(io_engine="io_uring", **changes)
        tiles, = glob.glob(os.path.join(self.swap, "*", "tiles"))
        return process, tiles

    def test_a_transfer_of_io_uring_beyond_the_limit(self):
        process, tiles = self.begin_with_ring()
        # The transfer that it cuts ends short, as the kernel has it, and its rest fails.
        limit = os.path.getsize(tiles) // 2 + 1024
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, limit))
        self.assert_fails(self.end_of(process), 1, tiles, "EFBIG", "ulimit -f")
        self.assert_no_half_files()
        self.assert_resumes()

    def test_a_file_cut_short_under_io_uring(self):
        process, tiles = self.begin_with_ring()
        kept = os.path.getsize(tiles) // 8
        # Once may be in vain: what was there may all be written anew before it is read.
        while process.poll() is None:
            os.truncate(tiles, kept)
            time.sleep(0.01)
        end = self.end_of(process)
        # A write behind that end may have come first, and what is between is zeros then.
        cut = end.returncode == 1
        words = ("the file ends at", "cut short") if cut else ("are not those that were written",)
        self.assert_fails(end, 1 if cut else 4, tiles, *words)
        os.truncate(tiles, kept)
        self.assert_fails(run(*self.command(resume=True)), 4, tiles)

    def test_limit_of_file_sizes(self):
        # As a shell's `ulimit -f` has it.
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, MIB))
        self.assert_fails(run(*self.command(), preexec_fn=limit), 1, "/tiles", "EFBIG", "ulimit -f")
        self.assert_nothing_left()

    def test_failing_while_the_state_is_first_written(self):
        for call in ("pwrite", "pread", "fdatasync"):
            result = run(*self.command(io_engine="threads", commit_every=None, steps=1),
                         timeout=600, variables=self.failing(call, "/tiles", errno.EIO, 1))
            self.assert_fails(result, 1, "/tiles", "the storage device failed")
            self.assertEqual(os.listdir(self.swap), [], "nothing refers to it")
        self.assert_run(run(*self.command()), 0)

    # -- what the kernel refuses ----------------------------------------------------------

    def as_nobody(self, memlock):
        limit = f"{memlock}:{memlock}"
        for path in (self.dir, self.swap):
            os.chmod(path, 0o777 if path == self.dir else 0o1777)
        words = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "prlimit",
                 f"--memlock={limit}", cli_testing.program()]
        if os.geteuid() != 0 or not works(*words, "--version"):
            self.skipTest("needs root, and a program that user nobody may start")
        return words

    def test_locked_memory(self):
        for memlock in (0, 8 * MIB):
            with self.subTest(memlock=memlock):
                words = self.as_nobody(memlock)
                result = subprocess.run(
                    [*words, *map(str, self.command())], capture_output=True, text=True,
                    timeout=600, check=False, env=cli_testing.environment())
                self.assert_run(result, 0)
                self.assertEqual(self.inspect()["digest"], self.expected())
                self.assertEqual(os.stat(self.output).st_uid, NOBODY)
                self.begin_afresh()

    def test_io_uring_refused(self):
        result = run(*self.command(), preexec_fn=refuse_io_uring)
        self.assert_run(result, 0, "threads", "seccomp")
        self.assertEqual(self.inspect()["digest"], self.expected())
        self.begin_afresh()
        result = run(*self.command(io_engine="io_uring"), preexec_fn=refuse_io_uring)
        self.assert_fails(result, 2, "io_uring", "seccomp", "`--io-engine threads`")
        self.assert_nothing_left()

    # -- processes ------------------------------------------------------------------------

    def test_stopped_for_a_while(self):
        process = self.begin()
        process.send_signal(signal.SIGSTOP)
        rows = len(self.rows())
        time.sleep(1)
        self.assertLessEqual(len(self.rows()), rows + 1)
        # It holds its lock as before.
        self.assert_fails(run(*self.command(resume=True)), 2, f"process {process.pid}")
        process.send_signal(signal.SIGCONT)
        self.wait_for(lambda: len(self.rows()) > rows + 2, process)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 75)
        self.assert_resumes()

    def test_nothing_piles_up(self):
        process = self.begin(commit_every=1, persist=self.path("persist"), rows=10)

        def count():
            files = sum(len(names) for _, _, names in os.walk(self.dir))
            return len(os.listdir(f"/proc/{process.pid}/fd")), files
        # A commit and a copy have files of their own while they last: the fewest count.
        def after_rows(number):
            for _ in range(number):
                rows = len(self.rows())
                self.wait_for(lambda rows=rows: len(self.rows()) > rows, process)
                yield count()
        early = list(after_rows(15))
        list(after_rows(30))
        for which, what in enumerate(("descriptors", "files")):
            fewest = min(one[which] for one in early)
            with self.subTest(what):
                self.wait_for(lambda which=which, fewest=fewest: count()[which] <= fewest + 1,
                              process)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 75)


if __name__ == "__main__":
    cli_testing.main()
