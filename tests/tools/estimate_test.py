#!/usr/bin/env python3
"""estimate against train, which must keep to its numbers, and forecasts in the metrics."""

import json
import os
import subprocess
import sys

import cli_testing
from cli_testing import CliTest, parameter_count, read_json, read_rows, run

MIB = 1 << 20
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden",
                      "model_shapes.json")


class EstimateTest(CliTest):
    config = dict(cli_testing.TINY, vocab_size=512, n_positions=64, n_embd=64, n_layer=3)

    def estimate_flags(self, **changes):
        """train's flags for the same run."""
        words = self.flags(**{"seq_len": 32, "steps": 1, **changes})
        return ["estimate", *words[1:]]

    def ask(self, *words, code=0, variables=None):
        result = run(*words, "--json", variables=variables)
        self.assertEqual(result.returncode, code, result.stderr + result.stdout)
        self.stderr = result.stderr
        return json.loads(result.stdout)

    def config_of(self, name, **changes):
        """A folder with the config of a known model, and nothing else."""
        return os.path.dirname(self.write(f"{name}/config.json",
                                          dict(read_json(GOLDEN)[name]["config"], **changes)))


class AgainstTrain(EstimateTest):
    def exit_code(self, **changes):
        self.output = self.path(f"out-{len(os.listdir(self.dir))}")
        return self.train(seq_len=32, steps=1, no_export=True, **changes).returncode

    def test_smallest_budgets_are_trains(self):
        for changes in ({}, {"swap": None, "offload": None, "device_memory": "8MiB"},
                        {"lora_r": 4, "freeze": "h.0"}):
            with self.subTest(changes):
                said = self.ask(*self.estimate_flags(**changes))
                self.assertTrue(said["fits"])
                self.assertEqual(said["activations_from"], "dry run")
                adapters = 2 if "lora_r" in changes else 0  # of h.1 and h.2, those of h.0 frozen
                parameters = parameter_count(self.config)
                self.assertEqual(said["model"]["parameters"],
                                 parameters + (adapters and 3) * 4 * 4 * 64)
                self.assertEqual(said["model"]["trainable_parameters"],
                                 adapters * 4 * 4 * 64 or parameters)
                host, device = said["min_host_bytes"], said["min_device_bytes"]
                self.assertEqual(self.exit_code(**{**changes, "host_memory": host}), 0)
                self.assertEqual(self.exit_code(**{**changes, "host_memory": host - 1}), 3)
                if "swap" in changes:
                    continue
                self.assertEqual(self.exit_code(**{**changes, "device_memory": device}), 0)
                self.assertEqual(self.exit_code(**{**changes, "device_memory": device - 1}), 3)
                if not changes:
                    pair = {"host_memory": said["feasible"]["host_bytes"],
                            "device_memory": said["feasible"]["device_bytes"]}
                    self.assertEqual(self.exit_code(**pair), 0)

    def test_traffic_is_what_a_run_moves(self):
        said = self.ask(*self.estimate_flags(), "--drive-writes-per-day", "1920GB")
        self.assert_run(self.train(seq_len=32, steps=5, no_export=True, no_commit=True), 0)
        moved = read_rows(self.output + "/metrics.jsonl")[2]["bytes"]
        self.assertEqual(said["bytes_read_per_step"], moved["nvme_read"])
        self.assertEqual(said["bytes_written_per_step"], moved["nvme_written"])
        self.assertGreater(moved["nvme_written"], 12 * parameter_count(self.config))
        self.assertAlmostEqual(said["drive_days_per_step"], moved["nvme_written"] / 1.92e12, places=12)


