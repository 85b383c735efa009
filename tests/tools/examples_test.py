#!/usr/bin/env python3
"""The directories of examples/: each one's run, with tiny numbers, does what its README shows."""

import json
import os
import re
import shutil
import subprocess
import unittest

from cli_testing import OneCoreTest, environment, main, program, read_json, read_rows, read_text

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLES = os.path.join(ROOT, "examples")
BIBLE = shutil.which("bible") or os.path.exists(os.path.join(ROOT, ".deps/debian/usr/bin/bible"))


def commands_of(text):
    """The commands that a run shows: lines from "$ " on, with those that they go on in."""
    return re.findall(r"^\$ ((?:.*\\\n)*.*)$", text, re.M)


class ExamplesTest(OneCoreTest):
    def example(self, name, *flags, code=0, said=(), **variables):
        """All that examples/NAME/run says; its variables are given without EXAMPLE_."""
        given = {"EXAMPLE_" + key.upper(): str(value) for key, value in variables.items()}
        result = subprocess.run(
            [os.path.join(EXAMPLES, name, "run"), *flags], capture_output=True, text=True,
            timeout=600, cwd=self.dir,
            env=environment() | {"SPILLWAY": program(), "EXAMPLE_OUT": self.output} | given)
        self.assert_run(result, code, *said)
        return result.stdout + result.stderr

    def answers(self, name="answers.jsonl"):
        return read_rows(os.path.join(self.output, name))

    def test_translation(self):
        text = self.example("translation", rows=16, held_out=2, epochs=1,
                            said=["16 pairs", "rougeL", 'rows have a "translation.de")'])
        self.assertEqual(len(self.answers("answers-1.jsonl")), 2)
        evaluations = read_rows(os.path.join(self.output, "run", "eval.jsonl"))
        self.assertIn("bleu", evaluations[-1])
        # A command that was shown can be done again by hand, and answers alike.
        (again,) = [command for command in commands_of(text) if "--num-beams 4" in command]
        before = self.answers("answers-4.jsonl")
        os.remove(os.path.join(self.output, "answers-4.jsonl"))
        subprocess.run(["bash", "-c", again], check=True, capture_output=True, env=environment())
        self.assertEqual(self.answers("answers-4.jsonl"), before)

    def test_translations_are_german(self):
        make_data = os.path.join(EXAMPLES, "translation", "make_data")
        subprocess.run([make_data, self.dir, "800", "1", "1"], check=True)
        german = " ".join(row["translation"]["de"]
                          for row in read_rows(self.path("train.jsonl")))
        needed = ("Ein Buch kostet ", "einundzwanzig", "siebzehn Uhr", "am dritten ", "am siebten ",
                  "hundert Euro", "sechzehnhundert", " ankommen.")
        self.assertEqual([words for words in needed if words not in german], [])
        wrong = ("einsund", "einshundert", "einstausend", "eins Uhr", "eins Euro", "signull",
                 "hundertnull", "zigzehn")
        self.assertEqual([words for words in wrong if words in german], [])

    def quickstart(self, code=0, said=(), **variables):
        """All that tools/quickstart says; its variables are given without QUICKSTART_."""
        given = {"QUICKSTART_" + key.upper(): str(value) for key, value in variables.items()}
        result = subprocess.run(
            [os.path.join(ROOT, "tools", "quickstart")], capture_output=True, text=True, timeout=600,
            cwd=self.dir, env=environment() | {"SPILLWAY": program(), "QUICKSTART_OUT": self.output} | given)
        self.assert_run(result, code, *said)
        return result.stdout + result.stderr

    @unittest.skipUnless(BIBLE, "bible-kjv is not installed")
    def test_quickstart(self):
        tiny = dict(steps=3, compared_steps=2, warmup=2, vocabulary=280, seq_len=128, micro_batch=1, tokens=3)
        text = self.quickstart(said=["All are equal to the last digit"], **tiny)
        first, again = (read_rows(os.path.join(self.output, run, "metrics.jsonl"))
                        for run in ("run", "again"))
        self.assertEqual(len(first), 3)
        self.assertEqual([row["loss"] for row in again], [row["loss"] for row in first[:2]])
        for row in again:
            self.assertIn(repr(row["loss"]) + " ", text)
        # The state was where the text says: in memory, and on disk within the budgets.
        self.assertEqual(sum(row["bytes"]["nvme_written"] for row in first), 0)
        self.assertGreater(again[-1]["bytes"]["nvme_written"], 0)
        for budget in ("device", "host"):
            self.assertLessEqual(again[-1]["peak_bytes"][budget], 64 * 2 ** 20)
        # Losses of different learning rates are not compared.
        self.quickstart(code=1, said=["QUICKSTART_COMPARED_STEPS=3 is more than QUICKSTART_WARMUP=2"],
                        **tiny | {"compared_steps": 3})

    @unittest.skipUnless(BIBLE, "bible-kjv is not installed")
    def test_dialogue(self):
        self.example("dialogue", rows=24, held_out=4, answers=1, steps=1, micro_batch=2,
                     tokens=300, said=["--ranks 2", "held-out loss before training"])
        (answer,) = self.answers()
        self.assertGreaterEqual(answer["tokens"], 20)
        config = read_json(self.output, "run", "config.resolved.json")
        self.assertIn("gradients", json.dumps(config["shard"]))
        self.assertIn("fp16", json.dumps(config["dtype"]))
        rows = read_rows(os.path.join(self.output, "run", "metrics.jsonl"))
        self.assertEqual(rows[0]["loss_scale"], 2 ** 16)

    def test_bert_classification(self):
        self.example("bert_classification", rows=64, held_out=8, epochs=1,
                     said=["naive bayes", "accuracy", "f1"])
        self.assertLessEqual({row["label"] for row in self.answers()}, {"good", "bad"})
        self.assertEqual(len(self.answers()), 8)
        # A second run replaces the first, and nothing that another made.
        self.example("bert_classification", rows=16, held_out=4, epochs=1, said=["replacing the run"])
        self.assertEqual(len(self.answers()), 4)
        self.example("translation", code=1, said=["not made by translation"])
        self.assertEqual(len(self.answers()), 4)

    @unittest.skipUnless(BIBLE, "bible-kjv is not installed")
    def test_gpt2_xl(self):
        text = self.example("gpt2_xl", steps=0, tokens=300, said=["1,557,611,200 parameters"])
        self.assertIn("It fits --device-memory 2 GiB and --host-memory 1 GiB", text)

    @unittest.skipUnless(shutil.which("espeak-ng"), "espeak-ng is not installed")
    def test_whisper(self):
        self.example("whisper", rows=4, other_rows=4, held_out=2, steps=2, adapter_steps=2,
                     said=["4 sounds", "wer", "the adapter is in"])
        self.assertEqual(len(self.answers("lora-other_held.jsonl")), 2)

    def test_resnet_cifar(self):
        self.example("resnet_cifar", rows=20, held_out=10, epochs=1, micro_batch=10,
                     said=["20 pictures", "crop-flip", "accuracy"])
        self.assertEqual(len(self.answers()), 10)

    def test_each_says_what_it_does(self):
        for name in sorted(os.listdir(EXAMPLES)):
            if not os.path.exists(os.path.join(EXAMPLES, name, "run")):
                continue
            text = self.example(name, "--help", said=[f"examples/{name}/run"])
            self.assertNotIn("source ", text)
            self.example(name, "--nonsense", code=1, said=["takes no argument"])
            self.assertIn(f"examples/{name}/run", read_text(EXAMPLES, name, "README.md"))


if __name__ == "__main__":
    main()
