#!/usr/bin/env python3
"""Models in and out of the program: shards, exports from commits and copies, generating.

Against transformers itself where SPILLWAY_PEERS_PYTHON names a Python that has it.
"""

import io
import json
import os
import shlex
import shutil
import signal
import struct
import subprocess
import unittest
import zipfile

from cli_testing import CliTest, gpt2_shapes, main, read_json, run, safetensors

CONFIG = {"model_type": "gpt2", "vocab_size": 256, "n_positions": 16, "n_embd": 24, "n_layer": 3,
          "n_head": 3, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
          "eos_token_id": 255}


TOKENIZER = os.path.join(os.path.dirname(__file__), "../golden/tokenizers/llama3/tokenizer.json")


def read_tensors(path):
    """{name: (dtype, shape, bytes)} of a file or of a model directory."""
    if os.path.isdir(path):
        single = os.path.join(path, "model.safetensors")
        if os.path.exists(single):
            return read_tensors(single)
        places = read_json(path, "model.safetensors.index.json")["weight_map"]
        tensors = {}
        for name in sorted(set(places.values())):
            tensors |= read_tensors(os.path.join(path, name))
        assert set(places) == set(tensors)
        return tensors
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], data[slice(*t["data_offsets"])])
            for name, t in header.items()}


def torch_file(tensors):
    """The bytes of what torch.save writes of fp32 tensors, {name: (shape, bytes)}."""
    def text(value):
        return b"X" + struct.pack("<I", len(value)) + value.encode()

    def number(value):
        return b"J" + struct.pack("<i", value)

    pickled = b"\x80\x02}("
    for key, (name, (shape, raw)) in enumerate(tensors.items()):
        strides = [1]
        for size in shape[:0:-1]:
            strides.insert(0, strides[0] * size)
        storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(str(key)) + text("cpu")
        pickled += (text(name) + b"ctorch._utils\n_rebuild_tensor_v2\n((" + storage[1:] +
                    number(len(raw) // 4) + b"tQ" + number(0) + b"(" + b"".join(map(number, shape)) + b"t(" +
                    b"".join(map(number, strides)) + b"t\x89ccollections\nOrderedDict\n)RtR")
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", pickled + b"u.")
        for key, (_, raw) in enumerate(tensors.values()):
            archive.writestr(f"archive/data/{key}", raw)
    return file.getvalue()


class ModelCase(CliTest):
    config = CONFIG

    def setUp(self):
        super().setUp()
        # In shards, as a large model comes.
        shapes = gpt2_shapes(CONFIG)
        self.whole = safetensors(shapes)
        tensors = self.write("whole.safetensors", self.whole)
        names, places = list(shapes), {}
        for i in range(3):
            file = f"model-0000{i + 1}-of-00003.safetensors"
            header, data = {}, b""
            for name in names[i::3]:
                dtype, shape, content = read_tensors(tensors)[name]
                header[name] = {"dtype": dtype, "shape": shape,
                                "data_offsets": [len(data), len(data) + len(content)]}
                data += content
                places[name] = file
            text = json.dumps(header).encode()
            self.write("model-in/" + file, struct.pack("<Q", len(text)) + text + data)
        self.write("model-in/model.safetensors.index.json",
                   json.dumps({"metadata": {}, "weight_map": places}))

    def export(self, to, *flags, source=None):
        self.assert_run(run("export", "--from", source or self.output, "--to", to, *flags), 0)
        return to

    def generate(self, model, *flags, temperature=0):
        result = run("generate", "--model", model, "--prompt", "abc", "--tokenizer", "bytes",
                     "--tokens", 12, "--json", "--temperature", temperature, "--dtype", "fp32",
                     "--threads", 1, *flags)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)


