#!/usr/bin/env python3
"""Makes model_shapes.json: configs of known models, and the parameters transformers gives them.

    make_model_shapes.py > model_shapes.json

The configs are written out below from the models' published values; nothing is downloaded and
no weights are made (PyTorch's meta device). Counted is the model as it is trained: causal
language models with their head, tied where the config ties it, BERT as BertModel, which is what
accelerate's estimate-memory counts. `base` is AutoModel, which accelerate counts for all of them.
Made with transformers 5.23 and torch 2.11.
"""

import json

import torch
import transformers

CONFIGS = {
    "gpt2": {"model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024, "n_embd": 768,
             "n_layer": 12, "n_head": 12},
    "gpt2-xl": {"model_type": "gpt2", "vocab_size": 50257, "n_positions": 1024, "n_embd": 1600,
                "n_layer": 48, "n_head": 25},
    "bert-base-cased": {"model_type": "bert", "vocab_size": 28996, "hidden_size": 768,
                        "num_hidden_layers": 12, "num_attention_heads": 12,
                        "intermediate_size": 3072, "max_position_embeddings": 512,
                        "type_vocab_size": 2},
    "Meta-Llama-3-8B": {"model_type": "llama", "vocab_size": 128256, "hidden_size": 4096,
                        "num_hidden_layers": 32, "num_attention_heads": 32,
                        "num_key_value_heads": 8, "intermediate_size": 14336,
                        "max_position_embeddings": 8192, "tie_word_embeddings": False},
    "Llama-2-7b": {"model_type": "llama", "vocab_size": 32000, "hidden_size": 4096,
                   "num_hidden_layers": 32, "num_attention_heads": 32,
                   "intermediate_size": 11008, "max_position_embeddings": 4096},
    "Llama-3.1-405B": {"model_type": "llama", "vocab_size": 128256, "hidden_size": 16384,
                       "num_hidden_layers": 126, "num_attention_heads": 128,
                       "num_key_value_heads": 8, "intermediate_size": 53248,
                       "max_position_embeddings": 131072},
    "Llama-3.2-1B": {"model_type": "llama", "vocab_size": 128256, "hidden_size": 2048,
                     "num_hidden_layers": 16, "num_attention_heads": 32,
                     "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 8192,
                     "max_position_embeddings": 131072, "tie_word_embeddings": True},
    "llama-with-biases": {"model_type": "llama", "vocab_size": 1000, "hidden_size": 64,
                          "num_hidden_layers": 2, "num_attention_heads": 4,
                          "intermediate_size": 160, "attention_bias": True, "mlp_bias": True},
    "Mistral-7B-v0.1": {"model_type": "mistral", "vocab_size": 32000, "hidden_size": 4096,
                        "num_hidden_layers": 32, "num_attention_heads": 32,
                        "num_key_value_heads": 8, "intermediate_size": 14336,
                        "max_position_embeddings": 32768},
    "Qwen2-0.5B": {"model_type": "qwen2", "vocab_size": 151936, "hidden_size": 896,
                   "num_hidden_layers": 24, "num_attention_heads": 14,
                   "num_key_value_heads": 2, "intermediate_size": 4864,
                   "max_position_embeddings": 131072, "tie_word_embeddings": True},
    "Qwen3-0.6B": {"model_type": "qwen3", "vocab_size": 151936, "hidden_size": 1024,
                   "num_hidden_layers": 28, "num_attention_heads": 16, "head_dim": 128,
                   "num_key_value_heads": 8, "intermediate_size": 3072,
                   "max_position_embeddings": 40960, "tie_word_embeddings": True},
    "gemma-2b": {"model_type": "gemma", "vocab_size": 256000, "hidden_size": 2048,
                 "num_hidden_layers": 18, "num_attention_heads": 8, "head_dim": 256,
                 "num_key_value_heads": 1, "intermediate_size": 16384,
                 "max_position_embeddings": 8192},
    "opt-125m": {"model_type": "opt", "vocab_size": 50272, "hidden_size": 768,
                 "num_hidden_layers": 12, "num_attention_heads": 12, "ffn_dim": 3072,
                 "max_position_embeddings": 2048, "word_embed_proj_dim": 768},
    "opt-350m": {"model_type": "opt", "vocab_size": 50272, "hidden_size": 1024,
                 "num_hidden_layers": 24, "num_attention_heads": 16, "ffn_dim": 4096,
                 "max_position_embeddings": 2048, "word_embed_proj_dim": 512,
                 "do_layer_norm_before": False},
    "pythia-160m": {"model_type": "gpt_neox", "vocab_size": 50304, "hidden_size": 768,
                    "num_hidden_layers": 12, "num_attention_heads": 12,
                    "intermediate_size": 3072, "max_position_embeddings": 2048,
                    "tie_word_embeddings": False},
}


def shapes_of(model):
    return {name: list(p.shape) for name, p in model.named_parameters()}


def main():
    golden = {}
    for name, values in CONFIGS.items():
        config = transformers.AutoConfig.for_model(**values)
        with torch.device("meta"):
            base = transformers.AutoModel.from_config(config)
            whole = base if values["model_type"] == "bert" else \
                transformers.AutoModelForCausalLM.from_config(config)
            whole.tie_weights()
        # Of like layers one, the second, is enough.
        shapes = {n: s for n, s in shapes_of(whole).items()
                  if not any(part.isdigit() and part != "1" for part in n.split("."))}
        if values["model_type"] == "gpt_neox":  # whose head transformers 5 renames, its files not
            shapes["embed_out.weight"] = shapes.pop("lm_head.weight")
        golden[name] = {"config": values,
                        "parameters": sum(p.numel() for p in whole.parameters()),
                        "base_parameters": sum(p.numel() for p in base.parameters()),
                        "tensors": len(shapes_of(whole)),
                        "shapes": shapes}
    rows = ",\n".join(f"{json.dumps(n)}: {json.dumps(g)}" for n, g in golden.items())
    print("{\n" + rows + "\n}")


if __name__ == "__main__":
    main()
