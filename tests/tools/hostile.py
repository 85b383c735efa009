#!/usr/bin/env python3
"""Faults and hostile input against the program, from a table: each must end as the table says.

  tests/tools/hostile.py build/release/spillway [--only F1,locks] [--quick] [--list]

By hand, before a release: docs/measurements.json has the last result. A group of the table is a kind of
fault (F1 to F18 are those of a review in 2026-11, which once failed); each of its trials is one fault.
What fails is printed with its group, trial and reason; the last line counts. A trial that this
machine can't make (it needs root, or another user) is skipped and counted apart. `--quick` takes the
groups that need seconds, as `ctest -R cli_hostile` does."""

import argparse
import contextlib
import glob
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import wave

import cli_testing
from cli_testing import CliTest, digest_of, environment, in_another_process, program, read_rows, read_text, run
from ranks_testing import children_of, free_ports, variable_of

MIB = 1 << 20
BASE = 300 * MIB  # beside the budgets (docs/GUIDE.md)
CONFIG = dict(cli_testing.TINY, vocab_size=256, n_positions=32, n_embd=32, n_layer=2,
              resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
RESNET = {"model_type": "resnet", "architectures": ["ResNetForImageClassification"],
          "num_channels": 3, "embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1],
          "layer_type": "basic"}
WHISPER = {"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"],
           "vocab_size": 256, "d_model": 32, "num_mel_bins": 16, "encoder_layers": 1,
           "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
           "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_source_positions": 50,
           "max_target_positions": 16, "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0,
           "decoder_start_token_id": 1, "is_encoder_decoder": True}
PICTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "pictures")
CHATML = ("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
          "{% if add_generation_prompt %}<|assistant|>{% endif %}")
TABLE = []  # of Fault


class Fault:
    def __init__(self, group, what, expected, quick, function):
        self.group, self.what, self.expected, self.quick = group, what, expected, quick
        self.function = function


def fault(group, what, expected, quick=False):
    def add(function):
        TABLE.append(Fault(group, what, expected, quick, function))
        return function
    return add


def is_root():
    return os.geteuid() == 0


def descendants(pid):
    found = [pid]
    for one in found:
        found += children_of(one)
    return found


def resident(pid):
    """Bytes; 0 once it has ended."""
    try:
        found = re.search(r"VmRSS:\s+(\d+)", read_text(f"/proc/{pid}/status"))
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


def listening_ports(pid):
    inodes = set()
    for one in descendants(pid):
        for fd in glob.glob(f"/proc/{one}/fd/*"):
            with contextlib.suppress(OSError):
                if (found := re.match(r"socket:\[(\d+)\]", os.readlink(fd))):
                    inodes.add(found[1])
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in read_text(table).splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return sorted(ports)


def nameless_files(pid, below):
    """Paths in /proc of the process's files below a folder that have no name."""
    found = []
    for fd in glob.glob(f"/proc/{pid}/fd/*"):
        with contextlib.suppress(OSError):
            target = os.readlink(fd)
            if target.startswith(below) and target.endswith(" (deleted)"):
                found.append(fd)
    return found


def flip(path, offset, bit=0x10):
    with open(path, "r+b", buffering=0) as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ bit]))


class Segments:
    """The parts of a JPEG file."""

    @staticmethod
    def segment(marker, body):
        return bytes([0xff, marker]) + struct.pack(">H", len(body) + 2) + body

    @staticmethod
    def table(kind, symbol):
        """A Huffman table of one symbol, whose code is one bit, 0."""
        return Segments.segment(0xc4, bytes([kind, 1]) + bytes(15) + bytes([symbol]))

    @staticmethod
    def scan(components, first, last, data):
        body = bytes([len(components)]) + b"".join(bytes([c, 0]) for c in components)
        return Segments.segment(0xda, body + bytes([first, last, 0])) + data


