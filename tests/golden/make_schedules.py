#!/usr/bin/env python3
"""Makes schedules.json: learning rates and loss scales as DeepSpeed and transformers give them.

    make_schedules.py DEEPSPEED_SOURCE > schedules.json

DEEPSPEED_SOURCE is an unpacked source distribution of deepspeed (made with 0.19.8:
`pip download deepspeed==0.19.8 --no-deps --no-binary :all:`). Its lr_schedules.py and
fp16/loss_scaler.py are loaded by themselves, with stubs for what they import, because
the package needs a compiler to install. Needs torch and transformers.
"""

import importlib.util
import json
import logging
import pathlib
import sys
import types

import torch
import transformers

STEPS = 200
BASE_LR = 3e-4


def load_deepspeed(source):
    """The two modules, without the package around them."""
    logger = logging.getLogger("deepspeed")
    logger.disabled = True
    stubs = {
        "deepspeed": {},
        "deepspeed.comm": {"get_rank": lambda: 0},
        "deepspeed.utils": {"logger": logger, "log_dist": lambda *args, **kwargs: None},
        "deepspeed.runtime": {},
        "deepspeed.runtime.config_utils": {"DeepSpeedConfigObject": object},
        "deepspeed.runtime.utils": {"has_inf_or_nan": None},
    }
    for name, attributes in stubs.items():
        module = types.ModuleType(name)
        module.__dict__.update(attributes)
        sys.modules[name] = module
    sys.modules["deepspeed"].comm = sys.modules["deepspeed.comm"]

    def load(name, path):
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    runtime = pathlib.Path(source) / "deepspeed" / "runtime"
    return (load("lr_schedules", runtime / "lr_schedules.py"),
            load("loss_scaler", runtime / "fp16" / "loss_scaler.py"))


def applied(key, make_scheduler):
    """What the optimizer has of that name at the time of each update, as a training loop has it."""
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=BASE_LR)
    scheduler = make_scheduler(optimizer)
    values = []
    for _ in range(STEPS):
        values.append(optimizer.param_groups[0][key])
        optimizer.step()
        scheduler.step()
    return values


def schedules(ds):
    """Each case: the fields of Spillway's ScheduleSpec, and the rates."""
    hf = transformers.optimization

    def case(fields, make_scheduler):
        return {"spec": fields, "rates": applied("lr", make_scheduler)}

    cases = []
    for warmup in (0, 1, 20):
        cases += [
            case({"kind": "constant", "warmup_steps": warmup},
                 lambda o: hf.get_constant_schedule_with_warmup(o, warmup)),
            case({"kind": "linear", "warmup_steps": warmup},
                 lambda o: hf.get_linear_schedule_with_warmup(o, warmup, STEPS - 30)),
            case({"kind": "cosine", "warmup_steps": warmup},
                 lambda o: hf.get_cosine_schedule_with_warmup(o, warmup, STEPS - 30)),
        ]
    cases.append(case({"kind": "cosine", "warmup_steps": 10, "num_cycles": 1.5},
                      lambda o: hf.get_cosine_schedule_with_warmup(o, 10, STEPS - 30, 1.5)))
    cases += transformers_schedules(hf, case)
    for warmup in (1, 25, 1000):
        for kind in ("log", "linear"):
            common = {"warmup_steps": warmup, "warmup_type": kind}
            arguments = {"warmup_num_steps": warmup, "warmup_type": kind}
            limits = {"warmup_min_lr": 1e-5, "warmup_max_lr": 2e-3}
            ratios = {"warmup_min_ratio": 0.05, "cos_min_ratio": 0.01}
            cases += [
                case({"kind": "WarmupLR", **common}, lambda o: ds.WarmupLR(o, **arguments)),
                case({"kind": "WarmupLR", **common, **limits},
                     lambda o: ds.WarmupLR(o, **arguments, **limits)),
                case({"kind": "WarmupDecayLR", **common, **limits, "total_num_steps": 150},
                     lambda o: ds.WarmupDecayLR(o, 150, **arguments, **limits)),
                case({"kind": "WarmupCosineLR", **common, "total_num_steps": 150},
                     lambda o: ds.WarmupCosineLR(o, 150, **arguments)),
                case({"kind": "WarmupCosineLR", **common, **ratios, "total_num_steps": 190},
                     lambda o: ds.WarmupCosineLR(o, 190, **arguments, **ratios)),
            ]
    for fields in ({}, {"min_lr": 1e-4, "step_size": 30, "step_rate": 2.5},
                   {"min_lr": 1e-4, "step_size": 7, "step_rate": 0.5, "staircase": True}):
        arguments = {f"lr_range_test_{name}": value for name, value in fields.items()}
        cases.append(case({"kind": "LRRangeTest", **fields},
                          lambda o: ds.LRRangeTest(o, **arguments)))
    for fields in (
            {"cycle_first_step_size": 40},
            {"cycle_first_step_size": 37, "cycle_second_step_size": 60, "cycle_min_mom": 0.7,
             "cycle_max_mom": 0.95},
            {"cycle_first_step_size": 50, "cycle_second_step_size": 25, "decay_step_size": 10,
             "decay_lr_rate": 0.5},
            {"cycle_first_step_size": 30, "cycle_first_stair_count": 4},
            {"cycle_first_step_size": 31, "cycle_second_step_size": 47,
             "cycle_first_stair_count": 5, "cycle_second_stair_count": 3, "decay_step_size": 20,
             "decay_lr_rate": 0.1},
            {"cycle_first_step_size": 150, "cycle_second_step_size": 0}):
        arguments = {"cycle_min_lr": 1e-4, "cycle_max_lr": 2e-3, **fields}
        cycle = lambda o: ds.OneCycle(o, **arguments)
        cases.append({**case({"kind": "OneCycle", **arguments}, cycle),
                      "betas": applied("betas", cycle)})
    return cases