class ModelTest(ModelCase):
    def test_a_step_that_changes_nothing_loses_nothing(self):
        before = read_tensors(self.path("whole.safetensors"))
        for dtype in ("fp32", "bf16"):
            self.begin_afresh()
            self.assert_run(self.train(steps=1, lr=0, weight_decay=0, dtype=dtype), 0)
            self.assertEqual(read_tensors(self.output + "/model"), before)
        # Through a commit, in many small shards, and once more through the engine.
        shards = self.export(self.path("shards"), "--max-shard-size", 6000)
        self.assertGreater(len([n for n in os.listdir(shards) if n.startswith("model-")]), 3)
        self.assertEqual(read_tensors(shards), before)
        self.assert_run(self.train(steps=1, lr=0, weight_decay=0, model=shards, overwrite=True), 0)
        self.assertEqual(read_tensors(self.output + "/model"), before)

    def test_an_export_has_what_a_model_directory_has(self):
        self.write("model-in/generation_config.json", '{"temperature": 0.5}')
        self.assert_run(self.train(tokenizer="bytes", steps=1, export_dtype="bf16"), 0)
        model = self.output + "/model"
        self.assertEqual(read_json(model, "generation_config.json"), {"temperature": 0.5})
        self.assertEqual(read_json(model, "config.json")["torch_dtype"], "bfloat16")
        self.assertEqual({t[0] for t in read_tensors(model).values()}, {"BF16"})
        self.assertTrue(os.path.exists(model + "/bytes.json"))
        # From the commit: the same files, in the dtype of that export or another.
        to = self.export(self.path("to"))
        for name in os.listdir(model):
            with open(f"{model}/{name}", "rb") as a, open(f"{to}/{name}", "rb") as b:
                self.assertEqual(a.read(), b.read(), name)
        self.assertEqual(sorted(os.listdir(to)), sorted(os.listdir(model)))
        to = self.export(self.path("to16"), "--dtype", "fp16")
        self.assertEqual(read_json(to, "config.json")["torch_dtype"], "float16")
        self.assertEqual({t[0] for t in read_tensors(to).values()}, {"F16"})
        for own in ("", "/source"):
            self.assert_run(run("export", "--from", self.output, "--to", self.output + own), 2,
                            "give another")
        self.assertIn("config.json", os.listdir(self.output + "/source"))

    def test_a_copy_of_a_commit_is_exported_without_the_run(self):
        self.assert_run(self.train(persist=self.path("copies"), steps=2, no_export=True,
                                   tokenizer="bytes"), 0)
        expected = self.export(self.path("a"))
        os.rename(self.output, self.path("gone"))
        os.rename(self.model, self.path("gone-too"))
        copy = os.path.join(self.path("copies"), next(
            name for name in os.listdir(self.path("copies")) if name.startswith("step-")))
        to = self.export(self.path("b"), source=copy)
        self.assertEqual(read_tensors(to), read_tensors(expected))
        self.assertEqual(sorted(os.listdir(to)), sorted(os.listdir(expected)))

    def test_weights_of_torch_save_are_those_of_safetensors(self):
        tensors = read_tensors(self.path("whole.safetensors"))
        same = self.path("same")
        self.write("same/config.json", CONFIG)
        self.write("same/pytorch_model.bin",
                   torch_file({name: (shape, raw) for name, (_, shape, raw) in tensors.items()}))
        found = run("inspect", same, "--json")
        self.assert_run(found, 0)
        found = json.loads(found.stdout)
        self.assertEqual((found["kind"], len(found["tensors"])), ("torch", len(tensors)))
        made, made_again = self.generate(self.path("model-in")), self.generate(same)
        self.assertEqual((made["text"], made["tokens"]), (made_again["text"], made_again["tokens"]))
        # Frozen layers are read in place, and written as safetensors with the same bits.
        exported = []
        for folder in (same, self.path("model-in")):
            self.begin_afresh()
            self.assert_run(self.train(model=folder, steps=2, lr=1e-2, dtype="fp32", train_only=r"h\.2\."), 0,
                            "in the model's files")
            exported.append(read_tensors(self.output + "/model"))
        self.assertEqual(*exported)
        for name, tensor in tensors.items():
            self.assertEqual(exported[0][name] == tensor, not name.startswith("h.2."), name)

    def test_a_model_in_one_shard_with_an_index_keeps_its_weights(self):
        single = "model-00001-of-00001.safetensors"
        for name in os.listdir(self.model):
            if ".safetensors" in name:
                os.remove(os.path.join(self.model, name))
        self.write("model-in/" + single, self.whole)
        places = {name: single for name in gpt2_shapes(CONFIG)}
        self.write("model-in/model.safetensors.index.json",
                   {"metadata": {}, "weight_map": places})
        self.assert_run(self.train(steps=1, lr=0, weight_decay=0), 0)
        before = read_tensors(self.path("whole.safetensors"))
        self.assertEqual(read_tensors(self.output + "/model"), before)
        self.assertEqual(read_tensors(self.export(self.path("to"))), before)
        self.assertIn("model.safetensors", os.listdir(self.path("to")))
        self.assertEqual(len(self.generate(self.path("to"))["tokens"]), 12)

    def test_a_finished_run_of_which_a_copy_is_left_exports_all_of_it(self):
        flags = {"persist": self.path("copies"), "steps": 2, "tokenizer": "bytes"}
        self.assert_run(self.train(**flags), 0)
        model = os.path.join(self.output, "model")
        names, tensors = sorted(os.listdir(model)), read_tensors(model)
        self.begin_afresh()
        self.assert_run(self.train(**flags, resume=True), 0, "already finished", "exported to")
        self.assertEqual(sorted(os.listdir(model)), names)
        self.assertEqual(read_tensors(model), tensors)
        self.assertTrue(os.path.exists(self.output + "/source/config.json"))

    def test_a_run_is_exported_while_it_goes_on(self):
        process = self.start(self.flags(steps=100000, commit_every=1, host_memory="64MiB"),
                             stderr=subprocess.DEVNULL)
        self.wait_for_rows(process, 4)
        for i in range(3):
            to = self.export(self.path(f"to{i}"))
            self.assertEqual(read_tensors(to).keys(), gpt2_shapes(CONFIG).keys())
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 75)

    def test_generating_from_a_run_its_export_and_the_swap_is_the_same(self):
        self.assert_run(self.train(steps=3, lr=1e-2), 0)
        exported = self.export(self.path("to"), "--dtype", "fp32")
        expected = self.generate(exported)
        self.assertEqual(len(expected["tokens"]), 12)
        self.assertGreater(expected["key_value_cache_bytes"], 0)
        self.assertEqual(self.generate(self.output)["tokens"], expected["tokens"])
        self.assertEqual(self.generate(exported, "--swap", self.swap)["tokens"],
                         expected["tokens"])
        self.assertNotEqual(self.generate(self.model)["tokens"], expected["tokens"])

    def test_samples_follow_seed_and_flags(self):
        def tokens(*flags, temperature=1.5):
            return self.generate(self.model, *flags, temperature=temperature)["tokens"]

        one = tokens("--seed", 1)
        self.assertEqual(tokens("--seed", 1), one)
        self.assertNotEqual(tokens("--seed", 2), one)
        likeliest = tokens(temperature=0)
        for narrow in (("--top-k", 1), ("--top-p", 1e-9)):
            self.assertEqual(tokens(*narrow), likeliest)

    def test_a_run_on_tokens_exports_the_models_tokenizer_whole(self):
        files = {"tokenizer_config.json": "{}", "tokenizer.model": "\x0a\x01", "chat_template.json": "{}",
                 "chat_template.jinja": "{}"}
        for name, content in files.items():
            self.write("model-in/" + name, content)
        shutil.copy(TOKENIZER, self.path("model-in/tokenizer.json"))
        self.assert_run(self.train(steps=1), 0)
        for name in (*files, "tokenizer.json"):
            with open(self.path("model-in/" + name), "rb") as before, \
                    open(os.path.join(self.output, "model", name), "rb") as after:
                self.assertEqual(before.read(), after.read(), name)
        # Of another model nothing stays, and a broken tokenizer is not exported.
        for name in ("tokenizer.model", "chat_template.jinja"):
            os.remove(self.path("model-in/" + name))
        self.assert_run(self.train(steps=1, overwrite=True), 0)
        for folder in ("source", "model"):
            left = os.listdir(os.path.join(self.output, folder))
            self.assertIn("tokenizer.json", left)
            self.assertFalse({"tokenizer.model", "chat_template.jinja"} & set(left), left)
        self.write("model-in/tokenizer.json", "{")
        self.assert_run(self.train(steps=1, overwrite=True), 0, "the model's tokenizer will not be exported")

    def test_a_text_ends_at_the_tokenizers_end_of_text(self):
        model = self.path("bpe")
        os.mkdir(model)
        shutil.copy(TOKENIZER, model + "/tokenizer.json")
        tokenizer = read_json(model, "tokenizer.json")
        vocabulary = 1 + max([*tokenizer["model"]["vocab"].values(),
                              *(added["id"] for added in tokenizer["added_tokens"])])
        config = CONFIG | {"vocab_size": vocabulary + 64, "eos_token_id": None}
        self.write("bpe/config.json", json.dumps(config))
        self.write("bpe/model.safetensors", safetensors(gpt2_shapes(config)))

        def generate(*flags):
            result = run("generate", "--model", model, "--prompt", "An end", "--tokens", 8,
                         "--json", "--seed", 3, "--threads", 1, "--top-k", 0, *flags)
            self.assertEqual(result.returncode, 0, result.stderr)
            return json.loads(result.stdout)

        whole = generate()
        self.assertFalse(whole["ended"])
        self.assertEqual(len(set(whole["tokens"])), 8)
        self.assertLess(max(whole["tokens"]), vocabulary, "the tokenizer knows no more")
        self.write("bpe/config.json", json.dumps(config | {"eos_token_id": whole["tokens"][4]}))
        ended = generate()
        self.assertTrue(ended["ended"])
        self.assertEqual(ended["tokens"], whole["tokens"][:5])
        self.assertTrue(whole["text"].startswith(ended["text"]))
        self.assertEqual(generate("--ignore-end")["tokens"], whole["tokens"])

    def test_what_generate_cannot_do_is_said(self):
        base = ("generate", "--model", self.model, "--tokenizer", "bytes")
        self.assert_run(run(*base, "--prompt", "a" * 17), 2, "17 tokens", "16 positions")
        self.assert_run(run(*base, "--prompt", ""), 2, "--prompt")
        self.assert_run(run(*base, "--prompt", "a", "--top-p", 0), 2, "--top-p")
        self.assert_run(run("export", "--from", self.output, "--to", self.path("to"),
                            "--max-shard-size", 0), 2, "--max-shard-size '0'")
        self.assert_run(run(*base, "--prompt", "a", "--topk", 0), 2, "did you mean --top-k")
        self.assert_run(run(*base, "--prompt", "a", "--host-memory", "1KiB", "--device-memory",
                            "1KiB"), 3, "at least --device-memory", "--swap PATH")
        self.assert_run(run("generate", "--model", self.dir, "--prompt", "a"), 2,
                        "no config.json in it, but in", "model-in")


