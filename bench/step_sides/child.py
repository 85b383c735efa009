"""What the peers' child processes share: the model, the loop that is timed, and how they report."""
import argparse
import json
import os
import time
import traceback


def parser():
    found = argparse.ArgumentParser()
    for name in ("config", "kind", "result"):
        found.add_argument("--" + name, required=True)
    for name in ("micro-batch", "seq-len", "steps"):
        found.add_argument("--" + name, type=int, required=True)
    found.add_argument("--clip", type=float, required=True)
    return found


def build_model(config):
    """Of random weights, from the JSON of its config."""
    import transformers

    shape = json.loads(config)
    architecture = getattr(transformers, shape["architectures"][0])
    model = architecture(transformers.AutoConfig.for_model(**shape))
    model.train()
    return model


def random_batch(args, shape):
    """What the model's forward is called with: samples as long as those that train reads of such data."""
    import torch

    size = (args.micro_batch, args.seq_len)
    if args.kind == "text":
        tokens = torch.randint(0, shape["vocab_size"], size)
        return {"input_ids": tokens, "labels": tokens}
    if args.kind == "pictures":
        return {"pixel_values": torch.randn(args.micro_batch, 3, args.seq_len, args.seq_len),
                "labels": torch.randint(0, shape["num_labels"], size[:1])}
    if args.kind == "speech":
        return {"input_features": torch.randn(args.micro_batch, shape["num_mel_bins"], 2 * shape["max_source_positions"]),
                "labels": torch.randint(0, 256, size)}
    batch = {"input_ids": torch.randint(97, 107, size), "attention_mask": torch.ones(size, dtype=torch.long)}
    if args.kind == "classes":
        return batch | {"labels": torch.randint(0, len(shape["id2label"]), size[:1])}
    return batch | {"labels": torch.randint(97, 107, size)}


def time_steps(args, step):
    """Seconds of each call of step(**batch)."""
    shape, seconds = json.loads(args.config), []
    for _ in range(args.steps):
        batch = random_batch(args, shape)
        begin = time.perf_counter()
        step(**batch)
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
