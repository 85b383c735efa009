#!/usr/bin/env python3
"""Encoders that answer questions with a part of a text, through the program."""

import json
import os
import random

from classify_test import BERT, jsonl
from cli_testing import CliTest, main, read_json, read_rows, run

CONFIG = {key: value for key, value in BERT.items() if key not in ("id2label", "label2id")} | {
    "architectures": ["BertForQuestionAnswering"], "max_position_embeddings": 64}


def made_rows(count, seed, possible=lambda i: True):
    """Texts of small letters with one capital, which is the answer."""
    draw = random.Random(seed)
    rows = []
    for i in range(count):
        letters = [draw.choice("abcdef ") for _ in range(draw.randint(12, 24))]
        at = draw.randrange(len(letters))
        letters[at] = draw.choice("XYZ")
        answers = {"text": [letters[at]], "answer_start": [at]}
        if not possible(i):
            letters[at] = "a"
            answers = {"text": [], "answer_start": []}
        rows.append({"id": str(i), "question": "capital?", "context": "".join(letters), "answers": answers})
    return rows


class QuestionsTest(CliTest):
    config = CONFIG | {"n_positions": 64}

    def setUp(self):
        super().setUp()
        self.write("model-in/config.json", CONFIG)
        self.rows_out = made_rows(16, 2)
        self.data = self.write("train.jsonl", jsonl(made_rows(96, 1)))
        self.held_out = self.write("dev.jsonl", jsonl(self.rows_out))
        self.answers = self.path("answers.jsonl")

    def teach(self, **changes):
        return self.train(**{"tokenizer": "bytes", "dtype": "fp32", "seq_len": 48, "lr": "5e-3", **changes})

    def predict(self, *flags, data=None):
        if os.path.exists(self.answers):
            os.remove(self.answers)
        self.assert_run(run("predict", "--model", os.path.join(self.output, "model"), "--data", data or self.held_out,
                            "--out", self.answers, "--tokenizer", "bytes", "--threads", 1, *flags), 0,
                        "questions answered")
        return read_rows(self.answers)

    def test_questions_train_a_model_that_answers(self):
        self.assert_run(self.teach(steps=80, micro_batch=8, eval_data=self.held_out, metric="f1"), 0,
                        "96 questions with 96 windows", "exact_match")
        evaluation = read_rows(os.path.join(self.output, "eval.jsonl"))[-1]
        self.assertGreater(evaluation["exact_match"], 90)
        self.assertGreaterEqual(evaluation["f1"], evaluation["exact_match"])
        self.assertEqual(read_json(self.output, "model/config.json")["architectures"], ["BertForQuestionAnswering"])
        rows = self.predict("--batch", 3)
        self.assertEqual([row["id"] for row in rows], [row["id"] for row in self.rows_out])
        right = 0
        for row, asked in zip(rows, self.rows_out):
            self.assertEqual(asked["context"][row["start"]:row["end"]], row["answer"])
            self.assertTrue(0 < row["score"] <= 1)
            right += row["answer"] == asked["answers"]["text"][0]
        self.assertEqual(100 * right / len(rows), evaluation["exact_match"])
        # Several windows of a text answer as one does, SQuAD's own file as rows.
        nested = {"data": [{"paragraphs": [{"context": row["context"], "qas": [
            {key: row[key] for key in ("id", "question")} | {"answers": []}]}]} for row in self.rows_out]}
        narrow = self.predict("--seq-len", 24, "--doc-stride", 6, data=self.write("dev.json", nested))
        self.assertEqual(len(narrow), len(rows))
        self.assertGreater(sum(a["answer"] == b["answer"] for a, b in zip(narrow, rows)), len(rows) // 2)

    def test_questions_without_an_answer(self):
        def rows(count, seed):
            return jsonl(made_rows(count, seed, possible=lambda i: i % 2 == 0))
        self.held_out = self.write("dev2.jsonl", rows(16, 4))
        self.assert_run(self.teach(steps=80, micro_batch=8, data=self.write("train2.jsonl", rows(96, 3)),
                                   eval_data=self.held_out), 0, "48 of them without an answer")
        self.assertGreater(read_rows(os.path.join(self.output, "eval.jsonl"))[-1]["exact_match"], 80)
        empty = [row["answer"] == "" for row in self.predict("--null-score-threshold", 0)]
        self.assertGreater(sum(empty[1::2]), 5)
        self.assertLess(sum(empty[::2]), 3)
        self.assertNotIn("", [row["answer"] for row in self.predict()])

    def test_bad_input_is_named(self):
        wrong = made_rows(2, 1)
        wrong[1]["answers"]["answer_start"] = [1000]
        path = self.write("wrong.jsonl", jsonl(wrong))
        self.assert_run(self.teach(steps=1, data=path), 2, path + ":2")
        without = self.write("without.jsonl", json.dumps({"question": "a?", "answers": []}) + "\n")
        self.assert_run(self.teach(steps=1, data=without), 2, without + ":1", "context")
        table = self.write("table.csv", "question,context\na,b\n")
        self.assert_run(self.teach(steps=1, data=table), 2, table)
        self.assert_run(self.teach(steps=1, label_key="label"), 2, "--label-key", "answers questions")
        self.assert_run(self.teach(steps=1, metric="accuracy", eval_data=self.held_out), 2, "exact_match")


if __name__ == "__main__":
    main()