def progressive_jpeg(side, extra_scans=0):
    """A grey square as a progressive JPEG without subsampling. `extra_scans`: scans of one component's
    AC coefficients that say again that there are none. REQUIRES: side >= 1024."""
    blocks = (side + 7) // 8
    count = blocks * blocks
    out = b"\xff\xd8" + Segments.segment(0xdb, bytes([0]) + bytes([1]) * 64)
    out += Segments.segment(0xc2, struct.pack(">BHHB", 8, side, side, 3)
                            + b"".join(bytes([c, 0x11, 0]) for c in (1, 2, 3)))
    out += Segments.table(0x00, 0)
    zeros = (3 * count + 7) // 8
    out += Segments.scan((1, 2, 3), 0, 0, bytes(zeros))
    # Runs of blocks without coefficients, each of 2^14 to 2^15 - 1: the code's bit 0, then 14 of the
    # length.
    out += Segments.table(0x10, 0xe0)
    number = -(-count // ((1 << 15) - 1))
    lengths = [count // number + (i < count % number) for i in range(number)]
    bits = "".join("0" + format(length - (1 << 14), "014b") for length in lengths)
    bits += "1" * (-len(bits) % 8)
    data = int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\x00")
    scans = b"".join(Segments.scan((c,), 1, 63, data) for c in (1, 2, 3))
    return out + scans + Segments.scan((1,), 1, 63, data) * extra_scans + b"\xff\xd9"


def bytes_tokenizer(**changes):
    """A tokenizer.json of bytes, with these parts in place of its own."""
    printable = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = iter(range(0x100, 0x200))
    alphabet = [chr(byte if byte in printable else next(others)) for byte in range(256)]
    return {"version": "1.0", "added_tokens": [], "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
            "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "vocab": {token: i for i, token in enumerate(alphabet)},
                      "merges": []}, **changes}


class Bed(CliTest):
    """Where one group's trials are made, and their count."""

    config = CONFIG

    def __init__(self):
        super().__init__("runTest")
        self.tried, self.failed, self.skipped = 0, [], []
        self._quiet, self._processes = {}, []

    def runTest(self):
        pass

    @contextlib.contextmanager
    def trial(self, name):
        self.tried += 1
        try:
            yield
        except unittest.SkipTest as reason:
            self.tried -= 1
            self.skipped.append((name, str(reason)))
        except (AssertionError, OSError, ValueError, subprocess.SubprocessError) as error:
            self.failed.append((name, f"{type(error).__name__}: {error}"))
        finally:
            self.end_processes()

    def end_processes(self):
        """Ends the processes that a trial has left."""
        for process in self._processes:
            with contextlib.suppress(OSError):
                process.kill()
            process.wait()
        self._processes = []

    def begin(self, words, prefix=(), stays=False, **kwargs):
        """A run under way; its stderr in a file, that nothing waits for it to be read. It ends with its
        trial, or `stays` to the end of the group."""
        log = open(self.path(f"log-{self.tried}-{time.monotonic_ns()}"), "w+b")
        process = subprocess.Popen([*prefix, program(), *map(str, words)], stdout=subprocess.DEVNULL, stderr=log,
                                   env=environment() | kwargs.pop("variables", {}), **kwargs)
        process.said = lambda: (log.flush(), read_text(log.name))[1]
        if stays:
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
        else:
            self._processes.append(process)
        return process

    def ends(self, process, codes, *words, seconds=120):
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.fail(f"it goes on after {seconds} s")
        said = process.said()
        codes = codes if isinstance(codes, tuple) else (codes,)
        self.assertIn(code, codes, said[-2000:])
        for word in words:
            self.assertIn(word.lower(), said.lower())
        return said

    def refused(self, words, codes, *texts, **kwargs):
        result = run(*words, **kwargs)
        codes = codes if isinstance(codes, tuple) else (codes,)
        self.assertIn(result.returncode, codes, result.stderr[-2000:])
        for text in texts:
            self.assertIn(text.lower(), result.stderr.lower())
        return result

    def command(self, **changes):
        return self.flags(**{"dtype": "fp32", "lr": "1e-3", "steps": 12, "seq_len": 16, **changes})

    def text_data(self, size=60_000):
        path = self.path("data.txt")
        if not os.path.exists(path):
            generator = random.Random(11)
            words = ["".join(generator.choices("abcdefghij", k=generator.randint(1, 8))) for _ in range(300)]
            self.write("data.txt", " ".join(generator.choice(words) for _ in range(size // 5))[:size])
        return path

    def losses(self, output=None):
        return [(row["step"], row["loss"]) for row in self.rows(output)]

    def quiet(self, **changes):
        """What the same run comes to that nobody disturbs."""
        key = json.dumps(changes, sort_keys=True, default=str)
        if key not in self._quiet:
            place = self.path(f"quiet-{len(self._quiet)}")
            os.makedirs(place + "-swap")
            done = run(*self.command(**{**changes, "output": place, "swap": place + "-swap"}))
            self.assertEqual(done.returncode, 0, done.stderr)
            self._quiet[key] = self.end_of(place)
            shutil.rmtree(place)
            shutil.rmtree(place + "-swap")
        return self._quiet[key]

    def end_of(self, output=None):
        output = output or self.output
        return self.losses(output), digest_of(output, "model", "model.safetensors")

    def assert_same(self, **changes):
        self.assertEqual(self.end_of(), self.quiet(**changes))

    def afresh(self):
        self.begin_afresh()
        for name in ("persist", "away"):
            shutil.rmtree(self.path(name), ignore_errors=True)

    def swap_files(self, name="tiles"):
        return glob.glob(os.path.join(self.swap, "*", name))


# -- F1 to F18 --------------------------------------------------------------------------------------


@fault("F1", "a --persist directory that goes away under the run",
       "exit 1 that names it; no copy anywhere else, and it is not made anew")
def persist_goes(bed):
    persist = bed.path("persist")
    away = bed.path("away")

    def go(how, prefix=(), **changes):
        bed.afresh()
        # So slow that it is seen under way: a step moves all of its state.
        process = bed.begin(bed.command(persist=persist, keep=1, commit_every=1, steps=150, **changes), prefix)
        bed.wait_for(lambda: len(bed.rows()) >= 5 and glob.glob(persist + "/step-*/manifest-rank0"), process)
        how(process)
        said = bed.ends(process, 1, persist, "but not the copy in --persist")
        bed.assertIn("spillway: warning: ", said)
        copies = [name for root, folders, _ in os.walk(bed.dir) for name in folders if name.startswith("step-")]
        bed.assertLessEqual(len(copies), 2, copies)
        part = cli_testing.read_json(bed.output, "run.json")["parts"][-1]
        bed.assertIn("not copied to", part.get("warning", ""))

    for ranks in (None, 2):
        more = {"ranks": ranks, "micro_batch": 1} if ranks else {}
        with bed.trial(f"rm -rf, ranks {ranks}"):
            def remove(process):
                while os.path.exists(persist):  # files come into it meanwhile
                    shutil.rmtree(persist, ignore_errors=True)
            go(remove, **more)
            bed.assertFalse(os.path.exists(persist))
        with bed.trial(f"mv, ranks {ranks}"):
            go(lambda process: os.rename(persist, away), **more)
            bed.assertFalse(os.path.exists(persist))
        with bed.trial(f"another in its place, ranks {ranks}"):
            go(lambda process: (os.rename(persist, away), os.mkdir(persist)), **more)
            bed.assertEqual(os.listdir(persist), [])
        for what in ("umount -l", "mount over"):
            with bed.trial(f"{what}, ranks {ranks}"):
                if not is_root() or subprocess.run(["unshare", "-m", "true"], check=False,
                                                   stderr=subprocess.DEVNULL).returncode:
                    raise unittest.SkipTest("mounting needs root")
                bed.afresh()
                os.makedirs(persist)
                mount = "mount -t tmpfs -o mode=700 none " if what == "umount -l" else "true "
                after = f"umount -l {persist}" if what == "umount -l" else f"mount -t tmpfs -o mode=700 none {persist}"
                prefix = ["unshare", "-m", "sh", "-c", f'{mount}{persist} && exec "$0" "$@"']
                bed.begin_afresh()
                process = bed.begin(bed.command(persist=persist, keep=1, commit_every=1, steps=150, **more), prefix)
                bed.wait_for(lambda process=process: len(bed.rows()) >= 5, process)
                subprocess.run(["nsenter", "-t", str(process.pid), "-m", "sh", "-c", after], check=True)
                bed.ends(process, 1, persist)
                if what == "umount -l":
                    bed.assertEqual(os.listdir(persist), [], "copies below the mount")
                else:
                    # One that was just made, and that before it.
                    bed.assertLessEqual(len(glob.glob(persist + "/step-*")), 2)
    with bed.trial("it comes back"):
        bed.afresh()
        process = bed.begin(bed.command(persist=persist, keep=1, commit_every=1, steps=300))
        bed.wait_for(lambda: len(bed.rows()) >= 5, process)
        os.rename(persist, away)
        at = len(bed.rows())
        bed.wait_for(lambda: len(bed.rows()) >= at + 20, process)
        os.rename(away, persist)
        said = bed.ends(process, 0, "not copied to")
        bed.assertIn("\n  copies ", said)
        bed.assertEqual(len(glob.glob(persist + "/step-000000000300/manifest-rank0")), 1)


def disturbed(bed, change, codes, *words, data=None, changes=None, model=None):
    """A run whose data are changed at its fifth step."""
    bed.afresh()
    process = bed.begin(bed.command(**{"data": data, "steps": 4000, "commit_every": 1000, **(changes or {})}))
    bed.wait_for(lambda: len(bed.rows()) >= 5, process)
    change(process)
    return bed.ends(process, codes, *words)


@fault("F2", "data that change while they are learnt from", "exit 4 that names the file; the same bits where it was "
       "only touched")
def data_change(bed):
    text = bed.text_data()
    lines = bed.write("data.jsonl", "".join(
        json.dumps({"prompt": f"ask {i} ", "completion": f"say {i * 7919 % 1000}"}) + "\n" for i in range(400)))

    def flip_scratch(process, each=4096):
        files = nameless_files(process.pid, bed.dir)
        bed.assertTrue(files)
        for fd in files:
            for offset in range(17, os.stat(fd).st_size, each):
                flip(fd, offset)

    for name, data, more in (("text", text, {}), ("windows of pairs", lines, {"samples": "windows"}),
                             ("padded", lines, {"samples": "padded"}), ("packed", lines, {"packing": True})):
        with bed.trial(f"the scratch file of {name}"):
            disturbed(bed, flip_scratch, 4, "a temporary file in", "not those that were written", data=data,
                      changes={"tokenizer": "bytes", **more})
    binary = bed.path("tokens.bin")
    header = b"\x93NUMPY\x01\x00v\x00" + (
        b"{'descr': '<u2', 'fortran_order': False, 'shape': (40000,), }".ljust(117) + b"\n")
    array = bed.path("tokens.npy")
    tokens = random.Random(3).choices(range(256), k=40_000)
    raw = struct.pack("<40000H", *tokens)

    def put():
        bed.write(binary, raw)
        bed.write(array, header + raw)

    def overwrite(path, old_time):
        def change(process):
            info = os.stat(path)
            with open(path, "r+b") as file:
                file.seek(1000)
                file.write(struct.pack("<19000H", *([7] * 19000)))
            if old_time:
                os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
        return change

    for path in (binary, array):
        for old_time in (False, True):
            with bed.trial(f"{os.path.basename(path)} overwritten, its time restored: {old_time}"):
                put()
                disturbed(bed, overwrite(path, old_time), 4, path, "has changed", data=path)
    for name, change in (("cut", lambda process: os.truncate(binary, 20_000)),
                         ("longer", lambda process: open(binary, "ab").write(b"ab")),
                         ("removed", lambda process: os.remove(binary)),
                         ("replaced", lambda process: (bed.write("new.bin", raw[::-1]),
                                                       os.rename(bed.path("new.bin"), binary)))):
        with bed.trial(f"tokens.bin {name}"):
            put()
            disturbed(bed, change, 4, binary, "committed before is good", data=binary)
    for name, change in (("touched", lambda process: os.utime(binary)),
                         ("written anew", lambda process: (bed.write("new.bin", raw),
                                                           os.rename(bed.path("new.bin"), binary)))):
        with bed.trial(f"tokens.bin {name}: the same bits"):
            put()
            quiet = {"data": binary, "steps": 400}
            bed.quiet(**quiet)
            bed.afresh()
            process = bed.begin(bed.command(**quiet))
            bed.wait_for(lambda process=process: len(bed.rows()) >= 5, process)
            change(process)
            bed.ends(process, 0, binary, "with the same bytes")
            bed.assert_same(**quiet)
    bed.write("model-in/config.json", RESNET)
    learn = {"seq_len": None, "micro_batch": 4}
    for name in ("a", "b"):
        os.makedirs(bed.path(f"pictures/{name}"))

    def pictures():
        for i, name in enumerate(("a", "b", "a", "b")):
            shutil.copy(os.path.join(PICTURES, ("colours.png", "grey.png")[i % 2]),
                        bed.path(f"pictures/{name}/{i}.png"))

    for name, change in (("another picture", lambda process: shutil.copy(
            os.path.join(PICTURES, "palette.png"), bed.path("pictures/a/0.png"))),
                         ("removed", lambda process: os.remove(bed.path("pictures/a/0.png"))),
                         ("a bit", lambda process: flip(bed.path("pictures/a/0.png"), 60))):
        with bed.trial(f"a picture: {name}"):
            pictures()
            disturbed(bed, change, (1, 4), bed.path("pictures/a/0.png"), data=bed.path("pictures"),
                      changes={**learn, "picture_size": 16})
    with bed.trial("CIFAR's file"):
        draw = random.Random(5)
        batch = bed.write("data_batch_1.bin", b"".join(bytes([i % 10]) + draw.randbytes(3072) for i in range(20)))
        disturbed(bed, lambda process: flip(batch, 5 * 3073 + 99), 4, batch, data=batch, changes=learn)
    bed.write("model-in/config.json", WHISPER)
    with bed.trial("a sound"):
        for i in range(2):
            with wave.open(bed.path(f"{i}.wav"), "wb") as file:
                file.setparams((1, 2, 16000, 0, "NONE", ""))
                file.writeframes(random.Random(i).randbytes(16000))
        said = bed.write("said.jsonl", "".join(
            json.dumps({"audio": f"{i}.wav", "text": "ab"}) + "\n" for i in range(2)))
        disturbed(bed, lambda process: flip(bed.path("1.wav"), 9999), 4, bed.path("1.wav"), "has changed", data=said,
                  changes={"seq_len": None, "tokenizer": "bytes", "micro_batch": 1})
    bed.write("model-in/config.json", CONFIG)


@fault("F3", "progressive pictures, large and of many scans",
       "within device + host + 300 MiB, or refused with the file's name; a signal ends it within 5 s")
def progressive_pictures(bed):
    bed.write("model-in/config.json", RESNET)
    for name in ("a", "b"):
        os.makedirs(bed.path(f"pictures/{name}"))
    shutil.copy(os.path.join(PICTURES, "colours.png"), bed.path("pictures/b/1.png"))
    words = bed.command(data=bed.path("pictures"), seq_len=None, picture_size=32, micro_batch=2, steps=2,
                        device_memory="16MiB", host_memory="16MiB", offload=None, swap=None)
    for side in (2000, 5000, 5792):
        with bed.trial(f"{side} x {side}"):
            bed.afresh()
            with open(bed.path("pictures/a/0.jpg"), "wb") as file:
                file.write(progressive_jpeg(side))
            done = cli_testing.run_measured(list(map(str, words)), bed.path("log"))
            bed.assertIn(done.code, (0, 2), done.said)
            if done.code:
                bed.assertIn("0.jpg", done.said)
            bed.assertLessEqual(done.peak, 32 * MIB + BASE)
    for scans in (200, 3000):
        with bed.trial(f"{scans} scans more, and a signal"):
            bed.afresh()
            with open(bed.path("pictures/a/0.jpg"), "wb") as file:
                file.write(progressive_jpeg(5000, scans))
            process = bed.begin(words)
            time.sleep(4)
            process.send_signal(signal.SIGTERM)
            bed.ends(process, (0, 2, 75, -signal.SIGTERM), seconds=5)
    bed.write("model-in/config.json", CONFIG)


def store_message(kind, *parts):
    """A message to PyTorch's TCPStore: a query's number, then strings with their lengths."""
    return bytes([kind]) + b"".join(struct.pack("<Q", size) + data for size, data in parts)


HELLO = b"\x00" + struct.pack("<I", 0x3c85f7ce)


@fault("F4", "strangers at the ranks' ports", "the same bits, no memory for them, no message of theirs in the log")
def strangers(bed):
    ranked = {"ranks": 2, "micro_batch": 1, "steps": 400, "collective_timeout": "60s"}
    quiet = bed.quiet(**ranked)

    def go(meet, codes=0, **kwargs):
        bed.afresh()
        process = bed.begin(bed.command(**ranked), **kwargs)
        bed.wait_for(lambda: len(bed.rows()) >= 3, process)
        ports = listening_ports(process.pid)
        before = max(map(resident, descendants(process.pid)))
        held = meet(ports)
        time.sleep(1.5)
        after = max([0, *map(resident, descendants(process.pid))])
        bed.assertLess(after, before + 150 * MIB)
        said = bed.ends(process, codes)
        for one in held:
            one.close()
        if process.returncode == 0:
            bed.assertEqual(bed.end_of(), quiet)
        return said

    def each(data):
        def meet(ports):
            held = []
            for port in ports:
                with contextlib.suppress(OSError):
                    held.append(socket.create_connection(("127.0.0.1", port), timeout=2))
                    held[-1].sendall(data)
            return held
        return meet

    for name, data in (("zeros", bytes(4096)), ("ones", b"\xff" * 4096), ("HTTP", b"GET / HTTP/1.1\r\n\r\n"),
                       ("random", random.Random(1).randbytes(4096)),
                       ("hello and SET of 3 GiB", HELLO + store_message(1, (3, b"key"), (3 << 30, b""))),
                       ("hello and a key of 3 GiB", HELLO + store_message(1, (3 << 30, b"k"))),
                       ("hello and APPEND of 2 GiB", HELLO + store_message(9, (3, b"key"), (2 << 30, b"")))):
        with bed.trial(name):
            go(each(data))
    with bed.trial("a failure of another's making"):
        key = b"spillway//0/failure"
        text = b"1\n4\nspillway: error: forged"
        said = go(each(HELLO + store_message(1, (len(key), key), (len(text), text))))
        bed.assertNotIn("forged", said)
    with bed.trial("more connections than files may be open"):
        def many(ports):
            held = []
            for port in ports:
                for _ in range(300):
                    with contextlib.suppress(OSError):
                        held.append(socket.create_connection(("127.0.0.1", port), timeout=1))
            return held
        said = go(many, (0, 1), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)))
        bed.assertNotIn("terminate called", said)


@fault("F5", "inspect, generate, predict and export of a run that commits in every step",
       "each reads one commit, or says that the run is faster (exit 1); never exit 4")
def live_readers(bed):
    prompts = bed.write("prompts.jsonl", "".join(json.dumps({"prompt": f"a{i}"}) + "\n" for i in range(3)))
    bed.text_data()
    process = bed.begin(bed.command(data=bed.path("data.txt"), tokenizer="bytes", commit_every=1, steps=1_000_000),
                        stays=True)
    bed.wait_for(lambda: os.path.exists(os.path.join(bed.output, "manifest-rank0")), process)
    common = ["--threads", 1]
    for i in range(8):
        for name, words in (
                ("inspect", ["inspect", bed.output]), ("inspect --digests", ["inspect", bed.output, "--digests"]),
                ("generate", ["generate", "--model", bed.output, "--prompt", "a", "--tokens", 4, *common]),
                ("predict", ["predict", "--model", bed.output, "--data", prompts, "--tokens", 3, "--out",
                             bed.path(f"answers-{i}.jsonl"), *common]),
                ("export", ["export", "--from", bed.output, "--to", bed.path(f"export-{i}")]),
                ("report", ["report", bed.output])):
            with bed.trial(f"{name} {i}"):
                result = run(*words)
                said = result.stderr[-1500:]
                if result.returncode == 1:
                    bed.assertIn("faster than its state can be read", said)
                else:
                    bed.assertEqual(result.returncode, 0, said)
                bed.assertNotIn("check that device", said)
    with bed.trial("a commit that is really damaged"):
        bed.assertIsNone(process.poll(), process.said())
        process.kill()
        process.wait()
        for path in bed.swap_files():
            with open(path, "r+b") as file:
                size = os.path.getsize(path)
                for offset in range(0, size, 512):
                    file.seek(offset)
                    file.write(b"\xa5")
        bed.refused(["inspect", bed.output, "--digests"], 4, "check that device")
        bed.refused(["generate", "--model", bed.output, "--prompt", "a"], 4)


def normalizer_of(parts):
    return {"type": "Sequence", "normalizers": parts}


@fault("F6", "tokenizers that grow text, are deep or slow", "refused, or within the bound; a signal is heard")
def tokenizers(bed):
    text = bed.write("short.txt", "ab" * 400)

    def replace(pattern, content):
        return {"type": "Replace", "pattern": {"String": pattern}, "content": content}

    cases = [
        ("40 x Replace a -> aa", normalizer_of([replace("a", "aa")] * 40)),
        ("300 x Prepend of 10,000", normalizer_of([{"type": "Prepend", "prepend": "x" * 10_000}] * 300)),
        ("50,000 x Lowercase", normalizer_of([{"type": "Lowercase"}] * 50_000)),
        ("20 x Replace '' ...", normalizer_of([{"type": "Replace", "pattern": {"Regex": "(?=a)"}, "content": "a" * 50}] * 20)),
        ("Replace a -> 1 MiB", replace("a", "y" * MIB))]
    deep = {"type": "Lowercase"}
    for _ in range(200):
        deep = normalizer_of([deep])
    cases.append(("Sequences 200 deep", deep))
    for name, normalizer in cases:
        with bed.trial(name):
            bed.afresh()
            tokenizer = bed.write("tok/tokenizer.json", bytes_tokenizer(normalizer=normalizer))
            words = bed.command(data=text, tokenizer=os.path.dirname(tokenizer), steps=1, device_memory="16MiB",
                                host_memory="16MiB", offload=None, swap=None)
            done = cli_testing.run_measured(list(map(str, words)), bed.path("log"), patience=60)
            bed.assertIn(done.code, (0, 2, 3), done.said)
            bed.assertLessEqual(done.peak, 32 * MIB + BASE)
    with bed.trial("a slow pattern, and a signal"):
        bed.afresh()
        bed.write("tok/tokenizer.json", bytes_tokenizer(pre_tokenizer={"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": "(?:a*a*a*a*)b"}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]}))
        slow = bed.write("slow.txt", ("a" * 180 + "\n") * 6000)
        process = bed.begin(bed.command(data=slow, tokenizer=bed.path("tok")))
        time.sleep(3)
        process.send_signal(signal.SIGTERM)
        bed.ends(process, (0, 2, 75), seconds=10)


