#!/usr/bin/env python3
"""Encoders that classify the words of texts, through the program."""

import json
import os
import random
import shutil

from cli_testing import CliTest, main, read_json, read_rows, run

LABELS = ["O", "B-PER", "I-PER"]
BERT = {"model_type": "bert", "architectures": ["BertForTokenClassification"], "vocab_size": 256,
        "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 48, "max_position_embeddings": 48, "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0, "id2label": dict(enumerate(LABELS)),
        "label2id": {name: i for i, name in enumerate(LABELS)}}


def made_rows(count, seed):
    """Capitals are persons, of one name or two."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        words, labels = [], []
        for _ in range(draw.randint(2, 4)):
            if draw.random() < 0.5:
                words.append(draw.choice(["saw", "met", "a", "dog"]))
                labels.append("O")
                continue
            names = ["ANN", "LEE"][:draw.randint(1, 2)]
            words += names
            labels += ["B-PER", "I-PER"][:len(names)]
        rows.append({"tokens": words, "ner_tags": labels})
    return rows


def jsonl(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


class TokensTest(CliTest):
    config = BERT | {"n_positions": 48}

    def setUp(self):
        super().setUp()
        self.write("model-in/config.json", BERT)
        self.rows_in, self.rows_out = made_rows(300, 1), made_rows(16, 2)
        self.data = self.write("train.jsonl", jsonl(self.rows_in))
        self.held_out = self.write("dev.jsonl", jsonl(self.rows_out))
        self.answers = self.path("answers.jsonl")

    def classify(self, **changes):
        return self.train(**{"tokenizer": "bytes", "dtype": "fp32", "seq_len": 48, **changes})

    def predict(self, *flags, model=None):
        if os.path.exists(self.answers):
            os.remove(self.answers)
        result = run("predict", "--model", model or os.path.join(self.output, "model"), "--data",
                     self.held_out, "--out", self.answers, "--tokenizer", "bytes", "--threads", 1,
                     *flags)
        self.assert_run(result, 0, "16 texts with their words classified")
        return read_rows(self.answers)

    def test_words_with_labels_train_a_model_that_labels(self):
        learns = {"steps": 150, "micro_batch": 16, "lr": "5e-3", "eval_data": self.held_out}
        self.assert_run(self.classify(**learns), 0, "300 texts", "precision", "recall")
        evaluation = read_rows(os.path.join(self.output, "eval.jsonl"))[-1]
        self.assertEqual(evaluation["labels"], sum(len(row["tokens"]) for row in self.rows_out))
        for measure in ("accuracy", "precision", "recall", "f1"):
            self.assertGreater(evaluation[measure], 0.9)
        config = read_json(self.output, "model/config.json")
        self.assertEqual(config["architectures"], ["BertForTokenClassification"])
        self.assertNotIn("problem_type", config)

        rows = self.predict()
        self.assertEqual([row["tokens"] for row in rows], [row["tokens"] for row in self.rows_out])
        labels = [label for row in rows for label in row["labels"]]
        right = [label for row in self.rows_out for label in row["ner_tags"]]
        same = sum(a == b for a, b in zip(labels, right, strict=True))
        self.assertAlmostEqual(same / len(right), evaluation["accuracy"], places=6)
        for row, other in zip(rows, self.predict("--batch", 1, model=self.output)):
            self.assertEqual(row["labels"], other["labels"])

    def test_numbers_and_names_of_keys_change_nothing_nor_where_state_lies(self):
        self.assert_run(self.classify(), 0)
        whole = self.outcome()
        self.begin_afresh()
        rows = [{"form": row["tokens"], "is": [LABELS.index(y) for y in row["ner_tags"]]}
                for row in self.rows_in]
        result = self.classify(data=self.write("other.jsonl", jsonl(rows)), text_keys="form",
                               label_key="is", offload="none")
        self.assert_run(result, 0)
        self.assertEqual(self.outcome(), whole)

    def test_adapters(self):
        self.assert_run(self.classify(lora_r=2, steps=2), 0, "classifier.bias and 1 more")
        config = read_json(self.output, "adapter/adapter_config.json")
        self.assertEqual((config["task_type"], config["modules_to_save"]),
                         ("TOKEN_CLS", ["classifier"]))
        self.assertEqual(len(self.predict(model=self.output)), 16)

    def test_a_head_for_other_labels_begins_anew(self):
        self.assert_run(self.classify(steps=1), 0)
        shutil.copy(os.path.join(self.output, "model/model.safetensors"), self.model)
        self.begin_afresh()
        other = self.write("other.jsonl", jsonl(
            [{**row, "ner_tags": [tag[:1] for tag in row["ner_tags"]]} for row in self.rows_in]))
        self.assert_run(self.classify(data=other), 2, "is none of the 3", "--ignore-mismatched-sizes")
        self.assert_run(self.classify(data=other, ignore_mismatched_sizes=True, steps=1), 0, "B, I, O")
        # As many labels by other names keep the head's size, and its weights.
        self.assertEqual(read_json(self.output, "model/config.json")["id2label"], {"0": "B", "1": "I", "2": "O"})
        self.begin_afresh()
        fewer = self.write("fewer.jsonl", jsonl(
            [{**row, "ner_tags": ["in" if tag != "O" else tag for tag in row["ner_tags"]]} for row in self.rows_in]))
        self.assert_run(self.classify(data=fewer, ignore_mismatched_sizes=True, steps=1), 0, "here [2, 24]")

    def test_bad_input_is_named_with_file_and_line(self):
        bad = jsonl(self.rows_in[:2]) + '{"tokens": ["a", "b"], "ner_tags": ["O"]}\n'
        result = self.classify(data=self.write("bad.jsonl", bad))
        self.assert_run(result, 2, "bad.jsonl:3", "2 words", "1 labels")
        result = self.classify(data=self.write("bad.csv", "tokens,ner_tags\na,O\n"))
        self.assert_run(result, 2, "bad.csv", ".jsonl")
        self.assert_nothing_left()
        self.assert_run(self.classify(seq_len=9, steps=1), 0, "are longer than --seq-len 9")


if __name__ == "__main__":
    main()
