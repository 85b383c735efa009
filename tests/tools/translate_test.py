#!/usr/bin/env python3
"""Models with an encoder and a decoder, through the program: from pairs of texts to a model that
makes the one of the other."""

import json
import os
import random
import re
import signal

from cli_testing import CliTest, main, read_json, read_rows, read_text, run

T5 = {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": 256,
      "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0,
      "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 0,
      "is_encoder_decoder": True}
BART = {"model_type": "bart", "architectures": ["BartForConditionalGeneration"],
        "vocab_size": 256, "d_model": 32, "encoder_layers": 1, "decoder_layers": 2,
        "encoder_attention_heads": 2, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64, "max_position_embeddings": 40, "pad_token_id": 0}


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
    given = {"tokenizer": "bytes", "dtype": "fp32", "seq_len": None, "source_key": "say.short",
             "target_key": "say.long", "max_source_length": 16, "max_target_length": 8}

    def setUp(self):
        super().setUp()
        self.pairs = made_rows(64, 1)
        self.data = self.write("train.jsonl", jsonl(self.pairs))
        self.answers = self.path("answers.jsonl")

    def translate(self, **changes):
        return self.train(**{**self.given, **changes})

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
        result = self.translate(steps=220, micro_batch=16, lr="1e-2")
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
        refused = run("generate", "--model", self.output, "--tokenizer", "bytes", "--prompt", prompt,
                      "--device-memory", "2KiB")
        self.assert_run(refused, 3, "the encoder", "at least --device-memory 1MiB")
        said = run("generate", "--model", self.output, "--tokenizer", "bytes", "--prompt", prompt)
        self.assert_run(said, 0)
        self.assertEqual(said.stdout, rows[0]["completion"] + "\n")

    def measured(self, *flags, targets="say.long", rows=None, **changes):
        """What predict --json says of answers to the first rows, measured against their targets."""
        if os.path.exists(self.answers):
            os.remove(self.answers)
        data = self.write("asked.jsonl", jsonl(self.pairs[:rows]))
        result = run("predict", "--model", changes.get("model", os.path.join(self.output, "model")),
                     "--data", data, "--source-key", "say.short", "--out", self.answers,
                     "--tokenizer", "bytes", "--threads", 1, "--tokens", 8, "--target-key", targets,
                     "--json", *flags)
        self.assert_run(result, 0)
        return json.loads(result.stdout)["measures"]

    def assert_measures(self, found, expected):
        self.assertEqual(list(expected), ["bleu", "rouge1", "rouge2", "rougeL", "wer", "cer"])
        for name, value in expected.items():
            self.assertAlmostEqual(found[name], value, places=9, msg=name)

    def test_evaluations_make_texts_and_measure_them(self):
        held_out = self.write("held_out.jsonl", jsonl(self.pairs[:24]))
        made = {"predict_with_generate": True, "eval_data": held_out, "micro_batch": 16,
                "lr": "1e-2", "metric": "eval_cer", "eval_every": 20}
        result = self.translate(**made, steps=60, commit_every=40)
        self.assert_run(result, 0, "held out", "cer 0.")
        evaluations = read_rows(os.path.join(self.output, "eval.jsonl"))
        self.assertEqual([row["step"] for row in evaluations], [0, 20, 40, 60])
        for row in evaluations:
            self.assertIn("perplexity", row)
            self.assertEqual(row["metric"], "cer")
        rates = [row["cer"] for row in evaluations]
        self.assertLess(rates[-1], rates[0])
        best = min(range(4), key=lambda i: rates[i])
        self.assertEqual(evaluations[-1]["best_step"], evaluations[best]["step"])
        # What the trained model answers afterwards is what the last evaluation measured.
        self.assert_measures(evaluations[-1], self.measured(rows=24))
        self.assertIn("rouge2", read_text(self.output, "report.html"))

        # Wherever state lies, and by a run that goes on.
        measures = ("step", "loss", "bleu", "rouge1", "rouge2", "rougeL", "wer", "cer", "best")
        of_all = [[row[name] for name in measures] for row in evaluations]
        self.begin_afresh()
        self.assert_run(self.translate(**made, steps=40, offload="none"), 0)
        self.assert_run(self.translate(**made, steps=60, resume=True, offload_activations="nvme",
                                       recompute="all"), 0)
        self.assertEqual([[row[name] for name in measures]
                          for row in read_rows(os.path.join(self.output, "eval.jsonl"))], of_all)
        # Of two ranks, whose sums of losses are others.
        self.begin_afresh()
        for steps in (20, 40):
            self.assert_run(self.translate(**{**made, "micro_batch": 8}, ranks=2, steps=steps,
                                           resume=steps > 20), 0)
        evaluations = read_rows(os.path.join(self.output, "eval.jsonl"))
        self.assertEqual([row["step"] for row in evaluations], [0, 20, 40])
        self.assert_measures(evaluations[-1], self.measured(rows=24))

    def test_evaluations_search_with_beams(self):
        beams = {"num_beams": 3, "length_penalty": 2, "min_tokens": 2, "no_repeat_ngram": 3}
        self.assert_run(self.translate(steps=30, micro_batch=4, lr="1e-2", predict_with_generate=True,
                                       eval_data=self.write("few.jsonl", jsonl(self.pairs[:16])),
                                       generation_max_length=7, **beams), 0)
        words = [word for name, value in beams.items()
                 for word in ("--" + name.replace("_", "-"), value)]
        self.assert_measures(read_rows(os.path.join(self.output, "eval.jsonl"))[-1],
                             self.measured(*words, "--tokens", 6, rows=16))

    def test_special_tokens_are_no_part_of_a_text(self):
        """As with transformers' skip_special_tokens: neither of an answer nor of a target."""
        words = ["<s>", "<pad>", "</s>", "<unk>", "one", "two", "three", "four"]
        special = [{"id": i, "content": word, "special": True, "single_word": False, "lstrip": False,
                    "rstrip": False, "normalized": False} for i, word in enumerate(words[:4])]
        self.write("model-in/tokenizer.json", {
            "version": "1.0", "added_tokens": special, "normalizer": None,
            "pre_tokenizer": {"type": "Whitespace"}, "decoder": None,
            "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0],
                               "trim_offsets": True, "add_prefix_space": False},
            "model": {"type": "WordLevel", "vocab": {word: i for i, word in enumerate(words)},
                      "unk_token": "<unk>"}})
        self.write("model-in/config.json", BART | {"vocab_size": 8, "bos_token_id": 0, "pad_token_id": 1,
                                                   "eos_token_id": 2, "decoder_start_token_id": 2})
        self.write("model-in/generation_config.json", {"forced_bos_token_id": 0, "eos_token_id": 2})
        rows = [{"say": {"short": word, "long": f"{word} {word}"}} for word in words[4:]]
        data = self.write("train.jsonl", jsonl(rows))
        self.assert_run(self.translate(tokenizer=None, data=data, eval_data=data, steps=1, lr=0,
                                       predict_with_generate=True), 0)
        evaluation = read_rows(os.path.join(self.output, "eval.jsonl"))[-1]
        model = os.path.join(self.output, "model")
        result = run("predict", "--model", model, "--data", data, "--source-key", "say.short",
                     "--target-key", "say.long", "--out", self.answers, "--tokens", 8,
                     "--threads", 1, "--json")
        self.assert_run(result, 0)
        answers = read_rows(self.answers)
        self.assertTrue(all("<" not in row["completion"] for row in answers), answers)
        self.assertTrue(all(row["tokens"] > len(row["completion"].split()) for row in answers))
        measures = json.loads(result.stdout)["measures"]
        for name in ("wer", "cer"):
            self.assertAlmostEqual(measures[name], evaluation[name], places=9, msg=name)
        # Before there was a generation_config.json config.json said it.
        os.remove(os.path.join(model, "generation_config.json"))
        path = os.path.join(model, "config.json")
        self.write(path, read_json(path) | {"max_length": 4, "min_length": 4})
        made = json.loads(run("generate", "--model", model, "--prompt", words[4], "--json").stdout)
        self.assertEqual(len(made["tokens"]), 3, made)
        self.write(os.path.join(model, "generation_config.json"), {"decoder_start_token_id": 1})
        self.assert_run(run("generate", "--model", model, "--prompt", words[4]), 2,
                        "decoder_start_token_id is 1 in generation_config.json and 2 in config.json")

    def test_a_signal_ends_an_evaluation(self):
        held_out = self.write("held_out.jsonl", jsonl(self.pairs[:8]))
        flags = {"predict_with_generate": True, "num_beams": 3, "eval_data": held_out,
                 "eval_every": 1}
        def evaluations():
            return read_rows(os.path.join(self.output, "eval.jsonl"))
        self.assert_run(self.translate(**flags, steps=4), 0)
        whole, cers = self.outcome(), [row["cer"] for row in evaluations()]
        self.begin_afresh()
        process = self.start(self.flags(**self.given, **flags, steps=1000))
        # Behind a row the next look at signals is within the next step, which is evaluated, too.
        self.wait_for_rows(process, 1)
        process.send_signal(signal.SIGTERM)
        _, text = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 75, text)
        self.assertIn("the evaluation is given up", text)
        rows = read_rows(os.path.join(self.output, "metrics.jsonl"))
        self.assertEqual([row["step"] for row in evaluations()], list(range(len(rows))))
        if len(rows) < 4:
            self.assert_run(self.translate(**flags, steps=4, resume=True), 0)
            self.assertEqual(self.outcome(), whole)
            self.assertEqual([row["cer"] for row in evaluations()], cers)

    def test_texts_are_made_within_the_smallest_budgets(self):
        made = {"predict_with_generate": True, "num_beams": 3, "micro_batch": 2, "steps": 2,
                "eval_data": self.write("held_out.jsonl", jsonl(self.pairs[:9]))}
        self.assert_run(self.translate(**made), 0)
        roomy = read_rows(os.path.join(self.output, "eval.jsonl"))
        self.begin_afresh()
        refused = self.translate(**made, device_memory="64KiB", host_memory="64KiB")
        self.assert_run(refused, 3)
        device, host = re.search(r"at least --device-memory (\S+) and --host-memory (\S+)",
                                 refused.stderr).groups()
        self.assert_run(self.translate(**made, device_memory=device, host_memory=host), 0)
        for row, other in zip(read_rows(os.path.join(self.output, "eval.jsonl")), roomy):
            self.assertEqual(row | {"seconds": 0}, other | {"seconds": 0})

    def test_an_estimate_has_the_texts_that_evaluations_make(self):
        self.write("model-in/generation_config.json", {"num_beams": 20})
        # Longer than targets are.
        made = {"predict_with_generate": True, "steps": 1, "no_export": True,
                "eval_data": self.write("few.jsonl", jsonl(self.pairs[:4])),
                "pad_to_max_length": True, "generation_max_length": 12}
        said = run("estimate", *self.flags(**self.given, **made)[1:], "--json")
        self.assert_run(said, 0)
        least = json.loads(said.stdout)["min_device_bytes"]
        for device_memory, code in ((least - 1, 3), (least, 0)):
            self.begin_afresh()
            self.assert_run(self.translate(**made, device_memory=device_memory), code)

    def test_labels_are_smoothed_in_training_and_evaluation(self):
        self.assert_run(self.translate(eval_data=self.data, steps=1), 0)
        plain = read_rows(os.path.join(self.output, "eval.jsonl"))
        self.begin_afresh()
        self.assert_run(self.translate(label_smoothing_factor=0.2, eval_data=self.data), 0)
        smoothed = read_rows(os.path.join(self.output, "eval.jsonl"))
        self.assertNotEqual(smoothed[0]["loss"], plain[0]["loss"])
        self.assert_run(self.translate(eval_data=self.data, steps=6, resume=True), 2,
                        "label-smoothing was 0.2")

    def test_an_estimate_reads_pairs_of_the_lengths_that_are_said(self):
        self.write("model-in/config.json", BART)
        flags = ["estimate", "--model", self.model, "--dry-run", "yes"]
        self.assert_run(run(*flags), 0, "1 x 40 tokens", "in 6 units", "are from a dry run")
        self.assert_run(run(*flags, "--max-source-length", 24), 0, "1 x 24 tokens")
        self.assert_run(run(*flags, "--max-target-length", 41), 2, "--max-target-length 41")
        self.assert_run(run(*flags, "--seq-len", 8), 2, "--max-source-length")

    def test_adapters_are_of_the_task(self):
        self.assert_run(self.translate(lora_r=2, lr="1e-2", steps=4), 0, "beside 12 matrices")
        config = read_json(self.output, "adapter/adapter_config.json")
        self.assertEqual((config["task_type"], sorted(config["target_modules"])),
                         ("SEQ_2_SEQ_LM", ["q", "v"]))
        rows = self.predict(model=self.output)
        merged = self.path("merged")
        self.assert_run(run("export", "--from", self.output, "--to", merged, "--merge"), 0)
        self.assertEqual([row["completion"] for row in self.predict(model=merged)],
                         [row["completion"] for row in rows])

    def test_bad_input_is_named_with_file_and_line(self):
        good = jsonl(self.pairs[:1])
        bad = self.write("a.jsonl", good + '{"say": {"short": "a"}}\n')
        self.assert_run(self.translate(data=bad), 2, "a.jsonl:2", "--target-key")
        self.assert_nothing_left()
        self.assert_run(self.translate(seq_len=8), 2, "--max-source-length")
        self.assert_run(self.translate(samples="packed"), 2, "--packing")
        self.assert_run(self.translate(label_key="x"), 2, "--label-key")
        evaluated = {"eval_data": self.data}
        self.assert_run(self.translate(metric="bleu", **evaluated), 2, "--metric bleu", "have loss",
                        "--predict-with-generate")
        self.assert_run(self.translate(label_smoothing=1.5), 2, "--label-smoothing")
        self.assert_run(self.translate(max_target_length=1), 2, "train.jsonl:1", "no room")
        short = self.translate(max_source_length=2, ranks=2)
        self.assert_run(short, 0)
        self.assertEqual(short.stderr.count("of 64 sources are longer than"), 1, short.stderr)
        chat = run("generate", "--model", os.path.join(self.output, "model"), "--tokenizer",
                   "bytes", "--prompt", "a 1", "--chat")
        self.assert_run(chat, 2, "conversations are for language models")
        drawn = run("predict", "--model", self.output, "--data", self.data, "--out", self.answers,
                    "--tokenizer", "bytes", "--num-beams", 2, "--temperature", 1)
        self.assert_run(drawn, 2, "--num-beams 2", "--temperature 0")
        for flags, said in ((["--timestamps"], "make texts from sounds"),
                            (["--length-penalty", "nan"], "--length-penalty"),
                            (["--temperature", "inf"], "--temperature"),
                            (["--repetition-penalty", "inf"], "--repetition-penalty"),
                            (["--max-source-length", 0], "--max-source-length")):
            asked = run("predict", "--model", self.output, "--data", self.data, "--out",
                        self.answers, "--tokenizer", "bytes", *flags)
            self.assert_run(asked, 2, said)
        self.write("model-in/config.json", BART)
        self.assert_run(self.translate(predict_with_generate=True, generation_max_length=42,
                                       overwrite=True, **evaluated), 2,
                        "--generation-max-length 42")


if __name__ == "__main__":
    main()
