#!/usr/bin/env python3
"""LoRA through the program: from a model directory to an adapter, which goes on, is generated with
and is merged."""

import json
import os
import shutil
import signal
import struct
import subprocess

import classify_test
from cli_testing import CliTest, main, read_json, read_rows, run, safetensors
from model_test import read_tensors

LLAMA = {"model_type": "llama", "vocab_size": 256, "hidden_size": 24, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 40,
         "max_position_embeddings": 16}
LORA = {"lora_r": 2, "lora_alpha": 6, "lora_targets": "all-linear", "lora_dropout": 0.1,
        "dtype": "fp32"}


def write_int8(folder, skipped=()):
    """Quantises a model's matrices in layers as bitsandbytes does but for modules of such names,
    and its config says so."""
    def fp32(value):
        return struct.unpack("<f", struct.pack("<f", value))[0]

    header, data = {}, b""
    for name, (dtype, shape, raw) in read_tensors(folder).items():
        tensors = {name: (dtype, shape, raw)}
        if "layers" in name and len(shape) == 2 and not any(part in name for part in skipped):
            values = struct.unpack(f"<{len(raw) // 4}f", raw)
            codes, scales = b"", b""
            for begin in range(0, len(values), shape[1]):
                row = values[begin:begin + shape[1]]
                largest = max(map(abs, row))
                inverse = fp32(127 / largest)
                codes += struct.pack(f"<{shape[1]}b", *(round(fp32(v * inverse)) for v in row))
                scales += struct.pack("<f", largest)
            module = name.removesuffix("weight")
            tensors = {name: ("I8", shape, codes), module + "SCB": ("F32", shape[:1], scales),
                       module + "weight_format": ("U8", [], b"\0")}
        for key, (kind, sizes, content) in tensors.items():
            header[key] = {"dtype": kind, "shape": sizes,
                           "data_offsets": [len(data), len(data) + len(content)]}
            data += content
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    config = read_json(folder, "config.json")
    config["quantization_config"] = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    if skipped:
        config["quantization_config"]["llm_int8_skip_modules"] = list(skipped)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)


def write_as(folder, dtype_of, shards=1):
    """Writes a model's fp32 tensors anew, each in the dtype that `dtype_of(name)` says."""
    def converted(raw, dtype):
        values = struct.unpack(f"<{len(raw) // 4}f", raw)
        if dtype == "BF16":  # cut off, so that there is nothing to round
            return b"".join(raw[i + 2:i + 4] for i in range(0, len(raw), 4))
        return raw if dtype == "F32" else struct.pack(f"<{len(values)}e", *values)

    tensors = [(name, dtype_of(name), shape, converted(raw, dtype_of(name)))
               for name, (_, shape, raw) in read_tensors(folder).items()]
    os.remove(os.path.join(folder, "model.safetensors"))
    places = {}
    for shard in range(shards):
        name = "model.safetensors" if shards == 1 else f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        header, data = {}, b""
        for key, dtype, shape, content in tensors[shard::shards]:
            header[key] = {"dtype": dtype, "shape": shape,
                           "data_offsets": [len(data), len(data) + len(content)]}
            data += content
            places[key] = name
        text = json.dumps(header).encode()
        with open(os.path.join(folder, name), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + data)
    if shards > 1:
        with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
            json.dump({"metadata": {}, "weight_map": places}, file)


