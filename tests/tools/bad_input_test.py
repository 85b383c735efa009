#!/usr/bin/env python3
"""Bad input: each with a clear message, the right exit code, and nothing left behind."""

import json
import os
import pwd
import re
import resource
import shutil
import signal
import struct
import subprocess
import unittest

import cli_testing
from cli_testing import (CliTest, digest_of, gpt2_shapes, read_json, run, safetensors, with_header,
                         write_tokens)


class BadInput(CliTest):
    def refuse(self, code, *words, **changes):
        result = self.train(**changes)
        self.assert_run(result, code, *words)
        self.assert_nothing_left()
        self.assertNotIn("terminate called", result.stderr)
        return result.stderr


class NobodyCase(BadInput):
    """With runs by an ordinary user: root's are not bound by permissions and some limits."""

    nobody = {}

    def folder_of_nobody(self):
        """A new folder where `nobody`, flags of subprocess, may write."""
        parent = self.path("theirs")
        os.mkdir(parent)
        if os.geteuid() != 0:
            return parent
        user = pwd.getpwnam("nobody")
        self.nobody = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        try:
            started = subprocess.run([cli_testing.program(), "--help"], capture_output=True,
                                     env=cli_testing.environment(), cwd="/", check=False,
                                     **self.nobody)
        except PermissionError:
            started = None
        if started is None or started.returncode != 0:
            self.skipTest("another user cannot start the program where it lies")
        if subprocess.run(["cat", self.data], capture_output=True, check=False,
                          **self.nobody).returncode != 0:
            self.skipTest("another user cannot read the test's folder")
        os.chown(parent, user.pw_uid, user.pw_gid)
        return parent


class DeviceTest(BadInput):
    def test_cuda_in_a_build_without_it(self):
        words = ("--device cuda", "this build has no CUDA", "tools/build cuda")
        self.refuse(2, *words, device="cuda")
        self.assert_run(run("estimate", "--model", self.path("model-in"), "--device", "cuda"), 2, *words)
        self.refuse(2, "--device", "auto, cpu, cuda", device="gpu")

    def test_auto_is_the_cpu_and_says_why(self):
        result = self.train(device="auto")
        self.assert_run(result, 0, "computing on the CPU: this build has no CUDA")
        self.assertEqual(read_json(self.output, "config.resolved.json")["device"],
                         {"value": "cpu", "source": "derived"})
        self.assertEqual(read_json(self.output, "run.json")["device"], "cpu")


