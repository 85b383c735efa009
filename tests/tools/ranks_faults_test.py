#!/usr/bin/env python3
"""What happens to one rank ends all: at once or within the deadline, with one leading error that
names the rank and the cause, a code other than 0, and a commit that resumes to the bits of a
run that nothing happened to."""

import contextlib
import errno
import os
import random
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import time
import unittest

import cli_testing
from cli_testing import read_text, run
from ranks_testing import Job, RanksCase, end_all, free_ports, variable_of

MOMENTS = int(os.environ.get("SPILLWAY_RANKS_KILL_MOMENTS", "4"))
SEED = int(os.environ.get("SPILLWAY_KILL_SEED", "20240301"))
KILL_AT_CALL = os.environ.get("SPILLWAY_KILL_AT_CALL", "")
FAIL_IO = os.environ.get("SPILLWAY_FAIL_IO", "")
# Nothing waits for its end but what is broken.
PATIENCE = 600


class RanksFaultsTest(RanksCase):
    kills = 0  # of ranks (tests/tools/kill_many.py counts them)

    # -- kill -9 --------------------------------------------------------------------------

    @unittest.skipUnless(KILL_AT_CALL, "SPILLWAY_KILL_AT_CALL is not set")
    def test_killed_at_any_moment(self):
        """At calls that change files: setting up, a rank's part of a commit, deciding on it, the
        export. How many there are differs by a few from run to run, so the last may not come. Of
        many moments some are times."""
        flags = {"steps": 4, "commit_every": 1, "collective_timeout": "600s"}

        def killed(victim, call, resume):
            job = Job(self, self.command(3, resume=resume, **flags), {
                "LD_PRELOAD": KILL_AT_CALL, "SPILLWAY_KILL_AT": str(call),
                "SPILLWAY_KILL_RANK": str(victim), "SPILLWAY_KILL_COUNT": self.path("calls")})
            return job.result(PATIENCE)

        def killed_in_time(victim, seconds, resume):
            job = Job(self, self.command(3, resume=resume, **flags))
            self.wait_for(lambda: victim in job.ranks() or job.process.poll() is not None)
            time.sleep(seconds)
            pid = job.ranks().get(victim)
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
            return job.result(PATIENCE)
        began = time.monotonic()
        self.assertEqual(killed(0, 0, False).returncode, 0)
        span = time.monotonic() - began
        expected = self.outcome()
        calls = [int(read_text(self.path(f"calls-{rank}"))) for rank in range(3)]
        drawn = random.Random(SEED)
        kills = 0
        for moment in range(MOMENTS):
            self.begin_afresh()
            victim = moment % 3
            # The first call and the last in turn, and any of each.
            call = ((1, calls[victim])[moment % 2] if moment < 4
                    else drawn.randint(2, calls[victim] - 1))
            for resume in (False, True)[:1 + moment % 2]:  # and once more, while it gets going again
                where = f"moment {moment}, rank {victim}, call {call} of {calls[victim]}"
                if moment >= 4 and drawn.random() < 0.4:
                    result = killed_in_time(victim, drawn.uniform(0, 0.9 * span), resume)
                else:
                    result = killed(victim, call if not resume else drawn.randint(1, 10), resume)
                if "SIGKILL" not in result.stderr:
                    self.assertEqual(result.returncode, 0, f"{where}: {result.stderr}")
                    continue  # it had less to do
                kills += 1
                RanksFaultsTest.kills += 1
                with self.subTest(where):
                    self.assert_one_leading_error(result, 1, f"rank {victim} was ended by SIGKILL")
            result = run(*self.command(3, resume=True, **flags))
            self.assertEqual(result.returncode, 0, f"{where}: {result.stderr}")
            self.assertEqual(self.outcome(), expected, where)
            self.assert_only_files_of(3)
        self.assertGreaterEqual(kills, MOMENTS // 2)

    @unittest.skipUnless(FAIL_IO, "SPILLWAY_FAIL_IO is not set")
    def test_a_part_that_finds_no_room_costs_that_commit(self):
        """Of rank 1, from the second commit on: the others go on without it, to the last step."""
        flags = {"steps": 4, "commit_every": 1}
        result = run(*self.command(2, **flags), variables={
            "LD_PRELOAD": FAIL_IO, "SPILLWAY_FAIL_CALL": "write", "SPILLWAY_FAIL_AFTER": "2",
            "SPILLWAY_FAIL_NAME": "/manifest-rank1.prepared.tmp-",
            "SPILLWAY_FAIL_ERRNO": str(errno.ENOSPC)})
        # Commits 2 and 3 are warned of by both; that of the last step is how the run ends.
        self.assert_one_leading_error(result, 1, "commit of step 4", "manifest-rank1",
                                      "no space left")
        for step in (2, 3):
            self.assertIn(f"commit of step {step}", result.stderr)
        self.assertGreaterEqual(result.stderr.count("goes on without this commit"), 4)
        self.assertEqual(self.inspect()["step"], 1)
        self.go(2, resume=True, **flags)
        self.assertEqual(self.outcome(), self.reference(2)[0])
        self.assert_only_files_of(2)

    def test_killed_while_it_moves_to_other_ranks(self):
        self.go(1, steps=2, no_export=True)
        expected = self.inspect()["digests"]
        moments = random.Random(7)
        for ranks in (3, 1, 2):
            job = Job(self, self.command(ranks, steps=1000000, resume=True))
            lock = os.path.join(self.output, "lock")
            self.wait_for(lambda: os.path.exists(lock), job.process)
            time.sleep(moments.uniform(0.2, 0.6))
            job.kill()
            found = self.inspect()
            self.assertEqual((found["step"], found["digests"]), (2, expected))
        self.go(2, steps=4, resume=True)
        self.assert_rows_near(self.rows(), self.reference(1)[1])
        self.assert_only_files_of(2)

    # -- hangs ----------------------------------------------------------------------------

    def test_hung_rank(self):
        for victim in (0, 1):
            with self.subTest(victim=victim):
                self.begin_afresh()
                job = Job(self, self.command(3, steps=1000000, collective_timeout="10s"))
                self.wait_for_rows(job, 2)
                pids = job.ranks()
                # Who wrote to a rank that has just died would be a second one that a signal ended.
                for rank, pid in pids.items():
                    ignored = re.search(r"SigIgn:\s+(\w+)", read_text(f"/proc/{pid}/status"))[1]
                    self.assertTrue(int(ignored, 16) >> (signal.SIGPIPE - 1) & 1, rank)
                hung = pids[victim]
                os.kill(hung, signal.SIGSTOP)
                self.wait_until_ended(job, {0, 1, 2} - {victim}, PATIENCE)
                os.kill(hung, signal.SIGCONT)
                result = job.result()
                self.assertEqual(result.returncode, 1, result.stderr)
                # One says so; its own error, when it goes on, is that the others are gone.
                self.assertIn(f"stopped because rank {victim} has not answered for 10 s",
                              result.stderr)
                self.assertEqual(len(self.errors(result)), 3, result.stderr)

    # -- one rank's disk ------------------------------------------------------------------

    def mount_tmpfs(self, path, size):
        os.makedirs(path, exist_ok=True)
        words = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "none", path]
        if os.geteuid() != 0 or subprocess.run(words, stderr=subprocess.DEVNULL,
                                               check=False).returncode != 0:
            self.skipTest("needs root, to mount")
        self.addCleanup(subprocess.run, ["umount", "-l", path], check=False)

    def disks(self):
        """A swap path for each of three ranks, as --swap names them."""
        for rank in range(3):
            os.makedirs(self.path(f"disk-{rank}"), exist_ok=True)
        return self.path("disk-{rank}")

    def test_small_disk_of_one_rank(self):
        self.mount_tmpfs(self.path("disk-2"), "64k")
        result = run(*self.command(3, swap=self.disks()))
        self.assert_one_leading_error(result, 1, self.path("disk-2"), "needs", "free")
        self.assertIn("rank 2: spillway: error: ", result.stderr)
        self.assert_nothing_left()
        self.assertEqual(os.listdir(self.path("disk-1")), [])

    def test_disk_of_one_rank_fills_up(self):
        os.mkdir(self.output, 0o700)
        disk = self.path("out/ranks/2")
        self.mount_tmpfs(disk, "1M")
        job = Job(self, self.command(3, steps=1000000, commit_every=2))
        self.wait_for_rows(job, 5)
        with open(os.path.join(disk, "filler"), "wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(bytes(4096))
            except OSError:
                pass
        result = job.result()
        self.assert_one_leading_error(result, 1, disk, "no space left")
        self.assertIn("rank 2: spillway: error: ", result.stderr)
        os.unlink(os.path.join(disk, "filler"))
        steps = self.inspect()["step"] + 2
        self.assertGreater(steps, 4)
        self.go(3, steps=steps, resume=True)
        self.assertEqual(self.outcome(), self.reference(3, steps=steps)[0])

    def flip(self, path):
        """One bit of every 4 KiB."""
        with open(path, "r+b") as tiles:
            size = os.path.getsize(path)
            for at in range(100, size, 4096):
                tiles.seek(at)
                byte = tiles.read(1)[0]
                tiles.seek(at)
                tiles.write(bytes([byte ^ 8]))

    def test_wrong_byte_of_one_rank(self):
        swap = self.disks()
        self.go(3, steps=2, swap=swap)
        for victim, resumed_by in ((2, 3), (0, 2), (2, 1)):
            with self.subTest(victim=victim, resumed_by=resumed_by):
                directory, = os.listdir(self.path(f"disk-{victim}"))
                self.flip(self.path(f"disk-{victim}/{directory}/tiles"))
                result = run(*self.command(resumed_by, steps=4, swap=swap, resume=True))
                self.assert_one_leading_error(result, 4, self.path(f"disk-{victim}"))
                if resumed_by == 3:
                    self.assertIn("rank 2: spillway: error: ", result.stderr)
                self.flip(self.path(f"disk-{victim}/{directory}/tiles"))
        # Who was refused has changed nothing.
        self.go(3, steps=4, swap=swap, resume=True)
        self.assertEqual(self.outcome(), self.reference(3)[0])

    # -- bad input ------------------------------------------------------------------------

    def by_hand(self, flags, world=None, port=None):
        """Ranks as a user starts them, each with flags of its own; their results."""
        port = port or free_ports(1)[0]
        processes = []
        for rank, words in enumerate(flags):
            variables = {"RANK": str(rank), "WORLD_SIZE": str(world or len(flags)),
                         "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            processes.append(self.start(words, env=cli_testing.environment() | variables))
        results = []
        for process in processes:
            _, text = process.communicate(timeout=600)
            results.append(subprocess.CompletedProcess([], process.returncode, "", text))
        return results

    def test_ranks_started_otherwise_than_the_first(self):
        for changes, word in (({"lr": "2e-3"}, "lr: "), ({"shard": "none"}, "shard"),
                              ({"steps": 5}, "steps: 5"), ({"resume": True}, "resume: yes"),
                              ({"output": self.path("elsewhere")}, "elsewhere"),
                              ({"persist": self.path("persist")}, "persist: yes"),
                              ({"eval_data": self.data}, "evaluation data: "),
                              ({"max_bytes_written": "1TB"}, "max-bytes-written: ")):
            with self.subTest(word):
                results = self.by_hand([self.command(2, launched=True),
                                        self.command(2, launched=True, **changes)])
                for result in results:
                    self.assert_run(result, 2, "rank 1 was started otherwise than rank 0", word)
                self.assertTrue(self.errors(results[0])[0].startswith("stopped because of rank 1"))
                self.assert_nothing_left()

    def test_too_few_files(self):
        """What cannot be opened would be missed in the middle."""
        def limit(hard):
            def set_limit():
                resource.setrlimit(resource.RLIMIT_NOFILE, (48, hard))
            return set_limit
        result = run(*self.command(4), preexec_fn=limit(48))
        self.assert_run(result, 2, "`ulimit -n` allows this process 48", "takes up to 111")
        self.assertNotIn("SIGABRT", result.stderr)
        self.assert_nothing_left()
        # The soft limit is ours to raise.
        result = run(*self.command(4, steps=1), preexec_fn=limit(
            resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        self.assertEqual(result.returncode, 0, result.stderr)

    # -- who may take part ----------------------------------------------------------------

    def begin_by_hand(self, ranks, words=None, **variables):
        """Ranks that meet at one port, under way."""
        self.port, = free_ports(1)
        return [self.rank_by_hand(rank, words or self.command(2, launched=True, steps=1000000),
                                  **variables) for rank in ranks]

    def rank_by_hand(self, rank, words, **variables):
        return self.start(words, env=cli_testing.environment() | {
            "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self.port)} | variables)

    def stop_all(self, processes):
        for process in processes:
            process.send_signal(signal.SIGTERM)
        texts = [process.communicate(timeout=600)[1] for process in processes]
        self.assertEqual([process.returncode for process in processes], [75] * len(processes), texts)
        return texts

    def test_a_rank_that_is_started_twice_ends_and_the_run_goes_on(self):
        ranks = self.begin_by_hand((0, 1))
        self.wait_for_rows(ranks[0], 1)
        words = self.command(2, launched=True, steps=1000000)
        for rank, said in ((1, "rank 1 is there already"), (0, "the port is in use")):
            again = self.rank_by_hand(rank, words)
            _, text = again.communicate(timeout=60)
            self.assertEqual(again.returncode, 2 if rank else 1, text)
            self.assertIn(said, text)
        self.wait_for_rows(ranks[0], len(self.rows()) + 1)
        texts = self.stop_all(ranks)
        self.assertIn("without a secret", texts[0])
        self.assertEqual(texts[1], "")  # rank 0 alone talks

    def test_ranks_with_different_secrets_do_not_meet(self):
        words = self.command(2, launched=True, collective_timeout="6s")
        ranks = self.begin_by_hand((0,), words, SPILLWAY_SECRET="0123456789abcdef")
        for secret in ({"SPILLWAY_SECRET": "0123456789abcdeg"}, {}):
            other = self.rank_by_hand(1, words, **secret)
            _, text = other.communicate(timeout=60)
            self.assertEqual(other.returncode, 2, text)
            self.assertIn("SPILLWAY_SECRET", text)
            self.assertNotIn("0123456789", text)
        _, text = ranks[0].communicate(timeout=60)
        self.assertEqual(ranks[0].returncode, 1, text)
        self.assertIn("rank 1 of 2 did not come", text)
        self.assertIn("does not have this run's secret", text)
        self.assertNotIn("without a secret", text)
        short = run(*words, variables={
            "RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self.port), "SPILLWAY_SECRET": "secret"})
        self.assert_run(short, 2, "SPILLWAY_SECRET has 6 characters", "openssl rand")
        self.assert_nothing_left()

    def listening(self, pids):
        """(address in hex, port) of what these processes listen at."""
        found = set()
        for pid in pids:
            sockets = set()
            for fd in os.listdir(f"/proc/{pid}/fd"):
                try:
                    sockets.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
                except OSError:
                    pass
            for kind in ("tcp", "tcp6"):
                if not os.path.exists(f"/proc/net/{kind}"):
                    continue
                for line in read_text(f"/proc/net/{kind}").splitlines()[1:]:
                    words = line.split()
                    if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
                        address, port = words[1].split(":")
                        found.add((address, int(port, 16)))
        return found

    def test_strangers_do_no_harm(self):
        """Programs of other users: idle connections, LibTorch's store's messages, floods."""
        job = Job(self, self.command(2, steps=1000000))
        self.wait_for_rows(job, 1)
        pids = job.ranks()
        listening = self.listening(pids.values())
        # Rank 0 alone, at 127.0.0.1 alone.
        self.assertEqual([address for address, _ in listening], ["0100007F"])
        port = listening.pop()[1]
        secrets = {variable_of(pid, "SPILLWAY_SECRET") for pid in pids.values()}
        self.assertEqual(len(secrets), 1)
        self.assertGreaterEqual(len(secrets.pop()), 32)
        with contextlib.ExitStack() as held:
            def connect():
                return held.enter_context(socket.create_connection(("127.0.0.1", port)))
            for _ in range(600):
                connect()
            # c10d's hello, and SET of a key of 3 bytes with a value of 3 GiB.
            large = struct.pack("<BI", 0, 0x3c85f7ce) + struct.pack("<BQ3sQ", 0, 3, b"abc", 3 << 30)
            for text in (large, b"spillway ranks 2" + bytes(200), os.urandom(1 << 16), b"\n" * 48):
                stranger = connect()
                try:
                    stranger.sendall(text)
                    while stranger.recv(1 << 16):
                        pass
                except OSError:
                    pass  # it is closed while it sends
            fds = len(os.listdir(f"/proc/{pids[0]}/fd"))
            self.assertLess(fds, 200)
            self.wait_for_rows(job, len(self.rows()) + 2)
        peak = int(re.search(r"VmHWM:\s+(\d+)", read_text(f"/proc/{pids[0]}/status"))[1])
        self.assertLess(peak, 1 << 20)  # KiB
        self.assertEqual(end_all(self, job.process, signal.SIGTERM), 75, job.said())
        self.assertEqual(self.errors(job.result()), [])

    def test_without_a_loopback_network_ranks_say_so_at_once(self):
        if subprocess.run(["unshare", "-n", "true"], stderr=subprocess.DEVNULL,
                          check=False).returncode != 0:
            self.skipTest("no network namespaces here")
        words = self.command(2, collective_timeout="600s")
        result = subprocess.run(["unshare", "-n", cli_testing.program(), *map(str, words)],
                                capture_output=True, text=True, timeout=600, check=False,
                                env=cli_testing.environment())
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("no loopback network", result.stderr)
        self.assertIn("ip link set lo up", result.stderr)
        self.assert_nothing_left()

    def test_missing_rank(self):
        results = self.by_hand([self.command(3, launched=True, collective_timeout="6s")] * 2,
                               world=3)
        for result in results:
            self.assert_run(result, 1, "rank 2 of 3 did not come", "--collective-timeout")
        # Without the first one there is no place to meet.
        port, = free_ports(1)
        result = run(*self.command(2, launched=True, collective_timeout="6s"), variables={
            "RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
        self.assert_run(result, 1, "does not reach rank 0", str(port))
        self.assert_nothing_left()

    def test_a_master_that_nobody_knows_is_named(self):
        result = run(*self.command(2, launched=True, collective_timeout="1s"), variables={
            "RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "nowhere.invalid",
            "MASTER_PORT": "29500"})
        self.assert_run(result, 1, "nowhere.invalid (MASTER_ADDR) has no address")
        self.assertNotIn("another MASTER_PORT", result.stderr)

    def test_port_in_use(self):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            port = listener.getsockname()[1]
            result, = self.by_hand([self.command(2, launched=True, collective_timeout="6s")],
                                   world=2, port=port)
            self.assert_run(result, 1, "the port is in use", str(port), "MASTER_PORT")
            self.assertNotIn("[E", result.stderr)  # c10d's own words
            self.assert_nothing_left()

    def test_what_is_there_already(self):
        self.go(3, steps=2)
        before = self.inspect()
        result = run(*self.command(2))
        self.assert_one_leading_error(result, 2, "step 2", "--resume", "--overwrite")
        self.assertEqual(self.inspect(), before)
        self.assert_only_files_of(3)
        # Of more ranks than this run has nothing stays, either.
        self.go(2, overwrite=True)
        self.assertEqual(self.outcome(), self.reference(2)[0])
        self.assert_only_files_of(2)

    def test_copies_when_scratch_is_lost(self):
        persist = self.path("persist")
        flags = {"steps": 4, "commit_every": 1, "keep": 2, "persist": persist}
        expected, _ = self.reference(2, steps=6)
        self.go(2, **flags)
        copies = sorted(name for name in os.listdir(persist) if name.startswith("step-"))
        self.assertEqual(copies, ["step-000000000003", "step-000000000004"])
        newest = os.path.join(persist, copies[1])
        self.assertEqual(self.inspect(newest)["digest"], self.inspect()["digest"])
        # Of one rank, and of one whose part of the newest copy is damaged besides.
        flags.update(steps=6, resume=True)
        for step in (4, 3):
            with self.subTest(step):
                self.begin_afresh()
                kept = self.path("kept")
                shutil.copytree(persist, kept)
                if step == 3:
                    with open(os.path.join(newest, "ranks/1/tiles"), "r+b") as tiles:
                        tiles.write(b"damaged")
                result = self.go(2, **flags)
                self.assertIn(f"resuming after step {step}\n", result.stderr)
                self.assertEqual("rank 1 can't read its part" in result.stderr, step == 3)
                now = self.outcome()
                self.assertEqual(now.pop("rows"), expected["rows"][step:])
                self.assertEqual(now, {name: expected[name] for name in now})
                shutil.rmtree(persist)
                os.rename(kept, persist)
        # Of other ranks: one, whose copies are then its own.
        self.begin_afresh()
        result = self.go(1, **flags)
        self.assertIn("resuming after step 4\n", result.stderr)
        self.assertFalse([name for name in os.listdir(persist)
                          if os.path.exists(os.path.join(persist, name, "ranks"))])

    def test_copies_when_the_scratch_of_one_is_lost(self):
        flags = {"steps": 4, "commit_every": 3, "persist": self.path("persist")}
        self.go(2, **flags)
        for name in os.listdir(self.swap):
            if "ranks/1" in read_text(os.path.join(self.swap, name, "owner")):
                shutil.rmtree(os.path.join(self.swap, name))
        result = self.go(2, **{**flags, "steps": 6, "resume": True})
        self.assertIn("resuming after step 4\n", result.stderr)
        self.assertEqual(self.outcome(), self.reference(2, steps=6)[0])

    def test_does_not_fit(self):
        result = run(*self.command(2, host_memory="1MiB", device_memory="1MiB"))
        self.assert_one_leading_error(result, 3, "needs at least", "--host-memory")
        self.assert_nothing_left()


if __name__ == "__main__":
    cli_testing.main()
