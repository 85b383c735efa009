#!/usr/bin/env python3
"""Memory within what a run was given, whatever its model, data and tokenizer are: runs drawn from a
seed, of two steps each, that must stay within device + host + 300 MiB from start to end, and end with
exit code 0, 2 (bad input) or 3 (does not fit the budgets). What does not fit is refused within 5 s of a
processor; bad input may be found behind much good one.

  tests/tools/random_bounds.py build/release/spillway [--cases 200] [--seed N] [--only CASE]

By hand, before a release: docs/measurements.json has the last result. What fails is printed with its seed,
its case, for --only, and its command; the last line counts."""

import argparse
import array
import itertools
import json
import os
import random
import shutil
import sys
import tempfile
import time

import cli_testing

MIB = 1 << 20
BASE = 300 * MIB      # beside the budgets (docs/GUIDE.md)
REFUSAL_SECONDS = 5   # of a processor: others use this machine, too
CHAT_TEMPLATE = ("{% for message in messages %}<{{ message.role }}>{{ message.content }}"
                 "</{{ message.role }}>{% endfor %}"
                 "{% if add_generation_prompt %}<assistant>{% endif %}")


def byte_alphabet():
    """The characters that stand for bytes in a tokenizer.json of ByteLevel."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = itertools.count(0x100)
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def tokenizer_json(merges, pairs, generator):
    """As many merges of ByteLevel's alphabet, as pairs or as texts."""
    alphabet = byte_alphabet()
    letters = alphabet[ord("a"):ord("z") + 1] + alphabet[0xc0:0xe0]
    vocabulary = {token: i for i, token in enumerate(alphabet)}
    tokens, written = list(letters), []
    while len(written) < merges:
        left, right = tokens[generator.randrange(min(len(tokens), 20000))], generator.choice(letters)
        if left + right in vocabulary:
            continue
        vocabulary[left + right] = len(vocabulary)
        tokens.append(left + right)
        written.append([left, right] if pairs else f"{left} {right}")
    return json.dumps({
        "version": "1.0", "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": written}}, ensure_ascii=False)


def unigram_json(tokens):
    return json.dumps({
        "version": "1.0", "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": True},
        "decoder": {"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": True},
        "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0]] + [
            [f"\u2581w{i}", -i / 1000] for i in range(tokens - 1)]}}, ensure_ascii=False)


