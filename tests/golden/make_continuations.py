#!/usr/bin/env python3
"""Makes tests/golden/tokenizers/continuations.json: what transformers writes behind a prompt, and where a prompt and its
completion have the tokens of one text, for every tokenizer of families/ and 200 prompts each.

    pip install transformers==5.24.0 tokenizers==0.23.3
    tests/golden/make_continuations.py

Prompts and answers are cut out of families/expected.json's strings by a generator that TokenizerContinuations in
tests/engine/tokenizers/tokenizer_golden_test.cc has, too. Only hashes are kept.
"""

import json
import pathlib

import transformers

from make_tokenizers import Lcg, token_hash

HERE = pathlib.Path(__file__).parent / "tokenizers"
PROMPTS = 200


def continuation(tokenizer, tokens, cut):
    """As pipelines do: the text of all, without as many characters as the prompt's."""
    before = tokenizer.decode(tokens[:cut], skip_special_tokens=True)
    return tokenizer.decode(tokens, skip_special_tokens=True)[len(before):]


def main():
    expected = json.loads((HERE / "families/expected.json").read_text())
    cases, out = expected["cases"], {}
    for name in sorted(expected["hashes"]):
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(HERE / "families" / (name + ".json")))

        def encode(text):
            return tokenizer(text, add_special_tokens=False)["input_ids"]

        random, texts, pairs, joined = Lcg(1), [], [], 0
        for i in range(PROMPTS):
            # Every eighth prompt is long.
            tokens = [token for k in range(9 if i % 8 == 7 else 2) for token in encode(cases[(i + k * 7) % len(cases)])]
            cut = random.below(len(tokens) + 1)
            texts += [*continuation(tokenizer, tokens, cut).encode(), 256]

            text = cases[i % len(cases)] + cases[(i + 7) % len(cases)]
            place = random.below(len(text) + 1)
            prompt, whole = encode(text[:place]), encode(text)
            is_joined = whole[:len(prompt)] == prompt
            joined += is_joined
            pairs += [*prompt, 1 << 31, *(whole[len(prompt):] if is_joined else [])]
        out[name] = {"texts": token_hash(texts), "pairs": token_hash(pairs), "joined": joined}
    (HERE / "continuations.json").write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
