"""Trains a GPT-2 of random weights with DeepSpeed's ZeRO-3 on this machine's CPU, the optimizer's state on
NVMe, and writes how long each step took. One process, no launcher: the environment says rank 0 of 1.
Under zero.Init transformers' GPT-2 begins with wrong values: times and memory compare, losses do not."""
import json
import os
import socket

import child


def configuration(args):
    with open(args.deepspeed, encoding="utf-8") as file:
        config = json.load(file)
    config["train_micro_batch_size_per_gpu"] = args.micro_batch
    config["gradient_clipping"] = args.clip
    zero = config["zero_optimization"]
    zero["offload_optimizer"]["nvme_path"] = args.nvme
    if args.param_device == "nvme":
        # As small as the largest parameter lets it be: what it takes of memory is compared too.
        shape = json.loads(args.config)
        largest = max(shape["vocab_size"], 4 * shape["n_embd"]) * shape["n_embd"]
        zero["offload_param"].update(nvme_path=args.nvme, buffer_size=largest + largest // 50 + 4096)
    else:
        zero["offload_param"] = {"device": "cpu"}
    return config


def train(args):
    import deepspeed
    import torch

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        os.environ["MASTER_PORT"] = str(free.getsockname()[1])
    deepspeed.init_distributed("gloo")
    torch.manual_seed(1)
    config = configuration(args)
    with deepspeed.zero.Init(config_dict_or_path=config):
        model = child.build_model(args.config)
    engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(),
                                           config=config)

    def step(**batch):
        loss = engine(**batch).loss
        engine.backward(loss)
        engine.step()

    return {"seconds": child.time_steps(args, step),
            "version": f"deepspeed {deepspeed.__version__}, torch {torch.__version__}"}


def main():
    parser = child.parser()
    for name in ("deepspeed", "nvme"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--param-device", choices=("nvme", "cpu"), required=True)
    args = parser.parse_args()
    # Where the machine has too little memory, this is what the kernel ends.
    with open("/proc/self/oom_score_adj", "w", encoding="utf-8") as file:
        file.write("1000")
    # Its threads of I/O may still wait for something after an error.
    os._exit(child.report(args, train))


if __name__ == "__main__":
    main()