class LoraTest(CliTest):
    config = LLAMA | {"n_positions": 16}
    trained = {}  # the base's files, made once

    def setUp(self):
        super().setUp()
        self.write("model-in/config.json", LLAMA)
        self.text = self.write("text.txt", "Spillway. " * 80)
        self.base = os.path.join(self.dir, "base")
        if not self.trained:
            self.assert_run(self.train_here(steps=6, lr=3e-3, dtype="fp32"), 0)
            for name in os.listdir(self.path("out/model")):
                with open(self.path("out/model/" + name), "rb") as file:
                    self.trained[name] = file.read()
            self.begin_afresh()
        for name, content in self.trained.items():
            self.write("base/" + name, content)

    def train_here(self, **changes):
        return self.train(**{"tokenizer": "bytes", "data": self.text, **changes})

    def adapt(self, **changes):
        return self.train_here(**{"model": self.base, **LORA, **changes})

    def adapter(self, folder=None):
        return os.path.join(folder or self.output, "adapter")

    def weights(self, folder=None):
        return read_tensors(os.path.join(self.adapter(folder), "adapter_model.safetensors"))

    def continuation(self, *flags):
        result = run("generate", *flags, "--prompt", "Spill", "--tokens", "12", "--temperature",
                     "0", "--dtype", "fp32")
        self.assert_run(result, 0)
        return result.stdout

    def test_an_adapter_is_trained_in_any_placement_and_goes_on(self):
        self.assert_run(self.adapt(steps=6), 0, "beside 14 matrices", "the adapter is in")
        whole, weights = self.outcome(), self.weights()
        self.assertFalse(os.path.exists(os.path.join(self.output, "model")))
        self.assertEqual(len(weights), 28)
        described = read_json(self.output, "run.json")
        self.assertEqual(described["trainable_parameters"],
                         sum(len(raw) // 4 for _, _, raw in weights.values()))
        # Only adapters have more than a weight.
        for name, planes in whole["digests"].items():
            self.assertEqual(len(planes), 3 if ".lora_" in name else 1, name)
        # With a kill between, and going on in memory: the same bits.
        self.begin_afresh()
        process = self.start(self.flags(model=self.base, data=self.text, tokenizer="bytes", **LORA,
                                        steps=6, commit_every=1), stderr=subprocess.DEVNULL)
        self.wait_for_rows(process, 3)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assert_run(self.adapt(steps=6, commit_every=1, offload="none", resume=True), 0)
        self.assertEqual(self.weights(), weights)
        self.assertEqual(self.outcome()["digests"], whole["digests"])
        self.assert_run(self.adapt(steps=8, resume=True, lora_alpha=5), 2, "adapters")

    def test_it_is_generated_with_and_merged(self):
        self.assert_run(self.adapt(steps=6, lr=3e-2, lora_targets="q_proj,down_proj",
                                   modules_to_save="lm_head"), 0, "lm_head.weight")
        config = read_json(self.adapter(), "adapter_config.json")
        self.assertEqual(config["target_modules"], ["q_proj", "down_proj"])
        self.assertEqual(config["base_model_name_or_path"], self.base)
        said = self.continuation("--model", self.output)
        self.assertNotEqual(said, self.continuation("--model", self.base))
        self.assertEqual(said, self.continuation("--model", self.base, "--adapter",
                                                 self.adapter()))
        merged = os.path.join(self.dir, "merged")
        self.assert_run(run("export", "--from", self.output, "--to", merged, "--merge"), 0)
        self.assertEqual(said, self.continuation("--model", merged))
        before, after = read_tensors(self.base), read_tensors(merged)
        self.assertEqual(sorted(before), sorted(after))
        changed = {name for name in before if before[name] != after[name]}
        self.assertEqual({name.split(".")[-2] for name in changed},
                         {"q_proj", "down_proj", "lm_head"})
        self.assertFalse(os.path.exists(os.path.join(merged, "adapter_config.json")))
        # Beside a model's own files an adapter leaves these alone.
        self.assert_run(run("export", "--from", self.output, "--to", merged), 0)
        self.assertEqual(read_tensors(merged), after)
        # A run that begins where it ended.
        kept = os.path.join(self.dir, "kept")
        shutil.copytree(self.adapter(), kept)
        weights = self.weights()
        self.begin_afresh()
        self.assert_run(self.train_here(model=self.base, adapter=kept, steps=1, lr=0,
                                        dtype="fp32"), 0)
        self.assertEqual(self.weights(), weights)

    def test_a_merge_changes_what_was_adapted_and_nothing_else(self):
        mixed = lambda name: "F32" if "norm" in name else "BF16" if "proj" in name else "F16"
        cases = [("fp16", {}, lambda name: "F16", 1), ("fp32", {}, lambda name: "F32", 1),
                 ("mixed, in shards", {}, mixed, 3), ("nf4", {"base_dtype": "nf4"}, mixed, 1)]
        for what, flags, dtype_of, shards in cases:
            with self.subTest(what):
                for folder in ("typed", "merged"):
                    shutil.rmtree(self.path(folder), ignore_errors=True)
                typed, merged = self.path("typed"), self.path("merged")
                shutil.copytree(self.base, typed)
                write_as(typed, dtype_of, shards)
                before = read_tensors(typed)
                self.assert_run(self.adapt(steps=2, lr=3e-2, dtype="bf16", model=typed, lora_targets="q_proj",
                                           modules_to_save="model.norm", **flags), 0)
                export = ["export", "--from", self.output, "--to", merged, "--merge"]
                self.assert_run(run(*export), 0)
                after = read_tensors(merged)
                self.assertEqual({name: t[:2] for name, t in before.items()},
                                 {name: t[:2] for name, t in after.items()})
                changed = {name for name in before if before[name] != after[name]}
                self.assertEqual({name.removesuffix(".weight").rsplit(".", 1)[-1] for name in changed},
                                 {"q_proj", "norm"})
                self.assertEqual(len(changed), 3)
                if what != "fp32":
                    self.begin_afresh()
                    continue
                # Where the files are gone, or others, that is said; elsewhere they are found.
                os.rename(typed, self.path("moved"))
                result = run(*export)
                self.assert_run(result, 0, "is written as it holds it, in bf16", "--model")
                self.assertNotEqual(read_tensors(merged), after)
                self.assert_run(run(*export, "--model", self.path("moved")), 0)
                self.assertEqual(read_tensors(merged), after)
                self.write("typed/config.json", read_json(self.base, "config.json"))
                self.write("typed/model.safetensors", safetensors({name: t[1] for name, t in before.items()}))
                self.assert_run(run(*export), 0, "other weights than the run was started from")
                self.begin_afresh()
                shutil.rmtree(self.path("moved"))

    def test_what_a_run_freezes_is_exported_as_it_was(self):
        before = read_tensors(self.base)
        self.assert_run(self.train_here(model=self.base, steps=2, lr=3e-2, dtype="bf16",
                                        train_only="layers.1"), 0)
        folders = [os.path.join(self.output, "model"), self.path("exported")]
        self.assert_run(run("export", "--from", self.output, "--to", folders[1]), 0)
        for folder in folders:
            after = read_tensors(folder)
            self.assertEqual({name for name in before if before[name] != after[name]},
                             {name for name in before if "layers.1" in name})

    def test_tied_logits_and_modules_to_save(self):
        """What PEFT would not tie is written for it as a module of its own."""
        self.write("tied/config.json", LLAMA | {"tie_word_embeddings": True})
        shutil.copy(os.path.join(self.base, "bytes.json"), self.path("tied"))
        kept = {name: t[1] for name, t in read_tensors(self.base).items() if name != "lm_head.weight"}
        self.write("tied/model.safetensors", safetensors(kept))
        flags = {"model": self.path("tied"), "steps": 2, "lr": 3e-2}
        self.assert_run(self.adapt(**flags, modules_to_save="lm_head"), 2, "the module to save lm_head",
                        "model.embed_tokens")
        said = []
        for names in ("embed_tokens", "embed_tokens,lm_head"):
            self.assert_run(self.adapt(**flags, modules_to_save=names), 0)
            config, weights = read_json(self.adapter(), "adapter_config.json"), self.weights()
            self.assertEqual(config["modules_to_save"], ["embed_tokens", "lm_head"])
            self.assertIs(config["ensure_weight_tying"], True)
            embedding, head = (weights[f"base_model.model.{name}.weight"] for name in
                               ("model.embed_tokens", "lm_head"))
            self.assertEqual(embedding, head)
            said.append(self.continuation("--model", self.output))
            kept = self.path("kept")
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(self.adapter(), kept)
            self.begin_afresh()
        self.assertEqual(*said)
        self.assertEqual(said[0], self.continuation("--model", flags["model"], "--adapter", kept,
                                                    "--tokenizer", "bytes"))
        # As PEFT trains it by default: the embedding apart from the logits that the model ties.
        tensors = read_tensors(os.path.join(kept, "adapter_model.safetensors"))
        tensors.pop("base_model.model.lm_head.weight")
        header, data = {}, b""
        for name, (dtype, shape, raw) in tensors.items():
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
            data += raw
        text = json.dumps(header).encode()
        self.write("kept/adapter_model.safetensors", struct.pack("<Q", len(text)) + text + data)
        self.write("kept/adapter_config.json", json.dumps(
            {k: v for k, v in config.items() if k != "ensure_weight_tying"} | {"modules_to_save": ["embed_tokens"]}))
        apart = self.continuation("--model", flags["model"], "--adapter", kept, "--tokenizer", "bytes")
        self.assertNotEqual(apart, said[0])
        self.assert_run(self.train_here(**flags | {"lr": 0, "steps": 1}, adapter=kept, dtype="fp32"), 0,
                        "lm_head.weight is apart from model.embed_tokens.weight")
        self.assertEqual(read_json(self.adapter(), "adapter_config.json")["modules_to_save"], ["embed_tokens"])
        self.assertEqual(self.weights(), tensors)
        self.assertEqual(apart, self.continuation("--model", self.output))
        merged = self.path("merged")
        self.assert_run(run("export", "--from", self.output, "--to", merged, "--merge"), 0)
        self.assertIs(read_json(merged, "config.json")["tie_word_embeddings"], False)
        self.assertEqual(read_tensors(merged)["lm_head.weight"],
                         read_tensors(flags["model"])["model.embed_tokens.weight"])
        self.assertEqual(apart, self.continuation("--model", merged))

    def test_patterns_that_fit_nothing_and_adapters_beside_embeddings(self):
        config = {"peft_type": "LORA", "r": 3, "target_modules": ["v_proj"],
                  "rank_pattern": {"vv_proj": 2, "v_proj": 1}, "alpha_pattern": {"^v_proj": 100}}
        path = self.write("adapter_config.json", config)
        self.assert_run(self.train_here(model=self.base, peft_config=path, steps=1), 0,
                        "rank_pattern's vv_proj is the pattern of no layer", "alpha_pattern's ^v_proj")
        for module, parts in (("lm_head", ("lora_A.weight", "lora_B.weight")),
                              ("model.embed_tokens", ("lora_embedding_A", "lora_embedding_B"))):
            kept = self.path("kept")
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(self.adapter(), kept)
            shapes = {name: t[1] for name, t in self.weights().items()}
            shapes |= {f"base_model.model.{module}.{part}": [3, 24] for part in parts}
            self.write("kept/adapter_model.safetensors", safetensors(shapes))
            said = read_json(kept, "adapter_config.json")
            self.write("kept/adapter_config.json", json.dumps(
                said | {"target_modules": ["v_proj", module.split(".")[-1]]}))
            self.assert_run(run("generate", "--model", self.base, "--adapter", kept, "--prompt", "a"), 2,
                            f"adapter beside {module}", "modules_to_save")

    def test_targets_that_no_config_names_are_the_familys(self):
        self.assert_run(self.adapt(steps=2, lr=3e-2, lora_targets=None), 0, "beside 4 matrices")
        said = self.continuation("--model", self.output)
        path = os.path.join(self.adapter(), "adapter_config.json")
        config = read_json(path)
        self.assertEqual(sorted(config["target_modules"]), ["q_proj", "v_proj"])
        with open(path, "w", encoding="utf-8") as f:
            json.dump(config | {"target_modules": None}, f)
        self.assertEqual(said, self.continuation("--model", self.base, "--adapter",
                                                 self.adapter()))

    def test_a_config_of_peft_says_all_of_it(self):
        config = {"peft_type": "LORA", "r": 3, "lora_alpha": 4, "target_modules": ["v_proj"],
                  "layers_to_transform": [1], "use_dora": False, "lora_bias": False}
        path = self.write("adapter_config.json", config)
        flags = {"model": self.base, "peft_config": path, "steps": 1}
        self.assert_run(self.train_here(**flags), 0, "beside 1 matrix")
        self.assertEqual([name.split(".")[4] for name in self.weights()], ["1", "1"])
        self.begin_afresh()
        for change, words in [
                ({"target_modules": ["v_projection"]}, ["v_projection", "v_proj", "all-linear"]),
                ({"target_modules": ["embed_tokens"]}, ["beside which there are no adapters", "--modules-to-save"]),
                ({"modules_to_save": ["lm_headed"]}, ["lm_headed", "not in the model"]),
                ({"layers_to_transform": [7]}, ["v_proj", "layers"]),
                ({"a_new_kind": True}, ["a_new_kind is true", "adapter_config.json:"])]:
            with self.subTest(change):
                self.write("adapter_config.json", config | change)
                self.assert_run(self.train_here(**flags), 2, *words)
                self.assertFalse(os.path.exists(self.output))

    def test_a_base_in_nf4_is_written_once_and_computes_the_same_anywhere(self):
        flags = {"base_dtype": "nf4", "steps": 4, "lr": 3e-2}
        self.assert_run(self.adapt(**flags, offload="nvme"), 0, "kept in nf4", "written once")
        whole, weights = self.outcome(), self.weights()
        said = self.continuation("--model", self.output)
        merged = os.path.join(self.dir, "merged")
        self.assert_run(run("export", "--from", self.output, "--to", merged, "--merge"), 0)
        self.assertEqual(said, self.continuation("--model", merged))
        self.assertEqual(sorted(read_tensors(merged)), sorted(read_tensors(self.base)))
        self.begin_afresh()
        self.assert_run(self.adapt(**flags | {"steps": 2}, offload="none"), 0)
        self.assert_run(self.adapt(**flags, resume=True), 0)
        self.assertEqual(self.weights(), weights)
        self.assertEqual(self.outcome()["digests"], whole["digests"])
        of_two = []
        for shard in ("full", "none"):
            self.begin_afresh()
            self.assert_run(self.adapt(**flags | {"steps": 2}, ranks=2, accumulate=1, shard=shard), 0)
            of_two.append(self.weights())
        self.assertEqual(*of_two)
        self.assert_run(self.adapt(**flags | {"base_dtype": "int8", "steps": 2}, ranks=2, accumulate=1,
                                   shard="none", resume=True), 2, "base-dtype")
        self.assert_run(self.train_here(model=self.base, base_dtype="nf4", overwrite=True), 2,
                        "--base-dtype nf4", "--lora-r")
        self.assert_run(self.adapt(base_dtype="fp4"), 2, "--base-dtype", "nf4")

    def test_a_base_that_bitsandbytes_quantised_is_read_as_it_is(self):
        flags = {"steps": 3, "lr": 3e-2}
        self.assert_run(self.adapt(**flags, base_dtype="int8"), 0, "kept in int8")
        weights = self.weights()
        said = self.continuation("--model", self.output)
        quantised = os.path.join(self.dir, "quantised")
        shutil.copytree(self.base, quantised)
        write_int8(quantised)
        self.begin_afresh()
        self.assert_run(self.adapt(**flags, model=quantised), 0, "kept in int8")
        self.assertEqual(self.weights(), weights)
        self.assertEqual(said, self.continuation("--model", self.output))
        self.assertEqual(said, self.continuation("--model", quantised, "--adapter",
                                                 self.adapter()))
        self.assertNotIn("quantization_config", read_json(self.output, "source/config.json"))
        self.begin_afresh()
        self.assert_run(self.train_here(model=quantised), 2, "quantised (int8)", "--lora-r 16")
        self.assertFalse(os.path.exists(self.output))
        config = read_json(quantised, "config.json")
        config["quantization_config"]["quant_method"] = "gptq"
        self.write("quantised/config.json", config)
        self.assert_run(self.adapt(model=quantised), 2, "gptq", "nf4 and int8")

    def test_matrices_that_bitsandbytes_left_stay_as_they_are(self):
        quantised = self.path("quantised")
        shutil.copytree(self.base, quantised)
        write_int8(quantised, skipped=["o_proj", "down_proj"])
        flags = {"model": quantised, "steps": 3, "lr": 3e-2}
        self.assert_run(self.adapt(**flags), 0, "kept in int8")
        weights = self.weights()
        said = self.continuation("--model", self.output)
        self.assertEqual(said, self.continuation("--model", quantised, "--adapter",
                                                 self.adapter()))
        merged, all_of_it = self.path("merged"), self.path("all-of-it")
        # With nothing learnt what was left is what it was, to the bit.
        self.begin_afresh()
        self.assert_run(self.adapt(**flags | {"lr": 0, "steps": 1}), 0)
        self.assert_run(run("export", "--from", self.output, "--to", merged, "--merge"), 0)
        before, after = read_tensors(self.base), read_tensors(merged)
        for name, tensor in before.items():
            kept = not any(part in name for part in ("q_proj", "k_proj", "v_proj", "gate_proj",
                                                     "up_proj"))
            self.assertEqual(after[name] == tensor, kept, name)
        # --base-dtype asks for all of them.
        self.begin_afresh()
        self.assert_run(self.adapt(**flags, base_dtype="int8"), 0, "kept in int8")
        self.assertNotEqual(self.weights(), weights)
        # The same in memory, and on --resume.
        self.begin_afresh()
        self.assert_run(self.adapt(**flags | {"steps": 2}, offload="none"), 0)
        self.assert_run(self.adapt(**flags, resume=True), 0)
        self.assertEqual(self.weights(), weights)
        # estimate knows it from the files.
        shutil.copytree(self.base, all_of_it)
        write_int8(all_of_it)
        stores = []
        for model in (quantised, all_of_it):
            words = self.flags(model=model, data=self.text, tokenizer="bytes", **LORA)[1:]
            result = run("estimate", *words, "--json", "--dry-run", "no")
            self.assert_run(result, 0)
            stores.append(json.loads(result.stdout)["store_bytes"])
        self.assertGreater(*stores)

    def test_an_adapter_in_the_runs_own_output_is_not_overwritten(self):
        self.assert_run(self.adapt(steps=1), 0)
        weights = self.weights()
        link = self.path("link")
        os.symlink(self.output, link)
        for adapter in (self.adapter(), self.adapter(link)):
            for overwrite in (False, True):
                self.assert_run(self.train_here(model=self.base, adapter=adapter, steps=1,
                                                dtype="fp32", overwrite=overwrite), 2,
                                "--adapter", "give another --output")
        self.assertEqual(self.weights(), weights)

    def test_what_does_not_fit_is_refused_before_anything_is_written(self):
        for changes, words in [
                ({"lora_r": 0}, ["--lora-r '0'"]),
                ({"lora_dropout": 1}, ["--lora-dropout '1'"]),
                ({"lora_bias": "some"}, ["--lora-bias", "lora_only"]),
                ({"lora_r": None}, ["needs --lora-r"]),
                ({"adapter": "elsewhere"}, ["--lora-r", "--adapter"])]:
            with self.subTest(changes):
                self.assert_run(self.adapt(**changes), 2, *words)
                self.assertFalse(os.path.exists(self.output))
        only = {"model": self.base, "dtype": "fp32", "steps": 1}
        self.assert_run(self.train_here(**only, adapter="elsewhere"), 2, "elsewhere")
        # Another model's.
        self.assert_run(self.adapt(steps=1), 0)
        kept = os.path.join(self.dir, "kept")
        shutil.copytree(self.adapter(), kept)
        self.begin_afresh()
        wide = self.write("wide/config.json", LLAMA | {"hidden_size": 32})
        self.assert_run(self.train_here(**only | {"model": os.path.dirname(wide)}, adapter=kept), 2,
                        "[2, 24]", "[2, 32]")
        config = read_json(kept, "adapter_config.json")
        self.write("kept/adapter_config.json", json.dumps(config | {"layers_to_transform": [0]}))
        self.assert_run(self.train_here(**only, adapter=kept), 2, "layers.1", "another")
        self.assert_run(run("generate", "--model", self.base, "--adapter", kept, "--prompt", "a"),
                        2, "layers.1")
        os.remove(os.path.join(kept, "adapter_model.safetensors"))
        self.assert_run(self.train_here(**only, adapter=kept), 2, "adapter_model.safetensors")
        self.assertFalse(os.path.exists(self.output))
        # A run without adapters has none to merge, whatever one of before its first commit has left.
        self.write("out/source/adapter_config.json", config)
        self.assert_run(self.train_here(**only), 0)
        self.assertTrue(os.path.exists(os.path.join(self.output, "model")))
        self.assert_run(run("export", "--from", self.output, "--to", os.path.join(self.dir, "m"),
                            "--merge"), 2, "no adapters")


class NewHeadTest(CliTest):
    """A classifier's adapters on files of another task, which have no head and no pooler."""
    config = classify_test.BERT | {"n_positions": 48}

    def setUp(self):
        super().setUp()
        self.write("model-in/config.json", classify_test.BERT)
        self.data = self.write("train.jsonl", classify_test.jsonl(classify_test.made_rows(64, 1)))
        self.held_out = self.write("dev.jsonl", classify_test.jsonl(classify_test.made_rows(16, 2)))
        self.assert_run(self.classify(steps=1), 0)
        trained = read_tensors(os.path.join(self.output, "model"))
        self.write("model-in/model.safetensors", safetensors(
            {name: shape for name, (_, shape, _) in trained.items()
             if not name.startswith(("classifier.", "bert.pooler."))}))
        self.begin_afresh()

    def classify(self, **changes):
        return self.train(**{"tokenizer": "bytes", "dtype": "fp32", "seq_len": 48, "lr": "1e-2",
                             **changes})

    def predict(self, *flags):
        out = self.path("answers.jsonl")
        if os.path.exists(out):
            os.remove(out)
        self.assert_run(run("predict", "--data", self.held_out, "--out", out, "--tokenizer",
                            "bytes", "--threads", 1, *flags), 0, "16 texts classified")
        return read_rows(out)

    def test_it_is_trained_saved_and_need_not_be_in_the_base(self):
        for given, saved in ((None, ["classifier", "bert.pooler.dense"]),
                             ("pooler", ["pooler", "classifier"])):
            with self.subTest(given):
                self.begin_afresh()
                self.assert_run(self.classify(lora_r=2, modules_to_save=given, steps=3), 0,
                                "begun anew")
                adapter = os.path.join(self.output, "adapter")
                self.assertEqual(read_json(adapter, "adapter_config.json")["modules_to_save"],
                                 saved)
                names = read_tensors(os.path.join(adapter, "adapter_model.safetensors"))
                for module in ("classifier", "bert.pooler.dense"):
                    self.assertIn(f"base_model.model.{module}.weight", names)
        rows = self.predict("--model", self.output)
        self.assertEqual(self.predict("--model", self.model, "--adapter", adapter, "--dtype", "fp32"),
                         rows)
        self.assert_run(self.classify(lora_r=2, modules_to_save=given, steps=4, resume=True), 0)


if __name__ == "__main__":
    main()
