#!/usr/bin/env python3
"""A first look at the program, in less than a minute: each command once, and each task and each promise of a run
once. What tools/test runs; every other test of the program is in tools/test ci."""

import json
import os
import signal

import cli_testing
from cli_testing import TINY, CliTest, digest_of, read_json, read_rows, run

LLAMA = {"model_type": "llama", "vocab_size": 64, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
         "num_key_value_heads": 1, "intermediate_size": 24, "max_position_embeddings": 32}
BERT = {"model_type": "bert", "vocab_size": 256, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 24, "max_position_embeddings": 32, "type_vocab_size": 2,
        "architectures": ["BertForSequenceClassification"]}


class Program(CliTest):
    """What needs no LibTorch."""

    def test_the_front_door(self):
        self.assertRegex(run("--version").stdout, r"^spillway \d+\.\d+\.\d+\n$")
        self.assert_run(run("--help"), 0, "train", "estimate", "generate")
        self.assert_run(run("train", "--help"), 0, "--device-memory")
        self.assert_run(run("tran"), 2, "did you mean train?")
        self.assert_run(run("completion", "bash"), 0, "spillway")

    def test_wrong_flags_are_named_and_leave_nothing(self):
        for flags, words in (({"hots_memory": "1GiB"}, ("--hots-memory", "--host-memory")),
                             ({"lr": "fast"}, ("--lr",)), ({"device": "tpu"}, ("--device",))):
            self.assert_run(self.train(**flags), 2, *words)
        self.assert_nothing_left()

    def test_tokens_of_a_text(self):
        text, out = self.write("text.txt", "some words\n" * 20), self.path("tokens.bin")
        self.assert_run(run("tokenize", "--tokenizer", "bytes", "--data", text, "--out", out), 0)
        self.assertGreaterEqual(os.path.getsize(out), 20 * len("some words"))

    def test_the_machine_and_its_disk(self):
        self.assertIn("io_uring", run("doctor", "--swap", self.swap).stdout)
        self.assert_run(run("bench", "io", "--path", self.swap, "--size", "8MiB", "--block", "64KiB", "--depth", "4",
                            "--op", "mixed", "--verify", "--json"), 0, "bytes_per_second")
        self.assert_run(run("bench", "adam", "--params", "1000"), 0)
        self.assert_run(run("clean", "--swap", self.swap), 0)
        self.assertEqual(os.listdir(self.swap), [])

    def test_what_a_file_of_weights_holds(self):
        weights = self.write("model-in/model.safetensors", cli_testing.safetensors(cli_testing.gpt2_shapes(TINY)))
        self.assert_run(run("inspect", weights), 0, "h.0.attn.c_attn.weight")


class Training(CliTest):
    """What computes: the library beside the program, and LibTorch."""

    def test_same_bits_on_disk_and_in_memory_and_resumed(self):
        self.assert_run(self.train(), 0)
        expected = self.outcome()
        self.assertEqual([row["step"] for row in self.rows()], [1, 2, 3, 4])
        self.assertGreater(sum(row["bytes"]["nvme_read"] for row in self.rows()), 0)
        self.assertTrue(os.path.exists(os.path.join(self.output, "report.html")))
        memory = self.path("memory")
        self.assert_run(self.train(output=memory, swap=None, offload="none"), 0)
        self.assertEqual(self.outcome(memory), expected)
        self.begin_afresh()
        process = self.start(self.flags(commit_every=1))
        self.wait_for_rows(process, 1)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assert_run(self.train(resume=True, commit_every=1), 0)
        self.assertEqual(self.outcome(), expected)

    def test_a_signal_commits_and_the_run_goes_on(self):
        flags = self.flags(steps=2000, micro_batch=1, no_export=True)
        process = self.start(flags)
        self.wait_for_rows(process, 1)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=600), 75)
        found = self.inspect()
        self.assertFalse(found["finished"])
        self.assert_run(self.train(steps=found["step"] + 2, micro_batch=1, no_export=True, overwrite=True), 0)

    def test_ranks_train_what_one_does(self):
        losses = []
        for ranks in (None, 2):
            self.begin_afresh()
            self.assert_run(self.train(ranks=ranks, dtype="fp32", micro_batch=1, accumulate=1 if ranks else 2), 0)
            losses.append([row["loss"] for row in self.rows()])
        for one, two in zip(*losses):
            self.assertAlmostEqual(one, two, delta=1e-5)

    def test_budgets_that_are_too_small(self):
        self.assert_run(self.train(device_memory="1MiB", host_memory="1MiB"), 3, "at least")
        self.assert_nothing_left()

    def test_an_adapter_is_trained_and_merged(self):
        self.write("model-in/config.json", LLAMA)
        self.assert_run(self.train(steps=1, dtype="fp32"), 0)
        base, adapter = self.path("out/model"), self.path("adapter")
        self.assert_run(self.train(model=base, output=adapter, lora_r=2, lora_targets="all-linear", dtype="fp32"), 0)
        self.assertIn("adapter_model.safetensors", os.listdir(os.path.join(adapter, "adapter")))
        merged = self.path("merged")
        self.assert_run(run("export", "--from", adapter, "--to", merged, "--merge"), 0)
        self.assertNotEqual(digest_of(merged, "model.safetensors"), digest_of(base, "model.safetensors"))

    def test_estimate_of_a_model_that_is_not_here(self):
        self.write("gpt2/config.json", {"model_type": "gpt2"})
        self.assert_run(run("estimate", "--model", self.path("gpt2"), "--json", "--dry-run", "no"), 0, "124439808")

    def test_a_text_goes_on(self):
        self.write("model-in/config.json", TINY | {"vocab_size": 256})
        self.assert_run(self.train(), 0)
        result = run("generate", "--model", self.path("out/model"), "--tokenizer", "bytes", "--prompt", "abc",
                     "--tokens", 4, "--threads", 1, "--json")
        self.assert_run(result, 0)
        self.assertEqual(len(json.loads(result.stdout)["tokens"]), 4)

    def test_texts_are_classified(self):
        self.write("model-in/config.json", BERT)
        rows = [{"sentence": "yes yes", "label": "good"}, {"sentence": "no no", "label": "bad"}] * 8
        data = self.write("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        self.assert_run(self.train(data=data, eval_data=data, tokenizer="bytes", seq_len=16, dtype="fp32", lr="1e-2",
                                   steps=20, micro_batch=8), 0)
        self.assertEqual(read_rows(self.path("out/eval.jsonl"))[-1]["accuracy"], 1)
        answers = self.path("answers.jsonl")
        self.assert_run(run("predict", "--model", self.path("out/model"), "--data", data, "--out", answers,
                            "--tokenizer", "bytes", "--threads", 1), 0)
        self.assertEqual([row["label"] for row in read_rows(answers)], [row["label"] for row in rows])

    def test_a_deepspeed_file(self):
        config = self.write("ds.json", {"train_batch_size": 2, "bf16": {"enabled": True}, "optimizer": {
            "type": "AdamW", "params": {"lr": 0.01}}})
        self.assert_run(self.train(config=config, micro_batch=None), 0)
        self.assertEqual(read_json(self.output, "config.resolved.json")["lr"]["value"], 0.01)


if __name__ == "__main__":
    cli_testing.main()
