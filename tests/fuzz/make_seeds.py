#!/usr/bin/env python3
"""Writes the seeds of the fuzz programs here: tests/fuzz/corpus/NAME/, small files each.

    tests/fuzz/make_seeds.py

Valid files that reach deep into each reader, and some that are wrong in a particular way.
Seeds of other origin (inputs that once broke a reader) lie beside them and stay.
"""

import json
import os
import pathlib
import struct

HERE = pathlib.Path(__file__).resolve().parent
CORPUS = HERE / "corpus"
GOLDEN = HERE.parent / "golden"


def write(target, name, content):
    os.makedirs(os.path.join(CORPUS, target), exist_ok=True)
    with open(os.path.join(CORPUS, target, name), "wb") as out:
        out.write(content.encode() if isinstance(content, str) else content)


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


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
        write("safetensors_header", name, struct.pack("<H", data_bytes) + raw)
        write("safetensors_file", name,
              struct.pack("<Q", len(raw)) + raw + bytes(i % 256 for i in range(data_bytes)))
    write("safetensors_file", "long_header", struct.pack("<Q", 1 << 63) + b"{}")
    write("safetensors_file", "short", b"\x08\0\0")
    index = {"metadata": {"total_size": 8},
             "weight_map": {"a": "model-00001-of-00002.safetensors",
                            "b/~c": "model-00002-of-00002.safetensors"}}
    write("safetensors_index", "two", json.dumps(index, indent=2))
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
    write("config_json", "gpt2", json.dumps(config, indent=2))
    write("config_json", "small", '{"model_type":"gpt2"}')
    write("config_json", "aliases", json.dumps(dict(
        {"model_type": "gpt2"}, hidden_size=32, num_hidden_layers=1, num_attention_heads=4,
        max_position_embeddings=8, n_ctx=9, unknown_key="\ud83d\ude00", summary_type="x")))
    write("config_json", "numbers", '{"model_type":"gpt2","n_embd":1e30,"n_layer":-1,'
          '"vocab_size":18446744073709551615,"layer_norm_epsilon":1e-400}')
    write("config_json", "off", '{"model_type":"gpt2","add_cross_attention":true,'
          '"quantization_config":{},"architectures":{"a":1}}')
    write("config_json", "bytes", b'\xef\xbb\xbf{"model_type":"\xff"}')
    write("config_json", "deep", "[" * 600)
    for name, task in (("bert_masked", "MaskedLM"), ("bert_tokens", "TokenClassification")):
        write("config_json", name, '{"model_type":"bert","architectures":["BertFor' + task + '"],'
              '"hidden_size":16,"num_hidden_layers":1,"num_attention_heads":2,"vocab_size":40,'
              '"intermediate_size":32,"id2label":{"0":"O","1":"B-X"},"tie_word_embeddings":false}')
    write("config_json", "t5", '{"model_type":"t5","d_model":16,"num_layers":1,"num_decoder_layers":2,'
          '"feed_forward_proj":"gated-gelu","eos_token_id":[1,2],"relative_attention_num_buckets":4}')
    write("config_json", "whisper", '{"model_type":"whisper","d_model":12,"encoder_layers":1,"decoder_layers":1,'
          '"max_source_positions":9,"num_mel_bins":5,"apply_spec_augment":true,"mask_feature_prob":0.5}')
    write("config_json", "resnet", '{"model_type":"resnet","hidden_sizes":[8,16],"depths":[1,2],'
          '"layer_type":"bottleneck","id2label":{"0":"a","1":"b"},"downsample_in_bottleneck":true}')
    write("config_json", "bart", '{"model_type":"bart","d_model":18,"decoder_attention_heads":5,'
          '"eos_token_id":-1,"decoder_start_token_id":null,"encoder_layerdrop":0.5}')
    deepspeed = {
        "train_batch_size": 8, "train_micro_batch_size_per_gpu": 2, "gradient_clipping": 1.0,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.95], "eps": "auto",
                                                  "adam_w_mode": False}},
        "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 10,
                                                          "total_num_steps": 100}},
        "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/x"},
                              "offload_optimizer": {"device": "cpu"}},
        "bf16": {"enabled": "auto"}, "aio": {"block_size": 1048576, "queue_depth": 8}}
    write("deepspeed_config", "all", json.dumps(deepspeed, indent=1))
    write("deepspeed_config", "comments", '{ // one\n "fp16": {"enabled": true, /* two */ '
          '"loss_scale_window": 5e2, "hysteresis": 2}}')
    write("deepspeed_config", "sgd", '{"optimizer":{"type":"SGD","params":{"lr":0.1,'
          '"momentum":0.9,"nesterov":true}},"scheduler":{"type":"WarmupCosineLR"}}')
    write("deepspeed_config", "misspelt", '{"gradient_cliping": 1}')
    write("deepspeed_config", "types", '{"bf16":true,"optimizer":[],"train_batch_size":1e99}')
    write("deepspeed_config", "open_comment", '{ /* "a": 1')


