#!/usr/bin/env python3
"""Makes seq2seq.json from transformers: what small models with an encoder and a decoder compute.

    make_seq2seq.py > seq2seq.json

Weights follow the formula of common.py, sources and targets those below (and
tests/torch/seq2seq_golden_test.cc), so that no file holds them. For each variant: its config, the
loss of four pairs of different lengths in one batch (of sounds, whose frames follow a formula, too,
and texts where the encoder hears), norm and projection of every gradient, the tokens of searches with some beams and none, and the losses of 20 steps of AdamW with clipping and accumulation. Made with transformers
5.23 and torch 2.11, on one thread.
"""

import math

import torch
import transformers
from common import adamw, fill, gradients, train, write

VOCABULARY, STEPS, RATE, IGNORED = 53, 20, 5e-4, -100
T5 = {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "is_encoder_decoder": True,
      "vocab_size": VOCABULARY, "d_model": 24, "d_kv": 6, "d_ff": 40, "num_layers": 3,
      "num_heads": 4, "dropout_rate": 0.0, "decoder_start_token_id": 0, "pad_token_id": 0,
      "eos_token_id": 1, "relative_attention_num_buckets": 8,
      "relative_attention_max_distance": 12}
MT5 = T5 | {"model_type": "mt5", "architectures": ["MT5ForConditionalGeneration"]}
BART = {"model_type": "bart", "architectures": ["BartForConditionalGeneration"],
        "is_encoder_decoder": True, "vocab_size": VOCABULARY, "d_model": 24, "encoder_layers": 2,
        "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
        "encoder_ffn_dim": 40, "decoder_ffn_dim": 32, "max_position_embeddings": 20,
        "dropout": 0.0, "attention_dropout": 0.0, "pad_token_id": 1, "bos_token_id": 0,
        "eos_token_id": 2, "decoder_start_token_id": 2, "forced_eos_token_id": 2}
BLENDERBOT = BART | {"model_type": "blenderbot", "pad_token_id": 0, "bos_token_id": 1,
                     "architectures": ["BlenderbotForConditionalGeneration"],
                     "decoder_start_token_id": 1}
WHISPER = {"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"],
           "is_encoder_decoder": True, "vocab_size": VOCABULARY, "d_model": 24, "num_mel_bins": 8,
           "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
           "decoder_attention_heads": 4, "encoder_ffn_dim": 40, "decoder_ffn_dim": 32,
           "max_source_positions": 14, "max_target_positions": 20, "dropout": 0.0,
           "pad_token_id": 5, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 4}
VARIANTS = {
    "bart": BART,
    "bart_uneven": BART | {"scale_embedding": True, "decoder_attention_heads": 6, "pad_token_id": 5,
                           "encoder_layers": 3, "decoder_layers": 1, "activation_function": "relu",
                           "decoder_start_token_id": 4},
    "blenderbot": BLENDERBOT,
    "blenderbot_scaled": BLENDERBOT | {"scale_embedding": True, "encoder_attention_heads": 2},
    "blenderbot_small": BLENDERBOT | {
        "model_type": "blenderbot-small",
        "architectures": ["BlenderbotSmallForConditionalGeneration"]},
    "t5": T5,
    "t5_v1_1": T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    "t5_uneven": T5 | {"d_kv": 8, "num_decoder_layers": 2, "feed_forward_proj": "gated-silu",
                       "pad_token_id": 3, "decoder_start_token_id": 2, "layer_norm_epsilon": 1e-3,
                       "relative_attention_num_buckets": 32,
                       "relative_attention_max_distance": 128},
    "mt5": MT5,
    "mt5_untied": MT5 | {"tie_word_embeddings": False, "num_decoder_layers": 2,
                         "feed_forward_proj": "gated-gelu"},
    "mt5_ungated": MT5 | {"feed_forward_proj": "relu", "tie_word_embeddings": False},
    "whisper": WHISPER,
    "whisper_uneven": WHISPER | {"encoder_layers": 3, "decoder_layers": 1, "num_mel_bins": 5,
                                 "decoder_attention_heads": 6, "scale_embedding": True,
                                 "activation_function": "relu"},
}


def source(i: int) -> list:
    return [(i * 37 + j * j * 7 + j * 3 + 11) % VOCABULARY for j in range(3 + i * 5 % 12)]


