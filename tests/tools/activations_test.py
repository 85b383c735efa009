#!/usr/bin/env python3
"""--offload-activations: where activations are between forward and backward, from outside."""

import json
import os
import re

import cli_testing
from cli_testing import CliTest, read_rows, run

# Of three layers, 8 micro-batches of 2 samples x 32 positions, 64 wide, in bf16.
INPUTS = 3 * 8 * 2 * 32 * 64 * 2


class Activations(CliTest):
    config = dict(cli_testing.TINY, vocab_size=512, n_positions=64, n_embd=64, n_layer=3)

    def words(self, **changes):
        return self.flags(**{"seq_len": 32, "accumulate": 8, "no_export": True, "explain": True, **changes})

    def begin(self, **changes):
        self.output = self.path(f"out-{len(os.listdir(self.dir))}")
        return run(*self.words(**changes))

    def outcome(self, **changes):
        """Digest of the last commit, bytes of a steady step, and what the plan says is spilled."""
        result = self.begin(**changes)
        self.assert_run(result, 0)
        spilled = re.search(r"^  spilled .*$", result.stderr, re.MULTILINE)
        return (self.inspect()["digest"], read_rows(self.output + "/metrics.jsonl")[2]["bytes"],
                spilled and spilled.group())

    def estimate(self, **changes):
        result = run("estimate", *self.words(steps=1, **changes)[1:], "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_little_device_memory_spills_them_unasked(self):
        least = self.estimate(host_memory="64MiB", device_memory="64MiB")["min_device_bytes"]
        digest, _, spilled = self.outcome(device_memory=least)
        self.assertRegex(spilled, r"activations of 3 of 5 units: .* host")
        self.assertEqual(self.outcome(device_memory="64MiB"),
                         (digest, read_rows(self.output + "/metrics.jsonl")[2]["bytes"], None))
        # Who wants them on the device has to give more of it.
        refused = self.begin(device_memory=least, offload_activations="none")
        self.assert_run(refused, 3, "does not fit --device-memory", "at least --device-memory")

    def test_a_run_goes_on_with_them_elsewhere(self):
        digest = self.outcome(steps=6)[0]
        self.assert_run(self.begin(steps=3, offload_activations="nvme"), 0)
        result = run(*self.words(steps=6, resume=True, offload_activations="cpu"))
        self.assert_run(result, 0, "spilled    activations")
        self.assertEqual(self.inspect()["digest"], digest)

    def test_estimate_has_them_by_tier(self):
        kept = self.estimate(offload_activations="none")
        for place, tier in (("cpu", "host"), ("nvme", "nvme")):
            moved = self.estimate(offload_activations=place)
            tiers = moved["tiers"]
            self.assertEqual(tiers[tier]["activations"], INPUTS)
            self.assertEqual(sum(one["activations"] for one in tiers.values()),
                             INPUTS + tiers["device"]["activations"])
            self.assertLess(tiers["device"]["activations"],
                            kept["tiers"]["device"]["activations"] - INPUTS)
            more = INPUTS if place == "nvme" else 0
            for kind in ("bytes_read_per_step", "bytes_written_per_step", "store_bytes"):
                self.assertEqual(moved[kind] - kept[kind], more, kind)
        self.assertEqual(kept["tiers"]["host"]["activations"], 0)

    def test_several_ranks_have_theirs_elsewhere(self):
        digests, read = set(), {}
        for shard, place in (("full", "none"), ("full", "nvme"), ("gradients", "none"), ("gradients", "nvme")):
            with self.subTest(shard=shard, place=place):
                digest, moved, spilled = self.outcome(
                    ranks=2, shard=shard, accumulate=1, steps=3, offload_activations=place)
                digests.add(digest)
                read[place] = moved["nvme_read"]
                self.assertEqual(spilled, None if place == "none" else
                                 f"  spilled    activations of 3 of 5 units: {INPUTS >> 13} KiB nvme")
                self.assertEqual(read[place] - read["none"], INPUTS // 8 if place == "nvme" else 0)
        self.assertEqual(len(digests), 1)


if __name__ == "__main__":
    cli_testing.main()
