#!/usr/bin/env python3
"""Makes resnet.json from transformers: what small residual networks learn from pictures.

    make_resnet.py > resnet.json

Weights follow the formula of common.py (numbered among all tensors of the state dict),
pictures and labels those below (and tests/torch/resnet_golden_test.cc), so that no file holds them.
For each variant: its config; in train mode the loss and the logits of six pictures in one batch,
norm and projection of every gradient; the losses of 20 steps of SGD with momentum and weight decay,
two micro-batches of four pictures a step; norm and projection of all running statistics afterwards,
with how many micro-batches they have seen; and then the logits of six other pictures in evaluation.
"lora_losses" are those of PEFT in such steps: adapters of rank 3 beside all convolutions, whose
values follow adapter_values, and the classifier trained whole.
Made with transformers 5.24, peft 0.21 and torch 2.11, on one thread.
"""

import peft
import torch
import transformers
from common import digests, fill, gradients, rounded, train, write

SIDE, STEPS, MICRO_BATCH = 24, 20, 4
LABELS = {"id2label": {"0": "cat", "1": "dog", "2": "frog"},
          "label2id": {"cat": 0, "dog": 1, "frog": 2}}
BASIC = {"model_type": "resnet", "architectures": ["ResNetForImageClassification"],
         "num_channels": 3, "embedding_size": 6, "hidden_sizes": [6, 10], "depths": [2, 1],
         "layer_type": "basic", "hidden_act": "relu"} | LABELS
BOTTLENECK = BASIC | {"layer_type": "bottleneck", "hidden_sizes": [8, 16], "depths": [1, 2]}
VARIANTS = {
    "basic": BASIC,
    "basic_gelu_downsampled": BASIC | {"hidden_act": "gelu", "downsample_in_first_stage": True},
    "basic_gray": BASIC | {"num_channels": 1},
    "bottleneck": BOTTLENECK,
    "bottleneck_downsampled": BOTTLENECK | {"downsample_in_bottleneck": True,
                                            "downsample_in_first_stage": True},
}


def batch(config, samples):
    channels, side = config["num_channels"], SIDE
    count = channels * side * side
    i = torch.arange(count, dtype=torch.float64)
    pictures = [(torch.sin(i * 0.37 + n * 1.7) + 0.5 * torch.cos(i * (0.011 + 0.003 * (n % 3))))
                .float().view(channels, side, side) for n in samples]
    return {"pixel_values": torch.stack(pictures), "labels": torch.tensor([n % 3 for n in samples])}


def build(config):
    settings = transformers.ResNetConfig.from_dict(dict(config))
    model = transformers.ResNetForImageClassification(settings)
    fill(model.state_dict())
    return model.train()


def adapter_values(name, count):
    return 0.2 * torch.cos(0.9 * torch.arange(count, dtype=torch.float64) + len(name))


def adapted(config):
    model = peft.get_peft_model(build(config), peft.LoraConfig(
        r=3, lora_alpha=6, target_modules=["convolution"], modules_to_save=["classifier"]))
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_" in name:
                plain = name.removeprefix("base_model.model.").replace(".default", "")
                p.copy_(adapter_values(plain, p.numel()).float().view(p.shape))
    return model.train()


def training_losses(model, config):
    parameters = [p for p in model.parameters() if p.requires_grad]

    def losses(step):
        for first in (MICRO_BATCH * 2 * step, MICRO_BATCH * (2 * step + 1)):
            yield model(**batch(config, range(first, first + MICRO_BATCH))).loss / 2

    return train(torch.optim.SGD(parameters, lr=0.02, momentum=0.9, weight_decay=1e-3), STEPS, losses)


def measure(config):
    model = build(config)
    out = model(**batch(config, range(6)))
    out.loss.backward()
    trained = build(config)
    losses = training_losses(trained, config)
    trained.eval()
    with torch.no_grad():
        scores = trained(**batch(config, range(200, 206))).logits
    return {
        "config": config,
        "loss": out.loss.item(),
        "logits": rounded(out.logits),
        "gradients": gradients(dict(model.named_parameters())),
        "losses": losses,
        "lora_losses": training_losses(adapted(config), config),
        "buffers": digests({name: b.double() for name, b in trained.named_buffers()}),
        "evaluated": rounded(scores),
    }


if __name__ == "__main__":
    write(VARIANTS, measure)
