#!/usr/bin/env python3
"""Makes tests/golden/tokenizers/declared.json: which tokens transformers knows by the files beside a tokenizer.json.

    pip install transformers==5.24.0 tokenizers==0.23.3
    tests/golden/make_declared.py
"""

import json
import os
import pathlib
import tempfile

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
from transformers import AutoTokenizer

HERE = pathlib.Path(__file__).parent / "tokenizers"
FLAGS = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
WORDS = ["<unk>", "<plain>", "</s>", "a", "b", "<v>"]
TOKENIZER = {
    "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None, "decoder": None,
    "pre_tokenizer": {"type": "WhitespaceSplit"},
    "added_tokens": [{"id": 0, "content": "<unk>"} | FLAGS,
                     {"id": 1, "content": "<plain>"} | FLAGS | {"special": False, "lstrip": True}],
    "model": {"type": "WordLevel", "vocab": {word: i for i, word in enumerate(WORDS)}, "unk_token": "<unk>"}}
CONFIG, MAP, ADDED = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
PLAIN = {"tokenizer_class": "PreTrainedTokenizerFast"}
TYPED = {"__type": "AddedToken"}
CASES = {
    "nothing": {},
    "a name for an added token": {CONFIG: {"eos_token": "<plain>"}},
    "a name for a word": {CONFIG: {"eos_token": "</s>"}},
    "a name for a new token": {CONFIG: {"eos_token": "<new>"}},
    "a name with rules": {CONFIG: {"eos_token": TYPED | {"content": "<new>", "lstrip": True, "normalized": True}}},
    "rules of an added token stay": {CONFIG: {"eos_token": TYPED | {"content": "<plain>", "rstrip": True}}},
    "names in their order": {CONFIG: {"mask_token": "<m>", "pad_token": "<p>", "eos_token": "<e>", "bos_token": "<b>"}},
    "additional": {CONFIG: {"eos_token": "<new>", "additional_special_tokens": ["<x>", "a", "<x>"]}},
    "extra": {CONFIG: {"extra_special_tokens": ["<x>", "<plain>", "</s>"], "additional_special_tokens": ["<z>"]}},
    "extra by name": {CONFIG: {"extra_special_tokens": {"image_token": "<im>"}, "boi_token": "<boi>"}},
    "a decoder": {CONFIG: {"eos_token": "<e>", "added_tokens_decoder": {
        "9": {"content": "<n9>", "special": True}, "7": {"content": "<n7>", "special": False, "normalized": True},
        "1": {"content": "<plain>", "special": True, "normalized": False}}},
        MAP: {"eos_token": "<other>"}, ADDED: {"<aj>": 6}},
    "a decoder of ids in another order": {CONFIG: {"added_tokens_decoder": {
        "10": {"content": "<n10>", "special": True}, "9": {"content": "<n9>", "special": True}}}},
    "a map": {CONFIG: {"eos_token": "</s>"}, MAP: {"eos_token": "<other>", "pad_token": {
        "content": "<p>", "lstrip": False, "normalized": False, "rstrip": True, "single_word": False}}},
    "added": {CONFIG: {"eos_token": "<q>"}, ADDED: {"<aj>": 9, "<ai>": 7, "<q>": 8, "a": 3}},
    "all": {CONFIG: {"unk_token": "<unk>"}, MAP: {"eos_token": "<q>"}, ADDED: {"<aj>": 7, "<q>": 6}},
}


def main():
    out = {"tokenizer": TOKENIZER, "cases": {}}
    for name, files in CASES.items():
        files = {CONFIG: {}} | files
        files[CONFIG] = PLAIN | files[CONFIG]
        with tempfile.TemporaryDirectory() as folder:
            for file, value in ({"tokenizer.json": TOKENIZER} | files).items():
                (pathlib.Path(folder) / file).write_text(json.dumps(value))
            made = AutoTokenizer.from_pretrained(folder)
        text = "a<plain>b " + " ".join(made.convert_ids_to_tokens(range(len(made))))
        tokens = made(text, add_special_tokens=False)["input_ids"]
        out["cases"][name] = {
            "files": files, "tokens": made.convert_ids_to_tokens(range(len(made))), "end": made.eos_token_id,
            "special": [i for i, token in sorted(made.added_tokens_decoder.items()) if token.special],
            "text": text, "encoded": tokens, "decoded": made.decode(tokens, skip_special_tokens=True)}
    (HERE / "declared.json").write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
