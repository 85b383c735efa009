#!/usr/bin/env python3
"""Makes decoders.json from transformers: what small models of every decoder family compute.

    make_decoders.py > decoders.json

Weights follow a formula (`values` in common.py, and tests/torch/decoder_golden_test.cc), so that no file
holds them. For each variant: its config, the loss and logits of two sequences, norm and projection
of every gradient, the losses of 25 steps of AdamW with clipping and accumulation, and 40 tokens of
greedy generation. Made with transformers 5.23 and torch 2.11, on one thread.
"""

import torch
import transformers
from common import adamw, fill, gradients, project, rounded, train, write

VOCABULARY, LENGTH, STEPS = 61, 14, 25
LLAMA = {"model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": 24, "num_hidden_layers": 3,
         "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 40,
         "max_position_embeddings": 64, "bos_token_id": None, "eos_token_id": None}
QWEN = {k: v for k, v in LLAMA.items() if k != "model_type"}
NEOX = {"model_type": "gpt_neox", "vocab_size": VOCABULARY, "hidden_size": 32,
        "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 40,
        "max_position_embeddings": 64, "bos_token_id": None, "eos_token_id": None}
OPT = {"model_type": "opt", "vocab_size": VOCABULARY, "hidden_size": 24, "num_hidden_layers": 3,
       "num_attention_heads": 4, "ffn_dim": 40, "max_position_embeddings": 64, "dropout": 0.0,
       "word_embed_proj_dim": 24, "bos_token_id": None, "eos_token_id": None}
PHI3 = QWEN | {"model_type": "phi3", "pad_token_id": None}
SHORT = {"max_position_embeddings": 8}


def scaled(kind, **more):
    return {"rope_scaling": {"rope_type": kind, "factor": 4.0, **more}}


VARIANTS = {
    "llama": LLAMA,
    "llama_tied_with_biases": LLAMA | {"tie_word_embeddings": True, "attention_bias": True,
                                       "mlp_bias": True, "rms_norm_eps": 1e-3,
                                       "rope_theta": 500.0, "hidden_act": "gelu"},
    "llama_head_dim": LLAMA | {"head_dim": 10, "num_key_value_heads": 1},
    "llama_linear": LLAMA | scaled("linear"),
    "llama_dynamic": LLAMA | SHORT | scaled("dynamic", factor=8.0),
    "llama_llama3": LLAMA | scaled("llama3", low_freq_factor=1.0, high_freq_factor=4.0,
                                   original_max_position_embeddings=16) | {"rope_theta": 100.0},
    "llama_yarn": LLAMA | scaled("yarn", original_max_position_embeddings=16) | {"rope_theta": 100.0},
    "llama_yarn_spelt_out": LLAMA | {"rope_parameters": {
        "rope_type": "yarn", "rope_theta": 300.0, "factor": 4.0, "beta_fast": 16.0,
        "beta_slow": 2.0, "mscale": 0.7, "mscale_all_dim": 0.4, "truncate": False,
        "original_max_position_embeddings": 16}},
    "mistral": LLAMA | {"model_type": "mistral", "sliding_window": 5, "head_dim": 8},
    "qwen2": QWEN | {"model_type": "qwen2"},
    "qwen2_windows": QWEN | {"model_type": "qwen2", "use_sliding_window": True,
                             "sliding_window": 4, "max_window_layers": 1},
    "qwen3": QWEN | {"model_type": "qwen3", "head_dim": 8, "tie_word_embeddings": True},
    "qwen3_windows": QWEN | {"model_type": "qwen3", "head_dim": 8, "attention_bias": True,
                             "use_sliding_window": True, "sliding_window": 6, "layer_types": [
                                 "sliding_attention", "full_attention", "sliding_attention"]},
    "phi3": PHI3,
    "phi3_window": PHI3 | {"num_key_value_heads": 4, "sliding_window": 5, "hidden_act": "gelu",
                           "tie_word_embeddings": True, "pad_token_id": 11},
    "phi3_long": PHI3 | {"original_max_position_embeddings": 8, "rope_scaling": {
        "type": "longrope", "short_factor": [1.0, 1.1, 1.3], "long_factor": [1.5, 2.5, 4.0]}},
    # Turned by the short factors up to 16 tokens, of which generation makes more.
    "phi3_grows_long": PHI3 | {"original_max_position_embeddings": 16, "rope_parameters": {
        "rope_type": "longrope", "rope_theta": 300.0, "partial_rotary_factor": 0.7,
        "short_factor": [1.0, 1.2], "long_factor": [2.0, 3.0], "factor": 3.0}},
    "neox": NEOX,
    "neox_sequential": NEOX | {"use_parallel_residual": False, "attention_bias": False,
                               "rotary_pct": 0.5, "rotary_emb_base": 300,
                               "tie_word_embeddings": True, "hidden_act": "gelu_new"},
    "opt": OPT,
    "opt_post_norm": OPT | {"do_layer_norm_before": False, "word_embed_proj_dim": 12},
    "opt_bare": OPT | {"enable_bias": False, "layer_norm_elementwise_affine": False,
                       "activation_function": "gelu", "tie_word_embeddings": False},
}


def tokens(count: int) -> list:
    return [(i * i * 7 + i * 3 + 11) % VOCABULARY for i in range(count)]


def build(config):
    kind = transformers.CONFIG_MAPPING[config["model_type"]]
    settings = kind.from_dict({k: v for k, v in config.items()})
    settings._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(settings, attn_implementation="eager")
    neox = config["model_type"] == "gpt_neox"  # whose head transformers 5 renames, its files not
    named = {("embed_out.weight" if neox and n == "lm_head.weight" else n): p
             for n, p in model.named_parameters()}
    fill(named)
    return model, named


def training_losses(model):
    model.train()
    data = torch.tensor(tokens(2 * STEPS * LENGTH + 1))

    def losses(step):
        for at in (2 * step * LENGTH, (2 * step + 1) * LENGTH):
            window = data[at:at + LENGTH + 1]
            logits = model(window[:-1].unsqueeze(0)).logits[0].float()
            yield torch.nn.functional.cross_entropy(logits, window[1:]) / 2

    return train(adamw([p for p in model.parameters() if p.requires_grad]), STEPS, losses, clip=1.0)


def measure(config):
    model, named = build(config)
    model.train()
    inputs = torch.tensor(tokens(2 * LENGTH)).view(2, LENGTH)
    labels = torch.tensor(tokens(2 * LENGTH + 1)[1:]).view(2, LENGTH)
    logits = model(inputs).logits.float()
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(),
                                             reduction="sum")
    loss.backward()
    model.eval()
    prompt = torch.tensor([tokens(6)])
    with torch.no_grad():
        generated = model.generate(prompt, attention_mask=torch.ones_like(prompt),
                                   max_new_tokens=40, do_sample=False, pad_token_id=0,
                                   eos_token_id=None)
    return {
        "config": config,
        "loss": loss.item(),
        "logits": rounded(logits[:, -1]),
        "logits_projection": project(logits),
        "gradients": gradients(named),
        "losses": training_losses(build(config)[0]),
        "generated": generated[0, 6:].tolist(),
    }


if __name__ == "__main__":
    write(VARIANTS, measure)
