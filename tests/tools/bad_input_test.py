#!/usr/bin/env python3
"""Bad input: of each kind one, with a clear message, the right exit code, and nothing left behind. What else is
refused show the tests of who reads it, below tests/engine."""

import json
import os
import re
import resource
import shutil
import struct
import subprocess
import unittest

import cli_testing
from cli_testing import CliTest, gpt2_shapes, read_json, run, safetensors, write_tokens


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
        self.nobody = self.ordinary_user(self.data)
        if self.nobody:
            os.chown(parent, self.nobody["user"], self.nobody["group"])
        return parent


class DeviceTest(BadInput):
    def test_cuda_in_a_build_without_it(self):
        words = ("--device cuda", "this build has no CUDA", "tools/build cuda")
        self.refuse(2, *words, device="cuda")
        self.assert_run(run("estimate", "--model", self.path("model-in"), "--device", "cuda"), 2, *words)
        self.refuse(2, "--device", "auto, cpu, cuda", device="gpu")

    def test_auto_is_the_cpu_and_says_why_only_where_there_is_a_gpu(self):
        result = self.train(device="auto")
        self.assert_run(result, 0)
        facts = json.loads(run("doctor", "--swap", self.swap, "--json").stdout)["facts"]
        self.assertEqual("CUDA" in result.stderr, facts["has_gpu"], result.stderr)
        self.assertEqual(read_json(self.output, "config.resolved.json")["device"],
                         {"value": "cpu", "source": "derived"})
        self.assertEqual(read_json(self.output, "run.json")["device"], "cpu")


class ModelTest(BadInput):
    def test_a_directory_of_another_kind(self):
        """tests/engine/weights/model_directory_test.cc has them all; here that each command says so."""
        self.write("lora/adapter_config.json", {"base_model_name_or_path": "m/base"})
        for words in (["generate", "--prompt", "a"], ["estimate"],
                      ["predict", "--data", self.data, "--out", self.path("a.jsonl")]):
            self.assert_run(run(*words, "--model", self.path("lora")), 2, "it is an adapter for m/base: give "
                            "--model m/base --adapter " + self.path("lora"))
        self.refuse(2, "it is an adapter for m/base", model=self.path("lora"))

    def test_weights_without_a_tokenizer(self):
        text = self.write("x.txt", "abc" * 100)
        self.write("model-in/model.safetensors", safetensors(gpt2_shapes(self.config)))
        said = self.refuse(2, "no tokenizer", "but weights", "--tokenizer DIR", "--tokenizer chars", data=text)
        self.assertNotIn("characters", said)
        self.assert_run(self.train(data=text, tokenizer="chars"), 0)

    def test_a_name_of_the_hub(self):
        command = "`hf download no-such-org/gpt-2.b`"
        self.refuse(2, "no-such-org/gpt-2.b", "no such directory", command, model="no-such-org/gpt-2.b")
        for words in (["estimate"], ["generate", "--prompt", "a"]):
            self.assert_run(run(*words, "--model", "no-such-org/gpt-2.b"), 2, command)
        # A folder that is there is one that the model is not in.
        for model in ("./no-such-org/gpt2", "tests/gpt2", "a/b/c", "no-such-model"):
            result = run("estimate", "--model", model, cwd=os.path.dirname(os.path.dirname(__file__)) + "/..")
            self.assert_run(result, 2, model)
            self.assertNotIn("hf download", result.stderr)

    def test_side_files_from_elsewhere(self):
        secret = self.write("secret", "{}")
        for name in ("config.json", "tokenizer.json", "generation_config.json", "preprocessor_config.json",
                     "tokenizer.model", "chat_template.jinja", "additional_chat_templates/a.jinja"):
            path = self.path("model-in/" + name)
            kept = path + ".kept" if os.path.exists(path) else None
            if kept:
                os.rename(path, kept)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(secret, path)
            self.refuse(2, name, "leads out of the model's directory", tokenizer="bytes")
            os.remove(path)
            os.mkfifo(path)
            self.refuse(2, name, "not a plain file", tokenizer="bytes")
            os.remove(path)
            if kept:
                os.rename(kept, path)
        path = self.write("model-in/generation_config.json", "[]")
        self.refuse(2, path, "not a JSON object")
        with open(path, "wb") as file:
            file.truncate(5 << 20)
        self.refuse(2, path, "at most 4 MiB")

    def test_named_pipes_in_the_place_of_files(self):
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        for flag in ("config", "hostfile", "peft_config"):
            self.refuse(2, pipe + " is a named pipe and not a plain file", **{flag: pipe})
        read, write = os.pipe()
        os.write(write, b'{"train_micro_batch_size_per_gpu": "two"}')
        os.close(write)
        result = run(*self.flags(config=f"/dev/fd/{read}"), pass_fds=[read])
        self.assert_run(result, 2, f"/dev/fd/{read}:1", "train_micro_batch_size_per_gpu")
        os.close(read)

    def test_values_and_shapes_of_weights(self):
        shapes = gpt2_shapes(self.config)
        self.write("model-in/model.safetensors", safetensors({**shapes, "h.0.ln_1.weight": [17]}))
        self.refuse(2, "h.0.ln_1.weight", "17", "16")
        self.write("model-in/model.safetensors", safetensors(shapes, value=float("nan")))
        self.refuse(2, "finite", "weight")
        self.write("model-in/model.safetensors", safetensors(shapes)[:100])
        self.refuse(4, "model.safetensors")
        self.write("model-in/model.safetensors", safetensors(shapes))
        self.assert_run(self.train(), 0)