@fault("F7", "a terminal that closes", "SIGHUP commits and ends with 75; resumed to the same bits", quick=True)
def hangup(bed):
    more = {"steps": 200}
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        with bed.trial(signal.Signals(number).name):
            bed.afresh()
            process = bed.begin(bed.command(**more))
            bed.wait_for(lambda process=process: len(bed.rows()) >= 5, process)
            process.send_signal(number)
            bed.ends(process, 75)
            bed.refused(bed.command(resume=True, **more), 0, "resuming after step")
            bed.assert_same(**more)
    with bed.trial("nohup"):
        bed.afresh()
        process = bed.begin(bed.command(**more), preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        bed.wait_for(lambda: len(bed.rows()) >= 5, process)
        process.send_signal(signal.SIGHUP)
        bed.ends(process, 0)
        bed.assert_same(**more)


@fault("F8", "chat templates, long or slow", "refused or rendered, never a crash; a signal is heard within 5 s")
def templates(bed):
    data = bed.write("chat.jsonl", "".join(json.dumps({"messages": [
        {"role": "user", "content": f"q{i}"}, {"role": "assistant", "content": "yes"}]}) + "\n" for i in range(40)))
    bed.write("tok/tokenizer.json", bytes_tokenizer())

    def words(template):
        bed.afresh()
        bed.write("tok/tokenizer_config.json", {"chat_template": template + CHATML})
        return bed.command(data=data, tokenizer=bed.path("tok"), steps=1)

    chains = {
        "additions": "{{ 1" + "+1" * 10_000 + " }}", "joins": "{{ 1" + "~1" * 10_000 + " }}",
        "filters": "{{ 'a'" + "|upper" * 10_000 + " }}", "members": "{% set x = {} %}{{ x" + ".a" * 50_000 + " }}",
        "calls": "{{ 'a'" + ".strip()" * 20_000 + " }}", "ands": "{{ 1" + " and 1" * 20_000 + " }}",
        "nots": "{{ " + "not " * 50_000 + "1 }}", "parentheses": "{{ " + "(" * 20_000 + "1" + ")" * 20_000 + " }}",
        "lists": "{{ " + "[" * 20_000 + "]" * 20_000 + " }}", "elifs": "{% if 0 %}" + "{% elif 0 %}" * 20_000 + "{% endif %}",
        "nested ifs": "{% if 1 %}" * 5_000 + "{% endif %}" * 5_000,
        "subscripts": "{% set x = [1] %}{{ x" + "[0]" * 20_000 + " }}", "minus": "{{ " + "-" * 50_000 + "1 }}"}
    for name, template in chains.items():
        with bed.trial(name):
            bed.refused(words(template), (0, 2), timeout=120)
    slow = {
        "in": "{% set a = 'ab' * 250000 %}{% for i in range(100000) %}{{ 'ba' * 9 in a }}{% endfor %}",
        "replace": "{% set a = 'ab' * 250000 %}{% for i in range(100000) %}{% set b = a|replace('a', 'c') %}{% endfor %}",
        "loops": "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "doubling": "{% set n = namespace(a='ab') %}{% for i in range(60) %}{% set n.a = n.a ~ n.a %}{% endfor %}"}
    for name, template in slow.items():
        with bed.trial(f"slow: {name}"):
            process = bed.begin(words(template))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(4)
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            bed.ends(process, (0, 2, 75), seconds=5)


@fault("F9", "what lies beside a model's weights", "refused with its name, or ended by a signal; nothing from outside the "
       "folder is copied")
def side_files(bed):
    secret = bed.write("elsewhere/id_secret", "-----BEGIN SECRET-----")
    names = ("preprocessor_config.json", "generation_config.json")

    def go(codes, *texts, steps=1):
        bed.afresh()
        words = bed.command(steps=steps, device_memory="64MiB", host_memory="64MiB")
        done = cli_testing.run_measured(list(map(str, words)), bed.path("log"), patience=60)
        bed.assertIn(done.code, codes, done.said)
        for text in texts:
            bed.assertIn(text, done.said)
        bed.assertLessEqual(done.peak, 128 * MIB + BASE)
        for root, _, files in os.walk(bed.output):
            for name in files:
                with open(os.path.join(root, name), "rb") as file:
                    bed.assertNotIn(b"BEGIN SECRET", file.read(), name)

    for name in names:
        path = bed.path(f"model-in/{name}")
        with bed.trial(f"{name} of 250 MiB"):
            with open(path, "w", encoding="ascii") as file:
                file.write('{"a": "')
                for _ in range(250):
                    file.write("x" * MIB)
                file.write('"}')
            go((0, 2))
        for target in (secret, "../elsewhere/id_secret", "/etc/passwd"):
            with bed.trial(f"{name} -> {target}"):
                with contextlib.suppress(OSError):
                    os.remove(path)
                os.symlink(target, path)
                go((0, 2))
        with contextlib.suppress(OSError):
            os.remove(path)
    for name in (*names, "config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"):
        path = bed.path(f"model-in/{name}")
        kept = path + ".kept"
        with bed.trial(f"a FIFO as {name}"):
            if os.path.exists(path):
                os.rename(path, kept)
            os.mkfifo(path)
            try:
                bed.afresh()
                process = bed.begin(bed.command(steps=1, tokenizer="model" if "token" in name else None,
                                                data=bed.text_data() if "token" in name else bed.data))
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(8)
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
                bed.ends(process, (0, 1, 2, 75), seconds=5)
            finally:
                os.remove(path)
                if os.path.exists(kept):
                    os.rename(kept, path)
    for name in names:
        with bed.trial(f"/dev/zero as {name}"):
            os.symlink("/dev/zero", bed.path(f"model-in/{name}"))
            try:
                go((0, 2))
            finally:
                os.remove(bed.path(f"model-in/{name}"))


@fault("F10", "a rank that is started twice", "told so within 20 s; the others go on to their end")
def rank_twice(bed):
    port, = free_ports(1)
    variables = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "LOCAL_WORLD_SIZE": "2",
                 "SPILLWAY_SECRET": "a-secret-of-this-test-0123456789"}
    words = bed.command(micro_batch=1, steps=3000, collective_timeout="20s")
    with bed.trial("rank 1 twice"):
        ranks = [bed.begin(words, variables={**variables, "RANK": str(rank), "LOCAL_RANK": str(rank)})
                 for rank in (0, 1)]
        bed.wait_for(lambda: len(bed.rows()) >= 3, ranks[0])
        again = bed.begin(words, variables={**variables, "RANK": "1", "LOCAL_RANK": "1"})
        bed.ends(again, (1, 2), "rank 1", seconds=20)
        at = len(bed.rows())
        bed.wait_for(lambda: len(bed.rows()) > at + 2, ranks[0])
    with bed.trial("SIGTERM while it connects"):
        port, = free_ports(1)
        alone = bed.begin(bed.command(micro_batch=1, collective_timeout="300s"), variables={
            **variables, "MASTER_PORT": str(port), "RANK": "1", "LOCAL_RANK": "1"})
        time.sleep(3)
        alone.send_signal(signal.SIGTERM)
        bed.ends(alone, (1, 75, -signal.SIGTERM), seconds=10)


@fault("F11", "--overwrite beside another run's copies", "exit 2 that names the other run; nothing is removed", quick=True)
def others_copies(bed):
    persist = bed.path("persist")
    bed.refused(bed.command(persist=persist), 0)
    for name, more in (("plain", {}), ("--overwrite", {"overwrite": True})):
        with bed.trial(name):
            bed.refused(bed.command(output=bed.path("second"), persist=persist, **more), 2, bed.output, "another --persist")
            bed.assertEqual(len(glob.glob(persist + "/step-*")), 1)
            bed.assertFalse(os.path.exists(bed.path("second")))
    with bed.trial("its own"):
        bed.refused(bed.command(persist=persist, overwrite=True, steps=3), 0, "of the earlier run")
        bed.assertEqual(os.path.basename(glob.glob(persist + "/step-*")[0]), "step-000000000003")
    with bed.trial("a new OUTPUT takes them over"):
        shutil.rmtree(bed.output)
        bed.refused(bed.command(output=bed.path("third"), persist=persist, resume=True, steps=5), 0,
                    "resuming after step 3")


@fault("F12", "names that command a terminal", "escaped wherever they are shown", quick=True)
def names(bed):
    evil = "e\x1b[2Jv\u202ei\u009bl\nspillway: error: x"
    folder = bed.path(evil)
    os.makedirs(os.path.join(folder, "swap"))

    def clean(result):
        text = result.stdout + result.stderr
        for bad in ("\x1b", "\u202e", "\u009b"):
            bed.assertNotIn(bad, text)
        bed.assertNotIn("\nspillway: error: x", text)
        return result

    output = os.path.join(folder, "out")
    with bed.trial("train"):
        clean(run(*bed.command(output=output, swap=os.path.join(folder, "swap"))))
    with bed.trial("a refusal"):
        clean(run(*bed.command(output=output, data=os.path.join(folder, "none.bin"))))
    for words in (["clean", "--swap", os.path.join(folder, "swap")], ["doctor", "--swap", os.path.join(folder, "swap")],
                  ["inspect", output], ["inspect", output, "--digests"], ["inspect", os.path.join(folder, "none")],
                  ["report", output], ["export", "--from", output, "--to", os.path.join(folder, "e")],
                  ["clean", "--output", output]):
        with bed.trial(words[0] + " " + " ".join(words[2:3])):
            clean(run(*words))


@fault("F13", "without /proc, without a loopback interface", "runs, or says which of them is missing; ranks at once",
       quick=True)
def bare(bed):
    def unshare(*flags, before="true"):
        if not is_root() or subprocess.run(["unshare", *flags, "true"], check=False,
                                           stderr=subprocess.DEVNULL).returncode:
            raise unittest.SkipTest("namespaces need root")
        return ["unshare", *flags, "sh", "-c", f'{before} && exec "$0" "$@"']

    with bed.trial("no /proc"):
        process = bed.begin(bed.command(steps=2), unshare("-m", before="mount -t tmpfs none /proc"))
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(60)
        bed.assertNotIn("libspillway_compute.so is missing", process.said())
        bed.assertIn(process.returncode, (0, 1, 2), process.said())
    with bed.trial("no loopback, ranks"):
        bed.afresh()
        process = bed.begin(bed.command(steps=2, ranks=2, micro_batch=1), unshare("-n"))
        bed.ends(process, (1, 2), "127.0.0.1", "loopback", seconds=20)
    with bed.trial("no loopback, one process"):
        bed.afresh()
        bed.ends(bed.begin(bed.command(steps=2), unshare("-n")), 0)


@fault("F14", "OUTPUT/ranks that is a link", "exit 2; nothing is written through it", quick=True)
def ranks_link(bed):
    for ranks in (None, 2):
        with bed.trial(f"ranks {ranks}"):
            shutil.rmtree(bed.output, ignore_errors=True)
            shutil.rmtree(bed.path("elsewhere"), ignore_errors=True)
            os.makedirs(bed.output, 0o755)
            os.makedirs(bed.path("elsewhere"))
            os.symlink(bed.path("elsewhere"), os.path.join(bed.output, "ranks"))
            bed.refused(bed.command(ranks=ranks, micro_batch=1), 2, os.path.join(bed.output, "ranks"))
            bed.assertEqual(os.listdir(bed.path("elsewhere")), [])


@fault("F15", "modes of files under each umask", "state is 0600/0700; what is for others follows the umask", quick=True)
def modes(bed):
    for mask in (0o000, 0o022, 0o027, 0o077):
        with bed.trial(f"umask {mask:03o}"):
            bed.afresh()
            for name in ("board", "persist"):
                shutil.rmtree(bed.path(name), ignore_errors=True)
            for name in glob.glob(bed.path("trace*")):
                os.remove(name)
            bed.refused(bed.command(tensorboard=bed.path("board"), trace=bed.path("trace.json"), persist=bed.path("persist")),
                        0, preexec_fn=lambda mask=mask: os.umask(mask))
            for root in (bed.swap, bed.path("persist")):
                for folder, folders, files in os.walk(root):
                    for name in files:
                        if "/source" in folder:
                            continue  # copies of what is for others, in a folder that is closed
                        bed.assertEqual(os.stat(os.path.join(folder, name)).st_mode & 0o777, 0o600, name)
                    if folder != bed.swap and "/source" not in folder:
                        bed.assertEqual(os.stat(folder).st_mode & 0o777, 0o700, folder)
            for path in (bed.path("trace.json"), *glob.glob(bed.path("board/*")),
                         os.path.join(bed.output, "model/model.safetensors"), os.path.join(bed.output, "metrics.jsonl")):
                bed.assertEqual(os.stat(path).st_mode & 0o777, 0o666 & ~mask, path)
            bed.assertEqual(os.stat(bed.path("board")).st_mode & 0o777, 0o777 & ~mask)


@fault("F16", "a config.json that appears in OUTPUT/model", "said, with the command that exports elsewhere")
def foreign_config(bed):
    for name, text in (("config.json", "{}"), ("config.json", "not JSON")):
        with bed.trial(text):
            bed.afresh()
            process = bed.begin(bed.command(steps=400))
            bed.wait_for(lambda process=process: len(bed.rows()) >= 3, process)
            os.makedirs(os.path.join(bed.output, "model"), exist_ok=True)
            bed.write(os.path.join(bed.output, "model", name), text)
            bed.ends(process, 0, "appeared while the run worked", "spillway export --from")
            bed.assertEqual(read_text(bed.output, "model", name), text)


@fault("F17", "hostfiles", "a host that would be an option is refused; a byte order mark is skipped", quick=True)
def hostfiles(bed):
    for host in ("--mca", "-x", "+n1", "me@-o", "a\x1b[2J", "a;b,c"):
        with bed.trial(host):
            hosts = bed.write("hosts", f"{host} slots=2\n")
            bed.refused(bed.command(hostfile=hosts, launch=True), 2, "HOST slots=N")
    with bed.trial("a byte order mark"):
        hosts = bed.write("hosts", "\ufeffworker-1 slots=2\n")
        result = run(*bed.command(hostfile=hosts, launch=True), variables={"PATH": bed.dir})
        bed.assertNotIn("\ufeff", result.stdout + result.stderr)
        bed.assertIn("mpirun", result.stdout + result.stderr)


@fault("F18", "the swap disk of a commit is not there", "exit 4 that says to bring its folder back; then it resumes",
       quick=True)
def missing_swap(bed):
    with bed.trial("not mounted"):
        bed.refused(bed.command(steps=4), 0)
        os.rename(bed.swap, bed.path("away"))
        os.mkdir(bed.swap)
        bed.refused(bed.command(steps=12, resume=True), 4, "bring its folder back")
        bed.assertEqual(os.listdir(bed.swap), [])
        os.rmdir(bed.swap)
        os.rename(bed.path("away"), bed.swap)
        bed.refused(bed.command(steps=12, resume=True), 0)


# -- What held then, and must ------------------------------------------------------------------------


@fault("tiles", "wrong bytes in the state of a run that works, and of one that is resumed", "exit 4, or the same bits")
def tiles(bed):
    draw = random.Random(20261130)
    more = {"steps": 250, "commit_every": 50}
    kinds = {"bit": lambda data: bytes([data[0] ^ 1 << draw.randrange(8)]) + data[1:],
             "random": lambda data: draw.randbytes(len(data)), "zeros": lambda data: bytes(len(data))}
    for i in range(12):
        kind = list(kinds)[i % 3]
        with bed.trial(f"live, {kind} {i}"):
            bed.afresh()
            process = bed.begin(bed.command(**more))
            bed.wait_for(lambda process=process: len(bed.rows()) >= 5 + i, process)
            for path in bed.swap_files():
                with open(path, "r+b", buffering=0) as file:
                    file.seek(draw.randrange(max(1, os.path.getsize(path) - 4096)))
                    at = file.tell()
                    data = file.read(4096)
                    file.seek(at)
                    file.write(kinds[kind](data))
            code = process.wait(120)
            bed.assertIn(code, (0, 4), process.said())
            if code == 0:
                bed.assert_same(**more)
    for kind, change in (("a bit", lambda path: flip(path, 300)), ("cut", lambda path: os.truncate(path, 200)),
                         ("empty", lambda path: os.truncate(path, 0)), ("appended", lambda path: open(path, "a").write("x"))):
        with bed.trial(f"manifest, {kind}"):
            bed.afresh()
            bed.refused(bed.command(steps=4), 0)
            change(os.path.join(bed.output, "manifest-rank0"))
            bed.refused(bed.command(steps=8, resume=True), (2, 4), "manifest")


@fault("planted", "links and foreign things under names of a run", "refused; nothing followed, written or removed")
def planted(bed):
    for kind in ("symbolic link", "hard link", "directory", "FIFO"):
        for name in ("manifest-rank0", "lock", "metrics.jsonl", "eval.jsonl", "run.json", "run-id", "config.resolved.json",
                     "report.html", "source", "model", "bytes-written"):
            if kind == "directory" and name in ("source", "model") or kind == "hard link" and name == "ranks":
                continue
            with bed.trial(f"{kind} as {name}"):
                shutil.rmtree(bed.output, ignore_errors=True)
                os.makedirs(bed.output, 0o755)
                precious = bed.write("precious", "content")
                at = os.path.join(bed.output, name)
                if kind == "symbolic link":
                    os.symlink(precious, at)
                elif kind == "hard link":
                    os.link(precious, at)
                elif kind == "FIFO":
                    os.mkfifo(at)
                else:
                    os.makedirs(at)
                for more in ({}, {"resume": True}, {"overwrite": True}):
                    bed.refused(bed.command(steps=1, **more), 2, at, timeout=60)
                bed.assertEqual(read_text(precious), "content")
    shutil.rmtree(bed.output, ignore_errors=True)
    for where, at in (("--persist that is a link", "persist"), ("--swap whose run directory is a link", "swap-link")):
        with bed.trial(where):
            os.makedirs(bed.path("real"), exist_ok=True)
            if at == "persist":
                os.symlink(bed.path("real"), bed.path(at))
                bed.refused(bed.command(persist=bed.path(at)), (0, 2))
            else:
                others = glob.glob(os.path.join(bed.swap, "spillway-*"))
                bed.refused(bed.command(output=bed.path("o2")), 0)
                run_directory, = set(glob.glob(os.path.join(bed.swap, "spillway-*"))) - set(others)
                os.rename(run_directory, bed.path("real-run"))
                os.symlink(bed.path("real-run"), run_directory)
                bed.refused(bed.command(output=bed.path("o2"), resume=True, steps=20), 2, "symbolic link")


@fault("places", "paths that are one another's", "refused, or kept apart", quick=True)
def places(bed):
    cases = {
        "--persist = OUTPUT": {"persist": bed.output}, "--persist = swap": {"persist": bed.swap},
        "--persist in OUTPUT": {"persist": os.path.join(bed.output, "copies")},
        "--persist in swap": {"persist": os.path.join(bed.swap, "copies")},
        "--persist = model": {"persist": bed.model}, "OUTPUT = model": {"output": bed.model},
        "OUTPUT is a file": {"output": bed.data}, "--persist is a file": {"persist": bed.data},
        "swap in OUTPUT": {"swap": bed.output}}
    for name, more in cases.items():
        with bed.trial(name):
            before = sorted(os.listdir(bed.model))
            result = run(*bed.command(steps=2, **more))
            bed.assertIn(result.returncode, (0, 2), result.stderr)
            bed.assertTrue(set(before) <= set(os.listdir(bed.model)))
            bed.assertTrue(os.path.isfile(bed.data))
            for folder in (bed.output, bed.swap):
                shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(bed.swap)


@fault("locks", "several at once on one OUTPUT", "one wins, the others end with 2")
def locks(bed):
    for name, more in (("new", {}), ("--resume", {"resume": True}), ("--overwrite", {"overwrite": True})):
        with bed.trial(name):
            processes = [bed.begin(bed.command(steps=150, **more)) for _ in range(4)]
            codes = sorted(process.wait(120) for process in processes)
            bed.assertEqual(codes[0], 0, codes)
            bed.assertTrue(all(code in (0, 2) for code in codes), codes)
    with bed.trial("clean --remove beside starting runs"):
        bed.afresh()
        process = bed.begin(bed.command(steps=300))
        while process.poll() is None:
            bed.refused(["clean", "--swap", bed.swap, "--remove"], 0)
        bed.ends(process, 0)
        bed.assert_same(steps=300)


@fault("kills", "kill -9 and signals at any time, resumed", "the same bits as the quiet run")
def kills(bed):
    draw = random.Random(4242)
    variants = [{}, {"ranks": 2, "micro_batch": 1}, {"optimizer": "sgd", "momentum": 0.9},
                {"dtype": "bf16"}, {"accumulate": 2}, {"offload": None, "swap": None}]
    for i, variant in enumerate(variants * 2):
        more = {"steps": 120, "commit_every": 7, **variant}
        with bed.trial(f"{variant} {i}"):
            bed.afresh()
            bed.quiet(**more)
            for turn in range(2):
                process = bed.begin(bed.command(resume=turn > 0, **more))
                time.sleep(draw.uniform(0.2, 2.5))
                victims = descendants(process.pid)
                with contextlib.suppress(OSError):
                    os.kill(draw.choice(victims), draw.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)))
                process.wait(60)
            bed.refused(bed.command(resume=True, **more), 0)
            bed.assert_same(**more)


