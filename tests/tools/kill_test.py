#!/usr/bin/env python3
"""kill -9 at many moments, drawn from a seed: the resumed run ends with the bits of one
never killed. Moments are times (most fall into steps and commits), and calls that change
files (setting up, renames, the export, copies of commits). And so do runs of one rank and three that
signals and kills end in turn."""

import os
import random
import shutil
import signal
import subprocess
import time
import unittest

import cli_testing
from cli_testing import CliTest, read_rows, read_text, run, start
from ranks_testing import end_all

MOMENTS = int(os.environ.get("SPILLWAY_KILL_MOMENTS", "6"))
ENDINGS = int(os.environ.get("SPILLWAY_ENDINGS", "4"))
SEED = int(os.environ.get("SPILLWAY_KILL_SEED", "20240229"))
# A library that kills the program at its Nth call that makes, renames, removes or syncs a
# file (tests/preload/kill_at_call.cc). Sanitizers do not go with preloading.
KILL_AT_CALL = os.environ.get("SPILLWAY_KILL_AT_CALL", "")
# Of a run, by the files that there are in OUTPUT (KillTest.marks).
STAGES = ("before OUTPUT", "initial state", "commits", "export", "after the export")


class KillTest(CliTest):
    kills = 0  # of all cases (tests/tools/kill_many.py counts them)

    # Big enough that writing the state, commits and the export take a while.
    config = dict(cli_testing.TINY, vocab_size=2048, n_positions=32, n_embd=128, n_layer=3,
                  n_head=4)

    def run_flags(self, **changes):
        return self.flags(steps=6, commit_every=2, seq_len=16, eval_data=self.held_out,
                          eval_every=3, persist=self.persist, keep=2, **changes)

    def setUp(self):
        super().setUp()
        self.persist = self.path("persist")
        self.held_out = self.path("held-out.bin")
        cli_testing.write_tokens(self.held_out, 40, self.config["vocab_size"], seed=2)

    def outcome(self):
        self.assertTrue(self.inspect()["finished"])
        evaluations = read_rows(os.path.join(self.output, "eval.jsonl"))
        return super().outcome(columns=("step", "loss", "grad_norm", "lr")) | {
            "evaluations": [(row["step"], row["loss"]) for row in evaluations],
            # The last run may have had no whole step to draw.
            "files": sorted(set(os.listdir(self.output)) - {"timeline.json"}),
            "model": sorted(os.listdir(os.path.join(self.output, "model"))),
            "copies": {name: self.inspect(os.path.join(self.persist, name))["digest"]
                       for name in os.listdir(self.persist) if name.startswith("step-")},
            "swap": [sorted(os.listdir(os.path.join(self.swap, name)))
                     for name in os.listdir(self.swap)],
            "beside": sorted(set(os.listdir(self.dir)) - {"calls"}),
        }

    def begin_afresh(self):
        super().begin_afresh()
        shutil.rmtree(self.persist, ignore_errors=True)

    def marks(self):
        """The files in OUTPUT with which each of STAGES but the first begins."""
        return [os.path.join(self.output, name) for name in ("lock", "manifest-rank0", "model", "model/config.json")]

    def stage(self):
        """The stage that a kill left OUTPUT in."""
        return STAGES[sum(map(os.path.exists, self.marks()))]

    def test_same_bits(self):
        flags = self.run_flags()
        resume = flags + ["--resume"]
        began = time.monotonic()
        self.assertEqual(run(*flags).returncode, 0)
        span = time.monotonic() - began
        expected = self.outcome()
        self.assertEqual([row[0] for row in expected["rows"]], list(range(1, 7)))

        moments = random.Random(SEED)
        stages, kills = {}, 0
        lock = os.path.join(self.output, "lock")
        for moment in range(MOMENTS):
            self.begin_afresh()
            for kill in range(moments.choice((1, 1, 2, 3, 5))):
                process = start(*(flags if kill == 0 else resume))
                # Loading the program is a good part of a run, and nothing is written then: most
                # moments are after OUTPUT has come. The lock is empty when nobody holds it.
                while moment % 5 and process.poll() is None and not (
                        os.path.exists(lock) and os.path.getsize(lock)):
                    time.sleep(0.001)
                time.sleep(moments.uniform(0, 0.8 * span))
                process.kill()
                process.wait()
                if process.returncode == 0:
                    break  # it was faster
                kills += 1
                KillTest.kills += 1
                stages[self.stage()] = stages.get(self.stage(), 0) + 1
            result = run(*resume)
            self.assertEqual(result.returncode, 0, f"moment {moment}: {result.stderr}")
            self.assertEqual(self.outcome(), expected, f"moment {moment}")
        # Which stages were met is the machine's affair: the test below meets each for certain.
        print(f"{MOMENTS} moments, {kills} kills in a run of {span:.2f} s: {stages}")
        self.assertGreater(kills, 0)

    @unittest.skipUnless(KILL_AT_CALL, "SPILLWAY_KILL_AT_CALL is not set")
    def test_at_calls_that_change_files(self):
        flags = self.run_flags(moments="8bit")
        resume = flags + ["--resume"]

        def begin(words, call=0, **stage):
            return start(*words, variables={
                "LD_PRELOAD": KILL_AT_CALL, "SPILLWAY_KILL_AT": str(call),
                "SPILLWAY_KILL_COUNT": self.path("calls"), **stage})

        marks = {"SPILLWAY_KILL_MARKS": ":".join(self.marks())}
        self.assertEqual(begin(flags, **marks).wait(), 0)
        calls = list(map(int, read_text(self.path("calls")).split()))
        expected = self.outcome()
        drawn = random.Random(SEED + 1)
        moments = []
        for stage, count in enumerate(calls):
            # A commit is put off while the one before is under way, so that a run may have fewer calls than were
            # counted. Every run has the first call of each stage. Of the others one is drawn from each part.
            parts = min(count - 1, max(1, MOMENTS // 6) * (3 if STAGES[stage] == "commits" else 1))
            moments += [(stage, 1)] if count else []
            moments += [(stage, drawn.randint(2 + part * (count - 1) // parts, 1 + (part + 1) * (count - 1) // parts))
                        for part in range(parts)]
        stages = {}
        for number, (stage, call) in enumerate(moments):
            where = f"call {call} of {calls[stage]}, {STAGES[stage]}"
            self.begin_afresh()
            ended = begin(flags, call, SPILLWAY_KILL_STAGE=str(stage), **marks).wait()
            self.assertIn(ended, (-9, 0), where)
            if ended == -9:
                KillTest.kills += 1
                self.assertEqual(self.stage(), STAGES[stage])
                stages[STAGES[stage]] = stages.get(STAGES[stage], 0) + 1
            if number % 2 == 0:  # and again, while it gets going again
                KillTest.kills += begin(resume, drawn.randint(1, 30)).wait() == -9
            result = run(*resume)
            self.assertEqual(result.returncode, 0, f"{where}: {result.stderr}")
            self.assertEqual(self.outcome(), expected, where)
        print(f"{len(moments)} of {sum(calls)} calls ({calls}): {stages}")
        self.assertEqual(set(stages), {name for name, count in zip(STAGES, calls) if count})
        self.assertLessEqual({"initial state", "commits", "export"}, set(stages))


class EndingsTest(CliTest):
    """Commits by time, as a default run has them but far more often, and every way to end a process."""
    endings = 0  # of all cases

    def test_drawn_endings(self):
        drawn = random.Random(SEED + 2)
        for ranks in (None, 3):
            flags = self.flags(steps=60, micro_batch=1, ranks=ranks, commit_every="0.02s")
            self.begin_afresh()
            began = time.monotonic()
            self.assert_run(run(*flags), 0)
            span = time.monotonic() - began
            expected, codes = self.outcome(), {}
            while sum(codes.values()) < (ENDINGS + (ranks is None)) // 2:
                self.begin_afresh()
                for _ in range(drawn.choice((1, 2, 3))):
                    number = drawn.choice((signal.SIGTERM, signal.SIGINT, signal.SIGUSR1,
                                           signal.SIGHUP, signal.SIGKILL, signal.SIGKILL))
                    process = self.start(flags + ["--resume"], stderr=subprocess.DEVNULL)
                    time.sleep(drawn.uniform(0.2, 1) * span)
                    code = end_all(self, process, number)
                    # The signal's own where it came before the program handles any.
                    self.assertIn(code, (0, 75, -number), number.name)
                    if code == 0:
                        break  # it was faster
                    codes[code] = codes.get(code, 0) + 1
                    EndingsTest.endings += 1
                result = run(*flags, "--resume")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(self.outcome(), expected, f"{codes} so far, ranks {ranks}")
            print(f"{ranks or 1} ranks, endings in a run of {span:.2f} s: {codes}")


if __name__ == "__main__":
    cli_testing.main()
