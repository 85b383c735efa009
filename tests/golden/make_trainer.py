#!/usr/bin/env python3
"""Makes trainer.json: what transformers' Trainer loses in ten steps, with twenty sets of its flags.

    make_trainer.py > trainer.json

The model is a GPT-2 whose weights follow the formula of common.py, and texts are bytes, so that
tests/tools/trainer_test.py makes both without transformers. Made with transformers 5.24 and torch
2.11, on one thread.
"""

import json
import shlex

import torch
import transformers
from common import fill

CONFIG = {"model_type": "gpt2", "vocab_size": 256, "n_positions": 24, "n_embd": 16, "n_layer": 2,
          "n_head": 2, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
          "bos_token_id": None, "eos_token_id": None}
SAMPLES, HELD_OUT, STEPS = 60, 6, 10
# What a combination does not say otherwise.
USUAL = {"--learning_rate": "5e-3", "--max_grad_norm": "1.0", "--lr_scheduler_type": "linear"}
COMBINATIONS = [
    "--per_device_train_batch_size 2 --weight_decay 0.5",
    "--per_device_train_batch_size 3 --lr_scheduler_type cosine --warmup_steps 3 "
    "--weight_decay 0.1",
    "--per_device_train_batch_size 2 --lr_scheduler_type cosine_with_restarts "
    "--lr_scheduler_kwargs '{\"num_cycles\": 2}' --warmup_ratio 0.15",
    "--per_device_train_batch_size 2 --lr_scheduler_type polynomial "
    "--lr_scheduler_kwargs '{\"power\": 2.0, \"lr_end\": 1e-4}' --warmup_steps 2",
    "--per_device_train_batch_size 2 --lr_scheduler_type inverse_sqrt --warmup_steps 4",
    "--per_device_train_batch_size 2 --lr_scheduler_type cosine_with_min_lr "
    "--lr_scheduler_kwargs '{\"min_lr_rate\": 0.2}' --warmup_steps 0.25",
    "--per_device_train_batch_size 2 --lr_scheduler_type cosine_warmup_with_min_lr "
    "--lr_scheduler_kwargs '{\"min_lr\": 1e-3, \"warmup_lr_rate\": 0.4}' --warmup_steps 4",
    "--per_device_train_batch_size 2 --lr_scheduler_type warmup_stable_decay --warmup_steps 2 "
    "--lr_scheduler_kwargs '{\"num_decay_steps\": 4, \"decay_type\": \"1-sqrt\"}'",
    "--per_device_train_batch_size 2 --lr_scheduler_type reduce_lr_on_plateau --eval_strategy steps "
    "--eval_steps 0.2 --lr_scheduler_kwargs '{\"patience\": 0, \"factor\": 0.3, \"threshold\": 0.05}'",
    "--per_device_train_batch_size 2 --lr_scheduler_type greedy --eval_strategy steps --eval_steps 1 "
    "--lr_scheduler_kwargs '{\"patience\": 1, \"factor\": 0.5, \"min_lr\": 1e-4}'",
    "--per_device_train_batch_size 2 --lr_scheduler_type constant --warmup_steps 5",
    "--per_device_train_batch_size 6 --lr_scheduler_type constant_with_warmup --warmup_ratio 0.3 "
    "--num_train_epochs 1",
    "--per_device_train_batch_size 3 --optim adafactor --weight_decay 0.1",
    "--per_device_train_batch_size 2 --optim sgd --optim_args momentum=0.9,nesterov=True "
    "--weight_decay 0.1 --learning_rate 0.05",
    "--per_device_train_batch_size 2 --optim adamw_torch_fused --adam_beta1 0.8 --adam_beta2 0.95 "
    "--adam_epsilon 1e-4 --weight_decay 1.0",
    "--per_device_train_batch_size 2 --max_grad_norm 0.05 --learning_rate 0.02",
    "--per_device_train_batch_size 2 --max_grad_norm 0",
    "--per_device_train_batch_size 2 --gradient_accumulation_steps 3 --weight_decay 0.2",
    "--per_device_train_batch_size 3 --gradient_accumulation_steps 4 --num_train_epochs 2 "
    "--lr_scheduler_type cosine --warmup_ratio 0.2",
    "--per_device_train_batch_size 2 --label_smoothing_factor 0.1 --optim sgd --learning_rate 0.1",
]


def whole(flags: str) -> str:
    rest = "".join(f" {flag} {value}" for flag, value in USUAL.items() if flag not in flags)
    steps = "" if "--num_train_epochs" in flags else f" --max_steps {STEPS}"
    return flags + rest + steps


def text(i: int) -> str:
    """Of at most 24 letters; those that are held out have 12."""
    length = 12 if i >= SAMPLES else 4 + i * 7 % 20
    return "".join(chr(97 + (i * 5 + j * j * 3 + j * (i % 7)) % 26) for j in range(length))


def samples(indices):
    return [{"input_ids": list((text(i) + "\n").encode())} for i in indices]


def collate(features):
    longest = max(len(f["input_ids"]) for f in features)

    def padded(value, pad):
        return torch.tensor([value(f["input_ids"]) + [pad] * (longest - len(f["input_ids"]))
                             for f in features])

    # The Trainer (5.24) divides a step's loss by all labels, the first one of a sample included, which
    # nothing predicts: without a label there the divisor is the number of predictions.
    return {"input_ids": padded(list, 0), "labels": padded(lambda ids: [-100] + ids[1:], -100),
            "attention_mask": padded(lambda ids: [1] * len(ids), 0)}


class Recording(transformers.Trainer):
    """Keeps the loss of every step."""

    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.losses, self.parts = [], []

    def training_step(self, *arguments, **more):
        loss = super().training_step(*arguments, **more)
        self.parts.append(loss.item())
        if len(self.parts) == self.args.gradient_accumulation_steps:
            self.losses.append(sum(self.parts))
            self.parts = []
        return loss


def losses(flags):
    # Transformers 5 has warmup_steps below 1 for it.
    given = shlex.split(flags.replace("--warmup_ratio", "--warmup_steps"))
    parser = transformers.HfArgumentParser(transformers.TrainingArguments)
    arguments = parser.parse_args_into_dataclasses(
        given + [
            "--output_dir", "unused", "--use_cpu", "--save_strategy", "no", "--report_to", "none",
            "--train_sampling_strategy", "sequential", "--disable_tqdm", "True",
            "--per_device_eval_batch_size", "3", "--logging_strategy", "no"])[0]
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**CONFIG))
    fill(dict(model.named_parameters()))
    trainer = Recording(model=model, args=arguments, data_collator=collate,
                        train_dataset=samples(range(SAMPLES)),
                        eval_dataset=samples(range(SAMPLES, SAMPLES + HELD_OUT)))
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    return trainer.losses


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    lines = [json.dumps({"flags": flags, "losses": losses(flags)}) for flags in map(whole, COMBINATIONS)]
    print(json.dumps({"config": CONFIG, "samples": SAMPLES, "held_out": HELD_OUT})[:-1]
          + ', "runs": [\n' + ",\n".join(lines) + "\n]}")