class DataTest(BadInput):
    def test_missing(self):
        self.refuse(2, "--data ", "nowhere.bin: there is no such file", data=self.path("nowhere.bin"))
        self.refuse(2, "--eval-data ", "nowhere.bin: there is no such file", eval_data=self.path("nowhere.bin"))
        self.refuse(2, "--data", ".jsonl", data=None)
        self.refuse(2, "--eval-data 0.1", "cannot be named by a number", eval_data="0.1")

    def test_other_formats(self):
        """tests/engine/data/data_file_test.cc has them all; here that each command looks."""
        array = self.write("x.json", '[{"text": "a"}]')
        packed = self.write("x.txt.gz", b"\x1f\x8b\x08")
        wide = self.write("wide.txt", "abc".encode("utf-16"))
        for path, words in ((array, ["a JSON array", "jq -c '.[]'"]), (packed, ["gunzip -c"]),
                            (wide, ["UTF-16", "iconv -f utf-16 -t utf-8"]), (self.dir, ["a folder"]),
                            ("-", ["standard input is not read"])):
            self.refuse(2, "--data " + path, *words, data=path)
            self.refuse(2, "--eval-data " + path, *words, eval_data=path)
            said = run("tokenize", "--tokenizer", "bytes", "--data", path, "--out", self.path("t.bin"))
            self.assert_run(said, 2, "--data " + path, *words)
        # Whatever the data, the model comes first.
        self.assert_run(self.train(data=array, model=self.path("nowhere")), 2, "--model")

    def test_short(self):
        write_tokens(self.path("short.bin"), 16, 64)
        self.refuse(2, "short.bin", "17", data=self.path("short.bin"))

    def test_formats(self):
        self.refuse(2, ".txt", ".npy", data=self.write("data.csv", "1,2,3"))
        # More kinds of characters than the vocabulary has.
        text = "".join(chr(0x4E00 + i) for i in range(100)) * 4
        self.refuse(2, "vocab", data=self.write("x.txt", text), tokenizer="chars")
        self.refuse(2, "UTF-8", data=self.write("x.txt", b"\xff\xfe" * 100), tokenizer="chars")

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


