#!/usr/bin/env python3
"""Makes label_smoothing.json from transformers: what models lose whose labels are smoothed.

    make_label_smoothing.py > label_smoothing.json

Weights and data are those of make_decoders.py and make_seq2seq.py; the loss is LabelSmoother's, which
the Trainer uses with --label_smoothing_factor. For each variant: its config, the factor, and the losses
of 5 steps of AdamW with clipping and accumulation. Made with transformers 5.24 and torch 2.11, on one
thread.
"""

import make_decoders
import make_seq2seq
import torch
from common import adamw, train, write
from transformers.trainer_pt_utils import LabelSmoother

STEPS = 5
VARIANTS = {
    "llama": (make_decoders.LLAMA, 0.1),
    "gpt_neox": (make_decoders.NEOX, 0.9),
    "t5": (make_seq2seq.T5, 0.1),
    "bart": (make_seq2seq.BART, 0.3),
}


def windows(step):
    length = make_decoders.LENGTH
    data = torch.tensor(make_decoders.tokens(2 * STEPS * length + 1))
    for at in (2 * step * length, (2 * step + 1) * length):
        yield {"input_ids": data[at:at + length].unsqueeze(0)}, data[at + 1:at + length + 1].unsqueeze(0)


def pairs(settings, step):
    for at in (4 * step, 4 * step + 2):
        made = make_seq2seq.batch(settings, [at, at + 1])
        yield made, made["labels"]


def losses(config, factor):
    has_encoder = "is_encoder_decoder" in config
    model, *rest = (make_seq2seq if has_encoder else make_decoders).build(config)
    model.train()
    smoother = LabelSmoother(epsilon=factor)
    rate = make_seq2seq.RATE if has_encoder else 2e-3

    def losses_of(step):
        batches = list(pairs(rest[-1], step) if has_encoder else windows(step))
        counts = [(labels != make_seq2seq.IGNORED).sum().item() for _, labels in batches]
        for (made, labels), count in zip(batches, counts):
            yield smoother({"logits": model(**made).logits.float()}, labels) * count / sum(counts)

    found = train(adamw(model.parameters(), rate), STEPS, losses_of, clip=1.0)
    return {"config": config, "factor": factor, "losses": found}


if __name__ == "__main__":
    write(VARIANTS, lambda variant: losses(*variant))
