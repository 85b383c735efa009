"""Trains a GPT-2 of random weights with plain PyTorch and writes how long each step took."""
import contextlib
import sys

import child


def train(args):
    import torch
    import transformers

    torch.manual_seed(1)
    model = child.build_model(args.config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, fused=True)

    def step(tokens):
        with contextlib.nullcontext() if args.fp32 else torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(tokens, labels=tokens).loss
        loss.backward()
        if args.clip > 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return {"seconds": child.time_steps(args, step),
            "version": f"torch {torch.__version__}, transformers {transformers.__version__}"}


if __name__ == "__main__":
    parser = child.parser()
    parser.add_argument("--fp32", action="store_true", help="no autocast")
    sys.exit(child.report(parser.parse_args(), train))
