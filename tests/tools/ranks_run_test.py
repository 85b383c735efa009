#!/usr/bin/env python3
"""Several ranks train as one does: the losses of one, the same bits however they divide the
state and wherever it lies, and a commit that any number of ranks goes on from."""

import filecmp
import json
import os
import re
import shutil
import signal
import socket
import subprocess

import cli_testing
from cli_testing import read_json, read_rows, read_text, run
from ranks_testing import Job, RanksCase, free_ports

MODES = ("none", "optimizer", "gradients", "full")
HYBRID = {"shard": "hybrid", "shard_group_size": 2}
# To more ranks and to fewer, to none besides and to the same number in other groups. Of the state
# alone ReshardTest and tests/cluster try every number.
MOVES = ((1, {}), (3, {}), (4, HYBRID), (4, {"shard": "optimizer"}), (2, {"shard": "none"}), (1, {}))


def is_listening(port):
    """Whether a socket of this machine listens there, without a connection to it."""
    lines = [line.split() for kind in ("tcp", "tcp6") if os.path.exists(f"/proc/net/{kind}")
             for line in read_text(f"/proc/net/{kind}").splitlines()[1:]]
    return any(line[1].endswith(f":{port:04X}") and line[3] == "0A" for line in lines)


def handles(pid, number):
    caught = re.search(r"SigCgt:\s+(\w+)", read_text(f"/proc/{pid}/status"))
    return caught is not None and int(caught[1], 16) >> (number - 1) & 1 == 1