class Shapes(EstimateTest):
    def test_large_models_are_answered_in_little_memory(self):
        model = self.config_of("Llama-3.1-405B")
        words = ["estimate", "--model", model, "--swap", self.swap, "--device-memory", "2GiB",
                 "--host-memory", "8GiB", "--json"]
        process = self.start(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(process.returncode, 0)
        said = json.loads(out)
        self.assertEqual(said["model"]["parameters"], 405853388800)
        self.assertFalse(said["fits"])
        if "asan" not in cli_testing.program():
            self.assertLess(usage.ru_maxrss * 1024, 800 * MIB)

    def test_gpt2_that_can_not_be_trained_still_has_a_shape(self):
        self.write("model-in/config.json", dict(self.config, add_cross_attention=True))
        said = self.ask("estimate", "--model", self.model)
        self.assertFalse(said["trainable"])
        self.assertIn("cross-attention", " ".join(said["model"]["notes"]))


class BadInput(EstimateTest):
    def refuse(self, *words, flags):
        result = run("estimate", *flags)
        self.assert_run(result, 2, *words)
        self.assertEqual(result.stdout, "")

    def test_refused_by_name(self):
        self.refuse("--model", flags=[])
        self.refuse("config.json", flags=["--model", self.path("nowhere")])
        self.refuse("--dry-run", "maybe", flags=["--model", self.model, "--dry-run", "maybe"])
        self.refuse("--seq-len", "64", flags=["--model", self.model, "--seq-len", "65"])
        self.refuse("--hots-memory", "--host-memory",
                    flags=["--model", self.model, "--hots-memory", "1GiB"])
        self.refuse("--dry-run", flags=["--model", self.config_of("gemma-2b"),
                                        "--dry-run", "yes"])

    def test_flags_that_train_refuses_with_the_model(self):
        for flags in (["--text-keys", "a"], ["--mask-probability", "0.2"],
                      ["--metric", "accuracy", "--eval-data", self.data]):
            with self.subTest(flags):
                refused = run(*self.flags(seq_len=32, steps=1), *flags)
                self.assert_run(refused, 2, flags[0])
                said = refused.stderr.partition("error: ")[2].strip()
                self.refuse(said, flags=["--model", self.model, *flags])
                self.assert_nothing_left()
        # What a model that is not trained here is for is not known.
        self.assert_run(run("estimate", "--model", self.config_of("gemma-2b"), "--text-keys", "a"), 0)


class Forecasts(EstimateTest):
    def setUp(self):
        super().setUp()
        self.profile = self.path("cache/profile.json")
        self.variables = {"SPILLWAY_PROFILE": self.profile}

    def run_train(self, **changes):
        self.output = self.path(f"out-{len(os.listdir(self.dir))}")
        # In auto a measured profile may choose fp32 products, and without a profile none is chosen.
        result = run(*self.flags(**{"seq_len": 32, "no_export": True, "compute": "bf16", **changes}),
                     variables=self.variables)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr, read_rows(self.output + "/metrics.jsonl")

    def test_every_row_has_prediction_bound_and_what_binds(self):
        for changes in ({"clip": 0}, {"swap": None, "offload": None}):
            with self.subTest(changes):
                log, rows = self.run_train(**changes)
                self.assertIn("a step, bound by", log)
                self.assertEqual(len(rows), 4)
                for row in rows:
                    self.assertEqual(set(row["binding"]), {"forward", "backward", "flush"})
                    for resource in row["binding"].values():
                        self.assertIn(resource, row["busy_seconds"])
                    self.assertGreater(row["bound_seconds"], 0)
                    self.assertGreaterEqual(row["predicted_seconds"], row["bound_seconds"])
                    self.assertGreater(row["binding_seconds"], 0)
                    self.assertLessEqual(row["binding_seconds"], row["seconds"] * 1.01 + 1e-3)
                self.assertEqual(len({row["predicted_seconds"] for row in rows}), 1)
        # The same run gives the same numbers with and without.
        losses = [row["loss"] for row in self.run_train()[1]]
        self.variables = {"SPILLWAY_PROFILE": "off"}
        log, rows = self.run_train()
        self.assertEqual([row["loss"] for row in rows], losses)
        for row in rows:
            for key in ("binding", "binding_seconds", "predicted_seconds", "bound_seconds"):
                self.assertIsNone(row[key])
        self.assertNotIn("forecast", log)

    def test_rates_are_kept_and_measured_again_when_foreign(self):
        self.assertIn("swap paths measured", self.run_train()[0])
        self.assertFalse([name for name in os.listdir(self.swap) if "probe" in name])
        self.assertNotIn("swap paths measured", self.run_train()[0])
        profile = read_json(self.profile)
        ((machine, part),) = profile["machines"].items()
        (entry,) = part["disks"].values()
        self.assertGreater(entry["read_bytes_per_second"], 0)
        self.write(self.profile, dict(profile, machines={"another": part}))
        self.assertIn("swap paths measured", self.run_train()[0])
        # A slow disk in the profile is what estimate goes by.
        (key,) = part["disks"]
        slow = dict(entry, read_bytes_per_second=1e6, write_bytes_per_second=1e6,
                    mixed_bytes_per_second=1e6)
        self.write(self.profile, dict(profile, machines={machine: dict(part, disks={key: slow})}))
        said = self.ask(*self.estimate_flags(steps=4), variables=self.variables)
        moved = said["bytes_read_per_step"] + said["bytes_written_per_step"]
        self.assertAlmostEqual(said["bound_seconds"], moved / 1e6, delta=0.2 * moved / 1e6)
        self.assertEqual(said["binding"]["forward"], "disk")

    def test_swap_of_another_machine_is_planned_without_times(self):
        said = self.ask(*self.estimate_flags(swap=self.path("elsewhere")),
                        variables=self.variables)
        self.assertIsNone(said["predicted_seconds"])
        self.assertGreater(said["bytes_written_per_step"], 0)
        self.assertIn("elsewhere", self.stderr)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    cli_testing.main()
