#!/usr/bin/env python3
"""examples/train_cnn, a model that the engine knows nothing of: it learns through NVMe, ends
with the same bits in memory, and resumes. Beside spillway, which reads its commits."""

import os
import signal
import subprocess

import cli_testing
from cli_testing import OneCoreTest, environment, read_rows

PARAMETERS = 1165416


class CnnTest(OneCoreTest):
    def command(self, output, *more, steps=8, device="64MiB", host="64MiB"):
        program = os.path.join(os.path.dirname(cli_testing.program()), "train_cnn")
        return [program, "--output", self.path(output), "--steps", str(steps), "--device-memory",
                device, "--host-memory", host, *more]

    def train(self, output, *more, code=0, **changes):
        result = subprocess.run(self.command(output, *more, **changes), capture_output=True,
                                text=True, timeout=600, env=environment())
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def rows(self, output="out"):
        return super().rows(self.path(output))

    def test_learns(self):
        self.train("out", "--swap", self.swap, steps=40)
        rows = self.rows()
        self.assertEqual(len(rows), 40)
        self.assertLess(rows[-1]["loss"], 0.5 * rows[0]["loss"])
        held_out = read_rows(self.path("out/eval.jsonl"))
        self.assertLess(held_out[-1]["loss"], 0.5 * held_out[0]["loss"])
        # bf16 weight, its residual and a momentum: 8 bytes of state, and the weight twice more.
        self.assertEqual({row["update"] for row in rows}, {"immediate"})
        for name, least in (("nvme_read", 9.9), ("nvme_written", 7.9)):
            moved = sum(row["bytes"][name] for row in rows)
            self.assertGreater(moved, least * PARAMETERS * len(rows))

    def test_same_bits_anywhere_and_resumed(self):
        self.train("nvme", "--swap", self.swap)
        nvme, rows = self.inspect(self.path("nvme")), self.rows("nvme")
        self.assertIn("momentum", next(iter(nvme["digests"].values())))
        # In memory until it is stopped, and then on NVMe. It gives way to who is to stop it.
        command = self.command("stopped")
        process = self.start(command[1:], program_=command[0], stderr=subprocess.DEVNULL,
                             preexec_fn=lambda: os.nice(10))
        self.wait_for(lambda: len(self.rows("stopped")) >= 1, process)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=600), 75)
        self.assertFalse(self.inspect(self.path("stopped"))["finished"])
        begun = len(self.rows("stopped"))
        self.train("stopped", "--swap", self.swap, "--resume")
        stopped = self.rows("stopped")
        self.assertEqual(self.inspect(self.path("stopped"))["digests"], nvme["digests"])
        self.assertEqual([row["loss"] for row in rows], [row["loss"] for row in stopped])
        for each, on_nvme in ((rows, True), (stopped[:begun], False), (stopped[begun:], True)):
            self.assertEqual(sum(row["bytes"]["nvme_read"] for row in each) > 0, on_nvme)

    def test_bad_budgets(self):
        result = self.train("out", code=3, device="1MiB")
        self.assertIn("--device-memory", result.stderr)
        self.train("out", code=2, host="much")
        self.train("out", "--no-such-flag", code=2)
        self.assertFalse(os.path.exists(self.path("out")))


if __name__ == "__main__":
    cli_testing.main()