class ModelTest(BadInput):
    def with_config(self, **changes):
        config = dict(self.config, **changes)
        config = {key: value for key, value in config.items() if value is not None}
        self.write("model-in/config.json", json.dumps(config))

    def test_unknown_model_type(self):
        self.with_config(model_type="mpt")
        self.refuse(2, "\"mpt\"", "gpt2", "llama", "config.json")
        self.with_config(model_type=None)
        self.refuse(2, "model_type", "missing")

    def test_missing_directory(self):
        self.assertNotIn("hub", self.refuse(2, "nowhere", model=self.path("nowhere")))
        os.remove(self.path("model-in/config.json"))
        self.refuse(2, "config.json")

    def test_a_name_of_the_hub(self):
        command = "hf download no-such-org/gpt-2.b --local-dir gpt-2.b"
        self.refuse(2, "no-such-org/gpt-2.b", "no such directory", command, model="no-such-org/gpt-2.b")
        for words in (["estimate"], ["generate", "--prompt", "a"]):
            self.assert_run(run(*words, "--model", "no-such-org/gpt-2.b"), 2, command)
        # A folder that is there is one that the model is not in.
        for model in ("./no-such-org/gpt2", "tests/gpt2", "a/b/c", "no-such-model"):
            result = run(*self.flags(model=model), cwd=os.path.dirname(os.path.dirname(__file__)) + "/..")
            self.assert_run(result, 2, model)
            self.assertNotIn("hf download", result.stderr)

    def test_no_directory(self):
        os.symlink("loop", self.path("loop"))
        for model in (self.data, self.data + "/model", self.path("loop"), self.path("a" * 300)):
            self.refuse(2, "--model", model, model=model)
            self.assert_run(run("estimate", "--model", model), 2, model)

    def test_config_that_cannot_be(self):
        self.with_config(n_embd=15)
        self.refuse(2, "hidden size 15", "divisible")
        self.with_config(n_layer=0)
        self.refuse(2, "n_layer")
        self.with_config(activation_function="prelu")
        self.refuse(2, "activation_function", "prelu")
        self.with_config(attn_pdrop=1.5)
        self.refuse(2, "attn_pdrop", "1.5")
        for text in ("{", "[" * 100000, '{"model_type": "gpt2", "model_type": "gpt2"}', "", "[]"):
            self.write("model-in/config.json", text)
            self.refuse(2, "config.json")

    def test_pickled_weights(self):
        self.write("model-in/pytorch_model.bin", b"\x80\x02")
        self.refuse(2, "pytorch_model.bin", "safetensors", "save_pretrained")

    def weights(self, content):
        self.write("model-in/model.safetensors", content)

    def test_good_weights_train(self):
        self.weights(safetensors(gpt2_shapes(self.config)))
        self.assert_run(self.train(), 0)

    def test_missing_and_misshapen_tensors(self):
        shapes = gpt2_shapes(self.config)
        left_out = dict(shapes)
        del left_out["h.0.mlp.c_fc.bias"]
        self.weights(safetensors(left_out))
        self.refuse(2, "h.0.mlp.c_fc.bias", "missing")
        self.weights(safetensors({**shapes, "h.0.ln_1.weight": [17]}))
        self.refuse(2, "h.0.ln_1.weight", "17", "16")
        self.weights(safetensors({**shapes, "h.1.ln_1.weight": [16]}))
        self.refuse(2, "h.1.ln_1.weight")

    def test_weights_that_are_not_finite(self):
        shapes = gpt2_shapes(self.config)
        self.weights(safetensors(shapes, value=float("nan")))
        self.refuse(2, "finite", "weight")

    def test_weights_that_are_no_file(self):
        """One of each kind: tests/engine/weights/safetensors_test.cc has them all."""
        whole = safetensors(gpt2_shapes(self.config))
        for content in (whole[:100], whole + b"x", with_header('{"a":' * 5000 + "1" + "}" * 5000)):
            self.weights(content)
            self.refuse(4, "model.safetensors")
            result = run("inspect", self.path("model-in/model.safetensors"), "--json")
            self.assertEqual(result.returncode, 4, result.stderr)

    def test_shards(self):
        shapes = gpt2_shapes(self.config)
        names = {name: "a.safetensors" for name in shapes}
        index = "model-in/model.safetensors.index.json"
        self.write(index, json.dumps({"weight_map": names}))
        self.refuse(2, "a.safetensors", "missing")
        self.write(index, json.dumps({"weight_map": {**names, "wte.weight": "../a.safetensors"}}))
        self.refuse(4, "../a.safetensors")
        self.write(index, "{}")
        self.refuse(4, "weight_map")