def npy():
    def header(text, data_bytes, version=1):
        raw = text.encode()
        length = struct.pack("<H" if version == 1 else "<I", len(raw))
        return b"\x93NUMPY" + bytes([version, 0]) + length + raw + bytes(data_bytes)
    shape = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }   \n"
    write("npy_header", "two", header(shape % ("<u2", "(3,)"), 6))
    write("npy_header", "eight", header(shape % ("<i8", "(2,)"), 16, 2))
    write("npy_header", "one", header(shape % ("|u1", "(4)"), 4, 3))
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
    write("manifest", "two_files", json.dumps(body))
    copy = dict(body, files=[["tiles", 24576]], units=[["u", 2048]], tiles=[
        [[0, 0, 0, 0, [1, 2], ["0" * 16, "f" * 16]]]])
    write("manifest", "one_slot", json.dumps(copy))
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
    write("run_state", "two_units", json.dumps(state))
    write("run_state", "no_units", json.dumps(dict(state, model=[])))
    write("run_state", "another_version", json.dumps(dict(state, version="[" * 100)))
    write("run_state", "floats", json.dumps(dict(state, step=1e300, threads=1.5)))
    write("run_state", "far", json.dumps(dict(state, step=(1 << 64) - 1, threads=1 << 40)))
    write("run_state", "shape", json.dumps(dict(state, model=[
        {"name": "u", "borrows": [7], "parameters": [{"name": "p", "shape": [1e30, -1]}]}])))
    write("run_state", "deep", '{"version":' + "[" * 600)
    rows = [{"step": n, "loss": 4.5, "grad_norm": None, "bytes": {"nvme_read": 1}} for n in (1, 2, 101)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    write("metrics_rows", "three", lines)
    write("metrics_rows", "cut", lines[:-30])
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
    write("timeline", "good", json.dumps(timeline))
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
        write("tokenizer_json", name, json.dumps(value, ensure_ascii=False))
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
        write("tokenizer_json", name, json.dumps(value, ensure_ascii=False))
    for path in sorted((GOLDEN / "chat").glob("*.jinja")):
        write("chat_template", path.name.removesuffix(".jinja"), path.read_text(encoding="utf-8"))

    write("jsonl", "texts", '{"text": "a\\n\\u00e9"}\n\n{"text": "b", "id": 3}\r\n')
    write("jsonl", "prompts", '{"prompt": "a", "completion": "b"}\n'
                              '{"completion": "", "prompt": "\\ud83d\\ude00"}')
    write("jsonl", "chats", '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n')
    write("jsonl", "wrong", '{"text": "a"}\n{"messages": []}\n{"text": 1}\n')
    write("tokenizer_encode", "mixed", "ab abab  one <s> <r\n\n e\u0301\u0323 \u1112\u1161\u11ab one_ <r  \n\n "
          "\U0001f468\u200d\U0001f469 123\u3000<s>".encode() + b"\xff\xe2\x82")


safetensors()
configs()
npy()
commits()
data()