@fault("limits", "ulimits and a bare environment", "the same bits, or a refusal that says which")
def limits(bed):
    more = {"steps": 30}
    bed.quiet(**more)

    def limited(which, soft):
        return lambda: resource.setrlimit(which, (soft, soft))

    cases = {"-n 20": limited(resource.RLIMIT_NOFILE, 20), "-n 64": limited(resource.RLIMIT_NOFILE, 64),
             "-s 128": limited(resource.RLIMIT_STACK, 128 << 10), "-s 1024": limited(resource.RLIMIT_STACK, 1 << 20),
             "-l 0": limited(resource.RLIMIT_MEMLOCK, 0), "-v 1.2 GiB": limited(resource.RLIMIT_AS, 1200 << 20),
             "-v 200 MiB": limited(resource.RLIMIT_AS, 200 << 20), "-f 64 KiB": limited(resource.RLIMIT_FSIZE, 64 << 10),
             "-c 0": limited(resource.RLIMIT_CORE, 0)}
    for name, limit in cases.items():
        with bed.trial(name):
            bed.afresh()
            result = run(*bed.command(**more), preexec_fn=limit)
            bed.assertIn(result.returncode, (0, 1, 2, 3), result.stderr)
            if result.returncode == 0:
                bed.assert_same(**more)
            else:
                bed.assertIn("spillway: error: ", result.stderr)
    environments = {
        "empty": {}, "HOME that is missing": {"HOME": bed.path("none")}, "TMPDIR that is missing": {"TMPDIR": bed.path("none")},
        "an odd locale": {"LC_ALL": "tr_TR.UTF-8"}, "no such locale": {"LC_ALL": "xx_YY"}, "TZ": {"TZ": "Asia/Kathmandu"},
        "OMP": {"OMP_NUM_THREADS": "7", "OMP_DYNAMIC": "true"}, "MALLOC": {"MALLOC_PERTURB_": "165", "MALLOC_ARENA_MAX": "1"}}
    for name, variables in environments.items():
        with bed.trial(f"environment: {name}"):
            bed.afresh()
            done = subprocess.run([program(), *map(str, bed.command(**more))], env={"SPILLWAY_PROFILE": "off", **variables},
                                  capture_output=True, text=True, check=False)
            bed.assertEqual(done.returncode, 0, done.stderr)
            bed.assert_same(**more)
    for fd in (0, 1, 2):
        with bed.trial(f"stream {fd} closed"):
            bed.afresh()
            done = subprocess.run([program(), *map(str, bed.command(**more))], env=environment(), check=False,
                                  preexec_fn=lambda fd=fd: os.close(fd))
            bed.assertEqual(done.returncode, 0)
            bed.assert_same(**more)
    for name in ("stdout", "stderr"):
        with bed.trial(f"{name} to /dev/full"):
            bed.afresh()
            with open("/dev/full", "w", encoding="ascii") as full:
                done = subprocess.run([program(), *map(str, bed.command(**more))], env=environment(), check=False,
                                      **{name: full})
            bed.assertIn(done.returncode, (0, 1))
            bed.assert_same(**more)


