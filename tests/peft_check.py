#!/usr/bin/env python3
"""Adapters of every tied family between PEFT and this program, in both directions.

    pip install torch==2.11.0 transformers==5.24.0 peft==0.21.2
    tests/peft_check.py [--program build/release/spillway] [--family llama ...]

For each family and each way to save the embedding: PEFT trains an adapter a little and evaluates it;
`spillway train --adapter` must begin with that loss (or refuse where a family's logits cannot be untied),
and what it trains on and exports, adapter and merged model, must give PEFT and transformers the loss that the
program gives. Then the same from an adapter that the program began itself. Prints a line a case; the exit
code is 1 where anything differs by more than 2e-5.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
warnings.filterwarnings("ignore")
import numpy
import peft
import torch
import transformers as t

VOCABULARY, LENGTH, ROWS = 64, 16, 6
SMALL = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
TIED = {"tie_word_embeddings": True, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
OFF = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
FAMILIES = {
    "llama": (t.LlamaConfig(**SMALL, **TIED), ["q_proj", "v_proj"], "embed_tokens"),
    "qwen2": (t.Qwen2Config(**SMALL, **TIED), ["q_proj", "v_proj"], "embed_tokens"),
    "qwen3": (t.Qwen3Config(**SMALL, **TIED, head_dim=8), ["q_proj", "v_proj"], "embed_tokens"),
    "gpt2": (t.GPT2Config(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, resid_pdrop=0.0,
                          embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None), ["c_attn"], "wte"),
    "opt": (t.OPTConfig(vocab_size=VOCABULARY, hidden_size=32, ffn_dim=48, num_hidden_layers=2, word_embed_proj_dim=32,
                        num_attention_heads=4, max_position_embeddings=64, bos_token_id=None, eos_token_id=None,
                        pad_token_id=None, dropout=0.0), ["q_proj", "v_proj"], "embed_tokens"),
    "neox": (t.GPTNeoXConfig(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                             intermediate_size=48, max_position_embeddings=64, **TIED), ["query_key_value"], "embed_in"),
    "t5": (t.T5Config(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, dropout_rate=0.0,
                      decoder_start_token_id=0, pad_token_id=0, eos_token_id=1), ["q", "v"], "shared"),
    "bart": (t.BartConfig(vocab_size=VOCABULARY, d_model=32, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=48,
                          decoder_ffn_dim=48, encoder_attention_heads=4, decoder_attention_heads=4, pad_token_id=1,
                          max_position_embeddings=64, forced_eos_token_id=None, **OFF), ["q_proj", "v_proj"], "shared"),
    "bert": (t.BertConfig(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                          intermediate_size=48, max_position_embeddings=64, hidden_dropout_prob=0.0,
                          attention_probs_dropout_prob=0.0), ["query", "value"], "word_embeddings"),
    "roberta": (t.RobertaConfig(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                intermediate_size=48, max_position_embeddings=66, hidden_dropout_prob=0.0,
                                attention_probs_dropout_prob=0.0), ["query", "value"], "word_embeddings"),
    "untied llama": (t.LlamaConfig(**SMALL, **{**TIED, "tie_word_embeddings": False}), ["q_proj", "v_proj"],
                     "embed_tokens"),
    "untied gpt2": (t.GPT2Config(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, resid_pdrop=0.0,
                                 embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None,
                                 tie_word_embeddings=False), ["c_attn"], "wte"),
}
HEADS = {"bert": "cls", "roberta": "lm_head", "neox": "lm_head"}
PAIRS, MASKED = ("t5", "bart"), ("bert", "roberta")


def kind_of(config):
    if config.model_type in PAIRS:
        return t.AutoModelForSeq2SeqLM
    return t.AutoModelForMaskedLM if config.model_type in MASKED else t.AutoModelForCausalLM


def task_of(config):
    return "SEQ_2_SEQ_LM" if config.model_type in PAIRS else None if config.model_type in MASKED else "CAUSAL_LM"


class PeftFails(Exception):
    """PEFT makes a model that cannot be computed."""


class Case:
    """A model with its data in a folder."""

    def __init__(self, program, folder, name):
        self.program, self.folder = program, folder
        self.config, self.targets, self.embedding = FAMILIES[name]
        self.head = HEADS.get(self.config.model_type, "lm_head")
        torch.manual_seed(3)
        model = kind_of(self.config).from_config(self.config)
        with torch.no_grad():  # larger than transformers begins them, so that differences show
            for parameter in model.parameters():
                parameter.add_(0.05 * torch.randn_like(parameter))
        os.makedirs(self.path("swap"))
        self.model = self.path("model")
        model.save_pretrained(self.model)
        choose = random.Random(5)
        self.rows = [[choose.randrange(4, VOCABULARY) for _ in range(LENGTH)] for _ in range(ROWS)]
        self.write_data()

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def is_masked(self):
        return self.config.model_type in MASKED

    def write_data(self):
        """Texts of which a character is a token: chr(token) after those that a tokenizer would not write."""
        letters = {chr(0x100 + i): i for i in range(VOCABULARY)}
        special = [{"id": i, "content": text, "special": True, "single_word": False, "lstrip": False,
                    "rstrip": False, "normalized": False} for i, text in ((2, "[MASK]"), (3, "[UNK]"))]
        letters = {k: v for k, v in letters.items() if v not in (2, 3)} | {"[MASK]": 2, "[UNK]": 3}
        tokenizer = {"version": "1.0", "added_tokens": special, "normalizer": None,
                     "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "."}, "behavior": "Isolated",
                                       "invert": False},
                     "post_processor": None, "decoder": None,
                     "model": {"type": "WordLevel", "vocab": letters, "unk_token": "[UNK]"}}
        pathlib.Path(self.model, "tokenizer.json").write_text(json.dumps(tokenizer))
        pathlib.Path(self.model, "tokenizer_config.json").write_text(json.dumps({"mask_token": "[MASK]"}))
        numpy.array(self.rows, dtype=numpy.uint16).tofile(self.path("data.bin"))
        with open(self.path("pairs.jsonl"), "w", encoding="utf-8") as file:
            for row in self.rows:
                text = "".join(chr(0x100 + token) for token in row)
                file.write(json.dumps({"source": text[:8], "target": text[8:], "text": text}) + "\n")

    def loss(self, model):
        model.eval()
        ids = torch.tensor(self.rows)
        with torch.no_grad():
            # As the program cuts them: windows of a stream of tokens, each with the next as its label.
            stream = ids.flatten()
            starts = range(0, len(stream) - LENGTH, LENGTH)
            inputs = torch.stack([stream[i:i + LENGTH] for i in starts])
            labels = torch.stack([stream[i + 1:i + LENGTH + 1] for i in starts])
            return torch.nn.functional.cross_entropy(model(input_ids=inputs).logits.flatten(0, 1),
                                                     labels.flatten()).item()

    def logits(self, model):
        model.eval()
        ids = torch.tensor(self.rows)
        with torch.no_grad():
            if self.config.model_type in PAIRS:
                return model(input_ids=ids[:, :8], decoder_input_ids=ids[:, 8:]).logits
            return model(input_ids=ids).logits

    def train(self, output, *flags, steps=1):
        words = [self.program, "train", "--threads", "1", "--dtype", "fp32", "--order", "sequential", "--steps",
                 str(steps), "--lr", "3e-2", "--model", self.model, "--output", output, "--swap", self.path("swap"),
                 "--micro-batch", str(ROWS), "--weight-decay", "0"]
        if self.config.model_type in PAIRS:
            words += ["--data", self.path("pairs.jsonl"), "--eval-data", self.path("pairs.jsonl"), "--source-key",
                      "source", "--target-key", "target"]
        elif self.is_masked():
            words += ["--data", self.path("pairs.jsonl"), "--seq-len", str(LENGTH), "--samples", "padded"]
        else:
            words += ["--data", self.path("data.bin"), "--eval-data", self.path("data.bin"), "--seq-len", str(LENGTH)]
        result = subprocess.run(words + list(flags), capture_output=True,
                                text=True, check=False)
        return result

    def evaluations(self, output):
        with open(os.path.join(output, "eval.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]


def peft_loss(case, adapter):
    base = kind_of(case.config).from_pretrained(case.model)
    return peft.PeftModel.from_pretrained(base, adapter)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default="build/release/spillway")
    parser.add_argument("--family", nargs="*", default=list(FAMILIES))
    args = parser.parse_args()
    failed = False
    torch.set_num_threads(1)
    for name in args.family:
        embedding, head = FAMILIES[name][2], HEADS.get(FAMILIES[name][0].model_type, "lm_head")
        for saved, ties in (([embedding], False), ([embedding], True), ([embedding, head], False),
                            ([embedding, head], True), (None, False)):
            with tempfile.TemporaryDirectory() as folder:
                case = Case(os.path.abspath(args.program), folder, name)
                try:
                    said = compare(case, saved, ties)
                except PeftFails as e:
                    said = f"PEFT itself fails: {e}"
                except Exception as e:  # the others go on
                    said, failed = f"FAILED {type(e).__name__}: {e}", True
                if said.startswith("DIFFERS"):
                    failed = True
                print(f"{name:13} {'+'.join(saved) if saved else 'begun here':28} {'tied' if ties else '':5} {said}",
                      flush=True)
    sys.exit(1 if failed else 0)


def trained_in_peft(case, saved, ties):
    torch.manual_seed(7)
    model = peft.get_peft_model(
        kind_of(case.config).from_pretrained(case.model),
        peft.LoraConfig(r=2, lora_alpha=4, target_modules=case.targets, modules_to_save=list(saved),
                        ensure_weight_tying=ties, task_type=task_of(case.config),
                        fan_in_fan_out=case.config.model_type == "gpt2"))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-2)
    ids = torch.tensor(case.rows)
    model.train()
    for _ in range(3):
        try:
            if case.config.model_type in PAIRS:
                loss = model(input_ids=ids[:, :8], labels=ids[:, 8:].contiguous()).loss
            else:
                loss = model(input_ids=ids, labels=ids).loss
        except RuntimeError as e:
            raise PeftFails(e) from e
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(case.path("adapter"), save_embedding_layers=False)
    for extra in set(os.listdir(case.path("adapter"))) - {"adapter_config.json", "adapter_model.safetensors"}:
        os.remove(case.path("adapter", extra))
    return model


def near(a, b):
    return abs(a - b) <= 2e-5 * max(1, abs(b))


def compare(case, saved, ties):
    flags = [] if case.is_masked() else ["--eval-every", "1"]
    if saved is None:
        begin = None
        flags += ["--lora-r", "2", "--lora-alpha", "4", "--lora-targets", ",".join(case.targets), "--modules-to-save",
                  case.embedding]
    else:
        begin = trained_in_peft(case, saved, ties)
        flags += ["--adapter", case.path("adapter")]
    out = case.path("out")
    result = case.train(out, *flags, steps=2)
    if result.returncode == 2 and "Let PEFT merge it" in result.stderr:
        return "refused: " + result.stderr.strip().splitlines()[-1][-150:]
    if result.returncode != 0:
        return "DIFFERS: " + result.stderr.strip()[-300:]
    merged = subprocess.run([case.program, "export", "--from", out, "--to", case.path("merged"), "--merge"],
                            capture_output=True, text=True, check=False)
    if merged.returncode != 0:
        return "DIFFERS: " + merged.stderr
    exported = peft_loss(case, os.path.join(out, "adapter"))
    whole = kind_of(case.config).from_pretrained(case.path("merged"))
    apart = (case.logits(exported) - case.logits(whole)).abs().max().item()
    if apart > 2e-4:
        return f"DIFFERS: the adapter in PEFT and the merged model by {apart}"
    merged_by_peft = kind_of(case.config).from_pretrained(case.model)
    merged_by_peft = peft.PeftModel.from_pretrained(merged_by_peft, os.path.join(out, "adapter")).merge_and_unload()
    by_peft = (case.logits(merged_by_peft) - case.logits(whole)).abs().max().item()
    if by_peft > 2e-4:
        return f"DIFFERS: the model that PEFT merges and the one merged here by {by_peft}"
    # Masks are drawn, and pairs get the tokenizer's ends: of these logits are compared alone.
    if case.is_masked() or case.config.model_type in PAIRS:
        again = case.train(case.path("again"), "--adapter", os.path.join(out, "adapter"), "--lr", "1e-9", steps=1)
        if again.returncode != 0:
            return "DIFFERS: its own export: " + again.stderr.strip()[-300:]
        return f"equal: logits within {apart:.1e}"
    rows = case.evaluations(out)
    pairs = [("adapter in PEFT", rows[-1]["loss"], case.loss(exported)),
             ("merged", rows[-1]["loss"], case.loss(whole)),
             ("merged by PEFT", rows[-1]["loss"], case.loss(merged_by_peft))]
    if begin is not None:
        first = case.train(case.path("first"), "--adapter", case.path("adapter"), "--eval-every", "1", "--lr", "1e-12",
                           steps=1)
        if first.returncode != 0:
            return "DIFFERS: " + first.stderr[-300:]
        pairs.append(("PEFT's adapter", case.evaluations(case.path("first"))[0]["loss"], case.loss(begin)))
    for what, ours, theirs in pairs:
        if not near(ours, theirs):
            return f"DIFFERS: {what}: {ours} and {theirs}"
    return f"equal: {rows[-1]['loss']:.6f}"


if __name__ == "__main__":
    main()
