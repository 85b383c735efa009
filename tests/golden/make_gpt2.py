#!/usr/bin/env python3
"""Makes the GPT-2 golden data from transformers and PyTorch.

    python tests/golden/make_gpt2.py OUTPUT_DIR      (OUTPUT_DIR: tests/golden)

Writes
  gpt2/       a tiny model, and for each variant of its config logits, loss and
              gradients (tests/torch/gpt2_test.cc)
  gpt2_shape/ the same for other shapes: n_inner, odd head size, untied head
  train_fp32/ a model directory, tokens, and 20 steps of training: every loss, norm
              and learning rate (expected.json) and the final weights
              (expected.safetensors); also the losses under bf16 autocast

OUTPUT_DIR/gpt2/about.json says which package versions made the data. All on one
thread, so a rerun with the same versions gives the same bytes.
"""

import json
import pathlib
import sys

import numpy
import torch
import transformers
from common import project
from safetensors.torch import save_file

VOCAB, POSITIONS = 61, 12
ACTIVATIONS = [
    "gelu", "gelu_python", "gelu_10", "gelu_new", "gelu_python_tanh", "gelu_accurate",
    "gelu_pytorch_tanh", "gelu_fast", "quick_gelu", "relu", "relu2", "relu6", "leaky_relu",
    "silu", "swish", "mish", "hardswish", "sigmoid", "tanh", "sqrtsoftplus", "laplace", "linear",
]  # fmt: skip
VARIANTS = {name: {"activation_function": name} for name in ACTIVATIONS} | {
    "unscaled": {"scale_attn_weights": False},
    "inverse_layer": {"scale_attn_by_inverse_layer_idx": True},
    "unscaled_inverse_layer": {"scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True},
    "upcast": {"reorder_and_upcast_attn": True},
    "upcast_inverse_layer": {
        "reorder_and_upcast_attn": True,
        "scale_attn_by_inverse_layer_idx": True,
    },
    "epsilon": {"layer_norm_epsilon": 0.01},
}


def build(config: dict) -> transformers.GPT2LMHeadModel:
    # Eager attention: the only one for which transformers honours
    # reorder_and_upcast_attn.
    model = transformers.GPT2LMHeadModel._from_config(
        transformers.GPT2Config(**config), attn_implementation="eager"
    )
    return model.train()  # dropout is 0 everywhere


def randomise(model, seed: int) -> None:
    """Weights large enough that attention and activations leave their linear range."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            is_gain = ".ln_" in name and name.endswith("weight")
            scale = 0.2 if name.endswith("bias") or is_gain else 0.4
            parameter.copy_(noise * scale + (1.0 if is_gain else 0.0))


def save_model(model, config: dict, directory: pathlib.Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    tensors = {name: value.detach().contiguous() for name, value in model.named_parameters()}
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def run(config: dict, weights: dict, inputs, labels, full: bool) -> dict:
    model = build(config)
    model.load_state_dict(weights)
    model.zero_grad()
    logits = model(inputs).logits
    # The sum over labels that are not ignored: what LossUnit::LossSum returns.
    loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum"
    )
    loss.backward()
    out = {"logits": logits.detach(), "loss": loss.detach()}
    for name, parameter in model.named_parameters():
        norm = float(parameter.grad.double().norm())
        out["check/" + name] = torch.tensor([norm, project(parameter.grad)])
        if full:
            out["grad/" + name] = parameter.grad.detach().clone()
    return {key: value.contiguous() for key, value in out.items()}


def make_forward(root: pathlib.Path, config: dict, variants: dict, seed: int, full: str) -> None:
    model = build(config)
    randomise(model, seed)
    save_model(model, config, root)
    generator = torch.Generator().manual_seed(seed + 1)
    inputs = torch.randint(VOCAB, (3, config["n_positions"]), generator=generator)
    labels = torch.randint(VOCAB, inputs.shape, generator=generator)
    labels[torch.rand(labels.shape, generator=generator) < 0.2] = -100
    # As fp32, which the test's reader takes: small integers are exact.
    expected = {"inputs": inputs.float(), "labels": labels.float()}
    for name, changes in variants.items():
        result = run(config | changes, model.state_dict(), inputs, labels, name == full)
        expected |= {f"{name}/{key}": value for key, value in result.items()}
    save_file(expected, root / "expected.safetensors")
    about = {
        "made_by": "tests/golden/make_gpt2.py",
        "torch": torch.__version__.split("+")[0],
        "transformers": transformers.__version__,
        "variants": variants,
    }
    (root / "about.json").write_text(json.dumps(about, indent=1) + "\n")


def tiny_config(**changes) -> dict:
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": VOCAB,
        "n_positions": POSITIONS,
        "n_embd": 16,
        "n_layer": 2,
        "n_head": 4,
        "activation_function": "gelu_new",
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "layer_norm_epsilon": 1e-5,
        "bos_token_id": 0,
        "eos_token_id": 0,
    } | changes


# --- training ------------------------------------------------------------------

TRAIN = {
    "steps": 20, "micro_batch": 2, "accumulate": 2, "seq_len": 32, "lr": 6e-3,
    "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1, "clip": 1.6, "warmup": 4,
    "schedule": "linear",
}  # fmt: skip
TRAIN_TOKENS, TRAIN_VOCAB = 1500, 200


def make_tokens() -> numpy.ndarray:
    """A learnable stream: mostly a fixed successor, sometimes noise."""
    generator = numpy.random.Generator(numpy.random.PCG64(11))
    successor = generator.permutation(TRAIN_VOCAB)
    tokens = [0]
    while len(tokens) < TRAIN_TOKENS:
        noise = generator.random() < 0.3
        tokens.append(int(generator.integers(TRAIN_VOCAB)) if noise else int(successor[tokens[-1]]))
    return numpy.array(tokens, dtype=numpy.uint16)


def train(config: dict, weights: dict, tokens: torch.Tensor, bf16: bool, dtype=torch.float32):
    """--order sequential: window w is tokens [wS, wS+S]; sample n is window n mod W."""
    model = build(config).to(dtype)
    model.load_state_dict(weights)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=TRAIN["lr"], betas=tuple(TRAIN["betas"]), eps=TRAIN["eps"],
        weight_decay=TRAIN["weight_decay"],
    )  # fmt: skip
    schedule = transformers.get_linear_schedule_with_warmup(
        optimizer, TRAIN["warmup"], TRAIN["steps"]
    )
    length, micro = TRAIN["seq_len"], TRAIN["micro_batch"]
    windows = (len(tokens) - 1) // length
    rows, sample = [], 0
    for _ in range(TRAIN["steps"]):
        loss_sum = 0.0
        for _ in range(TRAIN["accumulate"]):
            starts = [(sample + i) % windows * length for i in range(micro)]
            sample += micro
            inputs = torch.stack([tokens[s : s + length] for s in starts])
            labels = torch.stack([tokens[s + 1 : s + length + 1] for s in starts])
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                logits = model(inputs).logits
            logits = logits if dtype == torch.float64 else logits.float()
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
            (loss / TRAIN["accumulate"]).backward()
            loss_sum += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), TRAIN["clip"])
        rows.append(
            {
                "loss": loss_sum / TRAIN["accumulate"],
                "grad_norm": float(norm),
                "lr": optimizer.param_groups[0]["lr"],
            }
        )
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return model, rows


def make_training(root: pathlib.Path) -> None:
    config = tiny_config(
        vocab_size=TRAIN_VOCAB, n_positions=TRAIN["seq_len"], n_embd=32, initializer_range=0.1
    )
    torch.manual_seed(5)
    model = build(config)
    save_model(model, config, root)
    array = make_tokens()
    array.astype("<u2").tofile(root / "tokens.bin")
    tokens = torch.from_numpy(array.astype(numpy.int64))
    trained, rows = train(config, model.state_dict(), tokens, bf16=False)
    _, rows_bf16 = train(config, model.state_dict(), tokens, bf16=True)
    final = {name: value.detach().contiguous() for name, value in trained.named_parameters()}
    save_file(final, root / "expected.safetensors")
    flags = [f"--{key.replace('_', '-')}={value}" for key, value in TRAIN.items() if key != "betas"]
    flags += [f"--betas={TRAIN['betas'][0]},{TRAIN['betas'][1]}"]
    flags += ["--optimizer=adamw", "--order=sequential"]
    expected = {
        "torch": torch.__version__.split("+")[0],
        "transformers": transformers.__version__,
        "flags": flags,
        "hyperparameters": TRAIN,
        "losses": [row["loss"] for row in rows],
        "grad_norms": [row["grad_norm"] for row in rows],
        "lrs": [row["lr"] for row in rows],
        "losses_bf16": [row["loss"] for row in rows_bf16],
    }
    (root / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    torch.set_num_threads(1)
    root = pathlib.Path(sys.argv[1])
    make_forward(root / "gpt2", tiny_config(), VARIANTS, seed=1, full="gelu_new")
    shape = tiny_config(n_embd=18, n_head=3, n_layer=3, n_inner=20, tie_word_embeddings=False)
    shapes = {"untied": {}, "untied_upcast": {"reorder_and_upcast_attn": True}}
    make_forward(root / "gpt2_shape", shape, shapes, seed=2, full="untied")
    make_training(root / "train_fp32")


if __name__ == "__main__":
    main()