class Case:
    """One run: its files in a folder of its own, and its flags. What is read of it once it is made
    stands in `made`."""

    def __init__(self, seed, number, folder):
        self.draw = random.Random(f"{seed}/{number}")
        self.folder = folder
        self.kind = []  # what is of note, for the line that is printed
        os.makedirs(self.path("swap"))
        os.makedirs(self.path("model"))
        self.make()

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as out:
            out.write(content.encode() if isinstance(content, str) else content)
        return self.path(name)

    def mostly(self, usual, rare, chance=0.1):
        return self.draw.choice(rare if self.draw.random() < chance else usual)

    def tokenizer(self):
        """--tokenizer's value, and how many tokens it has."""
        draw = self.draw
        kind = draw.choice(["bytes", "bytes", "chars", "json", "json", "json", "unigram"])
        if kind == "bytes":
            return "bytes", 256
        if kind == "chars":
            return "chars", 1024
        size = self.mostly([300, 5000, 50_000, 130_000], [400_000, 1_000_000], 0.25)
        text = unigram_json(size) if kind == "unigram" else tokenizer_json(
            size, draw.random() < 0.5, draw)
        self.write("model/tokenizer.json", text)
        self.write("model/tokenizer_config.json", json.dumps({"chat_template": CHAT_TEMPLATE}))
        self.kind.append(f"tokenizer.json ({kind}) of {size}, {len(text) / MIB:.1f} MiB")
        return "model", size + (256 if kind == "json" else 0)

    def words(self, size):
        """A text of about as many bytes."""
        draw = self.draw
        some = ["".join(draw.choice("abcdefghijklmnop\u00e9\u00e8\u00e0") for _ in range(draw.randint(1, 12)))
                for _ in range(200)]
        block = " ".join(draw.choice(some) for _ in range(2000)) + "\n"
        if draw.random() < 0.15:
            block = block.replace(" ", "").replace("\n", "")  # one word without an end
        times = max(1, size // len(block.encode()))
        return (block * times)[:max(64, size)]

    def rows(self, size, chat):
        draw, rows = self.draw, []
        while size > 0:
            text = self.words(min(size, draw.choice([200, 5000, 100_000])))
            size -= len(text) + 50
            if chat:
                row = {"messages": [{"role": role, "content": text[:len(text) // 2]}
                                    for role in ("user", "assistant") * draw.randint(1, 3)]}
            elif draw.random() < 0.5:
                row = {"text": text}
            else:
                row = {"prompt": text[:len(text) // 2], "completion": text[len(text) // 2:]}
            if draw.random() < 0.3:
                row["scores"] = [0] * draw.randint(1, 1000)
            rows.append(json.dumps(row, ensure_ascii=draw.random() < 0.5))
        return rows

    def long_row(self):
        """A line of many MiB: of text, of a conversation, or of what is not read."""
        size = self.draw.choice([3, 12, 30, 31, 33, 60]) * MIB
        kind = self.draw.choice(["text", "numbers", "keys", "labels", "chat"])
        self.kind.append(f"a line of {size // MIB} MiB of {kind}")
        if kind == "text":
            return json.dumps({"text": self.words(size)}, ensure_ascii=False)
        if kind == "numbers":
            return '{"text": "some text", "scores": [' + "0," * (size // 2) + "0]}"
        if kind == "keys":
            keys = ",".join(f'"k{i}":0' for i in range(size // 12))
            return '{"text": "some text", ' + keys + "}"
        if kind == "labels":
            return '{"text": [' + "0," * (size // 2) + "0]}"
        return json.dumps({"messages": [{"role": "user", "content": self.words(size // 2)},
                                        {"role": "assistant", "content": self.words(size // 2)}]},
                          ensure_ascii=False)

    def tokens(self, name, vocabulary):
        count = self.draw.choice([3000, 200_000, 5_000_000])
        width = 2 if vocabulary <= 65536 else 4
        block = array.array("H" if width == 2 else "I",
                            (self.draw.randrange(min(vocabulary, 1 << 16)) for _ in range(3000)))
        raw = (block * (count // len(block))).tobytes()
        if name.endswith(".bin"):
            return self.write(name, raw)
        header = f"{{'descr': '<u{width}', 'fortran_order': False, 'shape': ({len(raw) // width},), }}"
        header = header.ljust(117) + "\n"
        return self.write(name, b"\x93NUMPY\x01\x00v\x00" + header.encode() + raw)

    def data(self, tokenizer, vocabulary):
        draw = self.draw
        kinds = ["txt", "jsonl"] + (["chat"] if tokenizer == "model" else [])
        if tokenizer != "chars":  # which are those of texts
            kinds += ["npy"] + (["bin"] if vocabulary <= 65536 else [])
        kind = draw.choice(kinds)
        size = self.mostly([20_000, 300_000, 3_000_000], [30 * MIB], 0.1)
        if kind in ("bin", "npy"):
            data = self.tokens(f"data.{kind}", vocabulary)
        elif kind == "txt":
            data = self.write("data.txt", self.words(size))
        else:
            rows = self.rows(size, kind == "chat")
            if draw.random() < 0.35:
                rows.insert(draw.randrange(len(rows) + 1), self.long_row())
            data = self.write("data.jsonl", "\n".join(rows) + "\n")
        self.kind.append(f"{kind} of {os.path.getsize(data) / MIB:.1f} MiB")
        return data

    def config(self, vocabulary, positions):
        draw = self.draw
        heads = draw.choice([1, 2, 4, 8])
        width = heads * 2 * draw.choice([4, 8, 16, 32, 48])
        layers = self.mostly([1, 2, 3, 6], [24, 100, 400])
        family = draw.choice(["gpt2", "llama", "qwen2", "mistral", "gpt_neox"])
        self.kind.append(f"{family} of {layers} x {width}, vocabulary {vocabulary}")
        if family == "gpt2":
            return {"model_type": "gpt2", "vocab_size": vocabulary, "n_positions": positions,
                    "n_embd": width, "n_layer": layers, "n_head": heads}
        config = {"model_type": family, "vocab_size": vocabulary, "hidden_size": width,
                  "num_hidden_layers": layers, "num_attention_heads": heads,
                  "intermediate_size": width * draw.choice([2, 3, 4]),
                  "max_position_embeddings": positions,
                  "tie_word_embeddings": draw.random() < 0.5}
        if family not in ("gpt_neox",):
            config["num_key_value_heads"] = draw.choice([n for n in (1, heads) if heads % n == 0])
        return config

    def make(self):
        draw = self.draw
        tokenizer, tokens = self.tokenizer()
        vocabulary = self.mostly([tokens, tokens + 37], [max(tokens, 250_000), 1 << 24], 0.06)
        positions = draw.choice([32, 128, 1024])
        self.write("model/config.json", json.dumps(self.config(vocabulary, positions)))
        dtype = draw.choice(["bf16", "fp16", "fp32"])
        optimizer = draw.choice(["adamw", "adamw", "adam", "lion", "sgd", "lamb", "adafactor"])

        def budget():
            return int(self.mostly([8, 16, 32, 64, 100, 200, 400], [1, 3], 0.08) * MIB
                       * draw.uniform(0.8, 1.2))
        self.device, self.host = budget(), budget()
        flags = {
            "model": self.path("model"), "data": self.data(tokenizer, tokens),
            "tokenizer": tokenizer, "output": self.path("out"), "swap": self.path("swap"),
            "device-memory": self.device, "host-memory": self.host, "steps": 2,
            "seq-len": self.mostly([8, 32, positions], [positions + 1], 0.02),
            "micro-batch": self.mostly([1, 2, 5], [64, 1_000_000], 0.08),
            "accumulate": self.mostly([1, 2], [1_000_000, 2147483647], 0.03),
            "threads": draw.choice([1, 2]), "dtype": dtype, "optimizer": optimizer,
            "offload": draw.choice(["nvme", "nvme", "auto", "auto", "cpu", "none"]),
            "clip": draw.choice([0, 1]), "update": self.mostly(["auto"], ["immediate", "deferred"], 0.4),
            "io-engine": draw.choice(["auto", "threads"]),
            "recompute": draw.choice(["auto", "all"]),
            "order": draw.choice(["shuffle", "sequential"])}
        if optimizer not in ("sgd", "adafactor") and draw.random() < 0.5:
            flags["moments"] = draw.choice(["fp32", "bf16", "8bit"])
        if dtype == "bf16" and draw.random() < 0.2:
            flags["master"] = "none"
        if flags["clip"] == 1 or dtype == "fp16":
            flags["update"] = draw.choice(["auto", "deferred"])  # the norm is needed first
        commits = draw.choice(["each", "no", "last"])
        if commits == "each":
            flags["commit-every"] = 1
        if draw.random() < 0.2:
            flags["offload-activations"] = draw.choice(["cpu", "nvme"])
        if flags["data"].endswith(".jsonl") and draw.random() < 0.4:
            flags["samples"] = draw.choice(["padded", "packed"])
        if flags["data"].endswith(".txt") and draw.random() < 0.4:
            with open(flags["data"], encoding="utf-8") as text:  # a little: all of it is computed
                flags["eval-data"] = self.write("eval.txt", text.read(4000))
        self.words_of_command = ["train"]
        for name, value in flags.items():
            self.words_of_command += ["--" + name, str(value)]
        if commits == "no":
            self.words_of_command.append("--no-commit")
        self.kind.append(f"{dtype} {optimizer}, {self.device / MIB:.0f} + {self.host / MIB:.0f} MiB")
        self.made = {"words": self.words_of_command, "kind": "; ".join(self.kind),
                     "budgets": self.device + self.host}


def judge(budgets, ended):
    """What is wrong, and how many bytes too many were resident (below 0: left)."""
    over, wrong = ended.peak - (budgets + BASE), []
    if ended.code not in (0, 2, 3):
        wrong.append(f"exit code {ended.code}")
    if over > 0:
        wrong.append(f"{over / MIB:.0f} MiB too much resident")
    if ended.code == 3 and ended.seconds > REFUSAL_SECONDS:
        wrong.append(f"a refusal of {ended.seconds:.1f} s")
    return wrong, over


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", type=int, help="one case, whose files are kept")
    given = parser.parse_args()
    cli_testing.use_program(given.program)
    numbers = range(given.cases) if given.only is None else [given.only]
    print(f"seed {given.seed}", flush=True)
    codes, failed, nearest, slowest = {}, [], -(1 << 60), 0.0
    for number in numbers:
        folder = tempfile.mkdtemp(prefix="spillway-bounds-", dir=os.getcwd())
        try:
            made = cli_testing.in_another_process(lambda: Case(given.seed, number, folder).made)
            ended = cli_testing.run_measured(made["words"], os.path.join(folder, "stderr"))
        finally:
            if given.only is None:
                shutil.rmtree(folder)
        wrong, over = judge(made["budgets"], ended)
        codes[ended.code] = codes.get(ended.code, 0) + 1
        nearest = max(over, nearest)
        if ended.code == 3:
            slowest = max(slowest, ended.seconds)
        print(f"{number:4} exit {ended.code} {ended.peak / MIB:5.0f} MiB "
              f"({-over / MIB:4.0f} left) {ended.seconds:5.1f} s  {made['kind']}",
              flush=True)
        if wrong or given.only is not None:
            last = ended.said.strip().splitlines()[-3:]
            print("     " + "\n     ".join([", ".join(wrong), *last, "command: " + " ".join(
                [given.program, *made["words"]])]), flush=True)
        if wrong:
            failed.append(number)
    print(f"seed {given.seed}: {len(numbers)} runs, {len(failed)} failed {failed or ''}; exit codes "
          f"{dict(sorted(codes.items()))}; at least {-nearest / MIB:.0f} MiB were left of device + "
          f"host + 300 MiB; the slowest refusal took {slowest:.1f} s of a processor")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