@fault("inputs", "strange data and configs", "read, or refused with file and reason; within the bound, in seconds")
def inputs(bed):
    def go(name, codes=(0, 2, 3), **changes):
        with bed.trial(name):
            bed.afresh()
            words = bed.command(**{"steps": 1, "device_memory": "32MiB", "host_memory": "32MiB", "offload": None, "swap": None,
                                   **changes})
            done = cli_testing.run_measured(list(map(str, words)), bed.path("log"), patience=90)
            bed.assertIn(done.code, codes, done.said)
            bed.assertLessEqual(done.peak, 64 * MIB + BASE)
            if done.code:
                bed.assertIn("spillway: error: ", done.said)

    for key, value in (("n_layer", 0), ("n_layer", -1), ("n_layer", 1e30), ("n_layer", "x"), ("n_head", 3), ("n_head", 0),
                       ("n_embd", 2 ** 62), ("vocab_size", 0), ("vocab_size", 2 ** 40), ("n_positions", -5),
                       ("layer_norm_epsilon", "nan"), ("model_type", "\x1b[2J"), ("n_embd", None), ("n_inner", [])):
        bed.write("model-in/config.json", {**CONFIG, key: value})
        go(f"config {key} = {value!r}")
    bed.write("model-in/config.json", CONFIG)
    for name, text in (("deep", "[" * 500_000 + "]" * 500_000),
                       ("a line of 40 MiB", lambda: json.dumps({"text": "x" * (40 << 20)})),
                       ("many keys", lambda: json.dumps({f"k{i}": i for i in range(400_000)} | {"text": "a"})),
                       ("no UTF-8", b'{"text": "\xff\xfe"}'), ("NUL", b'{"text": "a\x00b"}'), ("open quote", '{"text": "abc'),
                       ("empty lines", "\n" * 100_000), ("numbers", "1\n2\n"), ("half a surrogate", '{"text": "\\ud800"}'),
                       ("1e999", '{"text": "a", "n": 1e999}\n'), ("twice", '{"text": "a", "text": "b"}\n')):
        # Not in this process, whose size a child's peak begins with.
        path = in_another_process(lambda text=text: bed.write("strange.jsonl", text() if callable(text) else text))
        go(f".jsonl: {name}", data=path, tokenizer="bytes")
    for name, data in (("odd", b"abc"), ("empty", b""), ("one token", b"ab"), ("beyond", b"\xff" * 4000)):
        path = bed.write("strange.bin", data)
        go(f".bin: {name}", data=path)
    for name, data in (("header", b"\x93NUMPY\x01\x00\xff\xff"), ("shape", b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<u2', "
                       b"'fortran_order': False, 'shape': (9223372036854775807,), }".ljust(102) + b"\n")):
        path = bed.write("strange.npy", data)
        go(f".npy: {name}", data=path)
    for name, kind in (("directory", os.mkdir), ("FIFO", os.mkfifo)):
        path = bed.path(f"strange-{name}.bin")
        kind(path)
        go(f"data that is a {name}", data=path, codes=(2,))
    go("data that is /dev/zero", data="/dev/zero", codes=(2,))
    with bed.trial("a sparse .bin of 1 TiB, and a signal"):
        path = bed.path("sparse.bin")
        with open(path, "wb") as file:
            file.truncate(1 << 40)
        bed.afresh()
        process = bed.begin(bed.command(data=path))
        time.sleep(4)
        process.send_signal(signal.SIGTERM)
        bed.ends(process, 75, seconds=10)
        os.remove(path)
    for name, text in (("garbage", "x" * 100), ("deep", "[" * 100_000), ("object", "{}"), ("FIFO", None)):
        with bed.trial(f"profile: {name}"):
            bed.afresh()
            profile = bed.path("profile.json")
            with contextlib.suppress(OSError):
                os.remove(profile)
            if text is None:
                os.mkfifo(profile)
            else:
                bed.write(profile, text)
            result = run(*bed.command(steps=1), variables={"SPILLWAY_PROFILE": profile}, timeout=120)
            bed.assertIn(result.returncode, (0, 2), result.stderr)


