#!/usr/bin/env python3
"""Makes lora.json and lora/NAME/ from PEFT: what small models with LoRA adapters compute.

    make_lora.py FOLDER [NAME ...]        # tests/golden; these variants, or all

Models and their weights are make_decoders.py's (and a GPT-2 by the same formula). For each variant
FOLDER/lora/NAME is an adapter as PEFT saves it, whose B is not zero, and lora.json has the model's
config, the logits of a sequence, the losses of 25 steps of AdamW with clipping and accumulation in
which the adapter is trained, the projections of what that changed, the matrices that it is merged
into, and 20 tokens of greedy generation. The base may be what bitsandbytes'
quantisation leaves of it. Of models with tied logits those that end in _tied stay so in PEFT, with
ensure_weight_tying, and in those that end in _apart PEFT trains a copy of the embedding or of both.
Made with peft 0.21, transformers 5.23 (these 5.24), bitsandbytes 0.50 and torch 2.11, on one thread.
"""

import json
import os
import sys

import peft
import torch
from common import digests, document, project, rounded
from make_decoders import LENGTH, LLAMA, OPT, VARIANTS, VOCABULARY, build, tokens, training_losses

GPT2 = {"model_type": "gpt2", "vocab_size": VOCABULARY, "n_embd": 24, "n_layer": 3, "n_head": 4,
        "n_positions": 64, "n_inner": 40, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
        "bos_token_id": None, "eos_token_id": None}
ALL_OF_LLAMA = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
CASES = {
    "gpt2": (GPT2, {"r": 2, "lora_alpha": 6, "target_modules": ["c_attn"],
                    "fan_in_fan_out": True}),
    "gpt2_biases": (GPT2, {"r": 2, "lora_alpha": 4, "target_modules": "all-linear", "bias": "all",
                           "use_rslora": True, "fan_in_fan_out": True}),
    "llama": (LLAMA, {"r": 2, "lora_alpha": 4, "target_modules": ["q_proj", "v_proj"],
                      "modules_to_save": ["lm_head", "norm"]}),
    "llama_patterns": (LLAMA, {"r": 3, "lora_alpha": 4, "target_modules": ["q_proj", "mlp.up_proj"],
                               "rank_pattern": {"up_proj": 1, "0.self_attn.q_proj": 2},
                               "alpha_pattern": {"q_proj": 5}}),
    "qwen3": (VARIANTS["qwen3"], {"r": 2, "lora_alpha": 2, "target_modules": ALL_OF_LLAMA,
                                  "layers_to_transform": [1, 2]}),
    "neox": (VARIANTS["neox"], {"r": 2, "target_modules": r".*\.(query_key_value|dense)",
                                "exclude_modules": ["1.attention.dense"]}),
    "opt": (VARIANTS["opt_post_norm"], {"r": 2, "target_modules": "all-linear",
                                        "bias": "lora_only"}),
    "llama_tied": (LLAMA | {"tie_word_embeddings": True}, {
        "r": 2, "target_modules": ["q_proj", "v_proj"], "modules_to_save": ["embed_tokens"],
        "ensure_weight_tying": True}),
    "opt_tied": (OPT, {"r": 2, "target_modules": ["q_proj"], "ensure_weight_tying": True,
                       "modules_to_save": ["embed_tokens", "lm_head"]}),
    "qwen3_apart": (VARIANTS["qwen3"], {"r": 2, "target_modules": ["q_proj", "v_proj"],
                                        "modules_to_save": ["embed_tokens"]}),
    "gpt2_apart": (GPT2, {"r": 2, "target_modules": ["c_attn"], "fan_in_fan_out": True,
                          "modules_to_save": ["wte", "lm_head"]}),
}
# With what the base is quantised to.
QUANTISED = {
    "gpt2_nf4": (GPT2, {"r": 2, "lora_alpha": 4, "target_modules": "all-linear",
                        "fan_in_fan_out": True}, "nf4"),
    "llama_int8": (LLAMA, {"r": 2, "lora_alpha": 4, "target_modules": ["q_proj", "v_proj"]}, "int8"),
    "qwen3_nf4": (VARIANTS["qwen3"], {"r": 2, "target_modules": ALL_OF_LLAMA}, "nf4"),
}


def quantised(matrix, dtype):
    """What is left of [out, in]."""
    import bitsandbytes.functional as bnb
    from make_packed import restored_nf4

    if dtype == "int8":
        codes, scales, _ = bnb.int8_vectorwise_quant(matrix)
        return bnb.int8_vectorwise_dequant(codes, scales)
    packed, state = bnb.quantize_4bit(matrix, blocksize=64, compress_statistics=True,
                                      quant_type="nf4")
    return restored_nf4(packed, state)


def quantise(model, dtype):
    for name, module in model.named_modules():
        kind = type(module).__name__
        if kind not in ("Linear", "Conv1D") or name == "lm_head":
            continue
        weight = module.weight.data
        module.weight.data = (quantised(weight.t().contiguous(), dtype).t().contiguous()
                              if kind == "Conv1D" else quantised(weight, dtype))


def adapted(config, options, base_dtype=None, moves_copies=False):
    torch.manual_seed(1)
    model, _ = build(config)
    if base_dtype:
        quantise(model, base_dtype)
    model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **options))
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
            if moves_copies and "modules_to_save" in name:  # what is tied comes once
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model


def saved(model, folder):
    model.save_pretrained(folder, save_embedding_layers=False)
    for name in os.listdir(folder):
        if name not in ("adapter_config.json", "adapter_model.safetensors"):
            os.remove(os.path.join(folder, name))


def measure(name, folder, config, options, base_dtype=None):
    model = adapted(config, options, base_dtype, name.endswith(("_tied", "_apart")))
    saved(model, os.path.join(folder, "lora", name))
    prompt = torch.tensor([tokens(6)])
    model.eval()
    with torch.no_grad():
        logits = model(torch.tensor([tokens(LENGTH)])).logits[0].float()
        generated = model.generate(input_ids=prompt, attention_mask=torch.ones_like(prompt),
                                   max_new_tokens=20, do_sample=False, pad_token_id=0,
                                   eos_token_id=None)
    losses = training_losses(model)
    state = peft.get_peft_model_state_dict(model, save_embedding_layers=False)
    trained = digests(state)
    merged = model.merge_and_unload()
    neox = config["model_type"] == "gpt_neox"
    weights = {("embed_out.weight" if neox and n == "lm_head.weight" else n): digest
               for n, digest in digests(dict(merged.named_parameters())).items()}
    if name.endswith("_tied"):  # whose copies PEFT leaves as parameters of their own
        weights.pop("lm_head.weight", None)
    made = {} if base_dtype is None else {"base_dtype": base_dtype}
    return made | {"config": config, "logits": rounded(logits[-1]),
            "logits_projection": project(logits), "generated": generated[0, 6:].tolist(),
            "losses": losses, "trained": trained, "merged": weights}


def main():
    torch.set_num_threads(1)
    folder = sys.argv[1]
    path = os.path.join(folder, "lora.json")
    cases, made = CASES | QUANTISED, {}
    if sys.argv[2:]:
        with open(path, encoding="utf-8") as file:
            made = json.load(file)
    for name in sys.argv[2:] or cases:
        made[name] = measure(name, folder, *cases[name])
    with open(path, "w", encoding="utf-8") as file:
        file.write(document(made) + "\n")


if __name__ == "__main__":
    main()
