#!/usr/bin/env python3
"""Tokenizers of every family beside Hugging Face's library, over far more text than the golden files have.

    pip install tokenizers==0.23.3 sentencepiece protobuf numpy
    tests/tokenizers_check.py [--program build/release/spillway] [--seed N] [--megabytes 20] [--strings 100000]

Trains a tokenizer of each shape in tests/golden/tokenizer_families.py on a part of the text, and compares
what `spillway tokenize` makes of the text and of the strings, token by token. The text is this machine's:
the Bible, sources, and documents of /usr/share in all languages, the fragments of make_tokenizers.py, and
random characters and bytes. Prints a line a kind; the exit code is 1 where anything differs.
"""

import argparse
import glob
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent / "golden"))
import numpy
import tokenizer_families
import tokenizers
from make_tokenizers import FRAGMENTS, WORDS, text_chunk

SOURCES = ("/usr/share/perl/**/*.p[lm]", "/usr/lib/python3/**/*.py", "/usr/share/doc/**/*", "/usr/share/i18n/locales/*",
           "/usr/include/**/*.h", "/usr/share/common-licenses/*")


def mixed_text(megabytes, choose):
    """Bytes, with some that are no UTF-8; the pieces of each kind are shuffled among one another."""
    pieces = [subprocess.run(["bible", "-f", "Gen1:1-Jude1:25"], capture_output=True, check=False).stdout]
    for pattern in SOURCES:
        files = [f for f in sorted(glob.glob(pattern, recursive=True)) if os.path.isfile(f)]
        choose.shuffle(files)
        size = 0
        for name in files:
            data = pathlib.Path(name).read_bytes()
            if b"\0" in data[:4096] or name.endswith((".gz", ".png")):
                continue
            pieces.append(data[:200_000])
            size += len(pieces[-1])
            if size > megabytes * 2e5:
                break
    # Characters that every library knows; and a few bytes of anything.
    known = set(tokenizer_families.POOL) | set(range(0x1100))
    out, size = [], 0
    cut = [piece[i:i + 5000] for piece in pieces for i in range(0, len(piece), 5000)]
    snippets = {"words": WORDS, "fragments": FRAGMENTS}
    while size < megabytes * 1e6:
        kind = choose.random()
        if kind < .6 and cut:
            text = choose.choice(cut).decode("utf-8", "replace")
            piece = "".join(c for c in text if ord(c) in known).encode()
        elif kind < .8:
            piece = text_chunk(snippets, choose.randrange(1 << 30))[:4000].encode()
        elif kind < .98:
            piece = " ".join(tokenizer_families.strings(60, choose.randrange(1 << 30), WORDS, FRAGMENTS)).encode()
        else:
            piece = choose.randbytes(choose.randrange(40))
        out.append(piece)
        size += len(piece)
    return b"".join(out)


class Check:
    def __init__(self, program, folder):
        self.program, self.folder = program, pathlib.Path(folder)

    def tokens(self, data):
        out = self.folder / "out.npy"
        run = subprocess.run([self.program, "tokenize", "--tokenizer", str(self.folder / "tokenizer"), "--data",
                              str(data), "--out", str(out), "--json"], capture_output=True, text=True, check=False)
        if run.returncode != 0:
            return None, run.stderr.strip()[-300:]
        return numpy.load(out).astype(numpy.int64), json.loads(run.stdout)

    def compare(self, name, made, text, strings):
        where = self.folder / "tokenizer"
        where.mkdir(exist_ok=True)
        (where / "tokenizer.json").write_text(json.dumps(made), encoding="utf-8")
        peer = tokenizers.Tokenizer.from_str(json.dumps(made))
        end = peer.id_to_token(1)
        (where / "tokenizer_config.json").write_text(json.dumps({"eos_token": end}), encoding="utf-8")
        began = time.monotonic()
        expected = numpy.array(peer.encode(text.decode("utf-8", "replace"), add_special_tokens=False).ids)
        peer_seconds = time.monotonic() - began
        got, about = self.tokens(self.folder / "mixed.txt")
        told = f"{name:34}"
        if got is None:
            print(told, about)
            return False
        same = len(got) == len(expected) and bool((got == expected).all())
        at = -1
        if not same:
            n = min(len(got), len(expected))
            at = int(numpy.argmax(numpy.append(got[:n] != expected[:n], True)))
        told += f"{len(expected):9} tokens of text " + ("equal" if same else f"DIFFER from {at} on")
        lines = []
        for begin in range(0, len(strings), 10_000):
            for encoding in peer.encode_batch(strings[begin:begin + 10_000], add_special_tokens=False):
                lines.append([*encoding.ids, 1])
        expected = numpy.concatenate([numpy.array(line) for line in lines])
        ours, problem = self.tokens(self.folder / "strings.jsonl")
        if ours is None:
            print(told, problem)
            return False
        equal = len(ours) == len(expected) and bool((ours == expected).all())
        told += f", {len(strings)} strings of {len(expected)} " + ("equal" if equal else "DIFFER")
        if not equal:
            place = 0
            for i, line in enumerate(lines):
                if list(ours[place:place + len(line)]) != line:
                    told += f": {i} {ascii(strings[i])[:200]} {list(ours[place:place + len(line)])[:40]} {line[:40]}"
                    break
                place += len(line)
        print(f"{told}; {len(text) / about['seconds'] * 1e-6:.1f} MB/s, theirs {len(text) / peer_seconds * 1e-6:.1f}, "
              f"memory {about['peak_bytes'] >> 20} MiB", flush=True)
        return same and equal


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/spillway")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--megabytes", type=float, default=20)
    parser.add_argument("--strings", type=int, default=100_000)
    parser.add_argument("--only", nargs="*")
    arguments = parser.parse_args()
    choose = random.Random(arguments.seed)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    print(f"seed {arguments.seed}, {arguments.megabytes} MB, tokenizers {tokenizers.__version__}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        text = mixed_text(arguments.megabytes, choose)
        strings = tokenizer_families.strings(arguments.strings, arguments.seed, WORDS, FRAGMENTS)
        (pathlib.Path(folder) / "mixed.txt").write_bytes(text)
        with open(pathlib.Path(folder) / "strings.jsonl", "w", encoding="utf-8") as f:
            for string in strings:
                f.write(json.dumps({"text": string}) + "\n")
        bible = subprocess.run(["bible", "-f", "Gen1:1-Exo20:1"], capture_output=True, text=True, check=False).stdout
        snippets = {"words": WORDS, "fragments": FRAGMENTS}
        training = [text_chunk(snippets, chunk) for chunk in range(6)] + bible.split("\n\n")
        made = tokenizer_families.families(training, 2000, tokenizer_families.charsmap())
        check = Check(arguments.program, folder)
        results = [check.compare(name, parts, text, strings) for name, parts in made.items()
                   if not arguments.only or name in arguments.only]
        print(f"{sum(results)} of {len(results)} kinds equal")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
