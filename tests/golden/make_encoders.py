#!/usr/bin/env python3
"""Makes encoders.json from transformers: what small encoders compute that classify texts or their
tokens, answer questions, or find masked tokens, and decoders that classify texts.

    make_encoders.py > encoders.json

Weights follow the formula of common.py, texts and labels those below (and
tests/torch/encoder_golden_test.cc), so that no file holds them. For each variant: its config, the
logits (of tokens that have a label) and loss of six texts of different lengths in one batch, norm
and projection of every gradient, and the losses of 20 steps of AdamW with clipping and
accumulation. Made with transformers 5.24 and torch 2.11, on one thread.
"""

import torch
import transformers
from common import adamw, fill, gradients, rounded, train, write

VOCABULARY, LENGTH, STEPS = 53, 12, 20
LABELS = {"id2label": {"0": "no", "1": "maybe", "2": "yes"},
          "label2id": {"no": 0, "maybe": 1, "yes": 2}}
BERT = {"model_type": "bert", "architectures": ["BertForSequenceClassification"],
        "vocab_size": VOCABULARY, "hidden_size": 24, "num_hidden_layers": 3,
        "num_attention_heads": 4, "intermediate_size": 40, "max_position_embeddings": 16,
        "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0} | LABELS
ROBERTA = BERT | {"model_type": "roberta", "architectures": ["RobertaForSequenceClassification"],
                  "type_vocab_size": 1, "layer_norm_eps": 1e-5}
XLM = ROBERTA | {"model_type": "xlm-roberta", "architectures": ["XLMRobertaForSequenceClassification"]}
CAMEMBERT = ROBERTA | {"model_type": "camembert",
                       "architectures": ["CamembertForSequenceClassification"]}
DATA2VEC = ROBERTA | {"model_type": "data2vec-text",
                      "architectures": ["Data2VecTextForSequenceClassification"]}
DISTILBERT = {"model_type": "distilbert", "vocab_size": VOCABULARY, "dim": 24, "n_layers": 3,
              "architectures": ["DistilBertForSequenceClassification"], "n_heads": 4,
              "hidden_dim": 40, "max_position_embeddings": 16, "dropout": 0.0,
              "attention_dropout": 0.0, "seq_classif_dropout": 0.0} | LABELS
def tokens(config):
    return config | {"architectures": [
        config["architectures"][0].replace("SequenceClass", "TokenClass")]}


def spans(config):
    """Questions: two scores of each token."""
    without = {key: value for key, value in config.items() if key not in LABELS}
    return without | {"architectures": [
        config["architectures"][0].replace("SequenceClassification", "QuestionAnswering")]}


# The first text ends in this token, and so the one before it counts.
PADDING = 45


def decoder(model_type, name, config):
    return {"model_type": model_type, "architectures": [name + "ForSequenceClassification"],
            "vocab_size": VOCABULARY, "pad_token_id": PADDING, "bos_token_id": None,
            "eos_token_id": None} | config | LABELS


LLAMA = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4,
         "num_key_value_heads": 2, "intermediate_size": 40, "max_position_embeddings": 64}
GPT2 = {"n_embd": 24, "n_layer": 3, "n_head": 4, "n_inner": 40, "n_positions": 16,
        "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
NEOX = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
        "intermediate_size": 40, "max_position_embeddings": 64}


def masked(config):
    name = config["architectures"][0].replace("ForSequenceClassification", "ForMaskedLM")
    without = {key: value for key, value in config.items() if key not in LABELS}
    return without | {"architectures": [name]}


NUMBER = {"id2label": {"0": "score"}, "label2id": {"score": 0}}
VARIANTS = {
    "bert": BERT,
    "bert_relu": BERT | {"hidden_act": "relu", "layer_norm_eps": 1e-3, "pad_token_id": 5},
    "bert_one_number": BERT | NUMBER,
    "bert_three_numbers": BERT | {"problem_type": "regression"},
    "bert_multi_label": BERT | {"problem_type": "multi_label_classification"},
    "roberta": ROBERTA,
    "roberta_padding": ROBERTA | {"pad_token_id": 3, "type_vocab_size": 2},
    "roberta_one_number": ROBERTA | NUMBER,
    "distilbert": DISTILBERT,
    "distilbert_multi_label": DISTILBERT | {"problem_type": "multi_label_classification",
                                            "activation": "relu"},
    "bert_tokens": tokens(BERT),
    "roberta_tokens": tokens(ROBERTA),
    "distilbert_tokens": tokens(DISTILBERT),
    "bert_masked": masked(BERT) | {"hidden_act": "gelu_new", "layer_norm_eps": 1e-3},
    "bert_masked_untied": masked(BERT) | {"tie_word_embeddings": False},
    "roberta_masked": masked(ROBERTA) | {"hidden_act": "relu"},
    "roberta_masked_untied": masked(ROBERTA) | {"tie_word_embeddings": False},
    "xlm_roberta": XLM,
    "xlm_roberta_masked": masked(XLM),
    "camembert_tokens": tokens(CAMEMBERT),
    "camembert_masked_untied": masked(CAMEMBERT) | {"tie_word_embeddings": False},
    "data2vec_text": DATA2VEC | {"problem_type": "multi_label_classification"},
    "data2vec_text_masked": masked(DATA2VEC) | {"hidden_act": "gelu_new"},
    "distilbert_masked": masked(DISTILBERT) | {"activation": "relu"},
    "distilbert_masked_untied": masked(DISTILBERT) | {"tie_word_embeddings": False},
    "bert_spans": spans(BERT),
    "roberta_spans": spans(ROBERTA) | {"pad_token_id": 3, "type_vocab_size": 2},
    "xlm_roberta_spans": spans(XLM),
    "distilbert_spans": spans(DISTILBERT) | {"qa_dropout": 0.0},
    "llama_texts": decoder("llama", "Llama", LLAMA),
    "llama_multi_label": decoder("llama", "Llama", LLAMA | {
        "problem_type": "multi_label_classification", "tie_word_embeddings": True}),
    "qwen2_texts": decoder("qwen2", "Qwen2", LLAMA),
    "qwen3_one_number": decoder("qwen3", "Qwen3", LLAMA | {"head_dim": 8}) | NUMBER,
    "mistral_three_numbers": decoder("mistral", "Mistral", LLAMA | {
        "problem_type": "regression", "sliding_window": 5, "head_dim": 6}),
    "phi3_texts": decoder("phi3", "Phi3", LLAMA),
    "gpt2_texts": decoder("gpt2", "GPT2", GPT2),
    "gpt2_one_number": decoder("gpt2", "GPT2", GPT2 | {"pad_token_id": 0}) | NUMBER,
    "neox_texts": decoder("gpt_neox", "GPTNeoX", NEOX),
}