def transformers_schedules(hf, case):
    """Those with lr_scheduler_kwargs, as the Trainer makes them."""
    cases = []
    for name, warmup, arguments in (
            ("cosine_with_restarts", 0, {}),
            ("cosine_with_restarts", 20, {"num_cycles": 3}),
            ("cosine_with_restarts", 7, {"num_cycles": 2.5}),
            ("polynomial", 0, {}),
            ("polynomial", 13, {"lr_end": 1e-5, "power": 2.0}),
            ("polynomial", 1, {"lr_end": 0.0, "power": 0.5}),
            ("inverse_sqrt", 0, {}),
            ("inverse_sqrt", 25, {}),
            ("inverse_sqrt", 25, {"timescale": 60}),
            ("cosine_with_min_lr", 0, {"min_lr": 1e-5}),
            ("cosine_with_min_lr", 20, {"min_lr_rate": 0.1}),
            ("cosine_with_min_lr", 9, {"min_lr_rate": 0.05, "num_cycles": 1.5}),
            ("cosine_warmup_with_min_lr", 0, {"min_lr": 2e-5}),
            ("cosine_warmup_with_min_lr", 20, {"min_lr_rate": 0.1}),
            ("cosine_warmup_with_min_lr", 20, {"min_lr_rate": 0.1, "warmup_lr_rate": 0.3}),
            ("cosine_warmup_with_min_lr", 1, {"min_lr_rate": 0.0, "warmup_lr_rate": 0.5,
                                              "num_cycles": 1.0}),
            ("warmup_stable_decay", 0, {"num_decay_steps": 40}),
            ("warmup_stable_decay", 20, {"num_decay_steps": 60, "min_lr_ratio": 0.1,
                                         "warmup_type": "cosine", "decay_type": "linear"}),
            ("warmup_stable_decay", 11, {"num_decay_steps": 50, "num_stable_steps": 30,
                                         "warmup_type": "1-sqrt", "decay_type": "1-sqrt"}),
            ("warmup_stable_decay", 5, {"num_decay_steps": 100, "num_cycles": 1.5,
                                        "min_lr_ratio": 0.05})):
        cases.append(case({"kind": name, "warmup_steps": warmup, **arguments},
                          lambda o: hf.get_scheduler(name, o, warmup, STEPS - 30, arguments)))
    return cases


