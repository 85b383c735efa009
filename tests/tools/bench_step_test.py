#!/usr/bin/env python3
"""bench/step.py: figures that are measured, peers that are there or not, ratios of what ran alone."""

import os
import signal
import statistics
import subprocess
import sys
from types import SimpleNamespace

import cli_testing
from cli_testing import CliTest, environment, program, read_json, read_text

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../bench")
STEP = os.path.join(BENCH, "step.py")
sys.path.insert(0, BENCH)
sys.dont_write_bytecode = True
from step_sides import prediction  # noqa: E402

# Stand-ins for the peers: as much of them as the children call, a step of so many seconds.
TORCH = """
import sys
import time
from types import SimpleNamespace as Some
if "adam_child" in sys.argv[0]:  # whose clock is its own: a step takes exactly as long as it sleeps
    now = [0.0]
    time.perf_counter = lambda: now[0]
    def sleep(seconds): now[0] += seconds
    time.sleep = sleep
__version__ = "2.0-fake"
bfloat16 = "bf16"
def manual_seed(seed): pass
def randint(low, high, shape): return shape
class autocast:
    def __init__(self, device, dtype): assert (device, dtype) == ("cpu", "bf16")
    def __enter__(self): pass
    def __exit__(self, *error): pass
class AdamW:
    def __init__(self, parameters, lr, fused): assert fused
    def step(self): time.sleep(0.05)
    def zero_grad(self, set_to_none): pass
optim = Some(AdamW=AdamW)
nn = Some(Parameter=lambda tensor: Some(data=tensor))
def full(shape, value): return shape
def set_num_threads(threads): assert threads >= 1
"""
TRANSFORMERS = """
from types import SimpleNamespace as Some
__version__ = "5.0-fake"
class AutoConfig:
    def for_model(model_type, n_layer, **config): assert model_type == "gpt2" and n_layer > 0
class GPT2LMHeadModel:
    def __init__(self, config): pass
    def train(self): pass
    def parameters(self): return []
    def __call__(self, input_ids, labels): return Some(loss=Some(backward=lambda: None))
"""
# The configuration that reads ahead asserts, as the real one may; of the others one is faster.
DEEPSPEED = """
import os, time
from types import SimpleNamespace as Some
__version__ = "0.19-fake"
def init_distributed(backend): assert os.environ["MASTER_PORT"] and os.environ["RANK"] == "0"
class zero:
    class Init:
        def __init__(self, config_dict_or_path): pass
        def __enter__(self): pass
        def __exit__(self, *error): pass
def initialize(model, model_parameters, config):
    zero = config["zero_optimization"]
    assert not zero["offload_optimizer"]["pipeline_read"], "Not enough buffers 5 for swapping\\nmore words"
    assert os.path.isdir(zero["offload_optimizer"]["nvme_path"])
    seconds = 0.03 if config["aio"]["block_size"] == 1 << 20 else 0.2
    class Engine:
        def __call__(self, input_ids, labels): return Some(loss=None)
        def backward(self, loss): pass
        def step(self): time.sleep(seconds)
    return Engine(), None, None, None
"""


