#!/usr/bin/env python3
"""Masked language models, through the program: from text to a model that fills in masks."""

import json
import os

from cli_testing import CliTest, main, read_json, read_rows, run, safetensors
from model_test import read_tensors

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "one", "two", "three", "four", "five", "six"]
BERT = {"model_type": "bert", "architectures": ["BertForMaskedLM"], "vocab_size": len(WORDS),
        "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 48, "max_position_embeddings": 16, "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0}
SPECIAL = [{"id": i, "content": WORDS[i], "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True} for i in range(5)]
TOKENIZER = {
    "version": "1.0", "added_tokens": SPECIAL, "normalizer": None,
    "pre_tokenizer": {"type": "WhitespaceSplit"},
    "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    "model": {"type": "WordLevel", "vocab": {word: i for i, word in enumerate(WORDS)},
              "unk_token": "[UNK]"}}
NUMBERS = WORDS[5:]


def counting(count):
    """Texts in which each number follows from the one before."""
    return [" ".join(NUMBERS[(i + j) % 6] for j in range(4 + i % 5)) for i in range(count)]


def jsonl(texts):
    return "".join(json.dumps({"text": text}) + "\n" for text in texts)


class MaskedTest(CliTest):
    config = BERT | {"n_positions": 16}

    def setUp(self):
        super().setUp()
        self.write("model-in/config.json", BERT)
        self.write("model-in/tokenizer.json", TOKENIZER)
        self.lines = self.write("train.jsonl", jsonl(counting(48)))
        self.answers = self.path("answers.jsonl")

    def learn(self, **changes):
        return self.train(**{"data": self.lines, "tokenizer": "model", "dtype": "fp32",
                             "seq_len": 12, "samples": "padded", **changes})

    def predict(self, *flags, model=None, data=None):
        if os.path.exists(self.answers):
            os.remove(self.answers)
        return run("predict", "--model", model or os.path.join(self.output, "model"), "--data", data,
                   "--out", self.answers, "--threads", 1, *flags)

    def test_a_model_that_counts_fills_in_masks(self):
        held_out = self.write("dev.jsonl", jsonl(counting(12)))
        result = self.learn(steps=400, micro_batch=16, lr="4e-3", eval_data=held_out, eval_every=200,
                            clip=0, weight_decay=0, offload="none")
        self.assert_run(result, 0, "48 lines; the longest has 10 tokens", "perplexity", "accuracy")
        rows = read_rows(os.path.join(self.output, "eval.jsonl"))
        # Held-out texts are always masked alike.
        self.assertEqual({row["labels"] for row in rows}, {rows[0]["labels"]})
        self.assertGreater(rows[-1]["accuracy"], 0.8)
        self.assertLess(rows[-1]["loss"], rows[0]["loss"] / 2)
        config = read_json(self.output, "model/config.json")
        self.assertEqual(config["architectures"], ["BertForMaskedLM"])
        shapes = read_tensors(os.path.join(self.output, "model/model.safetensors"))
        self.assertIn("cls.predictions.bias", shapes)
        self.assertNotIn("cls.predictions.decoder.weight", shapes)

        data = self.write("masks.txt", "one two [MASK] four\n\nfive six [MASK] two [MASK]\n")
        self.assert_run(self.predict(data=data), 0, "2 texts filled in")
        rows = read_rows(self.answers)
        self.assertEqual([row["filled"] for row in rows],
                         ["one two three four", "five six one two three"])
        self.assertEqual([len(row["masks"]) for row in rows], [1, 2])
        for mask in rows[1]["masks"]:
            chances = [token["probability"] for token in mask]
            self.assertEqual(len(mask), 5)
            self.assertEqual(chances, sorted(chances, reverse=True))
        table = self.write("masks.csv", "line\none two [MASK] four\nfive six [MASK] two [MASK]\n")
        # From a run's commit, one by one, in less memory than all weights take.
        result = self.predict("--text-keys", "line", "--batch", 1, "--device-memory", "70KiB",
                              model=self.output, data=table)
        self.assert_run(result, 0, "2 texts filled in")
        for row, other in zip(rows, read_rows(self.answers)):
            self.assertEqual(row["filled"], other["filled"])
            for mask, again in zip(row["masks"], other["masks"]):
                self.assertAlmostEqual(mask[0]["probability"], again[0]["probability"], places=5)
        # In less than a batch takes, and less than anything.
        for given in ("20KiB", 1):
            refused = self.predict("--device-memory", given, data=data)
            self.assert_run(refused, 3, "answering 2 texts at a time",
                            "at least --device-memory 1MiB")
        self.assert_run(self.predict("--device-memory", "1MiB", data=data), 0)
        # A text that is cut as train would cut it has lost its masks.
        cut = self.predict("--seq-len", 4, data=data)
        self.assert_run(cut, 2, "masks.txt:1", "no [MASK] among its 4 tokens")

    def test_where_state_lies_and_a_stop_change_nothing(self):
        learns = {"steps": 6, "micro_batch": 2, "accumulate": 2}
        self.assert_run(self.learn(**learns, offload="none"), 0)
        whole = self.outcome()
        rows = self.rows()
        self.assertGreater(len({row["labels"] for row in rows}), 1)
        self.begin_afresh()
        self.assert_run(self.learn(**{**learns, "steps": 3}, offload="nvme"), 0)
        self.assert_run(self.learn(**learns, resume=True), 0)
        self.assertEqual(self.outcome(), whole)
        # Two ranks learn from the same masks.
        self.begin_afresh()
        self.assert_run(self.learn(**{**learns, "accumulate": 1}, ranks=2), 0)
        for row, other in zip(rows, self.rows(), strict=True):
            self.assertEqual(row["labels"], other["labels"])
            self.assertAlmostEqual(row["loss"] or 0, other["loss"] or 0, places=4)

    def test_windows_have_what_is_around_a_text(self):
        text = self.write("train.txt", " ".join(counting(40)))
        tokens = self.path("train.bin")
        result = run("tokenize", "--tokenizer", self.model, "--data", text, "--out", tokens)
        self.assert_run(result, 0)
        outcomes = []
        for data in (text, tokens):
            result = self.learn(data=data, samples="windows", steps=6)
            self.assert_run(result, 0, "windows of 12 tokens")
            outcomes.append(self.outcome())
            self.begin_afresh()
        self.assertEqual(*outcomes)

    def test_adapters_and_a_new_head_on_weights_of_another_task(self):
        self.assert_run(self.learn(steps=2), 0)
        trained = read_tensors(os.path.join(self.output, "model/model.safetensors"))
        shapes = {name.removeprefix("bert."): shape for name, (_, shape, _) in trained.items()
                  if not name.startswith("cls")}
        shapes |= {"pooler.dense.weight": [24, 24], "cls.seq_relationship.bias": [2]}
        self.write("model-in/model.safetensors", safetensors(shapes))
        self.begin_afresh()
        result = self.learn(lora_r=2, lora_targets="all-linear", steps=6, lr="1e-2",
                            modules_to_save="cls")
        self.assert_run(result, 0, "begun anew: cls.predictions.bias", "beside 12 matrices")
        config = read_json(self.output, "adapter/adapter_config.json")
        self.assertIsNone(config["task_type"])
        data = self.write("masks.txt", "one two [MASK] four\n")
        self.assert_run(self.predict(model=self.output, data=data), 0, "1 texts filled in")

    def test_an_estimate_masks_as_many_tokens_as_a_run(self):
        # Words that no text has make logits what a step takes.
        self.write("model-in/config.json", BERT | {"vocab_size": 4000})
        learns = {"data": self.lines, "tokenizer": "model", "dtype": "fp32", "seq_len": 12,
                  "samples": "padded", "pad_to_max_length": True, "micro_batch": 16, "steps": 1,
                  "no_export": True, "mask_probability": "0.9"}
        said = run("estimate", *self.flags(**learns)[1:], "--json")
        self.assert_run(said, 0)
        least = json.loads(said.stdout)["min_device_bytes"]
        for device_memory, code in ((least - 1, 3), (least, 0)):
            self.assert_run(self.train(**learns, device_memory=device_memory), code)
            self.begin_afresh()

    def test_bad_input_is_named(self):
        self.assert_run(self.learn(tokenizer="bytes"), 2, "bytes", "[MASK]", "--tokenizer DIR")
        self.assert_run(self.learn(mask_probability=0), 2, "--mask-probability")
        self.assert_run(self.learn(mask_probability="1.5"), 2, "--mask-probability")
        self.assert_run(self.learn(samples="packed"), 2, "--packing")
        self.assert_run(self.learn(seq_len=2), 2, "--seq-len 2")
        self.assert_run(self.learn(label_key="x"), 2, "masked language model")
        self.assert_nothing_left()
        self.assert_run(self.learn(steps=1), 0)
        data = self.write("masks.txt", "one [MASK]\none two\n")
        self.assert_run(self.predict(data=data), 2, "masks.txt:2", "[MASK]")
        result = run("generate", "--model", os.path.join(self.output, "model"), "--prompt", "one")
        self.assert_run(result, 2, "is a masked language model")
        result = run("estimate", "--model", self.model, "--json")
        self.assert_run(result, 0)
        self.assertTrue(json.loads(result.stdout)["model"]["exact"])


if __name__ == "__main__":
    main()
