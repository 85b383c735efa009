#!/usr/bin/env python3
"""Encoders that classify texts, through the program: from labelled files to a model that labels."""

import json
import os
import random
import re
import shutil

from cli_testing import CliTest, main, read_json, read_rows, run, safetensors
from model_test import read_tensors

BERT = {"model_type": "bert", "architectures": ["BertForSequenceClassification"],
        "vocab_size": 256, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 48, "max_position_embeddings": 48, "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0, "id2label": {"0": "bad", "1": "good"},
        "label2id": {"bad": 0, "good": 1}}
WORDS = "a film of many people and some music".split()


def made_rows(count, seed):
    """Texts that say their label in one of their words."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        label = draw.randrange(2)
        words = [draw.choice(WORDS) for _ in range(draw.randint(2, 4))]
        words[0] = ["NO", "YES"][label]
        rows.append({"sentence": " ".join(words), "label": ["bad", "good"][label]})
    return rows


def jsonl(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


class ClassifyTest(CliTest):
    config = BERT | {"n_positions": 48}

    def setUp(self):
        super().setUp()
        self.write("model-in/config.json", BERT)
        self.rows_in, self.rows_out = made_rows(64, 1), made_rows(16, 2)
        self.data = self.write("train.jsonl", jsonl(self.rows_in))
        self.held_out = self.write("dev.jsonl", jsonl(self.rows_out))
        self.answers = self.path("answers.jsonl")

    def classify(self, **changes):
        return self.train(**{"tokenizer": "bytes", "dtype": "fp32", "seq_len": 48, **changes})

    def predict(self, *flags, model=None, data=None):
        if os.path.exists(self.answers):
            os.remove(self.answers)
        result = run("predict", "--model", model or os.path.join(self.output, "model"), "--data",
                     data or self.held_out, "--out", self.answers, "--tokenizer", "bytes",
                     "--threads", 1, *flags)
        self.assert_run(result, 0, "16 texts classified")
        return read_rows(self.answers)

    def evaluation(self):
        return read_rows(os.path.join(self.output, "eval.jsonl"))[-1]

    def test_labelled_files_train_a_model_that_labels(self):
        learns = {"steps": 60, "micro_batch": 8, "lr": "5e-3", "eval_data": self.held_out}
        self.assert_run(self.classify(**learns), 0, "64 texts", "accuracy 1.0000")
        evaluation = self.evaluation()
        self.assertEqual((evaluation["accuracy"], evaluation["f1"], evaluation["matthews"]),
                         (1, 1, 1))
        self.assertEqual((evaluation["labels"], evaluation["samples"]), (16, 16))
        self.assertGreater(evaluation["tokens"], 2 * 16)
        row = self.rows()[-1]
        self.assertEqual((row["labels"], row["samples"]), (8, 8))
        self.assertGreater(row["tokens_per_second"], 2 * row["samples_per_second"])
        self.assertNotIn("perplexity", evaluation)
        config = read_json(self.output, "model/config.json")
        self.assertEqual(config["architectures"], ["BertForSequenceClassification"])
        self.assertEqual(config["id2label"], BERT["id2label"])
        self.assertEqual(config["problem_type"], "single_label_classification")
        shapes = read_tensors(os.path.join(self.output, "model/model.safetensors"))
        self.assertIn("bert.pooler.dense.weight", shapes)
        self.assertIn("classifier.bias", shapes)

        rows = self.predict()
        self.assertEqual([row["label"] for row in rows], [row["label"] for row in self.rows_out])
        self.assertEqual([row["text"] for row in rows], [row["sentence"] for row in self.rows_out])
        for row in rows:
            self.assertAlmostEqual(sum(row["scores"].values()), 1, places=5)
        # In less memory than all weights take, from the run's commit, and one by one.
        for flags in (["--batch", 1], ["--batch", 2, "--device-memory", "138KiB"]):
            others = self.predict(*flags, model=self.output)
            for row, other in zip(rows, others):
                self.assertEqual(row["label"], other["label"])
                self.assertAlmostEqual(row["scores"]["good"], other["scores"]["good"], places=5)

    def test_predict_takes_what_train_takes(self):
        self.assert_run(self.classify(steps=1), 0)
        keys = ["--text-key", "sentence", "--label-key", "label"]
        rows = self.predict(*keys)
        self.assertEqual(self.predict(), rows)
        data = self.write("unlabelled.jsonl", jsonl({"sentence": row["sentence"]}
                                                    for row in self.rows_out))
        self.assertEqual(self.predict(*keys, data=data), rows)
        # Cut as train cuts them; a text that is as long says the same.
        cut = self.write("cut.jsonl", jsonl({"text": row["sentence"][:6]} for row in self.rows_out))
        expected = [row["scores"] for row in self.predict(data=cut)]
        rows = self.predict("--max_seq_length", 6)
        self.assertEqual([row["scores"] for row in rows], expected)
        self.assertEqual(rows[0]["text"], self.rows_out[0]["sentence"])
        asked = run("predict", "--model", self.output, "--data", self.held_out, "--out",
                    self.path("none.jsonl"), "--tokenizer", "bytes", "--max-length", 49)
        self.assert_run(asked, 2, "--seq-len 49 is more than the 48 positions")

    def test_too_little_memory_is_said_with_what_would_do(self):
        wide = BERT | {"hidden_size": 192, "intermediate_size": 768, "num_hidden_layers": 2}
        self.write("model-in/config.json", wide)
        self.assert_run(self.classify(steps=1, no_export=True), 0)
        words = ["predict", "--model", self.output, "--data", self.held_out, "--tokenizer", "bytes",
                 "--threads", 1, "--out", self.path("tight.jsonl")]
        expected = self.predict("--device-memory", "256MiB", model=self.output)
        result = run(*words, "--batch", 16, "--device-memory", "1MiB")
        self.assert_run(result, 3, "answering 16 texts at a time", "--batch")
        least = int(re.search(r"at least --device-memory (\d+)MiB", result.stderr).group(1))
        enough = run(*words, "--batch", 16, "--device-memory", f"{least}MiB")
        self.assert_run(enough, 0, "16 texts classified")
        for row, other in zip(expected, read_rows(words[-1])):
            self.assertAlmostEqual(row["scores"]["good"], other["scores"]["good"], places=5)
        self.assert_run(run(*words, "--batch", 16, "--device-memory", f"{least // 2}MiB"), 3)

    def test_what_the_file_is_called_changes_nothing_nor_where_state_lies(self):
        self.assert_run(self.classify(), 0)
        whole = self.outcome()
        table = [[row["label"], row["sentence"]] for row in self.rows_in]
        files = {"train.csv": "label,review\n" + "".join(f'{a},"{b}"\r\n' for a, b in table),
                 "train.tsv": "label\treview\n" + "".join(f"{a}\t{b}\n" for a, b in table)}
        for name, content in files.items():
            self.begin_afresh()
            result = self.classify(data=self.write(name, content), text_keys="review",
                                   offload="none")
            self.assert_run(result, 0)
            self.assertEqual(self.outcome(), whole)

    def test_many_labels_and_numbers(self):
        draw = random.Random(5)
        rows = [row | {"label": [draw.randrange(2), int(row["label"] == "good")]}
                for row in self.rows_in]
        result = self.classify(data=self.write("many.jsonl", jsonl(rows)), eval_data=self.path(
            "many.jsonl"))
        self.assert_run(result, 0, "accuracy", "f1")
        self.assertEqual(read_json(self.output, "model/config.json")["problem_type"],
                         "multi_label_classification")
        self.assertEqual(self.evaluation()["labels"], 128)
        self.assertEqual(set(self.predict()[0]["scores"]), {"bad", "good"})

        self.begin_afresh()
        self.write("model-in/config.json", BERT | {"id2label": {"0": "stars"}, "label2id": None})
        rows = [row | {"label": draw.randrange(9) / 2} for row in self.rows_in]
        data = self.write("stars.jsonl", jsonl(rows))
        self.assert_run(self.classify(data=data, eval_data=data), 0, "pearson", "spearman")
        self.assertEqual(list(self.predict()[0]["scores"]), ["stars"])

    def test_adapters_and_a_new_head_on_weights_of_another_task(self):
        self.assert_run(self.classify(), 0)
        trained = read_tensors(os.path.join(self.output, "model/model.safetensors"))
        shapes = {name.removeprefix("bert."): shape for name, (_, shape, _) in trained.items()
                  if not name.startswith("classifier")}
        shapes["cls.predictions.bias"] = [256]
        self.write("model-in/model.safetensors", safetensors(shapes))
        self.begin_afresh()
        result = self.classify(lora_r=2, lora_targets="all-linear", steps=6, lr="1e-2")
        self.assert_run(result, 0, "begun anew: classifier.bias, classifier.weight",
                        "beside 13 matrices", "classifier.bias and 1 more")
        config = read_json(self.output, "adapter/adapter_config.json")
        self.assertEqual((config["task_type"], config["modules_to_save"]),
                         ("SEQ_CLS", ["classifier"]))
        self.assertEqual(len(self.predict(model=self.output)), 16)
        result = run("predict", "--model", self.model, "--data", self.held_out, "--out",
                     self.answers + ".jsonl", "--tokenizer", "bytes")
        self.assert_run(result, 2, "classifier.bias", "missing")

    def test_an_adapter_brings_its_task_and_its_labels(self):
        """As for PEFT, whose base may be an encoder alone, or have a head for other labels."""
        self.assert_run(self.classify(steps=2), 0)
        trained = read_tensors(os.path.join(self.output, "model/model.safetensors"))
        encoder = {name: shape for name, (_, shape, _) in trained.items() if not name.startswith("classifier")}
        unnamed = {key: value for key, value in BERT.items() if key not in ("id2label", "label2id")}
        bases = {"alone": (unnamed | {"architectures": ["BertModel"]}, encoder),
                 "of two": (unnamed, {name: shape for name, (_, shape, _) in trained.items()})}
        for row in self.rows_in + self.rows_out:
            row["label"] = ["bad", "fair", "good"][len(row["sentence"]) % 3]
        self.write("train.jsonl", jsonl(self.rows_in))
        self.write("dev.jsonl", jsonl(self.rows_out))
        for name, (config, shapes) in bases.items():
            with self.subTest(name):
                self.begin_afresh()
                base = os.path.dirname(self.write(f"{name}/config.json", config))
                self.write(f"{name}/model.safetensors", safetensors(shapes))
                self.assert_run(self.classify(model=base, task="classify", lora_r=2, lora_targets="query", steps=6,
                                              lr="1e-2", ignore_mismatched_sizes=True), 0)
                expected = [list(row["scores"].values()) for row in self.predict(model=self.output)]
                adapted = self.predict("--adapter", os.path.join(self.output, "adapter"), model=base)
                self.assertEqual([list(row["scores"].values()) for row in adapted], expected)
                self.assertEqual(list(adapted[0]["scores"]), ["LABEL_0", "LABEL_1", "LABEL_2"])

    def test_a_task_makes_a_classifier_of_any_encoder(self):
        table = self.write("train.csv", "sentence,label\n" + "".join(
            f"{row['sentence']},{row['label']}\n" for row in self.rows_in))
        encoder = {key: value for key, value in BERT.items() if key != "architectures"}
        self.write("model-in/config.json", encoder)
        self.assert_run(self.classify(), 2, "no architectures", "--task classify or --task question-answering")
        self.write("model-in/config.json", encoder | {"architectures": ["BertForMaskedLM"]})
        self.assert_run(self.classify(data=table), 2, "train.csv", "--task classify")
        self.assert_run(self.classify(task="seq2seq"), 2, "no --task seq2seq", "--task masked-lm")
        self.assert_run(self.classify(task="classify", eval_data=self.held_out, metric="perplexity"), 2,
                        "--metric perplexity", "accuracy")
        self.assert_nothing_left()
        learns = {"data": table, "text_key": "sentence", "max_length": 48, "seq_len": None, "task": "classify"}
        self.assert_run(self.classify(**learns), 0)
        for config in (read_json(self.output, "model/config.json"), read_json(self.output, "source/config.json")):
            self.assertEqual(config["architectures"], ["BertForSequenceClassification"])
        self.assertEqual(len(self.predict(model=self.output)), 16)
        self.assert_run(self.classify(**learns, resume=True), 0, "already finished")
        resolved = read_json(self.output, "config.resolved.json")
        self.assertEqual(resolved["task"], {"value": "classify", "source": "--task"})

        # The file of such a model has another head and lacks this one.
        shapes = {name: shape for name, (_, shape, _) in read_tensors(
            os.path.join(self.output, "model/model.safetensors")).items()
                  if not name.startswith(("classifier", "bert.pooler"))}
        shapes |= {"cls.predictions.bias": [256], "cls.predictions.transform.dense.weight": [24, 24]}
        self.write("model-in/model.safetensors", safetensors(shapes))
        self.begin_afresh()
        self.assert_run(self.classify(**learns), 0, "begun anew: bert.pooler.dense.bias, bert.pooler.dense.weight, "
                        "classifier.bias, classifier.weight")

    def test_labels_are_those_of_the_data(self):
        unnamed = {key: value for key, value in BERT.items() if key not in ("id2label", "label2id")}
        self.write("model-in/config.json", unnamed)
        result = self.classify(steps=2, eval_data=self.held_out)
        self.assert_run(result, 0, "config.json names no labels", "train.jsonl: bad, good", "accuracy")
        config = read_json(self.output, "model/config.json")
        self.assertEqual((config["id2label"], config["label2id"]),
                         ({"0": "bad", "1": "good"}, {"bad": 0, "good": 1}))
        self.assertEqual({row["label"] for row in self.predict()} - {"bad", "good"}, set())
        self.assert_run(self.classify(steps=2, eval_data=self.held_out, resume=True), 0, "already finished")
        # More labels than are usual, and none of those that were trained.
        many = [{"text": row["sentence"], "label": stars} for row, stars in zip(self.rows_in, (5, 1, 3) * 22)]
        self.begin_afresh()
        data = self.write("stars.jsonl", jsonl(many))
        self.assert_run(self.classify(data=data, steps=1), 0, "the 3 of", "1, 3, 5")
        self.assertEqual(read_json(self.output, "model/config.json")["id2label"], {"0": "1", "1": "3", "2": "5"})
        unseen = self.write("unseen.jsonl", jsonl(many[:2] + [{"text": "x", "label": 4}]))
        self.begin_afresh()
        self.assert_run(self.classify(data=data, eval_data=unseen), 2, "unseen.jsonl:3", "the label 4 is none of the 3 "
                        "of --data: 1, 3, 5")
        self.assert_nothing_left()
        # A head that has learnt others.
        self.assert_run(self.classify(steps=1), 0)
        shutil.copy(os.path.join(self.output, "model/model.safetensors"), self.model)
        self.begin_afresh()
        self.assert_run(self.classify(data=data), 2, "its head tells 2 labels apart (classifier", "--data has 3: 1, 3, 5",
                        "--ignore-mismatched-sizes")
        self.assert_nothing_left()
        # A config with names of its own.
        self.write("model-in/config.json", BERT)
        self.assert_run(self.classify(data=data), 2, "stars.jsonl:3", "none of the 2 of config.json (id2label): bad, good",
                        "--ignore-mismatched-sizes")
        self.assert_nothing_left()
        # Either begins a new head; a run goes on with it, alone and among ranks.
        anew = {"data": data, "ignore_mismatched_sizes": "true", "steps": 4}
        self.assert_run(self.classify(**anew), 0, "config.json names others", "classifier.weight [2, 24], here [3, 24]")
        whole = self.outcome()
        self.begin_afresh()
        self.assert_run(self.classify(**{**anew, "steps": 2}), 0)
        self.assert_run(self.classify(**anew, resume=True), 0)
        self.assertEqual(self.outcome(), whole)
        labels = read_json(self.output, "model/config.json")["id2label"]
        self.assertEqual(labels, {"0": "1", "1": "3", "2": "5"})
        self.begin_afresh()
        self.assert_run(self.classify(**{**anew, "steps": 1}, ranks=2), 0, "classifier.weight [2, 24], here [3, 24]")
        self.begin_afresh()
        self.assert_run(self.classify(**anew, lora_r=2), 0, "trained as well: classifier.bias and 1 more")
        self.assertEqual(set(self.predict(model=self.output)[0]["scores"]), {"1", "3", "5"})

    def test_a_head_of_two_layers_is_trained_whole_beside_adapters(self):
        self.write("model-in/config.json", BERT | {
            "model_type": "roberta", "architectures": ["RobertaForSequenceClassification"],
            "max_position_embeddings": 50})
        result = self.classify(lora_r=2, lora_targets="all-linear", steps=2)
        self.assert_run(result, 0, "beside 12 matrices")
        config = read_json(self.output, "adapter/adapter_config.json")
        self.assertEqual(config["exclude_modules"], ["classifier.dense"])
        rows = self.predict(model=self.output)
        merged = self.path("merged")
        self.assert_run(run("export", "--from", self.output, "--to", merged, "--merge"), 0)
        for row, other in zip(rows, self.predict(model=merged)):
            self.assertAlmostEqual(row["scores"]["good"], other["scores"]["good"], places=5)

    def test_bad_input_is_named_with_file_and_line(self):
        good = jsonl(self.rows_in[:2])
        # Of each file one: tests/engine/data/labelled_text_test.cc has them all.
        cases = [("a.jsonl", good + '{"sentence": "x", "label": "fine"}\n', "a.jsonl:3", "bad, good"),
                 ("e.tsv", "sentence\tstars\nx\t1\n", "e.tsv:2", "--label-key")]
        for name, content, *words in cases:
            result = self.classify(data=self.write(name, content))
            self.assert_run(result, 2, *words)
            self.assert_nothing_left()
        self.assert_run(self.classify(seq_len=49), 2, "48 positions")
        self.assert_run(self.classify(samples="packed"), 2, "--packing")
        self.assert_run(self.classify(text_keys="a,b,c"), 2, "--text-keys")
        result = self.classify(seq_len=6)
        self.assert_run(result, 0, "of 64 texts are longer than --seq-len 6")

        result = run("generate", "--model", os.path.join(self.output, "model"), "--prompt", "x",
                     "--tokenizer", "bytes")
        self.assert_run(result, 2, "classifies texts")
        asked = run("predict", "--model", self.output, "--data", self.data, "--out",
                    self.path("answers.jsonl"), "--tokenizer", "bytes", "--num-beams", 4)
        self.assert_run(asked, 2, "--num-beams", "for models that make texts")
        self.write("model-in/config.json", BERT | {"architectures": ["BertForMultipleChoice"]})
        self.begin_afresh()
        self.assert_run(self.classify(), 2, "BertForMultipleChoice", "BertForMaskedLM")


if __name__ == "__main__":
    main()
