#!/usr/bin/env python3
"""Signals and resuming: stopping commits, and the same command with --resume ends alike."""

import os
import pty
import shutil
import signal
import time
from subprocess import DEVNULL

import cli_testing
from cli_testing import CliTest, read_text, run
from ranks_testing import end_all


def send_before(number):
    """What a new process does to begin with this signal waiting until it takes any."""
    def send():
        signal.pthread_sigmask(signal.SIG_BLOCK, [number])
        os.kill(os.getpid(), number)
    return send


class SignalsTest(CliTest):
    steps = 60

    def command(self, **changes):
        return self.flags(**{"steps": self.steps, **changes})

    def outcome(self):
        return super().outcome(columns=("step", "loss", "grad_norm"))

    def uninterrupted(self, **changes):
        result = run(*self.command(**changes))
        self.assertEqual(result.returncode, 0, result.stderr)
        outcome = self.outcome()
        self.begin_afresh()
        return outcome

    def stop(self, number, after_rows=3, **changes):
        """Starts a run far too long to end and stops it; its exit code."""
        process = self.start(self.command(**changes), stderr=DEVNULL)
        self.wait_for_rows(process, after_rows)
        process.send_signal(number)
        return process.wait(60)

    def evaluations(self):
        return cli_testing.read_rows(os.path.join(self.output, "eval.jsonl"))

    def test_each_signal(self):
        # The steps of a schedule-free run may grow, so the stopped run is a very long one.
        for number, changes in ((signal.SIGTERM, {}), (signal.SIGINT, {"clip": 0}),
                                (signal.SIGUSR1, {}), (signal.SIGHUP, {})):
            self.begin_afresh()
            with self.subTest(number.name, **changes):
                process = self.start(self.command(steps=1000000, **changes))
                self.wait_for_rows(process, 3)
                process.send_signal(number)
                _, text = process.communicate(timeout=600)
                self.assertEqual(process.returncode, 75)
                self.assertIn(number.name, text)
                self.assertIn("--resume", text)
                found = self.inspect()
                self.assertGreaterEqual(found["step"], 3)
                self.assertFalse(found["finished"])
                self.assertFalse(os.path.exists(os.path.join(self.output, "model")))
                self.steps = found["step"] + 10
                result = run(*self.command(resume=True, **changes))
                self.assert_run(result, 0, f"resuming after step {found['step']}")
                resumed = self.outcome()
                self.begin_afresh()
                self.assertEqual(resumed, self.uninterrupted(**changes))

    def test_signal_before_a_step_is_taken(self):
        """Nothing is begun then, and whoever puts the job into the queue again can go on."""
        for number, ranks in ((signal.SIGTERM, None), (signal.SIGINT, 2), (signal.SIGUSR1, None)):
            with self.subTest(number.name, ranks=ranks):
                result = run(*self.command(ranks=ranks), preexec_fn=send_before(number))
                self.assert_run(result, 75, f"stopped by {number.name} before a step was taken: "
                                "nothing was begun; continue with the same command and --resume")
                self.assertNotIn("error", result.stderr)
                self.assert_nothing_left()
        self.assert_run(run(*self.command(steps=4)), 0)
        before = self.inspect()
        result = run(*self.command(resume=True), preexec_fn=send_before(signal.SIGUSR1))
        self.assert_run(result, 75, "what was committed stands")
        self.assertEqual(self.inspect(), before)

    def test_signal_while_the_data_is_read(self):
        # As much as takes minutes, of which nothing is on the disk.
        data = self.path("zeros.txt")
        with open(data, "wb") as file:
            file.truncate(64 << 30)
        process = self.start(self.command(data=data, tokenizer="chars"))

        def reads():
            files = f"/proc/{process.pid}/fd"
            return data in [os.readlink(os.path.join(files, name)) for name in os.listdir(files)
                            if os.path.lexists(os.path.join(files, name))]
        self.wait_for(reads, process)
        process.send_signal(signal.SIGUSR1)
        _, text = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 75, text)
        self.assertIn("stopped by SIGUSR1 before a step was taken", text)
        self.assert_nothing_left()

    def test_each_signal_to_three_ranks(self):
        """One after the other, to the process that started them; the run goes on each time."""
        flags = {"ranks": 3, "micro_batch": 1}
        step = 0
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
            with self.subTest(number.name):
                self.assertEqual(self.stop(number, after_rows=step + 2, steps=1000000,
                                           resume=step > 0, **flags), 75)
                self.assertIn(number.name, read_text(self.output, "run.json"))
                self.assertGreaterEqual(self.inspect()["step"], step + 2)
                step = self.inspect()["step"]
        self.steps = step + 3
        self.assert_run(run(*self.command(resume=True, **flags)), 0, f"after step {step}")
        resumed = self.outcome()
        self.begin_afresh()
        self.assertEqual(resumed, self.uninterrupted(**flags))

    def test_a_terminal_that_is_closed(self):
        """What it says goes nowhere then, and SIGHUP comes: to one rank, or to the process that started
        three."""
        for ranks in (None, 3):
            with self.subTest(ranks=ranks):
                self.begin_afresh()
                pid, terminal = pty.fork()
                if pid == 0:
                    words = [cli_testing.program(), *map(str, self.command(steps=1000000, ranks=ranks))]
                    os.execve(words[0], words, cli_testing.environment())
                os.set_blocking(terminal, False)

                def has_rows(terminal=terminal):
                    try:
                        os.read(terminal, 1 << 16)  # unread, it would hold up the run
                    except BlockingIOError:
                        pass
                    return len(self.rows()) >= 3
                self.wait_for(has_rows)
                os.close(terminal)
                ended = []
                self.wait_for(lambda: ended.append(os.waitpid(pid, os.WNOHANG)) or ended[-1][0],
                              seconds=120)
                self.assertEqual(os.waitstatus_to_exitcode(ended[-1][1]), 75)
                self.assertGreaterEqual(self.inspect()["step"], 3)
                self.assertIn("SIGHUP", read_text(self.output, "run.json"))

    def test_nohup(self):
        for ranks in (None, 3):
            with self.subTest(ranks=ranks):
                self.begin_afresh()
                process = self.start(self.command(steps=1000000, ranks=ranks), stderr=DEVNULL,
                                     preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
                self.wait_for_rows(process, 2)
                process.send_signal(signal.SIGHUP)
                self.wait_for_rows(process, len(self.rows()) + 3)
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(60), 75)

    def test_commits_by_time(self):
        """kill -9 takes what came after the last one, and no more; `auto` has none so soon."""
        manifest = os.path.join(self.output, "manifest-rank0")
        process = self.start(self.command(steps=1000000), stderr=DEVNULL)
        self.wait_for_rows(process, 20)
        self.assertFalse(os.path.exists(manifest))
        process.kill()
        process.wait()
        settings = cli_testing.read_json(self.output, "config.resolved.json")
        self.assertEqual(settings["commit-every"], {"value": "auto", "source": "default"})
        self.assert_run(run("inspect", self.output), 2, "has made no commit", "starts at step 1")
        for ranks in (None, 3):
            with self.subTest(ranks=ranks):
                self.begin_afresh()
                flags = {"ranks": ranks, "commit_every": "0.01s"}
                process = self.start(self.command(steps=1000000, **flags))
                self.wait_for(lambda: os.path.exists(manifest), process)
                first = self.inspect_while_it_runs()
                self.wait_for(lambda: self.inspect_while_it_runs() > first, process)
                end_all(self, process, signal.SIGKILL)
                _, said = process.communicate(timeout=60)
                self.assertIn("\n  commits    about every 0.01 s, and at the end\n", said)
                step = self.inspect()["step"]
                self.steps = step + 5
                self.assert_run(run(*self.command(resume=True, **flags)), 0, f"after step {step}")
                resumed = self.outcome()
                self.begin_afresh()
                self.assertEqual(resumed, self.uninterrupted(ranks=ranks))

    def inspect_while_it_runs(self):
        """The step of the last commit; -1 where the run has replaced it meanwhile."""
        result = run("inspect", self.output, "--json")
        return cli_testing.json.loads(result.stdout)["step"] if result.returncode == 0 else -1

    def test_allowed_changes(self):
        self.assert_run(run(*self.command(steps=4)), 0)
        lr = {"lr": "1e-4", "steps": 6, "resume": True}
        self.assert_run(run(*self.command(**lr)), 2, "lr was 5e-05 and is now 1e-04",
                        "--allow-change lr to go on with the new ones from step 5 on")
        self.assert_run(run(*self.command(**lr, seed=7, allow_change="lr")), 2, "seed was 42")
        result = run(*self.command(**lr, allow_change="lr,clip"))
        self.assert_run(result, 0, "from step 5 on this is not the run that was asked for first",
                        "lr 1e-04 instead of 5e-05")
        self.assertNotIn("clip", result.stderr)
        self.assertEqual([row["lr"] for row in self.rows()], [5e-5] * 4 + [1e-4] * 2)
        # The new value is the run's by now, and what it was is not forgotten.
        lr["steps"] = 8
        self.assert_run(run(*self.command(**lr)), 0, "resuming after step 6")
        self.assert_run(run(*self.command(resume=True, steps=8)), 2, "lr was 1e-04")
        changes = [{"step": 5, "name": "lr", "from": "5e-05", "to": "1e-04"}]
        self.assertEqual(self.inspect()["changes"], changes)
        self.assertEqual(cli_testing.read_json(self.output, "run.json")["changes"], changes)
        self.assertIn("From step 5 on: lr 1e-04 instead of 5e-05",
                      read_text(self.output, "report.html"))

    def test_another_batch_goes_on_with_the_next_samples(self):
        """With weights that stay, and no dropout, a step's loss is that of its samples."""
        self.write("model-in/config.json", dict(self.config, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
        still = {"lr": "1e-30", "weight_decay": 0}
        self.assert_run(run(*self.command(steps=5, micro_batch=4, **still)), 0)
        whole = [row["loss"] for row in self.rows()]
        self.begin_afresh()
        self.assert_run(run(*self.command(steps=4, micro_batch=2, **still)), 0)
        change = dict(still, resume=True, allow_change="micro-batch")
        self.assert_run(run(*self.command(steps=5, micro_batch=4, **change)), 0,
                        "micro-batch 4 instead of 2")
        # Four steps of two samples, and one of four; then two of two.
        self.assertEqual(self.rows()[4]["loss"], whole[2])
        self.assert_run(run(*self.command(steps=7, micro_batch=1, accumulate=2, **change)), 0)
        halves = [row["loss"] for row in self.rows()[5:]]
        self.assertAlmostEqual(sum(halves) / 2, whole[3], places=3)
        # Of an epoch those steps are left that its other samples make.
        windows = (2000 - 1) // 16
        self.assert_run(run(*self.command(steps=None, epochs=1, micro_batch=4, **change)), 0)
        self.assertEqual(self.rows()[-1]["step"], 7 + (windows - 16) // 4)

    def test_nobody_reads_the_log(self):
        process = self.start(self.command(steps=1000000))
        self.wait_for_rows(process, 1)
        process.stderr.close()
        process.send_signal(signal.SIGTERM)  # of which the log has lines
        self.assertEqual(process.wait(60), 75)
        self.assertGreaterEqual(self.inspect()["step"], 1)

    def test_begins_without_standard_streams(self):
        """Where the log would go into a file of the run's own. The process has the program's name, as
        `pkill spillway` looks for it, though the program starts itself again (OMP_WAIT_POLICY)."""
        environment = cli_testing.environment()
        environment.pop("OMP_WAIT_POLICY", None)
        process = self.start(self.command(steps=1000000), env=environment,
                             preexec_fn=lambda: os.closerange(0, 3))
        self.wait_for_rows(process, 1)
        self.assertEqual([os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in range(3)],
                         ["/dev/null"] * 3)
        self.assertEqual(read_text(f"/proc/{process.pid}/comm").strip(), "spillway")

    def test_signal_while_starting(self):
        """Whenever it comes: 75 or the signal's own end before it is handled, and all resumes."""
        expected = self.uninterrupted()

        def there(name):
            return lambda: os.path.exists(os.path.join(self.output, name))
        for moment in (there("lock"), lambda: os.listdir(self.swap), there("metrics.jsonl"),
                       lambda: self.rows()):
            process = self.start(self.command(), stderr=DEVNULL)
            while process.poll() is None and not moment():
                time.sleep(0.001)
            process.send_signal(signal.SIGTERM)
            self.assertIn(process.wait(60), (0, 75, -signal.SIGTERM))
            result = run(*self.command(resume=True))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(self.outcome(), expected)
            self.begin_afresh()

    def test_without_commits(self):
        self.assertEqual(self.stop(signal.SIGTERM, steps=1000000, no_commit=True), 1)
        self.assertEqual(os.listdir(self.swap), [])

    def test_resume_of_nothing(self):
        result = run(*self.command(resume=True))
        self.assert_run(result, 0, "no commit in", "starting at step 1")
        self.assertEqual([row[0] for row in self.outcome()["rows"]],
                         list(range(1, self.steps + 1)))

    def test_resume_of_a_finished_run(self):
        self.assert_run(run(*self.command()), 0)
        expected = self.outcome()
        self.assert_run(run(*self.command(resume=True)), 0, "already finished")
        self.assertEqual(self.outcome(), expected)
        # Without the config.json, written last, an export is not whole.
        for lost in ("model/config.json", "model"):
            path = os.path.join(self.output, lost)
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
            self.assert_run(run(*self.command(resume=True)), 0, "exported")
            self.assertEqual(self.outcome(), expected)
            self.assertTrue(os.path.exists(self.path("out/model/config.json")))

    def test_signal_in_the_last_evaluation(self):
        held_out = self.path("held-out.bin")
        cli_testing.write_tokens(held_out, 40000, self.config["vocab_size"], seed=5)
        flags = {"steps": 4, "eval_data": held_out}
        # An evaluation takes longer than a step, and that before the first step is over with its row.
        process = self.start(self.command(**flags))
        self.wait_for_rows(process, 3)
        process.send_signal(signal.SIGTERM)
        _, text = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 75, text)
        self.assertFalse(os.path.exists(self.path("out/model")))
        self.assertFalse(self.inspect()["finished"])
        result = run(*self.command(resume=True, **flags))
        self.assert_run(result, 0, "held-out loss", "exported")
        self.assertTrue(self.inspect()["finished"])
        self.assertEqual([row["step"] for row in self.evaluations()], [0, 4])
        self.assertEqual([row["step"] for row in self.rows()], [1, 2, 3, 4])
        # What is there stays, whatever is asked for.
        result = run(*self.command(resume=True, export_dtype="fp16", **flags))
        self.assert_run(result, 0, "already finished", "stays as it is", "spillway export --from")

    def test_fewer_steps_end_at_the_commit(self):
        """As a run that was made for more would not be finished there."""
        held_out = self.path("held-out.bin")
        cli_testing.write_tokens(held_out, 300, self.config["vocab_size"], seed=5)
        flags = {"eval_data": held_out, "commit_every": 3}
        for fewer in (0, 1):
            self.begin_afresh()
            self.stop(signal.SIGKILL, after_rows=8, steps=1000000, **flags)
            step = self.inspect()["step"]
            self.assert_run(run(*self.command(resume=True, steps=step - fewer, **flags)), 0,
                            f"resuming after step {step}", "exported")
            self.assertTrue(self.inspect()["finished"])
            self.assertEqual([row["step"] for row in self.rows()], list(range(1, step + 1)))
            self.assertEqual([row["step"] for row in self.evaluations()], [0, step])

    def test_changed_identity_is_named(self):
        self.assert_run(run(*self.command(steps=4)), 0)
        before = self.inspect()
        other = self.path("other.bin")
        cli_testing.write_tokens(other, 1000, self.config["vocab_size"], seed=9)
        changes = {"lr": "3e-4", "seed": 43, "micro_batch": 1, "accumulate": 3, "dtype": "fp32",
                   "clip": 0.5, "threads": 2, "schedule": "cosine", "optimizer": "sgd",
                   "order": "sequential", "seq_len": 8, "data": other}
        for steps in (4, 6):  # all differences are named at once
            self.assert_run(run(*self.command(resume=True, steps=steps, **changes)), 2,
                            "lr was 5e-05 and is now 3e-04", "seed was 42 and is now 43",
                            "micro-batch was 2 and is now 1", "(--accumulate x ranks) were 1",
                            "dtype was bf16 and is now fp32", "clip was", "threads was 1",
                            "schedule was", "optimizer was adamw and is now sgd", "order was",
                            "seq-len was 16 and is now 8", "; what --data ", "is not what the run was begun with")
        self.write("model-in/config.json",
                   cli_testing.json.dumps(dict(self.config, layer_norm_epsilon=1e-4)))
        self.assert_run(run(*self.command(resume=True, steps=6)), 2, "model was")
        self.assertEqual(self.inspect(), before)

    def test_free_changes_keep_the_bits(self):
        second, third = self.path("second-swap"), self.path("third-swap")
        os.mkdir(second)
        os.mkdir(third)
        # Of one run, each two steps after the one before, whose export gives way to the next one's.
        all_changes = ({}, {"device_memory": "200MiB", "host_memory": "100MiB"}, {"swap": second},
                       {"swap": f"{self.swap},{second},{third}"}, {"io_engine": "threads"},
                       {"offload": "cpu"}, {"offload": "none", "host_memory": "256MiB"},
                       {"offload": "auto", "swap": None}, {"commit_every": 1},
                       {"offload": "cpu", "offload_optimizer": "nvme"}, {})
        expected = self.uninterrupted(steps=2 * len(all_changes))
        for i, changes in enumerate(all_changes):
            with self.subTest(changes):
                result = run(*self.command(**{"resume": i > 0, "steps": 2 * i + 2, **changes}))
                self.assert_run(result, 0, *([f"resuming after step {2 * i}"] if i > 0 else []))
                stays = (changes.get("swap", self.swap) or "").split(",")
                for parent in (self.swap, second, third):
                    self.assertEqual(len(os.listdir(parent)), parent in stays, parent)
        self.assertEqual(self.outcome(), expected)


if __name__ == "__main__":
    cli_testing.main()
