"""Trains a GPT-2 of random weights with DeepSpeed's ZeRO-3 on this machine's CPU, the optimizer's state on
NVMe, and writes how long each step took. One process, no launcher: the environment says rank 0 of 1.
Under zero.Init transformers' GPT-2 begins with wrong values: times and memory compare, losses do not."""
import argparse
import json
import os
import socket
import sys
import time
import traceback


def configuration(args):
    with open(args.deepspeed, encoding="utf-8") as file:
        config = json.load(file)
    config["train_micro_batch_size_per_gpu"] = args.micro_batch
    config["gradient_clipping"] = args.clip
    zero = config["zero_optimization"]
    zero["offload_optimizer"]["nvme_path"] = args.nvme
    if args.param_device == "nvme":
        zero["offload_param"]["nvme_path"] = args.nvme
    else:
        zero["offload_param"] = {"device": "cpu"}
    return config


def train(args):
    import deepspeed
    import torch
    import transformers

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        os.environ["MASTER_PORT"] = str(free.getsockname()[1])
    deepspeed.init_distributed("gloo")
    torch.manual_seed(1)
    shape = json.loads(args.config)
    config = configuration(args)
    with deepspeed.zero.Init(config_dict_or_path=config):
        model = transformers.GPT2LMHeadModel(
            transformers.GPT2Config(**{key: shape[key] for key in shape if key != "architectures"}))
    model.train()
    engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(),
                                           config=config)
    seconds = []
    for _ in range(args.steps):
        tokens = torch.randint(0, shape["vocab_size"], (args.micro_batch, args.seq_len))
        begin = time.perf_counter()
        loss = engine(input_ids=tokens, labels=tokens).loss
        engine.backward(loss)
        engine.step()
        seconds.append(time.perf_counter() - begin)
    return {"seconds": seconds,
            "version": f"deepspeed {deepspeed.__version__}, torch {torch.__version__}"}


def where(error):
    """What an error without words was about: the last line of its traceback."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.line} ({os.path.basename(frame.filename)}:{frame.lineno})"


def main():
    parser = argparse.ArgumentParser()
    for name in ("config", "result", "deepspeed", "nvme"):
        parser.add_argument("--" + name, required=True)
    for name in ("micro-batch", "seq-len", "steps"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--clip", type=float, required=True)
    parser.add_argument("--param-device", choices=("nvme", "cpu"), required=True)
    args = parser.parse_args()
    try:
        result = train(args)
    except Exception as error:  # whatever it is: the reason why there is no figure
        result = {"error": f"{type(error).__name__}: {str(error) or where(error)}"}
    with open(args.result, "w", encoding="utf-8") as file:
        json.dump(result, file)
    # Its threads of I/O may still wait for something after an error.
    os._exit("error" in result)


if __name__ == "__main__":
    sys.exit(main())