class DataTest(BadInput):
    def test_missing(self):
        self.refuse(2, "nowhere.bin", data=self.path("nowhere.bin"))
        self.refuse(2, "--data", data=None)

    def test_empty_and_short(self):
        for size, word in ((0, "empty.bin"), (10, "16"), (16, "17")):
            with self.subTest(size=size):
                write_tokens(self.path("empty.bin"), size, 64)
                self.refuse(2, "empty.bin", word, data=self.path("empty.bin"))
        self.refuse(2, "odd.bin", data=self.write("odd.bin", b"abc"))
        self.refuse(2, "empty.txt", data=self.write("empty.txt", ""), tokenizer="chars")

    def test_token_beyond_the_vocabulary(self):
        with open(self.data, "r+b") as data:
            data.seek(2 * 777)
            data.write(struct.pack("<H", 64))
        self.refuse(2, "64", "777", "vocabulary")

    def test_formats(self):
        self.refuse(2, ".txt", ".npy", data=self.write("data.csv", "1,2,3"))
        self.refuse(2, "x.npy", data=self.write("x.npy", b"\x93NUMPY garbage"))
        # More kinds of characters than the vocabulary has.
        text = "".join(chr(0x4E00 + i) for i in range(100)) * 4
        self.refuse(2, "vocab", data=self.write("x.txt", text), tokenizer="chars")
        self.refuse(2, "UTF-8", data=self.write("x.txt", b"\xff\xfe" * 100), tokenizer="chars")
        self.refuse(2, "256", "64", data=self.write("x.txt", "text" * 100), tokenizer="bytes")

    def test_jsonl(self):
        for line, words in (('{"text": "a"', ("end of input",)), ('{"text": 1}', ("not a string",)),
                            ('{"prompt": "a"}', ("completion",)), ('{"messages": []}', ("messages", "assistant's")),
                            ('{"messages": [{"role": "assistant", "content": "a"}]}', ("chat template",)),
                            ('{"text": "\\ud83d"}', ("surrogate",))):
            data = self.write("x.jsonl", '{"text": "fine"}\n\n' + line + "\n")
            self.refuse(2, "x.jsonl:3", *words, data=data, tokenizer="chars")
        self.refuse(2, "x.jsonl", "no text", data=self.write("x.jsonl", "\n"), tokenizer="chars")

    def test_tokenizer_json(self):
        text = self.write("x.txt", "text" * 100)
        for content, words in (("{", ("tokenizer.json:1",)), ("[]", ("not an object",)),
                               ('{"pre_tokenizer": {"type": "UnicodeScripts"}}', ("UnicodeScripts", ".npy"))):
            self.write("model-in/tokenizer.json", content)
            self.refuse(2, "tokenizer.json", *words, data=text)
        os.remove(self.path("model-in/tokenizer.json"))
        self.write("model-in/vocab.json", "{}")
        self.refuse(2, "vocab.json", "save_pretrained", data=text)

    def test_characters_where_nothing_is_said(self):
        """A model without a tokenizer, and one with what is not its own."""
        text = self.write("x.txt", "abc" * 100)
        self.assert_run(self.train(data=text), 0, "no tokenizer", "3 characters", "--tokenizer chars")
        self.assertNotIn("no tokenizer", run("generate", "--model", self.output, "--prompt", "a",
                                             "--tokens", "2").stderr)
        result = run("generate", "--model", self.output, "--prompt", "a", "--tokenizer", "bytes")
        self.assert_run(result, 2, "256", "64", "vocab_size")

    def test_held_out_texts_beside_tokens(self):
        text = self.write("x.txt", "abc" * 100)
        self.refuse(2, "x.txt", "--tokenizer", eval_data=text)
        self.assert_run(self.train(data=text), 0)
        shutil.copy(os.path.join(self.output, "model", "chars.json"), self.model)
        self.begin_afresh()
        self.assert_run(self.train(eval_data=text), 0)

    def test_held_out(self):
        self.refuse(2, "nowhere.bin", eval_data=self.path("nowhere.bin"))