@fault("report", "HTML and secrets", "all is escaped; nothing of the environment is written", quick=True)
def report(bed):
    evil = '"><script>alert(1)</script>'
    with bed.trial("names in the report"):
        output = bed.path(evil.replace("/", "_"))
        bed.refused(bed.command(output=output), 0)
        bed.assertNotIn("<script>alert", read_text(output, "report.html"))
    with bed.trial("secrets in the environment"):
        bed.afresh()
        bed.refused(bed.command(), 0, variables={"HF_TOKEN": "hf_verysecret", "AWS_SECRET_ACCESS_KEY": "verysecret2"})
        for root, _, files in os.walk(bed.output):
            for name in files:
                with open(os.path.join(root, name), "rb") as file:
                    bed.assertNotIn(b"verysecret", file.read(), name)


@fault("ranks", "reshard and clocks", "the same state after each number of ranks")
def reshard(bed):
    with bed.trial("1 -> 2 -> 1 -> 3 -> 1, killed in between"):
        more = {"steps": 6, "micro_batch": 1, "accumulate": 6}
        bed.refused(bed.command(**more), 0)
        digest = bed.inspect()["digest"]
        for ranks in (2, 1, 3, 1):
            result = run(*bed.command(**more | {"accumulate": 6 // ranks}, ranks=ranks if ranks > 1 else None, resume=True))
            bed.assertEqual(result.returncode, 0, result.stderr)
            bed.assertEqual(bed.inspect()["digest"], digest)
    with bed.trial("one rank killed: all end"):
        bed.afresh()
        process = bed.begin(bed.command(ranks=3, steps=5000, **{"micro_batch": 1}))
        bed.wait_for(lambda: len(bed.rows()) >= 3, process)
        victim = [pid for pid in descendants(process.pid) if variable_of(pid, "RANK") == "1"][0]
        os.kill(victim, signal.SIGKILL)
        bed.ends(process, 1, "rank 1", seconds=60)


def take(one):
    bed = Bed()
    bed.setUp()
    try:
        one.function(bed)
    except unittest.SkipTest as reason:
        bed.skipped.append((one.what, str(reason)))
    except Exception as error:  # the group itself could not be set up
        bed.tried += 1
        bed.failed.append((one.what, f"{type(error).__name__}: {error}"))
    finally:
        bed.end_processes()
        bed.doCleanups()
    return bed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--only", help="groups, with commas between them")
    parser.add_argument("--quick", action="store_true", help="groups that need seconds")
    parser.add_argument("--list", action="store_true", help="the table, and no trial")
    flags = parser.parse_args()
    if flags.list:
        for one in TABLE:
            print(f"{one.group:<8} {one.what}\n         {one.expected}")
        return 0
    cli_testing.use_program(flags.program)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup has it ignored, and the programs inherit that
    tried = failed = skipped = 0
    with tempfile.TemporaryDirectory(prefix="spillway-hostile-", dir=os.environ.get("SPILLWAY_TEST_DIR") or os.getcwd()) as folder:
        os.environ["SPILLWAY_TEST_DIR"] = folder
        for one in TABLE:
            if flags.only and one.group not in flags.only.split(",") or flags.quick and not one.quick:
                continue
            began = time.monotonic()
            bed = take(one)
            tried, failed, skipped = tried + bed.tried, failed + len(bed.failed), skipped + len(bed.skipped)
            print(f"{one.group:<8} {bed.tried - len(bed.failed)} of {bed.tried} survived"
                  f" ({time.monotonic() - began:.0f} s): {one.what}", flush=True)
            for name, reason in bed.failed:
                print(f"  FAILED {name}: {' '.join(reason.split())[:600]}", flush=True)
            for name, reason in bed.skipped:
                print(f"[  SKIPPED ] hostile.{one.group}: {name}: {reason}", flush=True)
    print(f"tried {tried}, survived {tried - failed}, failed {failed}, skipped {skipped}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
