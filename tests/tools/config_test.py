#!/usr/bin/env python3
"""A DeepSpeed file given to the program: each honoured key changes what is trained, the
placement keys change where it lives and nothing else, and bad files end with exit 2."""

import copy
import json
import os

import cli_testing
from cli_testing import CliTest, read_json, read_rows, run

BASE = {"train_batch_size": 2, "bf16": {"enabled": True}, "gradient_clipping": 1.0}
ADAMW = {**BASE, "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "weight_decay": 0.1}}}
SGD = {**BASE, "optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9}}}
FP16 = {"train_batch_size": 2, "fp16": {"enabled": True}, "gradient_clipping": 1.0}
CYCLE = {**ADAMW, "scheduler": {"type": "OneCycle", "params": {
    "cycle_min_lr": 0.001, "cycle_max_lr": 0.01, "cycle_first_step_size": 2}}}
OVERFLOWS = {**FP16, "fp16": {"enabled": True, "initial_scale_power": 40, "hysteresis": 1}}

# Key, the file without it, its value: of each part of what a run is told. What every key tells it shows
# tests/engine/config/deepspeed_honoured_keys_test.cc, and what comes of that tests/engine/numeric.
CASES = [
    ("train_batch_size", {}, 4),
    ("gradient_accumulation_steps", {}, 2),
    ("bf16.enabled", {}, True),
    ("fp16.enabled", {}, True),
    ("gradient_clipping", ADAMW, 0.01),
    ("optimizer.type", ADAMW, "SGD"),
    ("optimizer.params.betas", ADAMW, [0.5, 0.6]),
    ("optimizer.params.weight_decay", ADAMW, 0.5),
    ("optimizer.params.momentum", SGD, 0.1),
    ("scheduler", ADAMW, {"type": "WarmupLR", "params": {"warmup_num_steps": 2}}),
    ("scheduler.params.cycle_momentum", CYCLE, False),
    ("fp16.loss_scale", FP16, 128),
    ("fp16.hysteresis", OVERFLOWS, 3),
]


def with_key(config, key, value):
    config = copy.deepcopy(config)
    block = config
    *parents, name = key.split(".")
    for parent in parents:
        block = block.setdefault(parent, {})
    block[name] = value
    return config


class ConfigTest(CliTest):
    def config_file(self, config):
        text = config if isinstance(config, str) else json.dumps(config, indent=1)
        return self.write("ds.json", text)

    def outcome(self, config, name, **flags):
        """What a run of the file did: digests of its state, and the rows' numbers."""
        output = self.path(name)
        flags = {"steps": 5, "swap": None, "offload": None, "micro_batch": None, "no_export": True,
                 "device_memory": None, "host_memory": None, **flags}
        result = self.train(config=self.config_file(config), output=output, **flags)
        if result.returncode != 0:
            return {"exit": result.returncode, "error": result.stderr.splitlines()[-1]}
        keep = ("loss", "lr", "tokens", "loss_scale", "skipped", "grad_norm")
        rows = [{key: row.get(key) for key in keep} for row in read_rows(output + "/metrics.jsonl")]
        digest = self.inspect(output)["digest"]
        return {"exit": 0, "rows": rows, "state": digest}

    def test_each_key_that_counts_changes_the_run(self):
        without = {}
        for number, (key, config, value) in enumerate(CASES):
            with self.subTest(key=key):
                text = json.dumps(config)
                if text not in without:
                    without[text] = self.outcome(config, f"without-{number}")
                    self.assertEqual(without[text]["exit"], 0, without[text])
                changed = self.outcome(with_key(config, key, value), f"with-{number}")
                self.assertNotEqual(changed, without[text])
                self.assertEqual(changed["exit"], 0, changed)
        # And the same file twice is the same run.
        self.assertEqual(self.outcome(ADAMW, "again"), without[json.dumps(ADAMW)])

    def test_placement_keys_move_bytes_and_no_numbers(self):
        plain = self.outcome(ADAMW, "plain", steps=2, lr="0.02")
        os.mkdir(self.path("nvme"))
        zero = {"stage": 3,
                "offload_param": {"device": "nvme", "nvme_path": self.path("nvme")},
                "offload_optimizer": {"device": "nvme", "nvme_path": self.path("nvme")}}
        aio = {"block_size": 65536, "queue_depth": 4, "intra_op_parallelism": 1}
        budgets = {"device_memory": "64MiB", "host_memory": "64MiB"}
        moved = self.outcome({**ADAMW, "zero_optimization": zero, "aio": aio}, "moved", steps=2,
                             lr="0.02", **budgets)
        self.assertEqual(moved, plain)
        self.assertTrue(os.listdir(self.path("nvme")), "the state lives on nvme_path")
        rows = read_rows(self.path("moved") + "/metrics.jsonl")
        self.assertGreater(sum(row["bytes"]["nvme_read"] for row in rows), 0)
        resolved = read_json(self.path("moved"), "config.resolved.json")
        self.assertEqual(resolved["aio.block_size"]["value"], 65536)
        self.assertTrue(resolved["swap"]["source"].startswith(self.path("ds.json") + ":"))
        # A flag wins, and both are shown.
        lr = resolved["lr"]
        self.assertEqual((lr["value"], lr["source"], lr["overrides"]["value"]), (0.02, "--lr", 0.01))

    def test_trainer_flags_do_the_same(self):
        ours = self.train(output=self.path("ours"), steps=2, dtype="bf16", moments="8bit", betas="0.8,0.9",
                          warmup=1, swap=None, offload=None)
        self.assert_run(ours, 0)
        theirs = run("train", "--model_name_or_path", self.model, "--train_file", self.data,
                     "--output-dir", self.path("theirs"), "--max_steps", 2, "--bf16", "--optim", "adamw_bnb_8bit",
                     "--adam_beta1", "0.8", "--adam_beta2=0.9", "--warmup_ratio", "0.3",
                     "--per_device_train_batch_size", 2, "--seq_len", 16, "--threads", 1,
                     "--device_memory", "64MiB", "--host_memory", "64MiB")
        self.assert_run(theirs, 0)
        self.assertEqual(self.inspect(self.path("ours"))["digest"],
                         self.inspect(self.path("theirs"))["digest"])

    def test_other_optimizers_are_the_same_anywhere(self):
        """Their keys are in deepspeed_honoured_keys_test.cc, their flags in run_config_test.cc, their arithmetic in
        tests/engine/numeric."""
        for name, planes, changed in (("lion", ["exp_avg"], {"betas": "0.8,0.9"}),
                                      ("lamb", ["exp_avg", "exp_avg_sq"], {"trust_ratio": "0.02,0.3"}),
                                      ("adafactor", [], {"decay_rate": "0.5"})):
            with self.subTest(name):
                plain, flags = self.path(name), {"optimizer": name, "lr": "0.001", "dtype": "bf16"}
                self.assert_run(self.train(output=plain, swap=None, offload=None, **flags), 0)
                found = self.inspect(plain)["digests"]
                self.assertEqual(sorted(found["transformer.wte.weight"]), [*planes, "residual", "weight"])
                self.begin_afresh()
                self.assert_run(self.train(**flags | {"steps": 2}), 0)
                self.assert_run(self.train(resume=True, **flags | changed), 2, next(iter(changed)).replace("_", "-"))
                self.assert_run(self.train(resume=True, **flags), 0)
                self.assertEqual(self.inspect()["digests"], found)

    def test_what_was_found_out_is_written_down(self):
        text = self.write("text.txt", "some words of a text. " * 20)
        result = self.train(data=text, eval_data=text, metric="perplexity", lr="1e-2", max_steps="-1", steps=None,
                            seq_len=None, threads=None, device_memory=None, host_memory=None, swap=None, offload=None)
        self.assert_run(result, 0)
        resolved = read_json(self.output, "config.resolved.json")
        made = read_json(self.output, "run.json")
        steps = 14  # 27 windows of 16 characters, two at a time
        self.assertEqual(made["steps"], steps)
        budgets = made["budget_bytes"]
        for name, value in {"task": "causal-lm", "tokenizer": "chars", "seq-len": 16, "max-source-length": None,
                            "steps": steps, "threads": made["threads"], "device-memory": budgets["device"],
                            "host-memory": budgets["host"]}.items():
            self.assertEqual(resolved[name], {"value": value, "source": "derived"}, name)
        self.assertEqual(resolved["metric"]["value"], "perplexity")
        rows = read_rows(self.output + "/eval.jsonl")
        self.assertTrue(rows[-1]["best"])
        self.assertLess(rows[-1]["perplexity"], rows[0]["perplexity"])

    def test_compute_follows_the_processor(self):
        def train(words, **flags):
            return run(*self.flags(dtype="bf16", no_export=True, explain=True, **flags), *words,
                       variables={"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI"})

        why = "in fp32: this processor has no bf16 instructions"
        self.assert_run(train([], steps=2), 0, why)
        compute = read_json(self.output, "config.resolved.json")["compute"]
        self.assertEqual((compute["value"], compute["source"]), ("fp32", "derived"))
        self.assertEqual(read_json(self.output, "run.json")["compute"], "fp32")
        result = train(["--compute", "bf16"], steps=3, resume=True)
        self.assert_run(result, 0, "compute was fp32 and is now bf16", "times slower")
        self.assertNotIn(why, result.stderr)
        self.assert_run(train(["--compute", "fp16"], output=self.path("other")), 2,
                        "not as precise as --dtype bf16")

    def refuse(self, text, *words):
        result = self.train(config=self.config_file(text), micro_batch=None)
        self.assert_run(result, 2, *words)
        self.assert_nothing_left()

    def test_bad_files(self):
        self.refuse('{\n "zero_optimization": {\n  "stage": 3,\n  "offload_parm": {}\n }\n}',
                    "ds.json:4", "offload_parm", "offload_param")
        self.refuse('{ # one\n /* two\n */ "bf16": {"enabled": tru},\n}', "ds.json:3")
        self.refuse("eyJhIjogMX0=", "ds.json:1")
        result = self.train(config=self.path("none.json"))
        self.assert_run(result, 2, "--config", "none.json")
        result = self.train(config=self.dir)
        self.assert_run(result, 2, "--config", self.dir)


if __name__ == "__main__":
    cli_testing.main()