class TokenizeTest(CliTest):
    def tokenize(self, *args):
        return run("tokenize", *args)

    def test_writes_what_it_says(self):
        text = self.write("a.txt", "abc")
        lines = self.write("b.jsonl", '{"text": "d"}\n')
        for name, header in (("out.bin", 0), ("out.npy", 128)):
            result = self.tokenize("--tokenizer", "bytes", "--data", text, lines, "--out",
                                   self.path(name), "--json")
            self.assertEqual(result.returncode, 0, result.stderr)
            answer = json.loads(result.stdout)
            self.assertEqual((answer["tokens"], answer["bytes"], answer["dtype"]), (5, 17, "uint16"))
            with open(self.path(name), "rb") as f:
                self.assertEqual(f.read()[header:], struct.pack("<5H", *b"abcd\n"))

    def test_refuses(self):
        text = self.write("a.txt", "abc")
        pairs = self.write("p.jsonl", '{"prompt": "a", "completion": "b"}\n')
        out = self.path("out.bin")
        before = sorted(os.listdir(os.path.dirname(out)))
        for code, words, args in (
                (2, ("--out",), ("--tokenizer", "bytes", "--data", text)),
                (2, ("--data",), ("--tokenizer", "bytes", "--out", out)),
                (2, ("nowhere",), ("--tokenizer", "nowhere", "--data", text, "--out", out)),
                (2, (".npy",), ("--tokenizer", "bytes", "--data", text, "--out", out + ".x")),
                (2, ("none.txt",), ("--tokenizer", "bytes", "--data", "none.txt", "--out", out)),
                (2, ("p.jsonl:1", "loss"), ("--tokenizer", "bytes", "--data", pairs, "--out", out)),
                (2, ("--tokeniser", "--tokenizer"), ("--tokeniser", "bytes", "--tokenizer", "bytes",
                                                     "--data", text, "--out", out))):
            result = self.tokenize(*args)
            self.assertEqual(result.returncode, code, result.stderr)
            self.assertEqual(result.stdout, "")
            for word in words:
                self.assertIn(word, result.stderr)
            self.assertEqual(sorted(os.listdir(os.path.dirname(out))), before)


class ConfigTest(BadInput):
    def refuse_config(self, content, *words, **changes):
        text = content if isinstance(content, str) else json.dumps(content, indent=1)
        return self.refuse(2, *words, config=self.write("ds.json", text), **changes)

    def test_keys(self):
        self.refuse_config({"zero_optimisation": {"stage": 3}}, "zero_optimisation",
                           "zero_optimization", "ds.json:2")
        self.refuse_config({"gradient_cliping": 1.0}, "gradient_cliping", "gradient_clipping")
        self.refuse_config({"optimizer": {"type": "AdamW", "params": {"learning_rat": 1}}},
                           "learning_rat")
        self.refuse_config({"train_micro_batch_size": 1}, "train_micro_batch_size_per_gpu")
        self.refuse_config({"stage": 3}, "zero_optimization.stage")
        self.refuse_config('{"bf16": {"enabled": true},\n "bf16": {"enabled": false}}',
                           "bf16", "twice", "ds.json:2")

    def test_keys_of_others(self):
        config = self.write("ds.json", {"cuda_visible_devices": "0", "qqqqqqqqqqqq": {"a": 1}})
        self.assert_run(self.train(config=config), 0, "warning", "ds.json:1", "'cuda_visible_devices'",
                        "'qqqqqqqqqqqq'", "ignored")

    def test_contradictions(self):
        self.refuse_config({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 3,
                            "gradient_accumulation_steps": 2}, "8", "3", "2", "6",
                           micro_batch=None)
        self.refuse_config({"fp16": {"enabled": True}, "bf16": {"enabled": True}},
                           "fp16", "bf16", "contradict")
        self.refuse_config({"optimizer": {"type": "Muon"}}, "Muon", "AdamW")
        self.refuse_config({"gradient_clipping": "much"}, "gradient_clipping", "much")

    def test_text(self):
        self.refuse_config("", "ds.json")
        self.refuse_config('{"bf16": ', "ds.json:1")
        self.refuse_config("[" * 200000, "deep")
        self.refuse_config('{"a":' * 100000, "deep")
        self.refuse_config("\x00\x01", "ds.json")
        self.refuse(2, "nowhere.json", config=self.path("nowhere.json"))

    def test_flags(self):
        result = run(*self.flags(), "--offlod", "nvme")
        self.assert_run(result, 2, "--offlod", "--offload")
        self.assert_nothing_left()
        result = run(*self.flags(), "stray")
        self.assert_run(result, 2, "stray")
        self.refuse(2, "--lr", "fast", lr="fast")
        self.refuse(2, "--steps", steps=0)
        self.refuse(2, "--seq-len", "16", seq_len=17)
        self.refuse(2, "--no-commit", "--commit-every", no_commit=True, commit_every=2)
        self.refuse(2, "--host-memory", "lots", host_memory="lots")
        self.refuse(2, "--swap", swap=None)
        self.refuse(2, "--update", "--clip", update="immediate")
        self.refuse(2, "--output", output=None)
        self.refuse(2, "--device", "cuda", device="quantum")
        self.refuse(2, "--accumulate", "1048576", accumulate=2147483647)
        self.refuse(2, "--weight-decay", "1e+06", weight_decay="1e30")
        self.refuse(2, "eps", "0/0", eps="0")
        self.refuse(2, "eps", "0/0", eps="1e-60")
        result = run("trian")
        self.assertEqual(result.returncode, 2, result.stderr)