def text(i: int) -> list:
    return [(i * 37 + j * j * 7 + j * 3 + 11) % VOCABULARY for j in range(3 + i * 5 % 10)]


def token_labels(config, i: int, length: int) -> list:
    """Of some of a text's tokens."""
    of_text = text(i)
    if "id2label" in config:
        labels = [(i + j) % 3 if j % 4 else -100 for j in range(len(of_text))]
    else:
        labels = [(i * 5 + j * 3) % VOCABULARY if (i + j) % 3 == 0 else -100
                  for j in range(len(of_text))]
    return labels + [-100] * (length - len(labels))


def of_tokens(config) -> bool:
    return not config["architectures"][0].endswith("SequenceClassification")


def finds_spans(config) -> bool:
    return config["architectures"][0].endswith("QuestionAnswering")


def span(i: int) -> list:
    """The first and the last token of an answer; every thirteenth lies outside of its text."""
    if i % 13 == 4:
        return [LENGTH, LENGTH]
    first = i * 3 % len(text(i))
    return [first, min(len(text(i)) - 1, first + i % 3)]


def label(config, i: int):
    if of_tokens(config):
        return token_labels(config, i, LENGTH)
    count = len(config["id2label"])
    if count == 1:
        return i * 7 % 11 / 4 - 1
    problem = config.get("problem_type")
    if problem == "regression":
        return [(i + k) * 7 % 11 / 4 - 1 for k in range(count)]
    return [float(i >> k & 1) for k in range(count)] if problem else i % count


def batch(config, padding, samples):
    """A text's second half is of kind 1, where there is one."""
    texts = [text(i) for i in samples]
    pad = [LENGTH - len(t) for t in texts]
    kinds = config.get("type_vocab_size", 2)
    made = {"input_ids": torch.tensor([t + [padding] * p for t, p in zip(texts, pad)]),
            "attention_mask": torch.tensor([[1] * len(t) + [0] * p for t, p in zip(texts, pad)])}
    if finds_spans(config):
        made["start_positions"], made["end_positions"] = torch.tensor(
            [span(i) for i in samples]).unbind(1)
    else:
        made["labels"] = torch.tensor([label(config, i) for i in samples])
    if config["model_type"] != "distilbert" and "bos_token_id" not in config:
        made["token_type_ids"] = torch.tensor(
            [[int(j >= len(t) // 2 and j < len(t) and kinds > 1) for j in range(LENGTH)]
             for t in texts])
    return made


def unused(config) -> set:
    """Without tying, transformers leaves a second bias where nothing reads it."""
    if config.get("tie_word_embeddings", True):
        return set()
    return {"cls.predictions.bias", "lm_head.bias"}


def build(config):
    kind = transformers.CONFIG_MAPPING[config["model_type"]]
    settings = kind.from_dict(dict(config))
    kind = getattr(transformers, config["architectures"][0])
    model = kind._from_config(settings, attn_implementation="eager")
    named = {name: p for name, p in model.named_parameters() if name not in unused(config)}
    if config.get("tie_word_embeddings", True) and "lm_head.decoder.weight" in named:
        # XLM-RoBERTa's class makes its head first, which files do not have twice.
        tokens = "roberta.embeddings.word_embeddings.weight"
        named[tokens] = named.pop("lm_head.decoder.weight")
    fill(named)
    model.train()
    return model, named, settings.pad_token_id


def labels_in(made) -> int:
    if "start_positions" in made:
        return int((made["start_positions"] < LENGTH).sum())
    return int((made["labels"] != -100).sum())


def training_losses(config):
    model, _, padding = build(config)

    def losses(step):
        batches = [batch(config, padding, [at, at + 1]) for at in (4 * step, 4 * step + 2)]
        labels = [labels_in(made) for made in batches]
        for made, count in zip(batches, labels):  # the mean over all labels of a step
            yield model(**made).loss * (count / sum(labels))

    return train(adamw(model.parameters()), STEPS, losses, clip=1.0)


def of_labelled(config, out):
    if finds_spans(config):
        return torch.stack([out.start_logits, out.end_logits], 1)
    logits = out.logits
    if not of_tokens(config):
        return logits
    labels = torch.tensor([label(config, i) for i in range(6)])
    return logits[labels != -100]


def measure(config):
    model, named, padding = build(config)
    out = model(**batch(config, padding, range(6)))
    out.loss.backward()
    return {
        "config": config,
        "loss": out.loss.item(),
        "logits": rounded(of_labelled(config, out)),
        "gradients": gradients(named),
        "losses": training_losses(config),
    }


if __name__ == "__main__":
    write(VARIANTS, measure)
