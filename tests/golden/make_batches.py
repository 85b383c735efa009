#!/usr/bin/env python3
"""Makes batches.json from transformers: how it continues several prompts, and scores next tokens.

    make_batches.py > batches.json

Models and weights are make_decoders.py's (and a GPT-2 by the same formula). `batches`: for a few
models four prompts of different lengths, with what each is continued by at temperature 0, alone and
left-padded in one batch: plainly, with processors, and with tokens that end a text (the last token is
one of them then). `scores`: logits, a text, and what transformers' logits processors make of them in
the order of `generate`; null is minus infinity. Made with transformers 5.23 and torch 2.11.
"""

import json
import math

import torch
import transformers
from make_decoders import LLAMA, VARIANTS, VOCABULARY, build, tokens

GPT2 = {"model_type": "gpt2", "vocab_size": VOCABULARY, "n_positions": 64, "n_embd": 24,
        "n_layer": 3, "n_head": 4, "bos_token_id": None, "eos_token_id": None}
MODELS = {"gpt2": GPT2} | {name: VARIANTS[name] for name in (
    "llama", "llama_llama3", "mistral", "qwen3_windows", "neox", "opt")}
LENGTHS, NEW = (3, 11, 1, 6), 48
SETTINGS = [{}, {"repetition_penalty": 1.3, "no_repeat_ngram_size": 3},
            {"eos_token_id": [5, 17, 40], "min_new_tokens": 7}]
TEMPERATURES = [
    {}, {"temperature": 0.7, "top_k": 5}, {"temperature": 1.5, "top_p": 0.6},
    {"temperature": 0.9, "top_k": 9, "top_p": 0.8, "repetition_penalty": 1.7},
    {"temperature": 1.0, "top_p": 1e-4}, {"repetition_penalty": 0.5, "no_repeat_ngram_size": 1},
    {"no_repeat_ngram_size": 2, "min_new_tokens": 3, "eos_token_id": [2, 3]},
    {"no_repeat_ngram_size": 3, "min_length": 9, "eos_token_id": [1]}]


def prompts():
    text = tokens(sum(LENGTHS))
    return [[text.pop(0) for _ in range(length)] for length in LENGTHS]


def whole(model, rows, settings):
    longest = max(map(len, rows))
    ids = torch.tensor([[0] * (longest - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
    model.generation_config.eos_token_id = None
    out = model.generate(ids, attention_mask=mask, max_new_tokens=NEW, do_sample=False,
                         pad_token_id=0, **settings)
    answers = []
    for row in out[:, longest:].tolist():
        ends = [i for i, token in enumerate(row) if token in settings.get("eos_token_id", [])]
        answers.append(row[:ends[0] + 1] if ends else row)
    return answers


def continued(model, settings):
    alone = [whole(model, [row], settings)[0] for row in prompts()]
    # To processors padding is a part of the text: it is penalised, and repeated.
    if "repetition_penalty" not in settings:
        assert whole(model, prompts(), settings) == alone
    return alone


def scored(number, settings):
    generator = torch.Generator().manual_seed(number)
    vocabulary = 16
    logits = torch.randn((1, vocabulary), generator=generator) * 3
    logits[0, 4] = logits[0, 7]  # as likely as one another
    text = torch.randint(5, (1, 8), generator=generator)
    prompt = 6
    keys = {key: value for key, value in LLAMA.items() if key != "model_type"}
    model = transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(**keys))
    config, _ = model._prepare_generation_config(
        None, **{"top_k": 0, "do_sample": "temperature" in settings} | settings)
    if config.min_new_tokens is not None:
        config.min_length = config.min_new_tokens + prompt
    model._prepare_special_tokens(config, device="cpu")
    processors = model._get_logits_processor(config, input_ids_seq_length=prompt, device="cpu")
    scores = processors(text, logits.clone())[0].tolist()
    return {"settings": settings, "prompt_tokens": prompt, "text": text[0].tolist(),
            "logits": logits[0].tolist(),
            "scores": [None if math.isinf(score) else score for score in scores]}


def main():
    torch.set_num_threads(1)
    batches = []
    for name, config in MODELS.items():
        model, _ = build(config)
        model.eval()
        for settings in SETTINGS:
            batches.append({"model": name, "config": config, "settings": settings,
                            "prompts": prompts(), "tokens": continued(model, settings)})
    scores = [scored(number, settings) for number, settings in enumerate(TEMPERATURES)]
    rows = [json.dumps(row, separators=(",", ":")) for row in batches]
    print('{"batches":[\n' + ",\n".join(rows) + '\n],\n"scores":[\n' + ",\n".join(
        json.dumps(row, separators=(",", ":")) for row in scores) + "\n]}")


if __name__ == "__main__":
    main()