class BudgetTest(BadInput):
    # Computing takes more than the budget that is refused.
    config = dict(cli_testing.TINY, vocab_size=8192, n_embd=64)

    def test_smallest_that_works(self):
        said = self.refuse(3, "--device-memory", "--host-memory", device_memory="1MiB",
                           host_memory="1MiB", output=self.path("deep/er/out"))
        self.assertFalse(os.path.exists(self.path("deep")))
        device, host = re.search(
            r"at least --device-memory (\S+) and --host-memory (\S+)", said).groups()
        self.assert_run(self.train(device_memory=device, host_memory=host), 0)

        def less(text):
            number, unit = re.fullmatch(r"([\d.]+)(\D*)", text).groups()
            return str(int(float(number)) - 1) + unit
        self.output = self.path("less")
        self.swap = self.path("less-swap")
        os.mkdir(self.swap)
        self.refuse(3, "at least", device_memory=less(device), host_memory=host)
        self.refuse(3, "at least", device_memory=device, host_memory=less(host))


class SystemLimitTest(NobodyCase):
    """What the system does not give is said; nothing crashes."""

    def train_within(self, limit, value, **changes):
        return run(*self.flags(**changes),
                   preexec_fn=lambda: resource.setrlimit(limit, (value, value)))

    def test_open_files(self):
        codes = []
        for files in range(6, 24):
            self.begin_afresh()
            result = self.train_within(resource.RLIMIT_NOFILE, files, io_engine="threads")
            codes.append(result.returncode)
            if result.returncode != 0:
                self.assert_run(result, 1, "ulimit -n")
        self.assertEqual(codes, sorted(codes, reverse=True))
        self.assertEqual((codes[0], codes[-1]), (1, 0))

    def test_addresses(self):
        """LibTorch would crash, or wait for a thread that is not there. What the message says is
        enough does."""
        for start in (400_000, 470_000, 500_000):
            kilobytes, tries = start, 0
            while True:
                result = self.train_within(resource.RLIMIT_AS, kilobytes << 10)
                if result.returncode == 0:
                    break
                self.assert_run(result, 2, "ulimit -v", "addresses")
                self.assert_nothing_left()
                needed = int(re.search(r"set it to at least (\d+)", result.stderr).group(1))
                self.assertGreater(needed, kilobytes)
                kilobytes, tries = needed, tries + 1
                self.assertLessEqual(tries, 2)  # for what is loaded, and for what then computes
            self.assertGreater(tries, 0, "it was refused")
            self.begin_afresh()
        # And budgets that are not given keep to what there is.
        result = self.train_within(resource.RLIMIT_AS, 2 << 30, device_memory=None,
                                   host_memory=None)
        self.assert_run(result, 0)

    def test_threads(self):
        parent = self.folder_of_nobody()
        output = os.path.join(parent, "out")
        result = run(*self.flags(output=output, swap=parent), cwd="/",
                     preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (4, 4)),
                     **self.nobody)
        self.assert_run(result, 2, "threads", "ulimit -u", "--threads")
        self.assertEqual(os.listdir(parent), [])


