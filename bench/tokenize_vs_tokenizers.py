#!/usr/bin/env python3
"""Byte-level BPE beside Hugging Face's tokenizers: same text, same core, alternating.

    python3 bench/tokenize_vs_tokenizers.py TOKENIZER_DIR TEXT.txt [--pairs 5] [--program PATH]

Needs `tokenizers` in that Python; both sides run on the first core this process may use. Our side
is the rate that `spillway tokenize` prints, files included; theirs is encode on the text in memory,
in pieces of 10,000 characters, which suits it better than larger ones (so its count of
tokens differs a little, at the pieces' ends). Prints every pair and the median ratio.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

PIECE = 10_000


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer")
    parser.add_argument("text")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--program", default="build/release/spillway")
    arguments = parser.parse_args()

    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import tokenizers
    peer = tokenizers.Tokenizer.from_file(os.path.join(arguments.tokenizer, "tokenizer.json"))
    with open(arguments.text, encoding="utf-8", errors="replace", newline="") as file:
        text = file.read()
    megabytes = os.path.getsize(arguments.text) / 1e6

    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(arguments.pairs):
            began = time.monotonic()
            count = sum(len(peer.encode(text[i:i + PIECE], add_special_tokens=False).ids)
                        for i in range(0, len(text), PIECE))
            theirs = megabytes / (time.monotonic() - began)
            out = subprocess.run(
                [arguments.program, "tokenize", "--tokenizer", arguments.tokenizer, "--data",
                 arguments.text, "--out", os.path.join(folder, "x.npy"), "--json"],
                check=True, capture_output=True, text=True)
            ours = json.loads(out.stdout)
            assert abs(ours["tokens"] - count) <= 2 * len(text) / PIECE, (ours["tokens"], count)
            rate = megabytes / ours["seconds"]
            ratios.append(rate / theirs)
            print(f"pair {pair + 1}: {rate:.1f} MB/s, tokenizers {tokenizers.__version__} "
                  f"{theirs:.2f} MB/s, ratio {ratios[-1]:.1f}")
    print(f"median ratio {statistics.median(ratios):.1f} over {len(ratios)} pairs")


if __name__ == "__main__":
    main()
