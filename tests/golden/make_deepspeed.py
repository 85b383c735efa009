#!/usr/bin/env python3
"""What DeepSpeed knows and reads: deepspeed/keys.json and deepspeed/read.json.

keys.json: every key of a configuration that DeepSpeed's classes declare or its code looks
up. read.json: of each deepspeed/fixtures/*.json, the values that DeepSpeed holds after
reading it, or that it refuses the file; where the file says "auto", after transformers'
integration has filled it in from FLAGS. The fixtures themselves are written by hand after
public documents and issue reports.

Needs deepspeed 0.19.8 (its unpacked sources on PYTHONPATH are enough), hjson, pydantic,
torch, transformers 5 and accelerate. Run in this folder: python3 make_deepspeed.py
"""

import glob
import json
import os
import inspect
import typing
from types import SimpleNamespace

import deepspeed
import torch
from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam
from deepspeed.ops.lamb import FusedLamb
from deepspeed.runtime import config as ds
from deepspeed.runtime import lr_schedules
from deepspeed.runtime.config_utils import DeepSpeedConfigModel
from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig

# The trainer's flags that "auto" is filled in from; the test gives the program the same.
FLAGS = SimpleNamespace(world_size=1, per_device_train_batch_size=4, gradient_accumulation_steps=2,
                        max_grad_norm=0.5, learning_rate=2e-4, adam_beta1=0.8, adam_beta2=0.95,
                        adam_epsilon=1e-7, weight_decay=0.05, save_on_each_node=False,
                        fp16=False, fp16_full_eval=False, bf16=True, bf16_full_eval=False,
                        get_warmup_steps=lambda steps: 20)
FLAG_STEPS = 100
HIDDEN_SIZE = 64

RAW_BLOCKS = ["aio", "activation_checkpointing", "flops_profiler", "checkpoint", "checkpoint.writer",
              "checkpoint.parallel_write", "data_types", "torch_autocast", "optimizer", "scheduler",
              "pipeline", "timers"]
OPTIMIZERS = [DeepSpeedCPUAdam, FusedAdam, FusedLamb, torch.optim.AdamW, torch.optim.SGD]


class Watched(dict):
    """A dict that remembers which names were asked for."""

    def __init__(self, prefix, seen, **items):
        super().__init__(**items)
        self.prefix, self.seen = prefix, seen

    def note(self, name):
        if isinstance(name, str):
            self.seen.add(self.prefix + name)

    def get(self, name, default=None):
        self.note(name)
        return super().get(name, default)

    def __contains__(self, name):
        self.note(name)
        return super().__contains__(name)

    def __getitem__(self, name):
        self.note(name)
        return super().__getitem__(name)

    def keys(self):
        return self

    def __copy__(self):
        return self


def models_in(annotation):
    if isinstance(annotation, type) and issubclass(annotation, DeepSpeedConfigModel):
        yield annotation
    for part in typing.get_args(annotation):
        yield from models_in(part)


def fields(model, prefix):
    for name, field in model.model_fields.items():
        for spelling in {name, field.alias or name}:
            yield prefix + spelling
            for inner in models_in(field.annotation):
                yield from fields(inner, prefix + spelling + ".")


def parameters(constructor):
    names = list(inspect.signature(constructor.__init__).parameters)
    return names[2:]  # without self and the model's parameters


