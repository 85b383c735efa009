#!/usr/bin/env python3
"""Makes decay.json from transformers: the parameters of each family that its Trainer decays, and those
that it spares.

    make_decay.py > decay.json

Made with transformers 5.24 and torch 2.11.
"""

import json

import torch
import transformers

SMALL = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
         "num_key_value_heads": 2, "intermediate_size": 8, "head_dim": 4, "pad_token_id": 0}
SEQ2SEQ = {"vocab_size": 9, "d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "d_kv": 4,
           "num_layers": 1, "num_heads": 2, "d_ff": 8, "encoder_attention_heads": 2,
           "decoder_attention_heads": 2, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8,
           "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0, "decoder_start_token_id": 0}
MODELS = {
    "GPT2LMHeadModel": {"vocab_size": 9, "n_embd": 8, "n_layer": 1, "n_head": 2, "bos_token_id": 0,
                        "eos_token_id": 0},
    "LlamaForCausalLM": SMALL | {"attention_bias": True, "mlp_bias": True},
    "Phi3ForCausalLM": SMALL,
    "Qwen2ForCausalLM": SMALL,
    "Qwen3ForCausalLM": SMALL,
    "GPTNeoXForCausalLM": SMALL,
    "OPTForCausalLM": SMALL | {"ffn_dim": 8, "word_embed_proj_dim": 4, "do_layer_norm_before": False},
    "T5ForConditionalGeneration": SEQ2SEQ | {"feed_forward_proj": "gated-gelu"},
    "BartForConditionalGeneration": SEQ2SEQ,
    "BlenderbotForConditionalGeneration": SEQ2SEQ,
    "WhisperForConditionalGeneration": SEQ2SEQ,
    "BertForSequenceClassification": SMALL,
    "BertForMaskedLM": SMALL,
    "RobertaForSequenceClassification": SMALL,
    "XLMRobertaForMaskedLM": SMALL,
    "DistilBertForSequenceClassification": {"vocab_size": 9, "dim": 8, "n_layers": 1, "n_heads": 2,
                                            "hidden_dim": 8},
    "DistilBertForMaskedLM": {"vocab_size": 9, "dim": 8, "n_layers": 1, "n_heads": 2,
                              "hidden_dim": 8},
    "ResNetForImageClassification": {"embedding_size": 4, "hidden_sizes": [4, 8], "depths": [1, 1],
                                     "layer_type": "basic"},
}


def names(kind, settings):
    kind = getattr(transformers, kind)
    with torch.device("meta"):
        model = kind(kind.config_class(**settings))
    decayed = set(transformers.Trainer.get_decay_parameter_names(None, model))
    sides = {"decayed": [], "spared": []}
    for name, _ in model.named_parameters():
        sides["decayed" if name in decayed else "spared"].append(name)
    return sides


if __name__ == "__main__":
    made = {kind: names(kind, settings) for kind, settings in MODELS.items()}
    print("{" + ",\n".join(f"{json.dumps(kind)}:{json.dumps(sides, separators=(',', ':'))}"
                           for kind, sides in made.items()) + "}")
