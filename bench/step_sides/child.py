"""What the peers' child processes share: the model, the loop that is timed, and how they report."""
import argparse
import json
import os
import time
import traceback


def parser():
    found = argparse.ArgumentParser()
    for name in ("config", "result"):
        found.add_argument("--" + name, required=True)
    for name in ("micro-batch", "seq-len", "steps"):
        found.add_argument("--" + name, type=int, required=True)
    found.add_argument("--clip", type=float, required=True)
    return found


def build_model(config):
    """GPT-2 of random weights, from the JSON of its config."""
    import transformers

    shape = json.loads(config)
    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(**{key: shape[key] for key in shape if key != "architectures"}))
    model.train()
    return model


def time_steps(args, step):
    """Seconds of each call of step(tokens)."""
    import torch

    vocabulary = json.loads(args.config)["vocab_size"]
    seconds = []
    for _ in range(args.steps):
        tokens = torch.randint(0, vocabulary, (args.micro_batch, args.seq_len))
        begin = time.perf_counter()
        step(tokens)
        seconds.append(time.perf_counter() - begin)
    return seconds


def where(error):
    """What an error without words was about: the last line of its traceback."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.line} ({os.path.basename(frame.filename)}:{frame.lineno})"


def report(args, train):
    """Writes what train(args) returns, or why it did not; the exit code."""
    try:
        result = train(args)
    except Exception as error:  # whatever it is: the reason why there is no figure
        result = {"error": f"{type(error).__name__}: {str(error) or where(error)}"}
    with open(args.result, "w", encoding="utf-8") as file:
        json.dump(result, file)
    return int("error" in result)
