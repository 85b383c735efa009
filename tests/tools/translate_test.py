#!/usr/bin/env python3
"""Models with an encoder and a decoder, through the program: from pairs of texts to a model that
makes the one of the other."""

import json
import os
import random

from cli_testing import CliTest, main, read_json, read_rows, run

T5 = {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": 256,
      "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0,
      "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 0,
      "is_encoder_decoder": True}


def made_rows(count, seed):
    """A letter, and how often it is said: "b 3" is "bbb"."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        letter, times = draw.choice("abcd"), draw.randint(1, 4)
        rows.append({"id": 1, "say": {"short": f"{letter} {times}", "long": letter * times}})
    return rows


def jsonl(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


class TranslateTest(CliTest):
    config = T5 | {"n_positions": 16}

    def setUp(self):
        super().setUp()
        self.pairs = made_rows(64, 1)
        self.data = self.write("train.jsonl", jsonl(self.pairs))
        self.answers = self.path("answers.jsonl")

    def translate(self, **changes):
        given = {"tokenizer": "bytes", "dtype": "fp32", "seq_len": None, "source_key": "say.short",
                 "target_key": "say.long", "max_source_length": 16, "max_target_length": 8}
        return self.train(**{**given, **changes})

    def predict(self, *flags, model=None, rows=16, said=""):
        if os.path.exists(self.answers):
            os.remove(self.answers)
        data = self.write("asked.jsonl", jsonl(self.pairs[:rows]))
        result = run("predict", "--model", model or os.path.join(self.output, "model"), "--data",
                     data, "--source-key", "say.short", "--out", self.answers, "--tokenizer",
                     "bytes", "--threads", 1, *(flags if "--tokens" in flags else
                                                ["--tokens", 8, *flags]))
        self.assert_run(result, 0, f"{rows} answers", said)
        return read_rows(self.answers)

    def test_pairs_train_a_model_that_answers(self):
        result = self.translate(steps=250, micro_batch=16, lr="1e-2", eval_data=self.data)
        self.assert_run(result, 0, "64 pairs; the longest source has 3 tokens", "target 5")
        rows = self.predict()
        right = sum(row["completion"] == asked["say"]["long"]
                    for row, asked in zip(rows, self.pairs))
        self.assertGreaterEqual(right, 14, rows)
        self.assertEqual({row["stop"] for row in rows}, {"end"})
        # From the run's commit, one by one, and with weights and caches in files.
        for flags in (["--batch", 1], ["--batch", 3, "--swap", self.swap, "--device-memory",
                                       "6MiB", "--host-memory", "1MiB"]):
            self.assertEqual(self.predict(*flags, model=self.output), rows)
        beams = ["--num-beams", 3, "--length-penalty", 2]
        likeliest = self.predict(*beams)
        self.assertGreaterEqual(sum(row == other for row, other in zip(rows, likeliest)), 12)
        tight = ["--swap", self.swap, "--device-memory", "6MiB", "--host-memory", "2MiB",
                 "--tokens", 500]
        self.assertEqual(self.predict(*beams, "--batch", 5, *tight, model=self.output,
                                      said="in files below --swap"), likeliest)
        prompt = self.pairs[0]["say"]["short"]
        said = run("generate", "--model", self.output, "--tokenizer", "bytes", "--prompt", prompt)
        self.assert_run(said, 0)
        self.assertEqual(said.stdout, rows[0]["completion"] + "\n")

    def test_an_estimate_reads_pairs_of_the_lengths_that_are_said(self):
        bart = {"model_type": "bart", "architectures": ["BartForConditionalGeneration"],
                "vocab_size": 256, "d_model": 32, "encoder_layers": 1, "decoder_layers": 2,
                "encoder_attention_heads": 2, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
                "decoder_ffn_dim": 64, "max_position_embeddings": 40, "pad_token_id": 0}
        self.write("model-in/config.json", bart)
        flags = ["estimate", "--model", self.model, "--dry-run", "yes"]
        self.assert_run(run(*flags), 0, "1 x 40 tokens", "in 6 units", "are from a dry run")
        self.assert_run(run(*flags, "--max-source-length", 24), 0, "1 x 24 tokens")
        self.assert_run(run(*flags, "--max-target-length", 41), 2, "--max-target-length 41")
        self.assert_run(run(*flags, "--seq-len", 8), 2, "--max-source-length")

    def test_where_state_lies_changes_nothing(self):
        self.assert_run(self.translate(offload="none"), 0)
        whole = self.outcome()
        self.begin_afresh()
        self.assert_run(self.translate(offload="nvme", offload_activations="nvme",
                                       recompute="all"), 0)
        self.assertEqual(self.outcome(), whole)

    def test_adapters_are_of_the_task_and_a_run_goes_on(self):
        adapts = {"lora_r": 2, "lr": "1e-2", "commit_every": 2}
        self.assert_run(self.translate(**adapts, steps=6), 0, "beside 12 matrices")
        whole = self.outcome()
        config = read_json(self.output, "adapter/adapter_config.json")
        self.assertEqual((config["task_type"], sorted(config["target_modules"])),
                         ("SEQ_2_SEQ_LM", ["q", "v"]))
        self.begin_afresh()
        self.assert_run(self.translate(**adapts, steps=4), 0)
        self.assert_run(self.translate(**adapts, steps=6, resume=True), 0)
        self.assertEqual(self.outcome(), whole)
        rows = self.predict(model=self.output)
        merged = self.path("merged")
        self.assert_run(run("export", "--from", self.output, "--to", merged, "--merge"), 0)
        self.assertEqual([row["completion"] for row in self.predict(model=merged)],
                         [row["completion"] for row in rows])

    def test_bad_input_is_named_with_file_and_line(self):
        good = jsonl(self.pairs[:1])
        cases = [("a.jsonl", good + '{"say": {"short": "a"}}\n', "a.jsonl:2", "--target-key"),
                 ("b.jsonl", good + '{"say": {"short": " ", "long": "a"}}\n', "b.jsonl:2", "empty"),
                 ("c.txt", "text\n", "c.txt", ".jsonl, .csv or .tsv")]
        for name, content, *words in cases:
            self.assert_run(self.translate(data=self.write(name, content)), 2, *words)
            self.assert_nothing_left()
        self.assert_run(self.translate(seq_len=8), 2, "--max-source-length")
        self.assert_run(self.translate(samples="packed"), 2, "--packing")
        self.assert_run(self.translate(label_key="x"), 2, "--label-key")
        self.assert_run(self.translate(max_target_length=1), 2, "train.jsonl:1", "no room")
        self.assert_run(self.translate(max_source_length=2), 0, "of 64 sources are longer than")
        chat = run("generate", "--model", os.path.join(self.output, "model"), "--tokenizer",
                   "bytes", "--prompt", "a 1", "--chat")
        self.assert_run(chat, 2, "conversations are for language models")
        drawn = run("predict", "--model", self.output, "--data", self.data, "--out", self.answers,
                    "--tokenizer", "bytes", "--num-beams", 2, "--temperature", 1)
        self.assert_run(drawn, 2, "--num-beams 2", "--temperature 0")


if __name__ == "__main__":
    main()