def target(i: int) -> list:
    return [(i * 29 + j * j * 5 + j * 11 + 7) % VOCABULARY for j in range(2 + i * 3 % 9)]


def frames(settings, i: int) -> list:
    return [[math.sin(0.7 * i + 0.11 * band * band + 0.29 * t)
             for t in range(2 * settings.max_source_positions)]
            for band in range(settings.num_mel_bins)]


def heard(settings, samples):
    return torch.tensor([frames(settings, i) for i in samples])


def batch(settings, samples):
    if settings.model_type == "whisper":
        labels = [target(i) for i in samples]
        most = max(map(len, labels))
        return {"input_features": heard(settings, samples),
                "labels": torch.tensor([t + [IGNORED] * (most - len(t)) for t in labels])}
    texts, labels = [source(i) for i in samples], [target(i) for i in samples]
    longest, most = max(map(len, texts)), max(map(len, labels))
    return {
        "input_ids": torch.tensor(
            [t + [settings.pad_token_id] * (longest - len(t)) for t in texts]),
        "attention_mask": torch.tensor([[1] * len(t) + [0] * (longest - len(t)) for t in texts]),
        "labels": torch.tensor([t + [IGNORED] * (most - len(t)) for t in labels])}


def build(config):
    kind = transformers.CONFIG_MAPPING[config["model_type"]]
    settings = kind.from_dict(dict(config))
    hears = config["model_type"] == "whisper"
    auto = transformers.AutoModelForSpeechSeq2Seq if hears else transformers.AutoModelForSeq2SeqLM
    model = auto.from_config(settings, attn_implementation="eager")
    if config.get("tie_word_embeddings") is False:  # transformers 5 ties T5's until weights differ
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    named = dict(model.named_parameters())
    fill(named)
    model.train()
    return model, named, settings


def loss_sum(model, made):
    logits = model(**made).logits
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), made["labels"].flatten(), ignore_index=IGNORED, reduction="sum")


def training_losses(config):
    model, _, settings = build(config)

    def losses(step):
        batches = [batch(settings, [at, at + 1]) for at in (4 * step, 4 * step + 2)]
        count = sum((made["labels"] != IGNORED).sum().item() for made in batches)
        for made in batches:
            yield loss_sum(model, made) / count

    return train(adamw(model.parameters(), RATE), STEPS, losses, clip=1.0)


ENDS = [7, 23, 41]
SEARCHES = [
    {"num_beams": 1},
    {"num_beams": 4},
    {"num_beams": 4, "length_penalty": 2.0, "early_stopping": True, "forced_eos_token_id": 2},
    {"num_beams": 10, "length_penalty": -0.5, "early_stopping": "never", "min_new_tokens": 3,
     "no_repeat_ngram_size": 2, "encoder_no_repeat_ngram_size": 2, "forced_bos_token_id": 9},
]


def generated(model, config, settings):
    """Of six sources the new tokens of each search; several tokens end texts, so that some do."""
    model.eval()
    model.generation_config = transformers.GenerationConfig()  # without what the family's classes say
    found = []
    for search in SEARCHES:
        texts = []
        for i in range(6):
            hears = config["model_type"] == "whisper"
            read = heard(settings, [i]) if hears else torch.tensor([source(i)])
            if hears and "encoder_no_repeat_ngram_size" in search:
                break  # nothing is read that could come again
            made = transformers.GenerationMixin.generate(
                model, read, max_new_tokens=10, do_sample=False, eos_token_id=ENDS,
                pad_token_id=config["pad_token_id"],
                decoder_start_token_id=config["decoder_start_token_id"], **search)[0].tolist()[1:]
            length = next((j + 1 for j, token in enumerate(made) if token in ENDS), len(made))
            texts.append(made[:length])
        if texts:
            found.append(search | {"texts": texts})
    return found


def measure(config):
    model, named, settings = build(config)
    made = batch(settings, range(4))
    out = model(**made)
    out.loss.backward()
    return {
        "config": config,
        "loss": out.loss.item(),
        "generated": generated(model, config, settings),
        "gradients": gradients(named),
        "losses": training_losses(config),
    }


if __name__ == "__main__":
    write(VARIANTS, measure)
