#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets, tests/fuzz/corpus/NAME/, or their dictionaries.

    tests/fuzz/make_seeds.py [--dictionaries FOLDER]

Seeds are valid files that reach deep into each reader, in NAME/accepted/: a reader that refuses one fails
the target's test. Beside them some that are wrong in a particular way. Seeds of other origin
(inputs that once broke a reader) lie there, too, and stay.
"""

import collections
import io
import json
import os
import pathlib
import re
import struct
import sys
import wave
import zlib

HERE = pathlib.Path(__file__).resolve().parent
CORPUS = HERE / "corpus"
GOLDEN = HERE.parent / "golden"
SOURCES = HERE.parent.parent


def write(target, name, content):
    path = CORPUS / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def accepted(target, name, content):
    write(target, f"accepted/{name}", content)


def files(**parts):
    """An input of several files: tests/fuzz/fuzzing.h has FilesOf. `_` in a name stands for a dot."""
    return "".join(f"=== {name}\n{content.rstrip()}\n" for name, content in parts.items())


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def torch_files():
    for path in sorted((GOLDEN / "torch_files").iterdir()):
        refused = json.loads((GOLDEN / "torch_files.json").read_text())[path.name] is None
        (write if refused else accepted)("torch_file", path.name, path.read_bytes())


def safetensors():
    two = {"__metadata__": {"format": "pt", "note": "\u00e9"}, "a": tensor("F32", [2, 3], 0, 24),
           "b": tensor("BF16", [4], 24, 32)}
    headers = {
        "two": (json.dumps(two) + "  ", 32),
        "empty": ("{}", 0),
        "scalar": (json.dumps({"s": tensor("F64", [], 0, 8)}), 8),
        "halves": (json.dumps({"h": tensor("F16", [3], 0, 6), "i": tensor("I64", [1], 6, 14)}), 14),
        "four_bits": (json.dumps({"f": tensor("F4", [2], 0, 1)}), 1),
        "no_elements": (json.dumps({"z": tensor("F32", [0, 1 << 62], 0, 0)}), 0),
        "overflow": (json.dumps({"o": tensor("F32", [1 << 33, 1 << 33], 0, 8)}), 8),
        "far": (json.dumps({"o": tensor("F32", [2], (1 << 64) - 8, (1 << 64) - 1)}), 8),
        "hole": (json.dumps({"a": tensor("U8", [1], 0, 1), "b": tensor("U8", [1], 2, 3)}), 3),
        "twice": ('{"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
                  '"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', 1),
        "deep": ('{"a":' * 300 + "1" + "}" * 300, 0),
        "many_dimensions": (json.dumps({"d": tensor("U8", [1] * 65, 0, 1)}), 1),
    }
    for name, (text, data_bytes) in headers.items():
        raw = text.encode()
        put = accepted if name in ("two", "empty", "scalar", "halves", "four_bits", "no_elements") else write
        put("safetensors_header", name, struct.pack("<H", data_bytes) + raw)
        put("safetensors_file", name,
              struct.pack("<Q", len(raw)) + raw + bytes(i % 256 for i in range(data_bytes)))
    write("safetensors_file", "long_header", struct.pack("<Q", 1 << 63) + b"{}")
    write("safetensors_file", "short", b"\x08\0\0")
    index = {"metadata": {"total_size": 8},
             "weight_map": {"a": "model-00001-of-00002.safetensors",
                            "b/~c": "model-00002-of-00002.safetensors"}}
    accepted("safetensors_index", "two", json.dumps(index, indent=2))
    write("safetensors_index", "outside", '{"weight_map":{"a":"../x"}}')
    write("safetensors_index", "number", '{"weight_map":{"a":1}}')
    write("safetensors_index", "none", '{"weight_map":{}}')
    write("safetensors_index", "twice", '{"weight_map":{"a":"x","a":"y"}}')
    write("safetensors_index", "deep", "[" * 600)
    write("safetensors_index", "long_key", '{"' + "k" * 9000 + '":{' +
          ",".join(f'"{i}":0' for i in range(300)) + "}}")


def configs():
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 64,
              "n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_inner": None,
              "activation_function": "gelu_new", "attn_pdrop": 0.1, "layer_norm_epsilon": 1e-5,
              "tie_word_embeddings": True, "task_specific_params": {"x": [1, {"y": None}]}}
    accepted("config_json", "gpt2", json.dumps(config, indent=2))
    accepted("config_json", "small", '{"model_type":"gpt2"}')
    accepted("config_json", "aliases", json.dumps(dict(
        {"model_type": "gpt2"}, hidden_size=32, num_hidden_layers=1, num_attention_heads=4,
        max_position_embeddings=8, n_ctx=9, unknown_key="\ud83d\ude00", summary_type="x")))
    write("config_json", "numbers", '{"model_type":"gpt2","n_embd":1e30,"n_layer":-1,'
          '"vocab_size":18446744073709551615,"layer_norm_epsilon":1e-400}')
    write("config_json", "off", '{"model_type":"gpt2","add_cross_attention":true,'
          '"quantization_config":{},"architectures":{"a":1}}')
    write("config_json", "bytes", b'\xef\xbb\xbf{"model_type":"\xff"}')
    write("config_json", "deep", "[" * 600)
    for name, task in (("bert_masked", "MaskedLM"), ("bert_tokens", "TokenClassification")):
        accepted("config_json", name, '{"model_type":"bert","architectures":["BertFor' + task + '"],'
              '"hidden_size":16,"num_hidden_layers":1,"num_attention_heads":2,"vocab_size":40,'
              '"intermediate_size":32,"id2label":{"0":"O","1":"B-X"},"tie_word_embeddings":false}')
    accepted("config_json", "t5", '{"model_type":"t5","d_model":16,"num_layers":1,"num_decoder_layers":2,'
          '"feed_forward_proj":"gated-gelu","eos_token_id":[1,2],"relative_attention_num_buckets":4}')
    accepted("config_json", "whisper", '{"model_type":"whisper","d_model":12,"encoder_layers":1,"decoder_layers":1,'
          '"max_source_positions":9,"num_mel_bins":5,"apply_spec_augment":true,"mask_feature_prob":0.5}')
    accepted("config_json", "resnet", '{"model_type":"resnet","hidden_sizes":[8,16],"depths":[1,2],'
          '"layer_type":"bottleneck","id2label":{"0":"a","1":"b"},"downsample_in_bottleneck":true}')
    bart = ('{"model_type":"bart","d_model":20,"encoder_attention_heads":5,"decoder_attention_heads":5,"eos_token_id":2,'
            '"decoder_start_token_id":0,"encoder_layerdrop":0.5}')
    accepted("config_json", "bart", bart)
    write("config_json", "bart_end", bart.replace("2,", "-1,"))
    deepspeed = {
        "train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "gradient_clipping": 1.0,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.95], "eps": "auto",
                                                  "adam_w_mode": False}},
        "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 10,
                                                          "total_num_steps": 100}},
        "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/x"},
                              "offload_optimizer": {"device": "cpu"}},
        "bf16": {"enabled": "auto"}, "aio": {"block_size": 1048576, "queue_depth": 8}}
    accepted("deepspeed_config", "all", json.dumps(deepspeed, indent=1))
    accepted("deepspeed_config", "comments", '{ // one\n "fp16": {"enabled": true, /* two */ '
          '"loss_scale_window": 5e2, "hysteresis": 2}}')
    accepted("deepspeed_config", "sgd", '{"optimizer":{"type":"SGD","params":{"lr":0.1,'
          '"momentum":0.9,"nesterov":true}},"scheduler":{"type":"WarmupCosineLR"}}')
    accepted("deepspeed_config", "cycle", '{"scheduler":{"type":"OneCycle","params":{"cycle_min_lr":'
          '0.1,"cycle_max_lr":1,"cycle_second_step_size":5,"cycle_first_stair_count":2,'
          '"decay_step_size":3,"cycle_momentum":false}}}')
    accepted("recipe", "usual", "model: m\ndata: [a.txt, b.txt]\noutput: o\nlearning_rate: 2e-5\nbetas:\n  - 0.8\n"
             "  - '0.95'\nschedule_args: {min_lr_rate: 0.1}\nbf16: true\nresume: no\n")
    accepted("recipe", "earlier", json.dumps({
        "lr": {"value": 0.1, "source": "--lr"}, "clip": {"value": 0.5, "source": "run.yaml:3"},
        "given": {"value": {"--lr": "0.1", "--data": ["a"], "--no-export": True}, "source": "flags"}}))
    accepted("recipe", "older", '{"lr": {"value": 0.1, "source": "--lr"}, "data": {"value": ["a"], "source": "--data"}}')
    write("recipe", "wrong", "a: &a 1\nb: *a\n---\nlr: 1\nlr: 2\n")
    write("deepspeed_config", "misspelt", '{"gradient_cliping": 1}')
    write("deepspeed_config", "types", '{"bf16":true,"optimizer":[],"train_batch_size":1e99}')
    write("deepspeed_config", "open_comment", '{ /* "a": 1')


def npy():
    def header(text, data_bytes, version=1):
        raw = text.encode()
        length = struct.pack("<H" if version == 1 else "<I", len(raw))
        return b"\x93NUMPY" + bytes([version, 0]) + length + raw + bytes(data_bytes)
    shape = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }   \n"
    accepted("npy_header", "two", header(shape % ("<u2", "(3,)"), 6))
    accepted("npy_header", "eight", header(shape % ("<i8", "(2,)"), 16, 2))
    accepted("npy_header", "one", header(shape % ("|u1", "(4)"), 4, 3))
    write("npy_header", "big_endian", header(shape % (">u2", "(3,)"), 6))
    write("npy_header", "matrix", header(shape % ("<u2", "(3, 1)"), 6))
    write("npy_header", "overflow", header(shape % ("<u8", "(2305843009213693952,)"), 0))
    write("npy_header", "records", header(shape % ("[('a', '<i4')]", "(3,)"), 12))
    write("npy_header", "quoted", header(shape.replace("'", '"') % ("<u2", "()"), 0))
    write("npy_header", "long", b"\x93NUMPY\x02\0\xff\xff\xff\xff{")
    write("npy_header", "cut", b"\x93NUMPY\x01")


def commits():
    # docs/FORMATS.md has the format, and this example.
    body = {"step": 12, "engine_state": '{"samples":96}', "tile_parameters": 4096,
            "gradient_bytes_per_parameter": 2, "planes": [[0, 2], [1, 2]],
            "units": [["embedding", 5000], ["head", 100]],
            "files": [["/nvme0/tiles", 49152], ["/nvme1/tiles", 16384]],
            "tiles": [[[0, 0, 24576, 1, [12, 12], ["98c9bf58cb3e964e", "b3a68273f98b8886"]],
                       [1, 0, 8192, 1, [12, 12], ["4f7eb528294a374d", "562adcee54b0c0eb"]]],
                      [[0, 16384, 40960, 1, [12, 12], ["add112b187c2e128", "392d5f6eddafb839"]]]]}
    accepted("manifest", "two_files", json.dumps(body))
    copy = dict(body, files=[["tiles", 24576]], units=[["u", 2048]], tiles=[
        [[0, 0, 0, 0, [1, 2], ["0" * 16, "f" * 16]]]])
    accepted("manifest", "one_slot", json.dumps(copy))
    write("manifest", "overlap", json.dumps(body).replace("24576", "0"))
    write("manifest", "behind_the_end", json.dumps(body).replace("49152", "49151"))
    write("manifest", "no_units", json.dumps(dict(body, units=[], tiles=[], files=[])))
    write("manifest", "huge", json.dumps(dict(body, units=[["u", 1 << 44]], tile_parameters=2048)))
    write("manifest", "header", "spillway-manifest 2 0000000000000000 0\n")
    write("manifest", "deep", "[" * 600)
    state = {"version": 1, "step": 3, "applied_steps": 2, "finished": False,
             "loss_scale": {"scale": 65536.0, "iteration": 3, "last_overflow_iteration": -1,
                            "hysteresis_left": 2},
             "dtype": "bf16", "threads": 2, "identity": [["data", "d.txt 12"], ["seed", "42"]],
             "model": [{"name": "embedding", "borrows": [], "parameters": [
                           {"name": "wte", "shape": [64, 16]}]},
                       {"name": "head", "borrows": [0], "parameters": [
                           {"name": "ln_f", "shape": [16]}, {"name": "none", "shape": [0]}]}],
             "parents": ["/nvme"], "store_number": 0}
    accepted("run_state", "two_units", json.dumps(state))
    accepted("run_state", "no_units", json.dumps(dict(state, model=[])))
    accepted("run_state", "part", json.dumps(dict(
        state, part={"rank": 1, "ranks": 4, "group": 2, "commit_id": "3-98c9bf58cb3e964e"},
        loss_scale=dict(state["loss_scale"], overflows_in_a_row=2),
        buffers=[{"name": "mean", "shape": [2], "bits": [1065353216, 0], "whole": True}])))
    write("run_state", "another_version", json.dumps(dict(state, version="[" * 100)))
    write("run_state", "floats", json.dumps(dict(state, step=1e300, threads=1.5)))
    write("run_state", "far", json.dumps(dict(state, step=(1 << 64) - 1, threads=1 << 40)))
    write("run_state", "shape", json.dumps(dict(state, model=[
        {"name": "u", "borrows": [7], "parameters": [{"name": "p", "shape": [1e30, -1]}]}])))
    write("run_state", "deep", '{"version":' + "[" * 600)
    rows = [{"step": n, "loss": 4.5, "grad_norm": None, "bytes": {"nvme_read": 1}} for n in (1, 2, 101)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    accepted("metrics_rows", "three", lines)
    accepted("metrics_rows", "cut", lines[:-30])
    write("metrics_rows", "far", '{"step":18446744073709551615}\n{"step":-1}\n{"step":1e2}\n\n[]\n')
    timeline = {
        "version": 1, "step": 4, "steady": True, "seconds": 1.5, "phase_ends": [0.5, 1.4, 1.5],
        "ops": [["forward h.0", 0.1, 0.5], ["backward h.0", 0.6, 1.4]],
        "stalls": [{"reason": "disk", "before": "forward h.0", "span": [0, 0.1]}],
        "waits": [{"name": "disk", "busy": [[0, 0.1]]}],
        "resources": [{"name": "update worker 1", "busy": [[0.2, 0.3]]},
                      {"name": "disk read", "busy": [[0, 0.7]], "bin_seconds": 0.5,
                       "bin_bytes": [4096, 8192]}],
        "worker_seconds": {"update": 0.1}, "lost_spans": 0, "metrics": {"step": 4}}
    accepted("timeline", "good", json.dumps(timeline))
    write("timeline", "far", json.dumps(timeline | {"seconds": 1e308, "phase_ends": [-1, 1e9, 0]}))
    write("metrics_rows", "deep", '{"step":1,"x":' + "[" * 600 + "\n")


def data():
    letters, following = [], 0x100
    for byte in range(256):  # GPT-2's alphabet
        printable = ord("!") <= byte <= ord("~") or byte >= 0xA1 and byte != 0xAD
        letters.append(chr(byte) if printable else chr(following))
        following += not printable
    vocabulary = {letter: byte for byte, letter in enumerate(letters)} | {"ab": 256, "abc": 257}
    end = {"id": 258, "content": "<|endoftext|>", "single_word": False, "lstrip": False,
           "rstrip": False, "normalized": False, "special": True}
    gpt2 = {"version": "1.0", "added_tokens": [end], "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True},
            "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "ignore_merges": False,
                      "vocab": vocabulary, "merges": ["a b", "ab c"]}}
    pattern = (r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
               r"|\s+(?!\S)|\s+")
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    qwen2 = dict(gpt2, normalizer={"type": "NFC"},
                 pre_tokenizer={"type": "Sequence", "pretokenizers": [split, byte_level]},
                 model=dict(gpt2["model"], merges=[["a", "b"], ["ab", "c"]], ignore_merges=True))
    small = dict(gpt2, model={"vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
                 added_tokens=[{"id": 3, "content": "<s>", "lstrip": True}])
    for name, value in (("gpt2", gpt2), ("qwen2", qwen2), ("small", small)):
        accepted("tokenizer_json", name, json.dumps(value, ensure_ascii=False))
    t5 = json.loads((GOLDEN / "tokenizers/families/t5.json").read_text(encoding="utf-8"))
    charsmap = t5["normalizer"]["precompiled_charsmap"]
    parts = {
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
             "lowercase": True}, {"type": "NFKC"}, {"type": "Strip", "strip_left": True, "strip_right": True},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}, {"type": "Nmt"},
            {"type": "Precompiled", "precompiled_charsmap": charsmap}, {"type": "Prepend", "prepend": "x"}]},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True},
            {"type": "Digits", "individual_digits": True}, {"type": "Punctuation", "behavior": "MergedWithNext"}]},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "ByteFallback"}, {"type": "Metaspace", "replacement": "\u2581"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 1}]},
        "post_processor": {"type": "TemplateProcessing", "single": [
            {"SpecialToken": {"id": "a", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 1}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"a": {"id": "a", "ids": [1], "tokens": ["a"]}}}}
    unigram = dict(parts, model={"type": "Unigram", "unk_id": 0, "byte_fallback": True, "vocab": [
        ["<unk>", 0], ["a", -1.5], ["l", -2.25], ["ll", -3], ["\u2581", -4], ["<0x41>", -9]]})
    wordpiece = dict(parts, pre_tokenizer={"type": "BertPreTokenizer"}, decoder={"type": "WordPiece", "prefix": "##"},
                     model={"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"[UNK]": 0, "he": 1, "##l": 2, "##lo": 3}})
    llama = dict(parts, pre_tokenizer=None, normalizer={"type": "Prepend", "prepend": "\u2581"}, model={
        "type": "BPE", "byte_fallback": True, "fuse_unk": True, "unk_token": "<unk>",
        "vocab": {"<unk>": 0, "l": 1, "o": 2, "lo": 3, "<0x20>": 4}, "merges": [["l", "o"]]})
    for name, value in (("unigram", unigram), ("wordpiece", wordpiece), ("llama", llama)):
        accepted("tokenizer_json", name, json.dumps(value, ensure_ascii=False))
    # What makes much of little, or takes long.
    def replace(pattern, content):
        return {"type": "Replace", "pattern": pattern, "content": content}

    def several(kind, key, some):
        return {"type": kind, key: some}
    doubles = [replace({"String": "l"}, "ll")] * 40
    pieces = dict(small, model={"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -1.5], ["l", -2.25]]})
    nested = {"type": "NFC"}
    for _ in range(12):
        nested = several("Sequence", "normalizers", [nested, {"type": "Lowercase"}])
    for name, value in {
            "doubling": dict(pieces, normalizer=several("Sequence", "normalizers", doubles)),
            "prepending": dict(pieces, normalizer=several("Sequence", "normalizers", [
                {"type": "Prepend", "prepend": "x" * 50}] * 60)),
            "doubling_decoder": dict(pieces, decoder=several("Sequence", "decoders", doubles)),
            "nested": dict(pieces, normalizer=nested),
            "backtracking": dict(pieces, pre_tokenizer={
                "type": "Split", "pattern": {"Regex": "(?:l*l*[^1]*o*)b|(?:l|ll)+!"}, "behavior": "Isolated",
                "invert": False}),
            "backtracking_normalizer": dict(pieces, normalizer=replace({"Regex": "(?:[^b]+)+b"}, "y"))}.items():
        accepted("tokenizer_json", name, json.dumps(value))
    write("tokenizer_json", "many_normalizers", json.dumps(dict(
        pieces, normalizer=several("Sequence", "normalizers", [{"type": "Lowercase"}] * 1000))))
    write("tokenizer_json", "growing_token", json.dumps(dict(
        pieces, normalizer=several("Sequence", "normalizers", doubles), added_tokens=[{"id": 3, "content": "ll"}])))
    for path in sorted((GOLDEN / "chat").glob("*.jinja")):
        accepted("chat_template", path.name.removesuffix(".jinja"), path.read_text(encoding="utf-8"))
    for path in sorted((GOLDEN / "chat/tools").glob("*.jinja")):
        if path.name != "split_once.jinja":  # refuses an answer without a question
            accepted("chat_template", "tools_" + path.name.removesuffix(".jinja"), path.read_text(encoding="utf-8"))
    write("chat_template", "expressions", (GOLDEN / "chat_expressions.txt").read_text(encoding="utf-8"))
    write("chat_template", "long_chain", "{{ 1" + "+1" * 10_000 + " }}")
    write("chat_template", "long_concatenation", "{{ messages[0].content" + " ~ 'a' * 9" * 2_000 + " }}")
    write("chat_template", "long_filters", "{{ 'a'" + "|upper" * 10_000 + " }}")
    write("chat_template", "endless_macro", "{% macro f(n) %}{% for i in [n] %}{{ f([n, i]) }}{% endfor %}{% endmacro %}{{ f(1) }}")
    write("chat_template", "work", "{% set t = 'ab' * 100000 %}{% for i in range(99999) %}{% set x = 'b' * 999 in t %}"
          "{% set x = t.split('ba', i) | sort | tojson(indent=9) %}{% set x = t[::-1].replace('', t) %}{% endfor %}")
    write("chat_template", "doubling", "{% set n = namespace(t='a', l=[]) %}{% for i in range(99) %}{% set n.l = [n.l, n.l] %}"
          "{% set n.t = n.t + n.t %}{% endfor %}{{ n.l }}{{ n.l == n.l }}{{ n.l | tojson }}")

    accepted("jsonl", "texts", '{"text": "a\\n\\u00e9"}\n\n{"text": "b", "id": 3}\r\n')
    accepted("jsonl", "prompts", '{"prompt": "a", "completion": "b"}\n'
                              '{"completion": "", "prompt": "\\ud83d\\ude00"}')
    accepted("jsonl", "chats", '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n')
    accepted("jsonl", "tools", json.dumps({
        "system": "a", "tools": json.dumps([{"function": {"name": "f"}}]), "chat_template_kwargs": {"k": [1]}, "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a"}]},
            {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": {}}}], "train": False},
            {"role": "tool", "tool_call_id": "1", "content": "b"}, {"role": "assistant", "content": "c", "weight": 1}]}) + "\n")
    accepted("jsonl", "turns", json.dumps({"prompt": [{"role": "user", "content": "a"}],
                                           "completion": [{"role": "assistant", "content": "b"}]}))
    write("jsonl", "wrong", '{"text": "a"}\n{"messages": []}\n{"text": 1}\n')
    accepted("tokenizer_encode", "mixed", "ab abab  one <s> <r\n\n e\u0301\u0323 \u1112\u1161\u11ab one_ <r  \n\n "
          "\U0001f468\u200d\U0001f469 123\u3000<s>".encode() + b"\xff\xe2\x82")



def models():
    """Directories of weights: a header a line, then data (SafetensorsOf in tests/fuzz/fuzzing.cc)."""
    def header(**tensors):
        return json.dumps(tensors) + "\n"
    first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    index = {"metadata": {"total_size": 32}, "weight_map": {"a": first, "b": second}}
    def shards(**changes):
        parts = {"model.safetensors.index.json": json.dumps(index), first: header(a=tensor("F32", [2, 3], 0, 24)),
                 second: header(b=tensor("BF16", [4], 0, 8))}
        return files(**(parts | changes))
    accepted("safetensors_model", "shards", shards())
    accepted("safetensors_model", "single", files(**{"model.safetensors": header(a=tensor("F16", [3], 0, 6))}))
    accepted("safetensors_model", "int8", files(**{"model.safetensors": header(**{
        "m.weight": tensor("I8", [2, 4], 0, 8), "m.SCB": tensor("F32", [2], 8, 16),
        "m.weight_format": tensor("U8", [], 16, 17)})}))
    write("safetensors_model", "other_scales", files(**{"model.safetensors": header(**{
        "m.weight": tensor("I8", [2, 4], 0, 8), "m.SCB": tensor("F32", [1], 8, 12)})}))
    write("safetensors_model", "twice", shards(**{second: header(a=tensor("F32", [1], 0, 4))}))
    write("safetensors_model", "missing", shards(**{second: header()}))
    write("safetensors_model", "no_shard", files(**{"model.safetensors.index.json": json.dumps(index)}))
    write("safetensors_model", "nf4", files(**{"model.safetensors": header(**{
        "w": tensor("U8", [32, 1], 0, 32), "w.absmax": tensor("F32", [1], 32, 36),
        "w.quant_map": tensor("F32", [16], 36, 100),
        "w.quant_state.bitsandbytes__nf4": tensor("U8", [67], 100, 167)})}))
    config = json.loads((CORPUS / "adapter_config/accepted/opt").read_text())
    config.update(target_modules=["q_proj"], r=2, task_type="CAUSAL_LM", modules_to_save=None)
    weights, at = {}, 0
    for layer in "01":
        for part, shape in (("A", [2, 6]), ("B", [4, 2])):
            bytes_ = 4 * shape[0] * shape[1]
            weights[f"base_model.model.model.layers.{layer}.q_proj.lora_{part}.weight"] = \
                tensor("F32", shape, at, at + bytes_)
            at += bytes_
    accepted("adapter_file", "q_proj", files(**{"adapter_config.json": json.dumps(config, indent=1),
                                                "adapter_model.safetensors": header(**weights)}))
    name, shape = next((name, one) for name, one in weights.items() if one["data_offsets"][1] == at)
    write("adapter_file", "misshapen", files(**{"adapter_config.json": json.dumps(config),
                                                "adapter_model.safetensors": header(**weights | {
                                                    name: shape | {"shape": [2, 2], "data_offsets": [at - 32, at - 16]}})}))
    write("adapter_file", "no_weights", files(**{"adapter_config.json": json.dumps(config)}))
    places = {"a": ["model.safetensors", "bfloat16"], "b": ["model-00001-of-00002.safetensors", "float32", "c"],
              "zeros": ["model.safetensors", "float16", None, [2, 3]],
              "__metadata__": {"files": {"model.safetensors": {"format": "pt"}}, "index": {"total_size": 1},
                               "dtype": "float32"}}
    accepted("weight_places", "all", json.dumps(places))
    write("weight_places", "outside", '{"a":["../x","float32"],"b":["model.safetensors",1,2,[-1]]}')
    write("weight_places", "deep", '{"__metadata__":{"index":{"x":' + 30000 * "[" + 30000 * "]" + "}}}")
    write("weight_places", "kinds", '{"__metadata__":{"files":[1],"index":[],"dtype":{}}}')


def machines():
    """What is said of machines, runs and their ranks."""
    nested = 30000 * "[" + 30000 * "]"  # whole: nothing is wrong with it but its depth
    record = ("process 17\nhost node7\nmachine 0123456789abcdef\nboot 5d0c\nprocess-ids pid:[4026531836]\n"
              "since 1763733321\noutput /scratch/a\\nb\nrun 98c9bf58cb3e964e\n\n")
    accepted("run_record", "whole", record)
    accepted("run_record", "far", "process -9223372036854775808\nsince 9223372036854775807\nnew x\n\n")
    write("run_record", "cut", record[:-1])
    write("run_record", "escape", "process 1\nsince 1\nhost \\x\n\n")
    accepted("run_files", "count", "00000000000000004096\n")
    accepted("run_files", "most", "01152921504606846976\n")
    write("run_files", "far", "18446744073709551615\n")
    accepted("run_files", "id", "98c9bf58cb3e964e\n")
    accepted("run_files", "none", "")
    write("run_files", "wrong", "-1\n")
    accepted("hostfile", "two", "# machines\nworker-1 slots=4\n\nworker-2\tslots=8 # more\r\n")
    write("hostfile", "twice", "a slots=1\na slots=2\n")
    write("hostfile", "many", "a slots=1048576\nb slots=1\n")
    write("hostfile", "mpirun", "a:4,b:4\n")
    for name, lines in {
            "torchrun": "RANK=1\nWORLD_SIZE=4\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=2\nGROUP_RANK=0\nMASTER_ADDR=node1\n"
                        "MASTER_PORT=29500\nTORCHELASTIC_RUN_ID=j\nTORCHELASTIC_RESTART_COUNT=1\n"
                        "TORCHELASTIC_USE_AGENT_STORE=True",
            "srun": "SLURM_PROCID=2\nSLURM_STEP_NUM_TASKS=4\nSLURM_LOCALID=0\nSLURM_NODEID=1\nSLURM_JOB_ID=7\n"
                    "SLURM_STEP_ID=0\nSLURM_STEP_TASKS_PER_NODE=2(x2)\nSLURM_STEP_NODELIST=node[01-03,07],gpu5",
            "mpirun": "OMPI_COMM_WORLD_RANK=0\nOMPI_COMM_WORLD_SIZE=2\nOMPI_COMM_WORLD_LOCAL_RANK=0\n"
                      "OMPI_COMM_WORLD_LOCAL_SIZE=2\nPMIX_NAMESPACE=x",
            "mpiexec": "PMI_RANK=0\nPMI_SIZE=2\nMPI_LOCALRANKID=0\nMPI_LOCALNRANKS=2\nPMI_JOBID=3\n--ranks=2",
            "own": "RANK=0\nWORLD_SIZE=2\nMASTER_ADDR=127.0.0.1\nMASTER_PORT=1\nSPILLWAY_LAUNCHER=ranks\n"
                   "SPILLWAY_MASTER_SOCKET=5"}.items():
        accepted("launch_environment", name, lines)
    write("launch_environment", "alone", "WORLD_SIZE=2")
    write("launch_environment", "contradiction", "RANK=4\nWORLD_SIZE=4\nMASTER_PORT=0")
    write("launch_environment", "closed_first", "A=a]b[1-300]")
    write("launch_environment", "zeros", "A=n[" + 30000 * "0" + "1-" + 30000 * "0" + "65000]")
    write("launch_environment", "brackets", "A=n" + 20000 * "[1]")
    write("launch_environment", "lists", "A=a[1-256]\nB=a[1-300]b[1-300]\nC=2(x4294967295)\nD=a[0001-1]\nE=[\nF=a[1")
    numbers = [float(n) for n in range(1, 17)]
    accepted("ranks_clock", "clock", json.dumps([numbers, [True, False]]))
    accepted("ranks_clock", "none", "[[],[]]")
    write("ranks_clock", "short", json.dumps([numbers[1:], []]))
    write("ranks_clock", "kinds", '[[null,"1"],[1]]')
    rates = {"read_bytes_per_second": 3e9, "write_bytes_per_second": 2e9, "mixed_bytes_per_second": 2.5e9,
             "processor_seconds_per_byte": 1e-10}
    disk = rates | {"probe_bytes": 1 << 26, "unix_seconds": 1763733321}
    tuned = rates | {"engine": "io_uring", "mode": "iopoll", "block_bytes": 1 << 20, "depth": 8, "threads": 4,
                     "kernel": "6.1", "cpus": 2, "locked_memory_bytes": None, "unix_seconds": 1763733321,
                     "devices": [rates | {"number": "8:0", "name": "sda", "model": "m", "serial": "s",
                                          "size_bytes": 1 << 40, "filesystem": "ext4"}]}
    part = {"host": "h", "unix_seconds": 1763733321, "disks": {"8:0 io_uring": disk}, "tuned": {"8:0": tuned},
            "links": {"cuda:0": {"to_device_bytes_per_second": 1e10, "to_host_bytes_per_second": 1e10,
                                 "unix_seconds": 1763733321}},
            "collectives": {"4 ranks": {"gather_bytes_per_second": None, "sum_bytes_per_second": 1e9,
                                        "latency_seconds": 1e-5, "unix_seconds": 1763733321}}}
    profile = {"version": 2, "machines": {"k": part, "another": dict(part, host="n2")}}
    accepted("machine_profile", "two", json.dumps(profile))
    write("machine_profile", "newer", '{"version": 3}')
    write("machine_profile", "older", '{"version": 1, "machines": []}')
    write("machine_profile", "far", json.dumps(profile).replace("1763733321", "1e300"))
    write("machine_profile", "kinds", '{"version":2,"machines":{"k":{"disks":[],"tuned":{"x":null},"links":1},"other":[]}}')
    write("machine_profile", "deep", '{"version":2,"machines":{"k":' + nested + "}}")
    state = {"bytes": 154, "tier": "nvme"}
    run = {"version": 1, "parameters": 77, "trainable_parameters": 70, "steps": 9, "micro_batch": 2, "accumulate": 3,
           "threads": 2, "dtype": "bf16", "compute": "bf16", "optimizer": "adamw", "device": "cpu",
           "io_engine": "threads", "deferred": True, "budget_bytes": {"device": 1 << 23, "host": 1 << 24},
           "computing_bytes": 12345, "plan_summary": "  weights </script> 4 MiB\n", "drive_bytes_per_day": 1e11,
           "written_bytes": 5, "clip": 0.5, "data": {"unit": "te<b>", "samples": 5, "tokens": 50, "labels": 5},
           "predicted_at_observed_rates_seconds": 1.25, "planes": [["weight", 2], ["exp_avg", 4]],
           "units": [{"name": "h.<b>", "parameters": 77, "weights": state, "optimizer": state, "gradients": state}],
           "parts": [{"started": 1.5, "ended": 2.5, "first_step": 1, "last_step": 4, "state": "stopped",
                      "message": "SIGTERM", "host": "node7", "version": "0.1.0", "commit": "abc+",
                      "command": ["spillway", "tr'a<in"], "cpu": "Xeon", "cores": 2, "memory_bytes": 1 << 35}],
           "commits": [[4, 2.25]], "commit_count": 1}
    rows = "".join(json.dumps({
        "step": step, "loss": 4.5, "grad_norm": 1.5, "lr": 0.001, "tokens": 100, "seconds": 2, "tokens_per_second": 50,
        "predicted_seconds": 2, "commit_seconds": 0.5, "bytes": {"nvme_read": 1 << 20, "nvme_written": 1 << 19},
        "stall_seconds": {"disk": 0.5, "update": 0.25}, "busy_seconds": {"disk": 1.5, "update": 3, "compute": 1},
        "peak_bytes": {"device": 3 << 20, "host": 5 << 20, "rss": 90 << 20}}) + "\n" for step in (1, 2, 4))
    resolved = {"model": {"value": "gpt2", "source": "--model"},
                "clip": {"value": 0.5, "source": "--clip", "overrides": {"value": 1.0, "source": "ds.json:3"}}}
    parts = {"run.json": json.dumps(run), "metrics.jsonl": rows, "eval.jsonl": '{"step":2,"loss":4.25,"seconds":1}',
             "config.resolved.json": json.dumps(resolved)}
    accepted("report", "all", files(**parts, **{"timeline.json": (CORPUS / "timeline/accepted/good").read_text()}))
    accepted("report", "running", files(**parts | {"run.json": json.dumps(run | {
        "parts": [run["parts"][0] | {"ended": 0, "state": "running"}], "commits": [], "commit_count": 0,
        "predicted_at_observed_rates_seconds": None})}))
    accepted("report", "far", files(**parts | {"run.json": json.dumps(run | {
        "parameters": (1 << 64) - 1, "steps": -(1 << 63), "commit_count": (1 << 63) - 1, "drive_bytes_per_day": 1e-300,
        "parts": [run["parts"][0] | {"started": -1e308, "ended": 1e308, "first_step": -(1 << 63),
                                     "last_step": (1 << 63) - 1}]})}))
    write("report", "no_rows", files(**{"run.json": json.dumps(run)}))
    identity, answer = '{"model":"m","rows":3}\n', '{"row":0,"answer":{"text":"a"}}\n'
    accepted("answer_file", "two", identity + answer + '{"row":2,"answer":{"score":1.5}}\n{"row":')
    write("answer_file", "another", '{"model":"x","rows":3}\n' + answer)
    write("answer_file", "list", identity + '{"row":1,"answer":[]}\n')
    write("answer_file", "deep", identity + '{"row":0,"answer":{"x":' + nested + "}}\n")
    write("answer_file", "kinds", identity + '{"row":-1,"answer":[]}\n')


def small_configs():
    """Of models, beside config.json."""
    generation = {
        "do_sample": True, "temperature": 0.6, "top_p": 0.9, "top_k": 20, "repetition_penalty": 1.05,
        "no_repeat_ngram_size": 3, "min_new_tokens": 2, "min_length": 9, "max_new_tokens": 77, "eos_token_id": [5, 7],
        "bos_token_id": 1, "pad_token_id": None, "num_beams": 1, "typical_p": 1.0, "suppress_tokens": None,
        "bad_words_ids": [], "max_length": 4096, "transformers_version": "5.23.0", "_from_model_config": True}
    accepted("generation_config", "all", json.dumps(generation, indent=1))
    accepted("generation_config", "beams", json.dumps({
        "num_beams": 4, "length_penalty": -1.5, "early_stopping": "never", "forced_bos_token_id": 0,
        "forced_eos_token_id": 2, "encoder_no_repeat_ngram_size": 3, "suppress_tokens": [1, 2],
        "begin_suppress_tokens": [220], "unknown_key": 1}))
    accepted("generation_config", "speech", json.dumps({
        "language": "<|de|>", "task": "translate", "return_timestamps": True, "max_initial_timestamp_index": 50}))
    write("generation_config", "wrong", '{"temperature":-1,"top_p":2,"num_beams":0}')
    write("generation_config", "penalty", '{"penalty_alpha":0.6}')
    pictures = json.loads((GOLDEN / "pictures.json").read_text())
    kinds = {}
    for one in pictures["processed"]:
        kinds.setdefault(one["config"]["image_processor_type"], one["config"])
    for name, config in kinds.items():
        accepted("preprocessor_config", name, json.dumps(config))
    write("preprocessor_config", "no_width", '{"size":{"height":8,"width":0}}')
    write("preprocessor_config", "small_part", '{"size":224,"crop_pct":0.001}')
    write("preprocessor_config", "wrong", '{"image_processor_type":"ViTImageProcessor","size":{"height":-1},"resample":9}')
    hears = {"feature_size": 80, "sampling_rate": 16000, "hop_length": 160, "n_fft": 400, "do_normalize": False}
    accepted("speech_preprocessor", "whisper", json.dumps(hears))
    write("speech_preprocessor", "rate", json.dumps(hears | {"sampling_rate": "8k"}))
    bare = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "vocab_size": 50}
    accepted("model_shape", "bert", json.dumps(bare | {"model_type": "bert", "type_vocab_size": 2}))
    accepted("model_shape", "unknown", json.dumps({
        "model_type": "new", "text_config": bare | {
            "model_type": "newer", "num_key_value_heads": 1, "num_local_experts": 4, "num_experts_per_tok": 2,
            "moe_intermediate_size": 16, "hidden_act": "silu", "head_dim": 8, "tie_word_embeddings": True}}))
    accepted("model_shape", "gpt2", '{"model_type":"gpt2","n_layer":2,"n_embd":32,"n_head":2,"vocab_size":64}')
    accepted("model_shape", "most", json.dumps({
        "model_type": "new", "hidden_size": 1 << 16, "num_hidden_layers": 100, "num_attention_heads": 1,
        "vocab_size": 1 << 24, "intermediate_size": 1 << 16, "num_experts": 256, "moe_intermediate_size": 1 << 16}))
    write("model_shape", "indivisible", json.dumps(bare | {"num_attention_heads": 7}))
    accepted("chars_json", "three", '{"kind":"chars","version":1,"code_points":[10,97,128512,1114111]}')
    write("chars_json", "unsorted", '{"kind":"chars","version":1,"code_points":[97,10]}')
    write("chars_json", "surrogate", '{"kind":"chars","version":1,"code_points":[55296]}')
    config = {"eos_token": {"content": "</s>", "lstrip": False}, "bos_token": "a", "mask_token": "<mask>",
              "chat_template": [{"name": "default", "template": "{% for m in messages %}{{ m.content + eos_token }}{% endfor %}"}]}
    accepted("tokenizer_files", "config", files(**{"tokenizer_config.json": json.dumps(config)}))
    accepted("tokenizer_files", "all", files(**{
        "tokenizer_config.json": '{"eos_token":"?","chat_template":null}',
        "special_tokens_map.json": '{"eos_token":{"content":"b","lstrip":true},"mask_token":"?"}',
        "config.json": '{"eos_token_id":[3,1]}', "generation_config.json": '{"eos_token_id":4}',
        "chat_template.jinja": "{{ messages[0]['role'] }}{% if add_generation_prompt %}:{% endif %}"}))
    accepted("tokenizer_files", "declared", files(**{
        "tokenizer_config.json": '{"eos_token":"<e>","pad_token":{"content":"<p>","normalized":true},'
                                 '"image_token":"<i>","add_prefix_space":true,"tokenizer_class":"LlamaTokenizer",'
                                 '"additional_special_tokens":["<x>",{"content":"ab","rstrip":true}]}',
        "special_tokens_map.json": '{"extra_special_tokens":{"a_token":"<y>"},"unk_token":"a"}',
        "added_tokens.json": '{"<t>":9,"b":1,"<s>":-5}'}))
    accepted("tokenizer_files", "numbered", files(**{
        "tokenizer_config.json": '{"added_tokens_decoder":{"7":{"content":"<n>","special":true},"3":{"content":"</s>",'
                                 '"single_word":true}},"eos_token":"<n>","extra_special_tokens":["<n>","<m>"],'
                                 '"add_prefix_space":false}', "added_tokens.json": "{"}))
    write("tokenizer_files", "no_tokens", files(**{
        "tokenizer_config.json": '{"added_tokens_decoder":{"x":1}}', "special_tokens_map.json": "[]"}))
    write("tokenizer_files", "kinds", files(**{
        "tokenizer_config.json": '{"chat_template":7,"eos_token":[]}', "config.json": '{"eos_token_id":99}'}))


def media():
    """Pictures of tests/golden and one made here; sounds of a few samples."""
    for path in sorted((GOLDEN / "pictures").iterdir()):
        reads = path.name not in ("cmyk.jpg", "deep.png")
        (accepted if reads else write)("picture", path.name.replace(".", "_"), path.read_bytes())
    # Of several passes: small ones of tests/golden/scans, and their first scan again and again.
    for name in ("coarse.jpg", "photo.jpg", "interlaced.png"):
        accepted("picture", name.replace(".", "_"), (GOLDEN / "scans" / name).read_bytes())
    whole = (GOLDEN / "pictures" / "progressive.jpg").read_bytes()
    first = re.search(rb"\xff\xc4.*?\xff\xda(?:[^\xff]|\xff\0)*", whole, re.S).group()
    accepted("picture", "scans_again", whole[:-2] + 50 * first + whole[-2:])
    write("picture", "too_many_scans", whole[:-2] + 150 * first + whole[-2:])
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    def png(width, height, rows):
        return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
    accepted("picture", "one_point", png(1, 1, b"\0abc"))
    accepted("picture", "inflated", png(1, 1, b"\0abc").replace(
        struct.pack(">I", 12) + b"IDAT", chunk(b"zTXt", b"t\0\0" + zlib.compress(bytes(1 << 20))) +
        struct.pack(">I", 12) + b"IDAT"))
    write("picture", "huge", png((1 << 31) - 1, (1 << 31) - 1, b""))
    write("picture", "short_rows", png(9, 9, b"\0"))
    for name, channels, rate in (("mono", 1, 16000), ("stereo", 2, 44100)):
        content = io.BytesIO()
        with wave.open(content, "wb") as out:
            out.setnchannels(channels)
            out.setsampwidth(2)
            out.setframerate(rate)
            out.writeframes(struct.pack("<40h", *(997 * i % 30000 for i in range(40))))
        accepted("audio_file", name, content.getvalue())
    floats = struct.pack("<4f", 0.5, float("nan"), 1e38, -1)
    write("audio_file", "no_numbers", b"RIFF" + struct.pack("<I", 36 + 16) + b"WAVEfmt " + struct.pack(
        "<IHHIIHH", 16, 3, 1, 16000, 64000, 4, 32) + b"data" + struct.pack("<I", 16) + floats)
    loud = struct.pack("<16f", *[3.39e38] * 16)  # infinite at another rate
    write("audio_file", "too_loud", b"RIFF" + struct.pack("<I", 36 + 64) + b"WAVEfmt " + struct.pack(
        "<IHHIIHH", 16, 3, 1, 15488, 61952, 4, 32) + b"data" + struct.pack("<I", 64) + loud)
    write("audio_file", "flac", b"fLaC\0\0\0\x22" + bytes(34))
    # A chunk in a chunk, each as long as all, and rates that have no common divisor.
    write("audio_file", "chunks", b"RIFF" + struct.pack("<I", 4000) + b"WAVE" + 200 * (b"LIST" + struct.pack("<I", 8) + b"INFOabcd"))
    write("audio_file", "odd_rate", b"RIFF" + struct.pack("<I", 36 + 64) + b"WAVEfmt " + struct.pack(
        "<IHHIIHH", 16, 3, 1, 767999, 3071996, 4, 32) + b"data" + struct.pack("<I", 64) + bytes(64))
    write("audio_file", "ogg", b"OggS\0\2" + bytes(20))


def network():
    """What ranks send one another: engine/ranks/rank_handshake.h and rank_store.h."""
    hello = b"spillway ranks 2" + bytes(range(32))
    accepted("rank_stranger", "hello_and_proof", hello + bytes(88))
    write("rank_stranger", "hello", hello)
    write("rank_stranger", "c10d", struct.pack("<BI", 0, 0x3c85f7ce) + struct.pack("<BQ3sQ", 0, 3, b"abc", 3 << 30))
    def ask(operation, key=b"", value=b""):
        return struct.pack("<III", operation, len(key), len(value)) + key + value
    accepted("rank_requests", "all", ask(0, b"a", b"1") + ask(1, b"a") + ask(2, b"b", b"x") + ask(3, b"a", b"41") +
             ask(4, b"b") + ask(3, b"b", b"no number"))
    write("rank_requests", "three_gigabytes", struct.pack("<III", 0, 3, 3 << 30) + b"abc")
    write("rank_requests", "no_operation", ask(5, b"a"))
    accepted("rank_replies", "text", struct.pack("<II", 0, 5) + b"rank0")
    accepted("rank_replies", "none", struct.pack("<II", 1, 0))
    write("rank_replies", "error", struct.pack("<II", 2 + 3, 2) + b"no")
    write("rank_replies", "no_code", struct.pack("<II", 2, 0))
    write("rank_replies", "endless", struct.pack("<II", 0, (1 << 32) - 1))


def rows():
    accepted("text_rows", "table", "sentence1,sentence2,label\n\"a, \"\"b\"\"\nc\",d,O\n\ne,f,1\r\n")
    accepted("text_rows", "tabs", "sentence\tlabel\na \"b\t0\n")
    accepted("text_rows", "pairs", '{"prompt":"a","completion":"b"}\n{"prompt":"c","completion":"d","x":[{}]}\n')
    accepted("text_rows", "words", '{"tokens":["a","b"],"ner_tags":[0,"B-X"]}\n')
    accepted("text_rows", "labels", '\ufefftext,labels\nx,"[0, 1]"\ny,"[""O""]"\n')
    write("text_rows", "open_quote", 'a,b\n"c\n')
    write("text_rows", "cells", "a,b\nc\n")
    write("text_rows", "no_rows", "a,a\n")


JSON_OF_A_FILE = re.compile(rb"^=== .*$", re.M)


def words_of(content):
    """Keys and short strings of what is JSON in a seed."""
    found = collections.Counter()
    def visit(value):
        if isinstance(value, dict):
            for key, inside in value.items():
                found[f'"{key}":'] += 1
                visit(inside)
        elif isinstance(value, list):
            for inside in value[:50]:
                visit(inside)
        elif isinstance(value, str) and len(value) < 40:
            found[f'"{value}"'] += 1
    for part in JSON_OF_A_FILE.split(content):
        for text in [part, *part.splitlines()]:
            try:
                visit(json.loads(text))
            except (ValueError, RecursionError):
                continue
    return found


# Where keys stand that seeds do not have, each in quotes, and words of what is no JSON.
KEYS = {
    "config_json": "engine/families/*.cc",
    "model_shape": "engine/families/read_model_shape.cc",
    "deepspeed_config": "engine/config/deepspeed_key_table.cc",
    "recipe": "engine/config/*_flag*.cc",
    "generation_config": "engine/families/generation_config.cc",
    "preprocessor_config": "engine/media/picture_processor.cc",
    "adapter_config": "engine/adapters/lora_config.cc",
    "launch_environment": "engine/ranks/launch_environment.cc",
}
WORDS = {
    "chat_template": "{% %} {{ }} {# #} {%- -%} for endfor if elif else endif set endset macro endmacro generation "
                     "endgeneration loop.index0 loop.last messages add_generation_prompt raise_exception( namespace( "
                     "|trim |tojson |length is defined not in [-1] [1:] bos_token eos_token call endcall with filter raw endraw "
                     "strftime_now( .split( .replace( |dictsort |map(attribute= |selectattr( |sort(attribute= |items caller() "
                     "varargs loop.previtem tools".split(),
    "launch_environment": ["[1-3]", "(x2)", "node[01-12]", ",", "="],
    "hostfile": [" slots=", "#", "\n", "1048576"],
    "npy_header": ["\x93NUMPY", "'descr': ", "'<u2'", "'|i1'", "'fortran_order': ", "False", "'shape': ", "(3,)"],
    "run_record": ["process ", "host ", "machine ", "boot ", "process-ids ", "since ", "output ", "run ", "\n\n"],
    "picture": ["IHDR", "IDAT", "PLTE", "tRNS", "IEND", "\xff\xd8\xff", "\xff\xc0", "\xff\xc2", "\xff\xc4",
                "\xff\xda", "\xff\xdb", "\xff\xd9", "\xff\xee"],
    "audio_file": ["RIFF", "WAVEfmt ", "data", "fact", "LIST", "fLaC", "OggS", "FORM", "AIFF", "ID3", ".snd", "caff"],
    "text_rows": ["\"\"", ",\"", "\",", "\t", "\r\n", "label", "labels", "sentence", "text", "premise", "[0, 1]"],
    "tokenizer_encode": ["ab", "abab", "<s>", "<r", "one", "\n\n", "\xcc\x81", "\xe1\x84\x92", "\xe2\x80\x8d"],
}
MOST_WORDS = 600


def dictionaries(folder):
    """FOLDER/NAME.dict: of the seeds, of KEYS and of WORDS."""
    folder.mkdir(parents=True, exist_ok=True)
    for target in sorted(path.name for path in CORPUS.iterdir()):
        words = collections.Counter()
        for seed in sorted((CORPUS / target).rglob("*")):
            if seed.is_file() and seed.suffix != ".gz":
                words.update(words_of(seed.read_bytes()))
                words.update({line.decode(): 1 for line in re.findall(rb"^=== [\w.-]+$", seed.read_bytes(), re.M)})
        for path in sorted(SOURCES.glob(KEYS[target])) if target in KEYS else []:
            for text in re.findall(r'"([\w/ ]+)"', path.read_text()):
                # Several in one string, and no prose.
                for key in re.findall(r"[A-Za-z_]\w{2,40}", text) if "_" in text or " " not in text else []:
                    words[key if target == "launch_environment" else f'"{key}"'] += 1
        words.update({word: 1000 for word in WORDS.get(target, [])})
        lines = sorted(word for word, _ in words.most_common(MOST_WORDS))
        (folder / f"{target}.dict").write_text("".join(f'"{escaped(line)}"\n' for line in lines))


def escaped(word):
    """As libFuzzer reads a word; in WORDS characters up to 255 are bytes."""
    raw = word.encode("latin-1") if all(ord(c) < 256 for c in word) else word.encode()
    return "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\x{b:02x}" for b in raw)


if len(sys.argv) == 3 and sys.argv[1] == "--dictionaries":
    dictionaries(pathlib.Path(sys.argv[2]))
elif len(sys.argv) == 1:
    for make in (safetensors, torch_files, configs, npy, commits, data, models, machines, small_configs, media, network, rows):
        make()
else:
    sys.exit(__doc__)