def metric_schedules(hf):
    """Each case: what follows evaluations, what those find, and the rate behind each."""
    noise = [((i * i * 7 + i * 3 + 11) % 61) / 61 for i in range(STEPS)]
    falling = [6.0 / (1 + i / 20) + 0.3 * x for i, x in enumerate(noise)]
    stuck = [3 + (0.5 if i > 40 else -i / 20) for i in range(STEPS)]
    cases = []
    for name, arguments, metrics in (
            ("reduce_lr_on_plateau", {}, falling),
            ("reduce_lr_on_plateau", {}, stuck),
            ("reduce_lr_on_plateau", {"factor": 0.5, "patience": 2, "cooldown": 3,
                                      "min_lr": 1e-6}, falling),
            ("reduce_lr_on_plateau", {"mode": "max", "patience": 1, "threshold": 0.01,
                                      "threshold_mode": "abs", "factor": 0.9, "eps": 1e-5}, noise),
            ("reduce_lr_on_plateau", {"factor": 0.2, "patience": 0, "eps": 0.0}, stuck),
            ("greedy", {}, falling),
            ("greedy", {"patience": 1, "factor": 0.8, "min_lr": 1e-5, "max_lr": 1e-3,
                        "cooldown": 2, "warmup": 1}, falling),
            ("greedy", {"patience": 0, "factor": 0.5, "min_lr": 1e-5, "reset_start": 4,
                        "smooth": True, "window_size": 5}, stuck),
            ("greedy", {"patience": 1, "factor": 0.7, "min_lr": 1e-6, "mode": "max",
                        "threshold": 0.02, "threshold_mode": "rel", "smooth": True}, noise)):
        optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=BASE_LR)
        scheduler = hf.get_scheduler(name, optimizer, 0, STEPS, arguments)
        rates = []
        for metric in metrics:
            scheduler.step(metric)
            rates.append(optimizer.param_groups[0]["lr"])
        cases.append({"kind": name, "arguments": arguments, "metrics": metrics, "rates": rates})
    return cases


def loss_scales(ds):
    """Each case: the fields of LossScaleSpec, the overflowing steps, the state after each step."""
    cases = []
    for power, window, hysteresis, consecutive, overflows in (
        (16, 1000, 2, False, [0, 1, 2, 50]),
        (16, 10, 2, False, [3, 4, 30, 31, 32, 90]),
        (16, 10, 1, False, [0, 1, 2, 3, 40, 41, 120]),
        (8, 7, 3, False, [5, 20, 21, 22, 23, 60, 61, 62]),
        (8, 7, 3, True, [5, 7, 8, 20, 21, 22, 23, 60, 62, 64, 65, 66]),
        (3, 20, 1, False, [1, 2, 3, 4, 9]),  # 8 to the minimum, then the error
        (3, 20, 2, False, list(range(10, 40))),
    ):
        scaler = ds.DynamicLossScaler(init_scale=2**power, scale_window=window, min_scale=1,
                                      delayed_shift=hysteresis, consecutive_hysteresis=consecutive)
        states = []
        for step in range(STEPS):
            try:
                scaler.update_scale(step in overflows)
            except Exception:  # pylint: disable=broad-except
                states.append("error")
                break
            states.append([float(scaler.cur_scale), scaler.cur_iter, scaler.last_overflow_iter,
                           scaler.cur_hysteresis])
        cases.append({
            "spec": {"initial_scale_power": power, "window": window, "hysteresis": hysteresis,
                     "consecutive_hysteresis": consecutive},
            "overflows": overflows,
            "states": states,
        })
    return cases


def one_per_line(cases):
    return "[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]"


def main():
    lr_schedules, loss_scaler = load_deepspeed(sys.argv[1])
    print('{"base_lr":%r,"total_steps":%d,\n"schedules":%s,\n"metric_schedules":%s,\n'
          '"loss_scales":%s}' %
          (BASE_LR, STEPS - 30, one_per_line(schedules(lr_schedules)),
           one_per_line(metric_schedules(transformers.optimization)),
           one_per_line(loss_scales(loss_scaler))))


if __name__ == "__main__":
    main()
