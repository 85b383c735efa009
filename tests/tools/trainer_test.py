#!/usr/bin/env python3
"""Flags of Hugging Face's Trainer through the program: ten steps lose what the Trainer's lose."""

import array
import json
import math
import os
import shlex

from cli_testing import CliTest, gpt2_shapes, main, read_rows, run, with_header

GOLDEN = os.path.join(os.path.dirname(__file__), "../golden/trainer.json")


def weights(config):
    """Those of make_trainer.py, by the formula of tests/golden/common.py."""
    shapes = {"transformer." + name: shape for name, shape in gpt2_shapes(config).items()}
    header, data = {}, bytearray()
    for index, name in enumerate(sorted(shapes)):
        scale = 0.5 if name.endswith(".weight") else 0.1
        values = array.array("f")
        for i in range(math.prod(shapes[name])):
            noise = math.sin(i * 12.9898 + (index + 1) * 78.233) * 43758.5453
            values.append(scale * (2 * (noise - math.floor(noise)) - 1))
        begin = len(data)
        data += values.tobytes()
        header[name] = {"dtype": "F32", "shape": shapes[name], "data_offsets": [begin, len(data)]}
    return with_header(json.dumps(header), bytes(data))


def text(i, samples):
    length = 12 if i >= samples else 4 + i * 7 % 20
    return "".join(chr(97 + (i * 5 + j * j * 3 + j * (i % 7)) % 26) for j in range(length))


class TrainerTest(CliTest):
    def test_ten_steps_of_twenty_command_lines_lose_what_the_trainers_lose(self):
        with open(GOLDEN, encoding="utf-8") as file:
            golden = json.load(file)
        self.write("model-in/config.json", golden["config"])
        with open(self.path("model-in/model.safetensors"), "wb") as file:
            file.write(weights(golden["config"]))
        count, held_out = golden["samples"], golden["held_out"]

        def rows(name, indices):
            return self.write(name, "".join(json.dumps({"text": text(i, count)}) + "\n"
                                            for i in indices))

        data, held = rows("data.jsonl", range(count)), rows("held.jsonl", range(count, count + held_out))
        self.assertEqual(len(golden["runs"]), 20)
        for number, one in enumerate(golden["runs"]):
            with self.subTest(one["flags"]):
                # Defaults are not the Trainer's (docs/CONFIG.md).
                usual = [] if "--weight_decay" in one["flags"] else ["--weight_decay", "0"]
                output = self.path(f"run-{number}")
                evaluated = ["--validation_file", held] if "--eval_steps" in one["flags"] else []
                self.assert_run(run(
                    "train", "--model_name_or_path", self.model, "--train_file", data,
                    "--output_dir", output, "--samples", "padded", "--tokenizer", "bytes", "--bf16",
                    "False", "--train_sampling_strategy", "sequential", "--threads", "1",
                    "--no-commit", "--no-export", *shlex.split(one["flags"]), *usual, *evaluated), 0)
                losses = [row["loss"] for row in read_rows(os.path.join(output, "metrics.jsonl"))]
                self.assertEqual(len(losses), len(one["losses"]))
                # Adafactor divides by square roots of sums that are nearly 0 for tokens that have not
                # occurred, which enlarges the rounding of fp32.
                bound = 1e-5 if "adafactor" in one["flags"] else 1e-6
                for found, expected in zip(losses, one["losses"]):
                    self.assertAlmostEqual(found, expected, delta=bound * expected)

    def test_a_rate_that_follows_evaluations_goes_on_where_it_was(self):
        # No evaluation is so much better than the one before.
        kwargs = json.dumps({"patience": 1, "factor": 0.5, "threshold": 0.9})
        flags = {"lr_scheduler_type": "reduce_lr_on_plateau", "schedule_args": kwargs, "steps": 8, "eval_every": 1,
                 "eval_data": self.data, "lr": "1e-3"}
        self.assert_run(self.train(**flags), 0, "the learning rate is")
        whole = self.outcome()
        self.assertGreater(len({row["lr"] for row in self.rows()}), 3)
        self.begin_afresh()
        self.assert_run(self.train(**{**flags, "steps": 4}), 0)
        self.assert_run(self.train(**flags, resume=True), 0)
        self.assertEqual(self.outcome(), whole)
        self.assert_run(self.train(**{**flags, "steps": 10, "eval_every": 3}, resume=True), 2, "eval-every")


if __name__ == "__main__":
    main()