class TokenizeTest(CliTest):
    def test_writes_what_it_says(self):
        text = self.write("a.txt", "abc")
        lines = self.write("b.jsonl", '{"text": "d"}\n')
        result = run("tokenize", "--tokenizer", "bytes", "--data", text, lines, "--out", self.path("out.npy"), "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = json.loads(result.stdout)
        self.assertEqual((answer["tokens"], answer["bytes"], answer["dtype"]), (5, 17, "uint16"))
        with open(self.path("out.npy"), "rb") as f:
            self.assertEqual(f.read()[128:], struct.pack("<5H", *b"abcd\n"))

    def test_refuses(self):
        text, out = self.write("a.txt", "abc"), self.path("out.bin")
        before = sorted(os.listdir(self.dir))
        for words, args in ((("--data",), ("--tokenizer", "bytes", "--out", out)),
                            (("nowhere",), ("--tokenizer", "nowhere", "--data", text, "--out", out)),
                            (("none.txt",), ("--tokenizer", "bytes", "--data", "none.txt", "--out", out))):
            result = run("tokenize", *args)
            self.assert_run(result, 2, *words)
            self.assertEqual(result.stdout, "")
            self.assertEqual(sorted(os.listdir(self.dir)), before)


class ConfigTest(BadInput):
    def test_files(self):
        for text, word in (("[" * 200000, "deep"), ("\x00\x01", "ds.json")):
            self.refuse(2, word, config=self.write("ds.json", text))
        self.refuse(2, "ds.yaml:1: unknown key a", "ds.yaml:2: unknown key b", config=self.write("ds.yaml", "a: 1\nb: 2\n"))
        self.refuse(2, "none.json: there is no such file", config=self.path("none.json"))

    def test_flags(self):
        result = run(*self.flags(), "--offlod", "nvme")
        self.assert_run(result, 2, "--offlod", "--offload")
        self.assert_nothing_left()
        result = run(*self.flags(), "stray")
        self.assert_run(result, 2, "stray")
        self.refuse(2, "--lr", "fast", lr="fast")
        self.refuse(2, "--seq-len", "16", seq_len=17)
        self.refuse(2, "--output", output=None)
        self.refuse(2, "--accumulate", "1048576", accumulate=2147483647)
        self.refuse(2, "--weight-decay", "1e+06", weight_decay="1e30")
        self.refuse(2, "eps", "0/0", eps="1e-60")


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

    def test_more_than_the_machine_has(self):
        for flag, other in (("device", "host"), ("host", "device")):
            said = self.refuse(3, f"--{flag}-memory 1 TiB leaves nothing for --{other}-memory", "both are RAM",
                               **{f"{flag}_memory": "1TiB", f"{other}_memory": None})
            self.assertNotIn("this run does not fit", said)
        # What is never used may be more than there is.
        result = self.train(device_memory="1TiB", host_memory="1TiB", no_export=True)
        self.assert_run(result, 0, "--device-memory 1 TiB and --host-memory 1 TiB are more together than the")
        self.begin_afresh()
        self.assertNotIn("more together", self.train(no_export=True).stderr)


class SystemLimitTest(NobodyCase):
    """What the system does not give is said; nothing crashes."""

    def train_within(self, limit, value, **changes):
        return run(*self.flags(**changes),
                   preexec_fn=lambda: resource.setrlimit(limit, (value, value)))

    def test_open_files(self):
        codes = []
        for files in (6, 10, 13, 16, 23):
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
        for start in (400_000, 500_000):
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
    def test_the_kernels_own(self):
        for path in ("/proc", "/sys/kernel"):
            self.refuse(2, f"--swap {path} cannot be made", "the kernel's own", swap=path)
            self.refuse(2, f"--persist {path}/x cannot be made", persist=path + "/x")
            for output in (path, path + "/x/y"):
                self.refuse(2, f"--output {output} cannot be made", "the kernel's own", output=output)

    def test_missing(self):
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
        self.addCleanup(subprocess.run, ["umount", "-l", mount], check=False)
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
    def test_model_is_where_the_result_goes(self):
        self.assert_run(self.train(), 0)
        self.model = os.path.join(self.output, "model")
        self.assert_run(self.train(resume=True), 2, "--output")
        self.assertTrue(os.path.exists(self.model + "/config.json"))

    def test_a_file(self):
        self.assert_run(self.train(output=self.data), 2, "data.bin")
        self.assert_run(self.train(output=self.data + "/out"), 2, self.data + "/out", "not a directory")
        self.assert_run(self.train(persist=self.data), 2, "--persist", self.data)

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
        for number, (plane, extent) in enumerate(planes.items()):
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
                if number in (0, len(planes) - 1):
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
        for changes in ({}, {"dtype": "fp32", "clip": 0}):
            with self.subTest(changes):
                result = self.train(lr="1e30", output=self.path(f"o{len(str(changes))}"), steps=20,
                                    **changes)
                self.assert_run(result, 1, "step ", "unit ", "finite")
                self.assertEqual(os.listdir(self.swap), [])

    def test_last_commit_stays(self):
        result = self.train(lr="1e30", steps=20, commit_every=1, warmup=3)
        self.assert_run(result, 1, "finite")
        self.assertGreaterEqual(self.inspect()["step"], 1)


COMMIT = "607a30d783dfa663caf39e06633721c8d4cfcd7e"


class HubTest(BadInput):
    """Models by their names on the hub, in a cache as huggingface_hub keeps it."""

    def setUp(self):
        super().setUp()
        self.cache = self.path("hf/hub")
        self.variables = {"HF_HOME": self.path("hf"), "PATH": "/usr/bin:/bin"}
        for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
            self.variables[name] = ""

    def put(self, repository="org/tiny", **files):
        """A snapshot of a model: links to blobs, as downloads make them."""
        folder = f"hf/hub/models--{repository.replace('/', '--')}"
        snapshot = f"{folder}/snapshots/{COMMIT}"
        os.makedirs(self.path(snapshot), exist_ok=True)
        self.write(folder + "/refs/main", COMMIT)
        for number, (name, content) in enumerate(files.items()):
            blob = self.write(f"{folder}/blobs/{number}", content)
            os.symlink(os.path.relpath(blob, self.path(snapshot)), self.path(f"{snapshot}/{name.replace('__', '.')}"))
        return self.path(snapshot)

    def whole(self, **more):
        return self.put(config__json=self.config, model__safetensors=safetensors(gpt2_shapes(self.config)), **more)

    def train_named(self, model, **changes):
        return run(*self.flags(model=model, **changes), variables=self.variables)

    def test_it_is_found_and_trained_and_generated_with(self):
        snapshot = self.whole()
        found = f"org/tiny: found in {self.cache} (snapshot 607a30d7)"
        self.assert_run(self.train_named("org/tiny"), 0, found)
        self.assertEqual(read_json(self.output, "config.resolved.json")["model"],
                         {"value": snapshot, "source": "--model"})
        self.assert_run(self.train_named(snapshot, resume=True), 0, "already finished")
        folder = os.path.join(self.cache, "models--org--tiny")
        self.assert_run(self.train_named(folder, resume=True), 0, "already finished", "(snapshot 607a30d7)")
        for place in ("xdg/huggingface", "me/.cache/huggingface"):
            os.makedirs(os.path.dirname(self.path(place)))
            os.symlink(self.path("hf"), self.path(place))
        for variables in ({"HF_HUB_CACHE": self.cache}, {"HUGGINGFACE_HUB_CACHE": self.cache, "HF_HOME": ""},
                          {"HF_HOME": "", "XDG_CACHE_HOME": self.path("xdg")},
                          {"HF_HOME": "", "XDG_CACHE_HOME": "", "HOME": self.path("me")}):
            said = run("estimate", "--model", f"org/tiny@{COMMIT[:9]}", "--dry-run", "no",
                       variables=self.variables | variables)
            self.assert_run(said, 0, "(snapshot 607a30d7)")
        said = run("tokenize", "--tokenizer", "org/tiny", "--data", self.write("x.txt", "ab"), "--out",
                   self.path("x.bin"), variables=self.variables)
        self.assert_run(said, 2, "is not whole: it lacks tokenizer.json", "hf download org/tiny")

    def fake(self, name, script):
        path = self.write("bin/" + name, "#!/bin/sh\n" + script)
        os.chmod(path, 0o755)
        self.variables["PATH"] = self.path("bin") + ":/usr/bin:/bin"

    def test_a_download_is_offered_and_run(self):
        missing = self.train_named("org/tiny")
        self.assert_run(missing, 2, "it is not in", "pip install huggingface_hub")
        self.assert_run(self.train_named("org/tiny", download=True), 2, "no hf on PATH", "pip install")
        self.whole()
        os.rename(self.cache, self.path("remote"))
        self.fake("hf", f'echo "fetching $@"; echo to-stderr >&2; [ "$2" = org/tiny ] || exit 3; '
                        f'mkdir -p {self.path("hf")}; cp -r {self.path("remote")} {self.cache}')
        self.assert_run(self.train_named("org/tiny"), 2, "--download runs that first")
        said = run("generate", "--model", "org/other", "--prompt", "a", "--download", variables=self.variables)
        self.assert_run(said, 1, "running hf download org/other", "fetching download org/other",
                        "`hf download org/other` ended with exit code 3")
        self.assertEqual(said.stdout, "")
        said = self.train_named("org/tiny", download=True)
        self.assert_run(said, 0, "running hf download org/tiny", "to-stderr", "(snapshot 607a30d7)")
        self.assertTrue(read_json(self.output, "config.resolved.json")["download"]["value"])
        # It is there now, and nothing is run.
        self.fake("hf", "exit 5")
        self.begin_afresh()
        self.assert_run(self.train_named("org/tiny", download=True), 0)

    def test_a_download_that_brings_nothing_is_no_success(self):
        self.fake("huggingface-cli", "exit 0")
        said = self.train_named("org/tiny", download=True)
        self.assert_run(said, 2, "running huggingface-cli download org/tiny", "it is not in")
        self.assert_nothing_left()


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
                    self.assertRegex(page.stdout, "Examples?:\n  spillway " + " ".join(words))

    def test_the_last_of_a_flag_given_twice_counts(self):
        self.assertIn("--tokens '-5'", run("generate", "--model", "x", "--prompt", "a", "--tokens",
                                         "3", "--tokens", "-5").stderr)

    def test_a_misspelt_flag_is_named_before_a_missing_one(self):
        result = run("generate", "--promt", "a")
        self.assertEqual(result.returncode, 2)
        self.assertIn("did you mean --prompt", result.stderr)


if __name__ == "__main__":
    cli_testing.main()
