"""How far what was predicted before step 1 is from what a step then took: shapes and budgets drawn from a seed."""
import json
import os
import random
import subprocess

from .shapes import Shape
from .side import DidNotRun
from .spillway import Spillway

NAME = "prediction"
ABOUT = "five shapes and budgets drawn from --seed: predicted before step 1, against measured"
CASES = 5
MOST = 0.10  # of what was measured
PARAMETERS = (30e6, 200e6)
MIB = 1 << 20


def parameters(shape):
    return shape.width * (shape.vocabulary + 1024 + 12 * shape.width * shape.layers)


def draw_shape(draw, tiny):
    batch, seq_len = draw.choice((1, 2, 4)), draw.choice((128, 256))
    if tiny:
        return Shape(draw.randint(2, 4), 64 * draw.randint(1, 2), 2, batch, vocabulary=512, seq_len=64)
    while True:
        heads = draw.randint(5, 16)
        shape = Shape(draw.randint(4, 20), 64 * heads, heads, batch, seq_len=seq_len)
        if PARAMETERS[0] <= parameters(shape) <= PARAMETERS[1]:
            return shape


class Case:
    """One run; its budgets are once to twice the smallest pair that will do."""

    def __init__(self, draw, number, work):
        self.work = work
        self.shape = draw_shape(draw, work.tiny)
        self.clip = float(number % 2)
        self.offload = draw.choice(("nvme", "auto"))
        self.times = draw.uniform(1, 2), draw.uniform(1, 2)  # device, host
        self.device_mib = self.host_mib = 0

    def estimate(self, *budgets):
        os.makedirs(self.work.path("swap"), exist_ok=True)
        model = Spillway(self.work, NAME, self.shape, []).prepare_model()
        found = subprocess.run(
            [self.work.program, "estimate", "--model", model, "--dtype", "bf16", "--seq-len",
             str(self.shape.seq_len), "--micro-batch", str(self.shape.micro_batch), "--clip",
             str(self.clip), "--offload", self.offload, "--swap", self.work.path("swap"), "--dry-run",
             "yes", "--json", *budgets], capture_output=True, text=True, check=False)
        if found.returncode != 0:
            raise DidNotRun((found.stderr.strip().splitlines() or ["estimate failed"])[-1])
        return json.loads(found.stdout)

    def choose_budgets(self):
        least = self.estimate()["feasible"]
        self.device_mib, self.host_mib = (
            -int(-times * least[kind] // MIB)
            for times, kind in zip(self.times, ("device_bytes", "host_bytes")))
        if not self.estimate(*self.budgets())["fits"]:
            raise DidNotRun(f"{self.device_mib} + {self.host_mib} MiB do not fit, says estimate")

    def budgets(self):
        return ["--device-memory", f"{self.device_mib}MiB", "--host-memory", f"{self.host_mib}MiB"]

    def run(self):
        """The figures of Spillway.run, and `deviation`."""
        self.choose_budgets()
        flags = ["--offload", self.offload, "--swap", self.work.path("swap"), *self.budgets()]
        found = Spillway(self.work, NAME, self.shape, flags, clip=self.clip).run()
        if found["predicted_at_observed_rates_seconds"] is None:
            raise DidNotRun("nothing was predicted: SPILLWAY_PROFILE=off, or no rates of the disk")
        ratio = found["predicted_at_observed_rates_seconds"] / found["seconds"]
        return found | {"ratio": ratio, "deviation": abs(ratio - 1)}

    def words(self):
        shape = self.shape
        return (f"{shape.layers} x {shape.width}, {parameters(shape) / 1e6:.3g}M",
                f"{shape.micro_batch} x {shape.seq_len}", f"{self.clip:g}", self.offload,
                f"{self.device_mib} + {self.host_mib}")

    def json(self):
        return {"layers": self.shape.layers, "width": self.shape.width,
                "parameters": parameters(self.shape), "micro_batch": self.shape.micro_batch,
                "seq_len": self.shape.seq_len, "clip": self.clip, "offload": self.offload,
                "device_mib": self.device_mib, "host_mib": self.host_mib}


def draw_cases(seed, work):
    draw = random.Random(seed)
    return [Case(draw, number, work) for number in range(CASES)]


HEADER = ("shape", "batch", "clip", "offload", "MiB", "predicted", "at rates", "measured", "ratio")
COLUMNS = "  {:18} {:8} {:4} {:7} {:11} {:>9} {:>9} {:>9} {:>6}"


def measure(args, work):
    """Prints a row a case and the largest deviation; a JSON object of it all."""
    print(f"  seed {args.seed}; MiB are device + host; at rates: with the disk's rates as the run found "
          "them; ratio: that to measured")
    print(COLUMNS.format(*HEADER), flush=True)
    found = {"seed": args.seed, "cases": [], "did_not_run": {}, "largest_deviation": None,
             "holds": None}
    others = []
    for number, case in enumerate(draw_cases(args.seed, work), 1):
        try:
            run = case.run()
        except DidNotRun as error:
            found["did_not_run"][f"case {number}"] = str(error)
            print(COLUMNS.format(*case.words(), "", "", "", "").rstrip() + f"  did not run: {error}",
                  flush=True)
            continue
        print(COLUMNS.format(*case.words(), f"{run['predicted_seconds']:.3f}",
                             f"{run['predicted_at_observed_rates_seconds']:.3f}",
                             f"{run['seconds']:.3f}", f"{run['ratio']:.3f}"), flush=True)
        others.append(run["others_cores"])
        found["cases"].append(case.json() | {"run": run})
    found["others_cores"] = others
    if found["cases"]:
        found["largest_deviation"] = max(case["run"]["deviation"] for case in found["cases"])
        holds = found["largest_deviation"] <= MOST
        judged = "not judged: shapes to try the script with"
        if not args.tiny:
            found["holds"] = holds
            judged = f"at most {100 * MOST:g}%: {'holds' if holds else 'MISSED'}"
        print(f"  largest deviation: {100 * found['largest_deviation']:.1f}%  ({judged})")
    return found
