#!/usr/bin/env python3
"""tools/gpu_check where there is no GPU: it trains, compares, and says what it does not find."""

import json
import os
import subprocess

import cli_testing
from cli_testing import OneCoreTest, environment, program

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/gpu_check")


class GpuCheckTest(OneCoreTest):
    def check(self, *arguments):
        table = self.path("table.json")
        done = subprocess.run([SCRIPT, "--steps", "2", "--work", self.path("work"), "--json", table, *arguments],
                              capture_output=True, text=True, env=environment(), timeout=600)
        rows = json.load(open(table, encoding="utf-8")) if os.path.exists(table) else []
        return done, {row["check"]: row for row in rows}

    def test_every_placement_ends_with_the_same_bits(self):
        done, rows = self.check("--device", "cpu", "--program", program())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        same = [row for name, row in rows.items() if name.startswith("same bits")]
        self.assertEqual(len(same), 4 * 4)  # dtypes and clipping; placements beside the first
        for row in same:
            self.assertTrue(row["holds"], row)
        losses = [row for name, row in rows.items() if name.startswith("losses beside")]
        self.assertEqual([row["holds"] for row in losses], [True] * 4)
        self.assertIn("| same bits, bf16, clipping, on NVMe, activations too", done.stdout)
        ranks = [row["holds"] for name, row in rows.items() if "ranks, --shard" in name]
        self.assertEqual(ranks, [True] * 4)

    def test_what_is_missing_is_named_and_fails(self):
        done, rows = self.check("--bundle", self.path("nowhere"))
        self.assertEqual(done.returncode, 1)
        self.assertFalse(rows["spillway_gpu_test"]["holds"])
        self.assertIn("tools/build cuda", rows["spillway_gpu_test"]["detail"])

    def test_without_libtorch_it_says_how_to_name_one(self):
        done, _ = self.check("--torch", self.path("nowhere"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--torch DIR", done.stderr)


if __name__ == "__main__":
    cli_testing.main()