class SwapPathTest(NobodyCase):
    def test_missing(self):
        self.refuse(2, "nowhere", "does not exist", swap=self.path("nowhere"))
        self.refuse(2, "nowhere", "does not exist", swap=f"{self.swap},{self.path('nowhere')}")
        self.refuse(2, "data.bin", "directory", swap=self.data)
        self.refuse(2, "twice", swap=f"{self.swap},{self.swap}/")

    def test_not_writable(self):
        os.chmod(self.swap, 0o555)
        self.addCleanup(os.chmod, self.swap, 0o755)
        if os.geteuid() != 0:
            self.refuse(2, "not writable")
            return
        output = os.path.join(self.folder_of_nobody(), "out")
        result = run(*self.flags(output=output), cwd="/", **self.nobody)
        self.assert_run(result, 2, self.swap, "not writable")
        self.assert_nothing_left(output)

    def tmpfs(self, size):
        if os.geteuid() != 0:
            self.skipTest("mounting a tmpfs needs root")
        mount = self.path("tmpfs")
        os.mkdir(mount)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", mount],
                              capture_output=True, check=False)
        if done.returncode != 0:
            self.skipTest("a tmpfs cannot be mounted here")
        self.addCleanup(subprocess.run, ["umount", mount], check=False)
        return mount

    def test_no_direct_io(self):
        mount = self.tmpfs("64m")
        probe = os.path.join(mount, "probe")
        try:
            os.close(os.open(probe, os.O_RDWR | os.O_CREAT | os.O_DIRECT))
            direct = True
        except OSError:
            direct = False
        if os.path.exists(probe):
            os.remove(probe)
        result = self.train(swap=mount)
        self.assert_run(result, 0)
        if not direct:
            self.assertIn("no direct I/O", result.stderr)

    def test_too_little_space(self):
        mount = self.tmpfs("64k")
        for swap in (mount, f"{self.swap},{mount}"):  # or the second of two paths
            self.refuse(1, "free, and this run needs", mount, swap=swap)
            self.assertEqual(os.listdir(mount), [])

    def test_too_little_space_for_copies(self):
        mount = self.tmpfs("64k")
        result = self.train(persist=os.path.join(mount, "copies"), keep=3)
        self.assert_run(result, 1, "--persist", "--keep", mount, "are free")
        self.assert_nothing_left()
        self.assertEqual(os.listdir(mount), [])