PEERS = os.environ.get("SPILLWAY_PEERS_PYTHON")

COMPARE = """
import json, sys, torch, transformers
torch.set_num_threads(1)
directory, prompt, count = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
ids = torch.tensor([prompt])
out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False,
                     max_new_tokens=count, eos_token_id=None, pad_token_id=0)
print(json.dumps({"tokens": out[0, len(prompt):].tolist(),
                  "loss": float(model(ids, labels=ids).loss)}))
"""


def advised(message):
    """The words of the command in a message."""
    command = message[message.index("python3 "):].splitlines()[0]
    return shlex.split(command.split("; to begin with")[0])


# Weights that are not read, as their owners have them: {name in the folder: Python that writes it in "."}.
UNREAD = {
    "model.pt": "torch.jit.save(torch.jit.script(Net()), 'model.pt')",
    "pytorch_model.bin": "torch.save({k: v.t() for k, v in Net().state_dict().items()}, 'pytorch_model.bin')",
    "pytorch_model_fsdp_0/.metadata": "import torch.distributed.checkpoint as dcp; "
                                      "dcp.save({'model': Net().state_dict()}, checkpoint_id='pytorch_model_fsdp_0')",
}


class AdviceTest(ModelCase):
    """Commands that messages print: shells and Python read them whatever the path; and they help."""

    def advice(self, folder):
        found = run("inspect", self.path(folder))
        self.assert_run(found, 2)
        return advised(found.stderr)

    def test_commands_are_read_by_a_shell_and_by_python(self):
        folder = "oa'b \"$(c)\" ü"
        golden = os.path.join(os.path.dirname(__file__), "../golden/torch_files")
        for name in ("tf_model.h5", "flax_model.msgpack", "script.pt", "strided.pt", "module.pt", "latest",
                     "global_step3/mp_rank_00_model_states.pt", "pytorch_model_fsdp_0/__0_0.distcp"):
            with self.subTest(name):
                shutil.rmtree(self.path(folder), ignore_errors=True)
                self.write(f"{folder}/config.json", CONFIG)
                content = b"x"
                if os.path.exists(os.path.join(golden, name)):
                    with open(os.path.join(golden, name), "rb") as file:
                        content = file.read()
                self.write(f"{folder}/{name}", content)
                if name == "latest":
                    self.write(f"{folder}/zero_to_fp32.py", "")
                words = self.advice(folder)
                self.assertTrue([word for word in words if word.startswith(self.path(folder))], words)
                if words[1] == "-c":
                    compile(words[2], name, "exec")

    @unittest.skipUnless(PEERS, "SPILLWAY_PEERS_PYTHON names no Python with torch")
    def test_what_they_make_is_read(self):
        net = "import torch\nclass Net(torch.nn.Module):\n  def __init__(self):\n    super().__init__()\n" \
              "    self.layer = torch.nn.Linear(3, 2, bias=False)\n  def forward(self, x):\n    return self.layer(x)\n"
        for name, make in UNREAD.items():
            with self.subTest(name):
                folder = "it's " + name.split(".")[0].replace("/", " ")
                self.write(f"{folder}/config.json", CONFIG)
                self.write(f"{folder}/make.py", net + make)
                subprocess.run([PEERS, "make.py"], cwd=self.path(folder), check=True, capture_output=True)
                words = self.advice(folder)
                subprocess.run([PEERS, *words[1:]], check=True, capture_output=True)
                found = run("inspect", self.path(folder), "--json")
                self.assert_run(found, 0)
                self.assertEqual([t["name"] for t in json.loads(found.stdout)["tensors"]], ["layer.weight"])


@unittest.skipUnless(PEERS, "SPILLWAY_PEERS_PYTHON names no Python with transformers")
class TransformersTest(ModelCase):
    def peer(self, directory, prompt, count=12):
        out = subprocess.run([PEERS, "-c", COMPARE, directory, json.dumps(prompt), str(count)],
                             capture_output=True, text=True, check=True)
        return json.loads(out.stdout.splitlines()[-1])

    def test_transformers_loads_exports_and_says_the_same(self):
        self.assert_run(self.train(steps=3, lr=1e-2, dtype="fp32"), 0)
        for name, flags in (("one", ()), ("shards", ("--max-shard-size", 6000))):
            exported = self.export(self.path(name), *flags)
            ours = self.generate(exported)
            peer = self.peer(exported, ours["prompt_tokens"])
            self.assertEqual(peer["tokens"], ours["tokens"])


if __name__ == "__main__":
    main()
