"""Trains a model of random weights with plain PyTorch and writes how long each step took."""
import contextlib
import sys

import child


def train(args):
    import torch
    import transformers

    torch.manual_seed(1)
    model = child.build_model(args.config)
    if args.lora:
        import peft

        model = peft.get_peft_model(model.to(torch.bfloat16), peft.LoraConfig(
            r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=5e-5, fused=True)

    def step(**batch):
        with contextlib.nullcontext() if args.fp32 else torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(**batch).loss
        loss.backward()
        if args.clip > 0:
            torch.nn.utils.clip_grad_norm_(trained, args.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return {"seconds": child.time_steps(args, step),
            "version": f"torch {torch.__version__}, transformers {transformers.__version__}"}


if __name__ == "__main__":
    parser = child.parser()
    parser.add_argument("--fp32", action="store_true", help="no autocast")
    parser.add_argument("--lora", action="store_true", help="PEFT's adapters beside all matrices, the base in bf16")
    sys.exit(child.report(parser.parse_args(), train))
