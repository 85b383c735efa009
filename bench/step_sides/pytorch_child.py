"""Trains a GPT-2 of random weights with plain PyTorch and writes how long each step took."""
import argparse
import json
import os
import sys
import time
import traceback


def train(args):
    import torch
    import transformers

    torch.manual_seed(1)
    config = json.loads(args.config)
    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(**{key: config[key] for key in config if key != "architectures"}))
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, fused=True)
    seconds = []
    for _ in range(args.steps):
        tokens = torch.randint(0, config["vocab_size"], (args.micro_batch, args.seq_len))
        begin = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(tokens, labels=tokens).loss
        loss.backward()
        if args.clip > 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - begin)
    return {"seconds": seconds,
            "version": f"torch {torch.__version__}, transformers {transformers.__version__}"}


def where(error):
    """What an error without words was about: the last line of its traceback."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.line} ({os.path.basename(frame.filename)}:{frame.lineno})"


def main():
    parser = argparse.ArgumentParser()
    for name in ("config", "result"):
        parser.add_argument("--" + name, required=True)
    for name in ("micro-batch", "seq-len", "steps"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--clip", type=float, required=True)
    args = parser.parse_args()
    try:
        result = train(args)
    except Exception as error:  # whatever it is: the reason why there is no figure
        result = {"error": f"{type(error).__name__}: {str(error) or where(error)}"}
    with open(args.result, "w", encoding="utf-8") as file:
        json.dump(result, file)
    sys.exit("error" in result)


if __name__ == "__main__":
    main()