class BenchStepTest(CliTest):
    def step(self, *names, modules=None, steps=4, pairs=1, variables=None, cases=None):
        """Runs it with these stand-ins alone, and so many of prediction's cases; exit code, what it printed, and its
        JSON."""
        folder = self.path("modules")
        for name in ("torch", "transformers", "deepspeed"):
            text = (modules or {}).get(name, f"raise ImportError('no {name} in this test')")
            self.write(f"modules/{name}.py", text)
        fewer = f"import sys; sys.dont_write_bytecode = True; import step; step.prediction.CASES = {cases}; step.main()"
        done = subprocess.run(
            [sys.executable, *(["-c", fewer] if cases else [STEP]), *names, "--tiny", "--pairs", str(pairs), "--steps",
             str(steps), "--program", program(), "--work", self.path("step"), "--json", self.path("step.json")],
            capture_output=True, text=True, timeout=600, check=False,
            env=environment() | {"PYTHONPATH": f"{folder}:{BENCH}"} | (variables or {}))
        self.assertFalse(os.path.exists(self.path("step")), "left behind")
        if not os.path.exists(self.path("step.json")):
            return done.returncode, done.stdout + done.stderr, None
        return done.returncode, done.stdout, read_json(self.path("step.json"))["comparisons"]

    def assert_measured(self, run, steps=4):
        """A run's figures are those of its own steps and its own process."""
        self.assertEqual(len(run["step_seconds"]), steps)
        self.assertEqual(run["seconds"], statistics.median(run["step_seconds"][2:-1]))
        self.assertGreater(run["resident_bytes"], 4 << 20)
        self.assertLess(run["resident_bytes"], 4 << 30)
        self.assertGreaterEqual(run["others_cores"], 0)
        self.assertLess(run["others_cores"], os.cpu_count() + 1)

    def assert_ratios(self, comparison, key):
        for ratio in comparison["ratios"]:
            self.assertEqual(ratio["median"], statistics.median(ratio["rounds"]))
        by_name = {ratio["name"]: ratio["rounds"] for ratio in comparison["ratios"]}
        name, above, below = key
        runs = comparison["sides"]
        for i, one in enumerate(by_name[name]):
            self.assertAlmostEqual(one, runs[above]["runs"][i]["seconds"] /
                                   runs[below]["runs"][i]["seconds"])

    def test_peers_that_are_not_there_have_no_ratios(self):
        code, text, found = self.step("memory-124m", "xl")
        self.assertEqual(code, 0, text)
        self.assertIn("PyTorch: did not run: ImportError: no torch in this test", text)
        self.assertIn("no ratio 'Spillway / PyTorch, seconds': PyTorch did not run", text)
        self.assertIn(".json: did not run: ImportError: no deepspeed in this test\n", text)
        self.assertIn("rounds say little", text)
        for comparison in found.values():
            self.assertEqual(comparison["ratios"], [])
            self.assertEqual(len(comparison["sides"]), 1)

    def test_peers_that_are_there(self):
        code, text, found = self.step(
            "memory-124m", "nvme-124m", "xl", steps=5,
            modules={"torch": TORCH, "transformers": TRANSFORMERS, "deepspeed": DEEPSPEED})
        self.assertEqual(code, 0, text)
        memory, nvme, xl = (found[name] for name in ("memory-124m", "nvme-124m", "xl"))
        run, = memory["sides"]["PyTorch"]["runs"]
        self.assert_measured(run, 5)
        self.assertGreaterEqual(run["seconds"], 0.05)
        self.assert_ratios(memory, ("Spillway / PyTorch, seconds", "in memory", "PyTorch"))
        self.assertEqual(memory["peers"]["PyTorch"]["version"],
                         "torch 2.0-fake, transformers 5.0-fake")
        self.assertEqual([ratio["name"] for ratio in nvme["ratios"][:2]],
                         ["on NVMe / in memory, no clipping", "on NVMe / in memory, clipping"])
        # The fastest configuration, its version, and the first line of why another did not run.
        for comparison, name in ((nvme, "DeepSpeed, all on NVMe"),
                                 (xl, "DeepSpeed, parameters in memory")):
            peer = comparison["peers"][name]
            self.assertEqual(peer["config"], "plain.json")
            self.assertIn("deepspeed 0.19-fake", peer["version"])
            self.assertEqual(peer["tried"]["pipelined.json"]["did_not_run"],
                             "AssertionError: Not enough buffers 5 for swapping")
            self.assertGreaterEqual(peer["tried"]["deep.json"]["seconds"], 0.2)
            self.assert_measured(comparison["sides"][name]["runs"][0], 5)
            self.assert_ratios(comparison, ("DeepSpeed / Spillway on NVMe, seconds", name, "on NVMe"))
        self.assertIn("pipelined.json: did not run: AssertionError: Not enough buffers 5 for swapping\n",
                      text)

    def test_peers_that_are_left_out(self):
        code, text, found = self.step("xl", "families", "--without", "pytorch,deepspeed")
        self.assertEqual(code, 0, text)
        families = found["families"]
        self.assertEqual(len(families["sides"]), 10)
        self.assertEqual(sorted(families["did_not_run"]), sorted(f"{name}, PyTorch" for name in families["sides"]))
        for name in ("llama, PyTorch", "DeepSpeed, parameters in memory"):
            self.assertIn(f"  {name}: did not run: left out (--without)\n", text)

    def test_the_optimizer_alone(self):
        code, text, found = self.step("adam", modules={"torch": TORCH}, pairs=2)
        self.assertEqual(code, 0, text)
        found = found["adam"]
        peer = "PyTorch's fused AdamW, fp32"
        self.assertEqual(found["peers"][peer]["version"], "torch 2.0-fake")
        for run in found["sides"][peer]["runs"]:
            self.assertAlmostEqual(run["seconds"], 0.05)
        for run in found["sides"]["bench adam"]["runs"]:
            self.assertGreater(min(run["of_a_copy"], run["seconds"]), 0)
        self.assert_ratios(found, ("bench adam / PyTorch's fused AdamW, seconds", "bench adam", peer))
        # Sides take turns, in both directions.
        self.assertEqual([line.split(":")[0] for line in text.splitlines() if line.startswith("round ")],
                         ["round 1  bench adam", f"round 1  {peer}", f"round 2  {peer}", "round 2  bench adam"])

    def test_priorities_are_of_threads_that_are_there(self):
        code, text, found = self.step("waiting")
        self.assertEqual(code, 0 if os.geteuid() == 0 else 1, text)
        found = found["waiting"]
        self.assertIn("updates behind compute", found["sides"])
        if os.geteuid() != 0:
            self.assertEqual(found["did_not_run"], {
                "the mover before compute": "a higher priority is for root"})

    def test_our_own_sides(self):
        log, before = self.path("before-ran"), self.write(
            "before", f'#!/bin/sh\necho "$1 $2" >> "{self.path("before-ran")}"\nexec "{program()}" "$@"\n')
        os.chmod(before, 0o755)
        code, text, found = self.step("layers", "accumulation", "budgets-355m", "xl-small", "lora-xl",
                                      "before", "--before", before, steps=5)
        self.assertEqual(code, 0, text)
        for comparison in found.values():
            self.assertEqual(comparison["did_not_run"], {})
            for side in comparison["sides"].values():
                for run in side["runs"]:
                    if "seconds" not in run:
                        self.assertGreater(run["bytes_per_second"], 0)
                        continue
                    self.assert_measured(run, 5)
                    if run["kernel_moved_bytes"] and run["moved_bytes"] > 1 << 20:
                        self.assertLess(abs(run["kernel_moved_bytes"] / run["moved_bytes"] - 1), 1)
        runs = found["accumulation"]["sides"]["--accumulate 8"]["runs"]
        self.assertGreater(runs[0]["moved_bytes"], 0)
        self.assertEqual(len(found["budgets-355m"]["ratios"]), 5)
        # The other program has every other run.
        self.assertEqual(read_text(log).split("\n"), ["train --model", "bench io", "bench io", ""])
        self.assert_ratios(found["before"], ("now / before, seconds", "now", "before"))
        rates = {name: side["runs"][0].get("bytes_per_second") for name, side in found["before"]["sides"].items()}
        for ratio, op in zip(found["before"]["ratios"][2:], ("read", "write")):
            self.assertEqual(ratio["name"], f"bench io --op {op}, before / now")
            self.assertAlmostEqual(ratio["median"], rates[op + ", before"] / rates[op + ", now"])

    def test_predictions_of_shapes_drawn_from_a_seed(self):
        """Two of the five cases, one that clips and one that does not."""
        code, text, found = self.step("prediction", "--seed", "7", cases=2,
                                      variables={"SPILLWAY_PROFILE": self.path("profile.json")})
        self.assertEqual(code, 0, text)
        found = found["prediction"]
        self.assertEqual((found["seed"], found["did_not_run"]), (7, {}))
        deviations = []
        for case in found["cases"]:
            run = case["run"]
            self.assert_measured(run)
            for flag in (f"{case['device_mib']}MiB", f"{case['host_mib']}MiB", case["offload"],
                         str(case["clip"])):
                self.assertIn(flag, run["command"])
            for key in ("predicted_seconds", "predicted_at_observed_rates_seconds", "seconds"):
                self.assertGreater(run[key], 0)
                self.assertIn(f" {run[key]:.3f} ", text)
            self.assertAlmostEqual(run["ratio"],
                                   run["predicted_at_observed_rates_seconds"] / run["seconds"])
            deviations.append(abs(run["ratio"] - 1))
        self.assertEqual(len(deviations), 2)
        self.assertEqual(found["largest_deviation"], max(deviations))
        self.assertIsNone(found["holds"])
        self.assertIn(f"largest deviation: {100 * max(deviations):.1f}%  (not judged", text)

        def drawn(seed):
            return [case.json() for case in prediction.draw_cases(seed, SimpleNamespace(tiny=True))]
        for case, ran in zip(drawn(7), found["cases"]):
            self.assertLessEqual({key: case[key] for key in case if not key.endswith("mib")}.items(), ran.items())
        self.assertEqual([case["clip"] for case in drawn(7)], [0, 1, 0, 1, 0])
        self.assertEqual(drawn(7), drawn(7))
        self.assertNotEqual(drawn(7), drawn(8))

    def test_a_run_that_predicts_nothing_is_not_judged(self):
        code, text, found = self.step("prediction", cases=1)
        self.assertEqual(code, 1, text)
        found = found["prediction"]
        self.assertEqual((found["cases"], found["largest_deviation"]), ([], None))
        self.assertEqual(list(found["did_not_run"]), ["case 1"])
        self.assertIn("did not run: nothing was predicted: SPILLWAY_PROFILE=off", text)

    def test_a_side_of_our_own_that_does_not_run(self):
        os.chmod(self.write("broken", "#!/bin/sh\n[ \"$1\" = --version ] && echo broken && exit\n"
                            "echo 'spillway: error: no room' >&2; exit 2\n"), 0o755)
        ours, cli_testing._program = program(), self.path("broken")
        try:
            code, text, found = self.step("layers")
        finally:
            cli_testing._program = ours
        self.assertEqual(code, 1, text)
        self.assertIn("2 layers: did not run: exit code 2: spillway: error: no room", text)
        self.assertEqual(found["layers"]["ratios"], [])

    def test_control_c_ends_the_run_under_way(self):
        process = self.start([STEP, "layers", "--tiny", "--steps", "1000000", "--program", program(),
                              "--work", self.path("step")], program_=sys.executable)
        self.wait_for(lambda: os.path.exists(self.path("step/run/metrics.jsonl")), process)
        child, = read_text(f"/proc/{process.pid}/task/{process.pid}/children").split()
        process.send_signal(signal.SIGINT)
        self.assertIn("nothing is left", process.communicate(timeout=600)[1])
        self.assertEqual(process.returncode, 1)
        self.assertFalse(os.path.exists(self.path("step")))
        self.assertFalse(os.path.exists(f"/proc/{child}"))

    def test_a_folder_with_something_in_it_is_left_alone(self):
        os.mkdir(self.path("step"))
        mine = self.write("step/mine", "content")
        done = subprocess.run([sys.executable, STEP, "layers", "--tiny", "--program", program(),
                               "--work", self.path("step")], capture_output=True, text=True,
                              env=environment(), timeout=600, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not empty", done.stderr)
        self.assertTrue(os.path.exists(mine))
        nowhere = self.path("nowhere")
        for flags, words in ((["layers", "--steps", "3"], "--steps at least 4"),
                             (["layers", "--without", "fairscale"], "pytorch and deepspeed"),
                             (["everything"], "invalid choice"),
                             (["before"], "before: --before names the program"),
                             (["layers", "--json", nowhere + "/f.json"], f"--json {nowhere}/f.json"),
                             (["layers", "--program", nowhere], "does not run")):
            done = subprocess.run([sys.executable, STEP, *flags], capture_output=True, text=True,
                                  env=environment(), timeout=600, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    cli_testing.main()
