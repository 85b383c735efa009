"""The optimizer alone: `spillway bench adam`, and PyTorch's fused AdamW on as many parameters."""
import json
import os
import statistics

from .peers import HERE
from .side import DidNotRun, counted, ended, one_line, others_text, read_json, watch

REPEATS = 12


def threads():
    return len(os.sched_getaffinity(0))


def parameters(work):
    return 1000000 if work.tiny else 100000000


class BenchAdam:
    """bf16 gradient in; master, moments and bf16 weight updated: 26 bytes moved a parameter."""
    NAME = "bench adam"
    ours = True

    def __init__(self, work):
        self.work, self.name = work, self.NAME

    def run(self):
        command = [self.work.program, "bench", "adam", "--params", str(parameters(self.work)),
                   "--threads", str(threads()), "--json"]
        watched = watch(command, self.work.path("adam.log"), self.work.timeout)
        if watched.exit_code != 0:
            raise DidNotRun(ended(watched))
        found = json.loads(watched.log.strip().splitlines()[-1])
        return {"seconds": found["seconds"], "resident_bytes": watched.resident_bytes,
                "of_a_copy": found["fraction_of_memory"],
                "text": f"{found['seconds']:.4f} s for {found['parameters']:,} parameters, "
                        f"{found['bytes_per_second'] / 1e9:.1f} GB/s, {found['fraction_of_memory']:.2f} of a "
                        f"copy's" + others_text(watched)}


class FusedAdam:
    """torch.optim.AdamW(fused=True) on fp32 parameters and gradients: 28 bytes moved a parameter."""
    ours = False

    def __init__(self, work):
        self.work, self.name, self.version = work, "PyTorch's fused AdamW, fp32", None

    def prepare(self):
        return []

    def run(self):
        if "pytorch" in self.work.without:
            raise DidNotRun("left out (--without)")
        path = self.work.path("adam.json")
        if os.path.exists(path):
            os.unlink(path)
        command = [self.work.python, os.path.join(HERE, "adam_child.py"), "--parameters",
                   str(parameters(self.work)), "--threads", str(threads()), "--repeats", str(REPEATS),
                   "--result", path]
        watched = watch(command, self.work.path("adam.log"), self.work.timeout)
        result = read_json(path)
        if result and "error" in result:
            raise DidNotRun(one_line(result["error"]))
        if watched.exit_code != 0 or not result:
            raise DidNotRun(ended(watched))
        self.version = result["version"]
        seconds = statistics.median(counted(result["seconds"]))
        return {"seconds": seconds, "resident_bytes": watched.resident_bytes,
                "version": self.version, "text": f"{seconds:.4f} s" + others_text(watched)}

    def about(self):
        return {"version": self.version}