def known_keys():
    seen = set()
    blocks = {name: Watched(name + ".", seen) for name in RAW_BLOCKS}
    blocks["checkpoint"].update(writer=blocks["checkpoint.writer"],
                                parallel_write=blocks["checkpoint.parallel_write"])
    blocks["optimizer"].update(type="AdamW", params=Watched("optimizer.params.", seen))
    blocks["scheduler"].update(type="WarmupLR", params=Watched("scheduler.params.", seen))
    top = Watched("", seen, train_batch_size=1,
                  **{name: block for name, block in blocks.items() if "." not in name})
    ds._reject_removed_config_keys = lambda param_dict: None  # they are known all the same
    config = ds.DeepSpeedConfig.__new__(ds.DeepSpeedConfig)
    config.world_size, config.global_rank, config._param_dict = 1, 0, top
    config._initialize_params(top)
    config._do_warning_check()
    seen |= set(ds._REMOVED_TOP_LEVEL_CONFIG_KEYS)
    seen |= {"zero_optimization." + key for key in ds._REMOVED_ZERO_CONFIG_KEYS}

    from deepspeed.comm.config import CommsLoggerConfig
    from deepspeed.compile.config import CompileConfig
    from deepspeed.monitor.config import DeepSpeedMonitorConfig
    from deepspeed.runtime.precision_config import DeepSpeedBF16Config, DeepSpeedFP16Config
    from deepspeed.runtime.tensor_parallel.config import TPTrainingConfig
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
    from deepspeed.utils.config import DeepSpeedThroughputTimerConfig
    for prefix, model in {"": DeepSpeedMonitorConfig, "bf16.": DeepSpeedBF16Config,
                          "fp16.": DeepSpeedFP16Config, "comms_logger.": CommsLoggerConfig,
                          "compile.": CompileConfig, "zero_optimization.": DeepSpeedZeroConfig,
                          "tensor_parallel.": TPTrainingConfig,
                          "timers.throughput.": DeepSpeedThroughputTimerConfig}.items():
        seen |= set(fields(model, prefix))
    # What the schedulers' constructors take.
    for schedule in lr_schedules.VALID_LR_SCHEDULES:
        seen |= {"scheduler.params." + name for name in parameters(getattr(lr_schedules, schedule))}
    for optimizer in OPTIMIZERS:
        seen |= {"optimizer.params." + name for name in parameters(optimizer)}
    # DeepSpeed's own arguments of these, which no file gives.
    seen -= {"optimizer.params.adamw_mode"}
    # Never read from a file: DeepSpeed fills it in.
    seen -= {"zero_optimization.zenflow.steps_per_epoch"}
    return sorted(seen)


HONOURED = {
    "train_batch_size": lambda c: c.train_batch_size,
    "micro_batch": lambda c: c.train_micro_batch_size_per_gpu,
    "accumulate": lambda c: c.gradient_accumulation_steps,
    "gradient_clipping": lambda c: c.gradient_clipping,
    "fp16": lambda c: c.float16_config.enabled,
    "bf16": lambda c: c.bfloat16_config.enabled,
    "loss_scale": lambda c: c.float16_config.loss_scale,
    "initial_scale_power": lambda c: c.float16_config.initial_scale_power,
    "loss_scale_window": lambda c: c.float16_config.loss_scale_window,
    "hysteresis": lambda c: c.float16_config.hysteresis,
    "consecutive_hysteresis": lambda c: c.float16_config.consecutive_hysteresis,
    "min_loss_scale": lambda c: c.float16_config.min_loss_scale,
    "offload_param": lambda c: offload(c.zero_config.offload_param),
    "offload_optimizer": lambda c: offload(c.zero_config.offload_optimizer),
    "optimizer": lambda c: c.optimizer_name,
    "optimizer_params": lambda c: c.optimizer_params,
    "scheduler": lambda c: c.scheduler_name,
    "scheduler_params": lambda c: c.scheduler_params,
    "aio": lambda c: {name: c.aio_config[name]
                      for name in ("block_size", "queue_depth", "intra_op_parallelism")},
}


def offload(block):
    if block is None:
        return {"device": "none"}
    return {"device": str(block.device), "nvme_path": str(block.nvme_path or "")}


def filled_in(path):
    config = HfTrainerDeepSpeedConfig(path)
    config.trainer_config_process(FLAGS)
    model = SimpleNamespace(config=SimpleNamespace(hidden_size=HIDDEN_SIZE))
    config.trainer_config_finalize(FLAGS, model, FLAG_STEPS)  # raises where a flag contradicts
    return config.config


def what_is_read(path):
    try:
        with open(path, encoding="utf-8") as file:
            source = filled_in(path) if '"auto"' in file.read() else path
        config = ds.DeepSpeedConfig(source)
    except Exception as error:  # whatever DeepSpeed raises
        return {"refused": type(error).__name__}
    return {name: get(config) for name, get in HONOURED.items()}


def write(name, value):
    with open(os.path.join("deepspeed", name), "w", encoding="utf-8") as out:
        json.dump(value, out, indent=1, sort_keys=True)
        out.write("\n")


def main():
    assert deepspeed.__version__.startswith("0.19.8"), deepspeed.__version__
    read = {}
    for path in sorted(glob.glob("deepspeed/fixtures/*.json")):
        read[os.path.basename(path)] = what_is_read(path)
    write("read.json", read)
    write("keys.json", known_keys())


if __name__ == "__main__":
    main()