class RanksRunTest(RanksCase):
    def placements(self):
        second = self.path("second-swap")
        os.makedirs(second, exist_ok=True)
        return ({"offload": "nvme"}, {"offload": "cpu"}, {"offload": "auto", "swap": None},
                {"offload": "nvme", "device_memory": "6MiB", "host_memory": "3MiB",
                 "swap": f"{self.swap},{second}"})

    def assert_same(self, expected, ranks, **changes):
        with self.subTest(ranks=ranks, **changes):
            self.begin_afresh()
            self.go(ranks, **changes)
            self.assertEqual(self.outcome(), expected)

    def assert_same_resumed(self, expected, ranks, first, then, **flags):
        """Of a run that goes on after two steps in another placement, or divided otherwise."""
        with self.subTest(ranks=ranks, first=first, then=then):
            self.begin_afresh()
            self.go(ranks, **flags, **first, steps=2)
            result = self.go(ranks, **flags, **then, resume=True)
            self.assertIn("resuming after step 2", result.stderr)
            self.assertEqual(self.outcome(), expected)

    # -- one rank's numbers ---------------------------------------------------------------

    def test_labels_that_are_not_evenly_spread(self):
        # Completions of all lengths: every rank has another number of labels.
        lines = [json.dumps({"prompt": "p" * (i % 13), "completion": "c" * (1 + i * i % 17)})
                 for i in range(200)]
        changes = {"data": self.write("data.jsonl", "\n".join(lines)), "tokenizer": "bytes",
                   "samples": "windows", "steps": 6, "schedule": "linear", "warmup": 3}
        self.go(1, **changes)
        expected = self.rows()
        for ranks in (2, 3):
            self.begin_afresh()
            self.go(ranks, **changes)
            self.assert_rows_near(self.rows(), expected)

    def test_evaluation(self):
        # 13 samples: some ranks have one more than others.
        cli_testing.write_tokens(self.path("held-out.bin"), 13 * 16 + 1, self.config["vocab_size"],
                                 seed=3)
        flags = {"eval_data": self.path("held-out.bin"), "eval_every": 2}

        def evaluations():
            return read_rows(os.path.join(self.output, "eval.jsonl"))
        self.go(3, **flags)
        of_three = evaluations()
        # A rank that was none before knows of no evaluation, and makes none anew for that.
        self.begin_afresh()
        self.go(1, **flags, steps=2)
        self.go(2, **flags, resume=True)
        for rows in (of_three, evaluations()):
            self.assertEqual([(row["step"], row["tokens"]) for row in rows],
                             [(step, 13 * 16) for step in (0, 2, 4)])
        for row, expected in zip(of_three, evaluations()):
            self.assertLessEqual(abs(row["loss"] / expected["loss"] - 1), 1e-6)

    # -- the same bits --------------------------------------------------------------------

    def test_modes_and_placements(self):
        for ranks in (2, 3):
            expected, rows = self.reference(ranks)
            self.assert_rows_near(rows, self.reference(1)[1])
            for i, placement in enumerate(self.placements()):
                # In turn, so that every mode and every placement meets every number of ranks.
                self.assert_same(expected, ranks, shard=MODES[(i + ranks) % 4], **placement)

    def test_hybrid(self):
        expected, rows = self.reference(4, **HYBRID)
        self.assert_rows_near(rows, self.reference(1)[1])
        _, in_memory, _, tight = self.placements()
        self.assert_same_resumed(expected, 4, in_memory, tight, **HYBRID)

    def test_fp16(self):
        expected, _ = self.reference(2, dtype="fp16")
        _, _, automatic, tight = self.placements()
        self.assert_same(expected, 2, dtype="fp16", shard="gradients", **automatic)
        self.assert_same(expected, 2, dtype="fp16", shard="none", **tight)

    def test_updates(self):
        expected, _ = self.reference(2, clip=0, update="immediate")
        self.assert_same(expected, 2, clip=0, update="deferred", shard="none")
        self.assert_same(expected, 2, clip=0, update="immediate", shard="gradients")

    def test_rounded_exchange(self):
        plain, rows = self.reference(3)
        for dtype in ("bf16", "fp8"):
            expected, rounded = self.reference(3, communication_dtype=dtype)
            self.assertNotEqual(expected["digests"], plain["digests"])
            self.assert_rows_near(rounded, rows, tolerance=2e-3)
        self.assert_same(expected, 3, communication_dtype="fp8", shard="none")
        refused = self.train(ranks=3, communication_dtype="fp32", steps=6, resume=True,
                             micro_batch=1, accumulate=4, dtype="fp32", lr="1e-3")
        self.assert_run(refused, 2, "communication-dtype was fp8")

    def test_moments_of_8_bits(self):
        coded = {"moments": "8bit", "master": "24bit", "dtype": "bf16"}
        expected, _ = self.reference(2, **coded)
        _, in_memory, _, tight = self.placements()
        self.assert_same_resumed(expected, 2, in_memory | {"shard": "none"},
                                 tight | {"shard": "gradients"}, **coded)
        # Shards are cut between blocks: the state is the same on any number of ranks.
        self.begin_afresh()
        self.go(1, **coded, steps=2, no_export=True)
        before = self.inspect()
        job = Job(self, self.command(3, **coded, steps=1000000, resume=True))
        self.wait_for(lambda: "step 3/" in job.said(), job.process)
        job.kill()
        self.assertEqual(self.inspect()["digests"], before["digests"])
        refused = self.train(ranks=2, dtype="bf16", moments="8bit", steps=6, resume=True)
        self.assert_run(refused, 2, "master was 24bit")

    def test_no_masters_and_moments_in_bf16(self):
        narrow = {"moments": "bf16", "master": "none", "dtype": "bf16"}
        expected, _ = self.reference(2, **narrow)
        self.assertNotIn("residual", expected["digests"]["transformer.wte.weight"])
        _, in_memory, _, tight = self.placements()
        self.assert_same_resumed(expected, 2, in_memory | {"shard": "none"},
                                 tight | {"shard": "gradients"}, **narrow)
        refused = self.train(ranks=2, dtype="bf16", moments="bf16", steps=9, resume=True)
        self.assert_run(refused, 2, "master")

    def test_ratios_of_tensors_that_ranks_share(self):
        lamb = {"optimizer": "lamb", "trust_ratio": "0.001,10", "weight_decay": "0.01"}
        rows = self.check_measured(lamb)
        self.assert_rows_near(self.reference(4, **lamb, **HYBRID)[1], rows)

    def test_moments_by_row_and_column_that_ranks_share(self):
        adafactor = {"optimizer": "adafactor", "weight_decay": "0.01"}
        rows = self.check_measured(adafactor)
        self.begin_afresh()
        self.go(2, **adafactor, steps=2)
        self.go(4, **adafactor, resume=True, **HYBRID)
        self.assert_rows_near(self.rows(), rows)

    def check_measured(self, flags):
        """Returns the rows of two ranks."""
        expected, rows = self.reference(2, **flags)
        self.assert_rows_near(rows, self.reference(1, **flags)[1])
        _, in_memory, _, tight = self.placements()
        self.assert_same_resumed(expected, 2, in_memory | {"shard": "none"},
                                 tight | {"shard": "gradients"}, **flags)
        return rows

    def test_frozen_parameters(self):
        # Units frozen in part and whole, and not at all.
        frozen = {"freeze": "mlp|wte", "train_only": "h\\.1|wte|wpe|ln_f"}
        _, alone = self.reference(1, **frozen)
        _, in_memory, _, tight = self.placements()
        self.assert_rows_near(self.reference(2, **frozen)[1], alone)
        narrow = frozen | {"dtype": "bf16"}
        expected, _ = self.reference(2, **narrow)
        self.assertEqual(sorted(expected["digests"]["transformer.wte.weight"]), ["weight"])
        self.assert_same_resumed(expected, 2, in_memory | {"shard": "none"},
                                 tight | {"shard": "gradients"}, **narrow)
        # To three and to one: what is frozen goes along.
        self.begin_afresh()
        for steps, ranks in ((1, 2), (2, 3), (4, 1)):
            self.go(ranks, **frozen, steps=steps, resume=steps > 1)
        self.assert_rows_near(self.rows(), alone)

    # -- commits and resuming -------------------------------------------------------------

    def test_resumed_by_any_number(self):
        _, expected = self.reference(1, steps=2 * len(MOVES))
        for i, (ranks, shard) in enumerate(MOVES):
            with self.subTest(moves=MOVES[:i + 1]):
                self.go(ranks, **shard, steps=2 * (i + 1), resume=i > 0)
                self.assert_rows_near(self.rows(), expected[:2 * (i + 1)])
                self.assert_only_files_of(ranks)

    def test_moving_keeps_the_bits(self):
        self.go(1, steps=2, no_export=True)
        before = self.inspect()
        for i, (ranks, shard) in enumerate(MOVES[1:]):
            with self.subTest(moves=MOVES[:i + 2]):
                # Killed before its own first commit: what is there is what the move committed.
                job = Job(self, self.command(ranks, **shard, steps=1000000, resume=True))
                self.wait_for(lambda job=job: "step 3/" in job.said(), job.process)
                job.kill()
                after = self.inspect()
                self.assertEqual(after["step"], 2)
                self.assertEqual(after["digests"], before["digests"])
                self.assert_only_files_of(ranks)

    def test_a_finished_run(self):
        flags = {"tokenizer": "bytes", "data": self.write("text.txt", "to be or not to be " * 100)}
        result = self.go(3, **flags)
        self.assertIn("ranks      3; from \"moved\" on, all but the step's time is of rank 0",
                      result.stderr)
        for rank, folder in ((0, self.output), (1, os.path.join(self.output, "ranks", "1"))):
            described = read_json(folder, "run.json")
            self.assertEqual((described["rank"], described["ranks"]), (rank, 3))
            page = read_text(folder, "report.html")
            self.assertIn("12 samples a step (4 micro-batches of 1 on each of 3 ranks)", page)
            self.assertIn(f"Traffic and wear of rank {rank}", page)
        expected, model, exported = self.outcome(), self.path("out/model"), self.path("exported")
        self.assert_run(run("export", "--from", self.output, "--to", exported), 0)
        self.assertEqual(sorted(os.listdir(model)), sorted(os.listdir(exported)))
        for name in os.listdir(model):
            self.assertTrue(filecmp.cmp(os.path.join(model, name), os.path.join(exported, name),
                                        shallow=False), name)
        said = set()
        for source in (model, self.output):  # all shards, by then in one file and in each rank's
            result = run("generate", "--model", source, "--prompt", "to be", "--tokens", 3,
                         "--temperature", 0, "--dtype", "fp32", timeout=120)
            self.assertEqual(result.returncode, 0, result.stderr)
            said.add(result.stdout)
        self.assertEqual(len(said), 1)
        # Any number of ranks exports the commit as it is.
        for ranks in (3, 1):
            shutil.rmtree(model)
            result = self.go(ranks, **flags, resume=True)
            self.assertIn("already finished", result.stderr)
            self.assertEqual(self.outcome(), expected)

    # -- signals and launchers ------------------------------------------------------------

    def test_signal_to_one_rank_stops_all(self):
        for victim, number in ((1, signal.SIGTERM), (0, signal.SIGUSR1)):
            with self.subTest(victim=victim):
                self.begin_afresh()
                job = Job(self, self.command(2, steps=1000000, commit_every=1000000))
                self.wait_for_rows(job, 2)
                os.kill(job.ranks()[victim], number)
                result = job.result()
                self.assertEqual(result.returncode, 75, result.stderr)
                self.assertEqual(self.errors(result), [])
                self.assertIn(f"stopped by {number.name} after step", result.stderr)
                self.assertNotIn("--max-bytes-written", result.stderr)
                elsewhere = f"{number.name} to rank {victim} stops all ranks" in result.stderr
                self.assertEqual(elsewhere, victim != 0)
                self.assertIn(number.name, read_text(self.output, "run.json"))
        step = self.inspect()["step"]
        self.assertGreaterEqual(step, 2)
        self.go(2, steps=step + 3, resume=True)
        resumed = self.outcome()
        self.begin_afresh()
        self.go(2, steps=step + 3)
        self.assertEqual(resumed, self.outcome())

    def test_signal_while_ranks_are_waited_for(self):
        port, = free_ports(1)
        variables = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        words = self.command(2, launched=True)

        def begin(rank):
            return self.start(words, env=cli_testing.environment() | variables | {"RANK": rank})

        def stop(process):
            process.send_signal(signal.SIGUSR1)
            _, text = process.communicate(timeout=600)
            self.assertEqual(process.returncode, 75, text)
            self.assertNotIn("error", text)
            self.assert_nothing_left()
        # The first one alone, where the others would meet.
        first = begin("0")
        self.wait_for(lambda: is_listening(port), first)
        stop(first)
        # Another one, where nobody listens.
        alone = begin("1")
        self.wait_for(lambda: handles(alone.pid, signal.SIGUSR1), alone)
        stop(alone)
        # And one that has found somebody there who does not answer.
        with socket.create_server(("127.0.0.1", port)) as silent:
            second = begin("1")
            with silent.accept()[0]:
                stop(second)

    def test_config_from_a_pipe(self):
        """Can be read once, and every rank reads it: one that had not would be refused."""
        reading, writing = os.pipe()
        with os.fdopen(writing, "w", encoding="utf-8") as pipe:
            json.dump({"optimizer": {"type": "AdamW", "params": {"lr": 0.01}}}, pipe)
        result = run(*self.command(2, config=f"/dev/fd/{reading}", lr=None, steps=1),
                     pass_fds=[reading])
        os.close(reading)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.rows()[0]["lr"], 0.01)

    def test_threads_are_the_cores_that_a_rank_may_use(self):
        core = min(os.sched_getaffinity(0))

        def on_one(*words):
            result = run(*words, preexec_fn=lambda: os.sched_setaffinity(0, {core}))
            self.assertEqual(result.returncode, 0, result.stderr)
            return result.stdout
        on_one(*self.command(1, threads=None, steps=1))
        self.assert_run(run(*self.command(1, threads=2, steps=2, resume=True)), 2, "threads was 1")
        self.assertEqual(json.loads(on_one("bench", "adam", "--params", 1000, "--json"))["threads"], 1)

    def test_mpirun(self):
        if shutil.which("mpirun") is None:
            self.skipTest("no mpirun")
        expected, _ = self.reference(2)
        words = ["mpirun", "-n", "2", "--bind-to", "none", "--oversubscribe",
                 *(["--allow-run-as-root"] if os.geteuid() == 0 else []), cli_testing.program(),
                 *map(str, self.command(2, launched=True))]
        result = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False,
                                env=cli_testing.environment())
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.outcome(), expected)


if __name__ == "__main__":
    cli_testing.main()
