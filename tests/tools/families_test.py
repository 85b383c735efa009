#!/usr/bin/env python3
"""Models of every decoder family through the program: from a config alone, from weights, resumed."""

import array
import json
import os
import shutil

from cli_testing import CliTest, main, read_json, run, with_header
from model_test import read_tensors

GOLDEN = os.path.join(os.path.dirname(__file__), "../golden/decoders.json")
# One of a kind; tests/torch/decoder_golden_test.cc has all of them.
KINDS = ["llama_tied_with_biases", "mistral", "phi3_long", "qwen3", "neox", "opt_post_norm"]
LLAMA = {"model_type": "llama", "vocab_size": 64, "hidden_size": 24, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 40,
         "max_position_embeddings": 16}


def byte_tokenizer(more):
    """A tokenizer.json of GPT-2's letters for bytes and so many more tokens: "<0>", "<1>", ..."""
    plain = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b]
    others = [b for b in range(256) if b not in plain]
    letters = [chr(b) for b in plain] + [chr(256 + i) for i in range(len(others))]
    added = [{"id": 256 + i, "content": f"<{i}>", "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for i in range(more)]
    return json.dumps({"added_tokens": added, "pre_tokenizer": {
        "type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
        "decoder": {"type": "ByteLevel"}, "model": {
            "type": "BPE", "vocab": {letter: i for i, letter in enumerate(letters)}, "merges": []}})


class FamiliesTest(CliTest):
    config = LLAMA | {"n_positions": 16}

    def train_family(self, config, **changes):
        self.write("model-in/config.json", config)
        return self.train(tokenizer="bytes", data=self.write("text.txt", "Spillway. " * 80),
                          **changes)

    def test_from_a_config_to_a_model_that_goes_on(self):
        with open(GOLDEN, encoding="utf-8") as file:
            golden = json.load(file)
        for kind in KINDS:
            with self.subTest(kind):
                config = golden[kind]["config"] | {"vocab_size": 256}
                self.assert_run(self.train_family(config, dtype="fp32"), 0)
                whole = self.outcome()
                # Every tensor of transformers' class, by its name.
                tensors = read_tensors(os.path.join(self.output, "model"))
                self.assertEqual(sorted(tensors), sorted(golden[kind]["gradients"]))
                exported = read_json(self.output, "model", "config.json")
                self.assertEqual({key: exported[key] for key in config}, config)
                if kind == KINDS[0]:
                    # The same in two runs, the second from the first one's commit.
                    self.begin_afresh()
                    self.assert_run(self.train_family(config, dtype="fp32", steps=2), 0)
                    self.assert_run(self.train_family(config, dtype="fp32", resume=True), 0)
                    self.assertEqual(self.outcome(), whole)
                self.assert_run(run("generate", "--model", self.output, "--prompt", "Spill",
                                    "--tokens", "3", "--temperature", "0"), 0)
                # What was trained is where another run may start.
                trained = os.path.join(self.dir, "trained")
                shutil.copytree(os.path.join(self.output, "model"), trained)
                self.begin_afresh()
                self.assert_run(self.train_family(config, model=trained, steps=1, lr=0), 0)
                again = read_tensors(os.path.join(self.output, "model"))
                self.assertEqual(again, tensors)
                shutil.rmtree(trained)
                self.begin_afresh()

    def test_new_tokens_grow_the_model(self):
        for tied in (False, True):
            config = LLAMA | {"vocab_size": 256, "tie_word_embeddings": tied}
            self.assert_run(self.train_family(config, dtype="fp32", steps=1), 0)
            base = os.path.join(self.dir, f"base-{tied}")
            shutil.copytree(os.path.join(self.output, "model"), base)
            shutil.rmtree(os.path.join(base, "tokenizer.json"), ignore_errors=True)
            had = read_tensors(base)
            self.begin_afresh()
            self.write("grown/tokenizer.json", byte_tokenizer(3))
            changes = {"model": base, "tokenizer": self.path("grown"), "dtype": "fp32", "lr": "1e-2",
                       "data": self.write("new.txt", "<0>Spillway<2> " * 40)}
            still = {**changes, "lr": 0, "steps": 1}
            self.assert_run(self.train(**still), 0, "has 259 tokens, and the model 256")
            self.assertEqual(read_json(self.output, "model", "config.json")["vocab_size"], 259)
            grown = read_tensors(os.path.join(self.output, "model"))
            estimated = run("estimate", "--model", base, "--tokenizer", self.path("grown"), "--json")
            self.assert_run(estimated, 0, "has 259 tokens, and the model 256")
            self.assertEqual(json.loads(estimated.stdout)["model"]["parameters"],
                             sum(len(raw) // 4 for _, _, raw in grown.values()))
            for name, (_, shape, raw) in grown.items():
                values, old = array.array("f", raw), array.array("f", had[name][2])
                self.assertEqual(values[:len(old)], old, name)
                if len(values) == len(old):
                    continue
                self.assertIn(name, {"model.embed_tokens.weight", "lm_head.weight"})
                self.assertEqual(shape[0], 259)
                width = shape[1]
                mean = [sum(old[i::width]) / 256 for i in range(width)]
                for row in range(256, 259):
                    for found, expected in zip(values[row * width:], mean):
                        self.assertAlmostEqual(found, expected, places=6)
            self.begin_afresh()
        # As one run and as two, and of ranks.
        self.assert_run(self.train(**changes), 0)
        whole = self.outcome()
        self.begin_afresh()
        self.assert_run(self.train(**changes, steps=2), 0)
        self.assert_run(self.train(**changes, resume=True), 0)
        self.assertEqual(self.outcome(), whole)
        self.begin_afresh()
        self.assert_run(self.train(**changes, ranks=2, micro_batch=1, steps=1), 0, "has 259 tokens")
        self.begin_afresh()
        # Beside adapters they are trained where that is said.
        self.assert_run(self.train(**changes, lora_r=2, steps=1), 0, "leave the rows of new tokens",
                        "embed_tokens trains")
        self.begin_afresh()
        changes["model"] = os.path.join(self.dir, "base-False")
        self.assert_run(self.train(**changes, lora_r=2, modules_to_save="embed_tokens,lm_head"), 0,
                        "resize_token_embeddings(259)")
        asked = ["--prompt", "<0>Sp", "--tokens", 4, "--temperature", 0, "--tokenizer", self.path("grown")]
        of_run = run("generate", "--model", self.output, *asked)
        of_adapter = run("generate", "--model", changes["model"], "--adapter",
                         os.path.join(self.output, "adapter"), *asked)
        self.assert_run(of_run, 0)
        self.assert_run(of_adapter, 0)
        self.assertEqual(of_adapter.stdout, of_run.stdout)

    def test_a_task_takes_the_place_of_architectures(self):
        self.assert_run(self.train_family(LLAMA | {"vocab_size": 256}, dtype="fp32", steps=1), 0)
        tensors = read_tensors(os.path.join(self.output, "model"))
        tensors.pop("lm_head.weight")
        tensors["score.weight"] = ("F32", [2, 24], bytes(4 * 48))
        header, data = {}, bytearray()
        for name, (dtype, shape, raw) in tensors.items():
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
            data += raw
        self.write("model-in/model.safetensors", with_header(json.dumps(header), bytes(data)))
        self.begin_afresh()
        config = LLAMA | {"vocab_size": 256, "architectures": ["LlamaForTokenClassification"]}
        self.assert_run(self.train_family(config), 2, "train takes it with --task causal-lm")
        self.assert_run(self.train_family(config, task="masked-lm"), 2, "--task causal-lm")
        self.assert_run(self.train_family(config, task="causal-lm", steps=1), 0,
                        "left aside, as tensors of another head: score.weight", "begun anew: lm_head.weight")
        exported = read_json(self.output, "model", "config.json")
        self.assertEqual(exported["architectures"], ["LlamaForCausalLM"])

    def test_what_was_not_trained_comes_back_shard_by_shard(self):
        self.assert_run(self.train_family(LLAMA | {"vocab_size": 256}, dtype="fp32", steps=1), 0)
        trained = read_tensors(os.path.join(self.output, "model"))
        self.begin_afresh()
        # In three files, in no order of ours, two of the tensors in other dtypes.
        source, places, header = os.path.join(self.dir, "sharded"), {}, {1: {}, 2: {}, 3: {}}
        data = {1: b"", 2: b"", 3: b""}
        for i, (name, (_, shape, raw)) in enumerate(sorted(trained.items())):
            shard = 1 + i % 3
            dtype = {0: "BF16", 1: "F16"}.get(i, "F32")
            if dtype != "F32":  # halves are exact in both
                raw = (b"\x00\x3f" if dtype == "BF16" else b"\x00\x38") * (len(raw) // 4)
            begin = len(data[shard])
            data[shard] += raw
            header[shard][name] = {"dtype": dtype, "shape": shape,
                                   "data_offsets": [begin, len(data[shard])]}
            places[name] = f"model-0000{shard}-of-00003.safetensors"
        for shard in (1, 2, 3):
            self.write(f"sharded/model-0000{shard}-of-00003.safetensors",
                       with_header(json.dumps(header[shard]), data[shard]))
        size = sum(len(raw) for raw in data.values())
        index = {"metadata": {"total_size": size, "total_parameters": 1}, "weight_map": places}
        self.write("sharded/model.safetensors.index.json", index)
        config = LLAMA | {"vocab_size": 256, "architectures": ["LlamaForCausalLM"],
                          "torch_dtype": "bfloat16"}  # which the files are not
        self.write("sharded/config.json", config)
        for changes in ({}, {"train_only": "q_proj"}):
            self.assert_run(self.train_family(LLAMA | {"vocab_size": 256}, model=source, steps=1,
                                              dtype="fp32", lr=0, **changes), 0)
            model = os.path.join(self.output, "model")
            self.assertEqual(read_json(model, "model.safetensors.index.json"), index)
            self.assertEqual(read_tensors(model), read_tensors(source))
            self.assertEqual(read_json(model, "config.json"), config)
            self.assertFalse(os.path.exists(os.path.join(model, "weight_places.json")))
            # As told instead.
            other = os.path.join(self.dir, "other")
            self.assert_run(run("export", "--from", self.output, "--to", other, "--dtype", "bf16",
                                "--max-shard-size", "1GB"), 0)
            self.assertEqual({t[0] for t in read_tensors(other).values()}, {"BF16"})
            self.assertTrue(os.path.exists(os.path.join(other, "model.safetensors")))
            shutil.rmtree(other)
            self.begin_afresh()

    def test_a_part_is_trained_and_the_rest_goes_through(self):
        rules = {"train_only": "self_attn", "freeze": "q_proj", "dtype": "fp32"}
        trained = ("k_proj", "v_proj", "o_proj")
        self.assert_run(self.train_family(LLAMA | {"vocab_size": 256}, **rules), 0, "4 units", "trained")
        whole = self.outcome()
        described = read_json(self.output, "run.json")
        tensors = read_tensors(os.path.join(self.output, "model"))
        for name, planes in whole["digests"].items():
            is_trained = any(word in name for word in trained)
            self.assertEqual(len(planes), 3 if is_trained else 1, name)
        self.assertEqual(described["trainable_parameters"],
                         2 * (2 * 12 * 24 + 24 * 24))  # two layers' k and v, and o
        self.assertGreater(described["parameters"], described["trainable_parameters"])
        self.begin_afresh()
        self.assert_run(self.train_family(LLAMA | {"vocab_size": 256}, **rules, steps=2), 0)
        self.assert_run(self.train_family(LLAMA | {"vocab_size": 256}, **rules | {"freeze": "k_proj"},
                                          resume=True), 2, "freeze")
        self.assert_run(self.train_family(LLAMA | {"vocab_size": 256}, **rules, resume=True, offload="cpu"), 0)
        self.assertEqual(self.outcome(), whole)
        # A commit in 16 bits is generated from as its export is.
        self.begin_afresh()
        self.assert_run(self.train_family(LLAMA | {"vocab_size": 256}, **rules | {"dtype": "bf16"}), 0)
        said = [run("generate", "--model", model, "--prompt", "Spill", "--tokens", "8",
                    "--temperature", "0", "--dtype", "fp32").stdout
                for model in (self.output, os.path.join(self.output, "model"))]
        self.assertEqual(said[0], said[1])
        self.assertTrue(said[0])
        # What was not trained is what the seed gave, and what a trained model had.
        self.begin_afresh()
        self.assert_run(self.train_family(LLAMA | {"vocab_size": 256}, dtype="fp32", steps=1, lr=0), 0)
        first = read_tensors(os.path.join(self.output, "model"))
        for name, tensor in first.items():
            same = tensor == tensors[name]
            self.assertEqual(same, not any(word in name for word in trained), name)
        self.begin_afresh()
        for flags, words in (({"freeze": "["}, ("--freeze [", "regular expression")),
                             ({"train_only": "lora"}, ("--train-only lora", "no parameter")),
                             ({"freeze": "."}, ("all parameters are frozen",))):
            self.assert_run(self.train_family(LLAMA | {"vocab_size": 256}, **flags), 2, *words)
            self.assert_nothing_left()

    def test_conversations_are_learnt_and_held(self):
        golden = os.path.dirname(GOLDEN)
        tokenizer = read_json(golden, "tokenizers/qwen2/tokenizer.json")
        count = 1 + max([*tokenizer["model"]["vocab"].values(),
                         *(token["id"] for token in tokenizer["added_tokens"])])
        known = {token["content"] for token in tokenizer["added_tokens"]}
        for name in sorted({"<|im_start|>", "<|im_end|>"} - known):
            tokenizer["added_tokens"].append({
                "id": count, "content": name, "single_word": False, "lstrip": False,
                "rstrip": False, "normalized": False, "special": True})
            count += 1
        with open(os.path.join(golden, "chat/qwen2.jinja"), encoding="utf-8") as file:
            template = file.read()
        self.write("model-in/tokenizer.json", tokenizer)
        self.write("model-in/tokenizer_config.json",
                   {"chat_template": template, "eos_token": "<|endoftext|>"})
        ids = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
        turn, end = ids["<|im_end|>"], ids["<|endoftext|>"]
        self.write("model-in/generation_config.json", {"eos_token_id": end, "top_k": 5})
        said = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Nobody."}]
        data = self.write("chat.jsonl", 60 * (json.dumps({"messages": said}) + "\n"))
        config = LLAMA | {"model_type": "qwen2", "vocab_size": count,
                          "max_position_embeddings": 128}
        self.write("model-in/config.json", config)
        self.assert_run(self.train(data=data, seq_len=64, steps=60, lr=0.02), 0)
        answer = run("generate", "--model", self.output, "--chat", "--prompt", "Who?",
                     "--temperature", "0", "--tokens", "40")
        self.assert_run(answer, 0)
        self.assertEqual(answer.stdout.strip(), "Nobody.")
        # What ends a turn ends texts of the model that is exported, too.
        self.assertEqual(read_json(self.output, "model/generation_config.json"),
                         {"eos_token_id": [turn, end], "top_k": 5})
        model = os.path.join(self.output, "model")
        written = ("<|im_start|>system\nYou are a helpful assistant<|im_end|>\n<|im_start|>user\nWho?<|im_end|>\n"
                   "<|im_start|>assistant\n")
        plain = json.loads(run("generate", "--model", model, "--prompt", written, "--temperature", "0", "--tokens", "40",
                               "--json").stdout)
        self.assertEqual((plain["text"], plain["ended"], plain["tokens"][-1]), ("Nobody.", True, turn))
        answer = run("generate", "--model", self.output, "--chat", "--prompt", "Who?", "--temperature", "0", "--stop", "dy")
        self.assertEqual(answer.stdout.strip(), "Nobo")
        os.remove(self.path("model-in/tokenizer_config.json"))
        self.begin_afresh()
        self.assert_run(self.train(data=data, seq_len=32), 2, "chat template")

    # Prompts and completions of these lengths; a newline ends each.
    PAIRS = [(3, 5), (1, 2), (6, 8), (2, 1), (4, 11), (5, 3), (1, 1), (2, 6)]

    def train_pairs(self, pairs=None, **changes):
        self.write("model-in/config.json", LLAMA | {"vocab_size": 256})
        lines = [json.dumps({"prompt": "p" * p, "completion": "c" * c})
                 for p, c in pairs or self.PAIRS]
        return self.train(**({"tokenizer": "bytes", "data": self.write("pairs.jsonl", "\n".join(lines)),
                              "order": "sequential", "dtype": "fp32"} | changes))

    def test_lines_are_samples(self):
        padded = self.train_pairs(samples="padded")
        self.assert_run(padded, 0, "8 samples, padded; the longest has 15 positions")
        labels = [c + 1 for _, c in self.PAIRS]
        self.assertEqual([row["labels"] for row in self.rows()],
                         [labels[i] + labels[i + 1] for i in range(0, 8, 2)])
        whole = self.outcome()
        self.assert_run(self.train_pairs(resume=True, steps=5, packing=True), 2, "samples was padded and is now packed")
        self.assert_run(self.train_pairs(resume=True, packing="False"), 0)  # has finished already
        self.begin_afresh()
        # The maximum changes no number but by rounding.
        self.assert_run(self.train_pairs(pad_to_max_length="True", eval_data=self.path("pairs.jsonl")), 0)
        for row, (_, loss, *_) in zip(self.rows(), whole["rows"]):
            self.assertAlmostEqual(row["loss"], loss, places=5)
        with open(os.path.join(self.output, "eval.jsonl"), encoding="utf-8") as rows:
            self.assertEqual(json.loads(rows.readline())["labels"], sum(labels))

    def test_what_a_line_is_by_default(self):
        # Pairs are rows of their own, as when that is said.
        by_data = self.train_pairs()
        self.assert_run(by_data, 0, "8 samples, padded, as prompts and conversations are; the longest has 15")
        labels = [c + 1 for _, c in self.PAIRS]
        self.assertEqual([row["labels"] for row in self.rows()],
                         [labels[i] + labels[i + 1] for i in range(0, 8, 2)])
        self.assertEqual(read_json(self.output, "config.resolved.json")["samples"]["value"], "padded")
        self.assert_run(self.train_pairs(resume=True, samples="padded"), 0)  # it is the same run
        self.assert_run(self.train_pairs(resume=True, steps=5, samples="windows"), 2,
                        "samples was padded and is now not given")
        # A run that began with windows stays with them, and held-out pairs are laid as the data is.
        self.begin_afresh()
        held_out = self.path("pairs.jsonl")
        self.assert_run(self.train_pairs(samples="windows", steps=2), 0, "windows of 16 tokens")
        going_on = self.train_pairs(resume=True, steps=3)
        self.assert_run(going_on, 0, "--samples windows, as the run began", "resuming after step 2")
        # Texts are windows, and so are pairs beside what does not say where samples begin.
        texts = self.write("texts.jsonl", 20 * (json.dumps({"text": "some text. " * 3}) + "\n"))
        self.begin_afresh()
        self.assert_run(self.train_pairs(data=texts, eval_data=held_out), 0,
                        "texts.jsonl: windows of 16 tokens, as its lines are plain texts")
        self.begin_afresh()
        self.assert_run(self.train_pairs(data=[held_out, self.write("t.txt", "text. " * 30)]), 0,
                        "windows of 16 tokens, as not all files say where samples begin")

    def test_a_day_in_a_template_is_the_run_s(self):
        tokenizer = read_json(os.path.dirname(GOLDEN), "tokenizers/qwen2/tokenizer.json")
        self.write("model-in/tokenizer.json", tokenizer)
        self.write("model-in/chat_template.jinja",
                   "{{ strftime_now('%Y-%m-%d') }}{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}"
                   "{% endfor %}{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}")
        self.write("model-in/config.json", LLAMA | {"vocab_size": 4096, "max_position_embeddings": 128})
        said = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Nobody."}]
        data = self.write("chat.jsonl", 8 * (json.dumps({"messages": said}) + "\n"))
        words = {"data": data, "seq_len": 64, "steps": 2}
        self.assert_run(self.train(**words, chat_date="2026-01-31"), 0)
        self.assertEqual(read_json(self.output, "config.resolved.json")["chat-date"]["value"], "2026-01-31")
        self.assert_run(self.train(**words | {"steps": 3}, resume=True, chat_date="2026-02-01"), 2,
                        "chat-date was 2026-01-31 and is now 2026-02-01")
        # On any later day.
        self.assert_run(self.train(**words | {"steps": 3}, resume=True), 0, "resuming after step 2")
        self.assert_run(self.train(**words, chat_date="31.1.2026"), 2, "--chat-date 31.1.2026: a day is YYYY-MM-DD")

    def test_packed_lines(self):
        changes = {"packing": True, "micro_batch": 1, "steps": 8}
        # In the order in which rows are full: 8 + 3 + 3 + 2, 8 + 8; and 14, 15.
        self.assert_run(self.train_pairs(**changes), 0, "8 samples packed into 4 rows")
        whole = self.outcome()
        labels = [row["labels"] for row in self.rows()]
        self.assertEqual(labels[:2], [6 + 3 + 2 + 2, 4 + 7])
        self.assertEqual(sum(labels[:4]), sum(c + 1 for _, c in self.PAIRS))
        self.assertEqual(labels[:4], labels[4:])
        # What is computed, prompts too, but no padding.
        self.assertEqual([row["tokens"] for row in self.rows()][:4], [16, 16, 14, 15])
        self.assertEqual([row["samples"] for row in self.rows()][:4], [1] * 4)
        self.begin_afresh()
        self.assert_run(self.train_pairs(**changes | {"steps": 3}), 0)
        self.assert_run(self.train_pairs(**changes, resume=True, device_memory="32MiB"), 0)
        self.assertEqual(self.outcome(), whole)
        self.begin_afresh()
        self.assert_run(self.train_pairs(**changes | {"steps": 3}, accumulate=2), 0)
        expected = self.rows()
        self.begin_afresh()
        self.assert_run(self.train_pairs(**changes | {"steps": 3}, ranks=2), 0)
        for row, other in zip(self.rows(), expected):
            for count in ("tokens", "labels", "samples"):
                self.assertEqual(row[count], other[count])
            self.assertAlmostEqual(row["loss"], other["loss"], places=5)
        estimate = ["estimate", "--model", self.model, "--packing", "--json", "--seq-len", "16"]
        self.assert_run(run(*estimate), 0)

    def test_lines_that_are_no_samples(self):
        long = self.train_pairs(self.PAIRS + [(3, 40), (30, 2)], samples="padded")
        self.assert_run(long, 0, "1 of 9 samples are longer than --seq-len 16",
                        "1 of 10 samples are left out")
        self.begin_afresh()
        self.assert_run(self.train_pairs([(30, 2)], packing=True), 2, "pairs.jsonl", "no sample has a label",
                        "a larger --seq-len")
        self.assert_run(self.train_pairs(data=self.data, packing=True), 2, "data.bin", "--packing",
                        "give the .jsonl itself")
        self.assert_run(self.train_pairs(packing=True, samples="windows"), 2,
                        "--packing and --samples windows")
        self.assert_nothing_left()

    def test_what_is_not_built_is_named_with_its_line(self):
        for change, words in (
                ({"rope_scaling": {"rope_type": "longrope", "factor": 2}}, ["longrope", "short_factor"]),
                ({"num_key_value_heads": 3}, ["num_key_value_heads 3", "4 heads"]),
                ({"architectures": ["LlamaForTokenClassification"]},
                 ["LlamaForTokenClassification", "LlamaForCausalLM"])):
            with self.subTest(change):
                self.assert_run(self.train_family(LLAMA | change), 2, *words)
                self.assert_nothing_left()



if __name__ == "__main__":
    main()