class OutputTest(BadInput):
    def test_in_use(self):
        process = self.start(self.flags(steps=10000000), stderr=subprocess.DEVNULL)
        self.wait_for_rows(process, 1)
        for resume in (False, True):
            result = self.train(resume=resume)
            self.assert_run(result, 2, f"process {process.pid} ", "in use")
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 75)

    def test_commit_without_resume(self):
        self.assert_run(self.train(), 0)

        def state():
            found = {}
            for top in (self.output, self.swap):
                for folder, _, files in os.walk(top):
                    for name in files:
                        path = os.path.join(folder, name)
                        found[path] = (digest_of(path), os.stat(path).st_ino)
            return found
        before = state()
        self.assert_run(self.train(steps=8), 2, "--resume", "step 4", "nothing was touched")
        self.assertEqual(state(), before)

    def test_model_is_where_the_result_goes(self):
        self.assert_run(self.train(), 0)
        self.model = os.path.join(self.output, "model")
        self.assert_run(self.train(resume=True), 2, "--output")
        self.assertTrue(os.path.exists(self.model + "/config.json"))

    def test_a_file(self):
        self.assert_run(self.train(output=self.data), 2, "data.bin")
        for output in (self.data + "/out", "/dev/null/out"):
            self.assert_run(self.train(output=output), 2, output, "not a directory")
        for persist in (self.data, "/dev/null"):
            self.assert_run(self.train(persist=persist), 2, "--persist", persist)

    def test_removed_but_for_its_swap(self):
        self.assert_run(self.train(), 0)
        shutil.rmtree(self.output)
        self.assert_run(self.train(), 2, "an earlier run", "was removed since", "--overwrite")
        self.assert_run(self.train(overwrite=True), 0)

    def test_foreign_files_stay(self):
        os.mkdir(self.output)
        self.write("out/notes", "mine")
        self.assert_run(self.train(device_memory="1MiB"), 3)
        self.assertIn("notes", os.listdir(self.output))
        self.assertEqual(os.listdir(self.swap), [])

    def test_flipped_byte(self):
        self.assert_run(self.train(), 0)
        planes = {}
        for extent in self.inspect()["extents"]:
            planes.setdefault(extent["plane"], extent)
        self.assertGreaterEqual(len(planes), 4)
        for plane, extent in planes.items():
            with self.subTest(plane), open(extent["file"], "r+b") as file:
                at = extent["offset"] + 5
                file.seek(at)
                good = file.read(1)
                file.seek(at)
                file.write(bytes([good[0] ^ 0x10]))
                file.flush()
                os.fsync(file.fileno())
                self.assert_run(run("inspect", self.output, "--json"), 4, "generation", plane,
                                extent["file"])
                self.assert_run(self.train(resume=True, steps=6), 4, plane, extent["file"])
                file.seek(at)
                file.write(good)
                file.flush()
        self.assert_run(self.train(resume=True, steps=6), 0)

    def test_cut_or_missing_files(self):
        self.assert_run(self.train(), 0)
        file = self.inspect()["extents"][0]["file"]
        size = os.path.getsize(file)
        os.truncate(file, size // 2)
        self.assert_run(run("inspect", self.output), 4, file)
        self.assert_run(self.train(resume=True, steps=6), 4, file, "cut")
        os.remove(file)
        self.assert_run(self.train(resume=True, steps=6), 4, file, "missing")
        manifest = os.path.join(self.output, "manifest-rank0")
        os.truncate(manifest, os.path.getsize(manifest) - 3)
        self.assert_run(self.train(resume=True, steps=6), 4, "manifest-rank0")


class NotFiniteTest(BadInput):
    def test_step_and_unit_are_named(self):
        for changes in ({}, {"clip": 0}, {"dtype": "fp32"}, {"dtype": "fp32", "clip": 0}):
            with self.subTest(changes):
                result = self.train(lr="1e30", output=self.path(f"o{len(str(changes))}"), steps=20,
                                    **changes)
                self.assert_run(result, 1, "step ", "unit ", "finite")
                self.assertEqual(os.listdir(self.swap), [])

    def test_last_commit_stays(self):
        result = self.train(lr="1e30", steps=20, commit_every=1, warmup=3)
        self.assert_run(result, 1, "finite")
        self.assertGreaterEqual(self.inspect()["step"], 1)


class HelpTest(unittest.TestCase):
    def test_every_page_fits_80_columns_and_has_an_example(self):
        top = run("--help")
        self.assertEqual(top.returncode, 0)
        commands = re.findall(r"^  (\w+)", top.stdout.split("Subcommands:")[1], re.MULTILINE)
        self.assertGreater(len(commands), 7)
        for words in [["bench", "adam"], [], *([name] for name in commands)]:
            with self.subTest(" ".join(words)):
                page = run(*words, "--help")
                self.assertEqual(page.returncode, 0)
                self.assertLessEqual(max(map(len, page.stdout.splitlines())), 80, page.stdout)
                if words and words != ["bench"]:
                    self.assertIn("Example:\n  spillway " + " ".join(words), page.stdout)

    def test_the_last_of_a_flag_given_twice_counts(self):
        self.assertIn("--tokens '-5'", run("generate", "--model", "x", "--prompt", "a", "--tokens",
                                         "3", "--tokens", "-5").stderr)

    def test_a_misspelt_flag_is_named_before_a_missing_one(self):
        result = run("generate", "--promt", "a")
        self.assertEqual(result.returncode, 2)
        self.assertIn("did you mean --prompt", result.stderr)


if __name__ == "__main__":
    cli_testing.main()
