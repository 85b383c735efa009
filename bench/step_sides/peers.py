"""Peers, each a process of its own: bench/step_sides/pytorch_child.py and deepspeed_child.py."""
import glob
import json
import os
import shutil
import statistics

from .side import DidNotRun, counted, ended, one_line, others_text, read_json, watch

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIGS = os.path.join(os.path.dirname(HERE), "deepspeed")
TRIED_STEPS = 3


class Peer:
    """Runs a child that leaves {"seconds": [...], "version": ...} or {"error": ...} in a file."""
    ours = False

    def __init__(self, work, name, child, shape, clip=0.0):
        self.work, self.name, self.child, self.shape, self.clip = work, name, child, shape, clip
        self.version = None
        self.left_out = type(self).__name__.lower() in work.without

    def prepare(self):
        return []

    def child_run(self, steps, *flags, environment=None):
        if self.left_out:
            raise DidNotRun("left out (--without)")
        result_path = self.work.path("peer.json")
        if os.path.exists(result_path):
            os.unlink(result_path)
        shape = json.dumps(self.shape.config())
        command = [self.work.python, os.path.join(HERE, self.child), "--config", shape,
                   "--kind", self.shape.kind, "--micro-batch", str(self.shape.micro_batch), "--seq-len", str(self.shape.seq_len),
                   "--steps", str(steps), "--clip", str(self.clip), "--result", result_path, *flags]
        watched = watch(command, self.work.path("peer.log"), self.work.timeout,
                        environment=environment)
        result = read_json(result_path)
        if result and "error" in result:
            raise DidNotRun(one_line(result["error"]))
        if watched.exit_code != 0 or not result or len(result["seconds"]) != steps:
            raise DidNotRun(ended(watched))
        self.version = result["version"]
        return result, watched

    def figures(self, result, watched):
        seconds = statistics.median(counted(result["seconds"]))
        return {"seconds": seconds, "resident_bytes": watched.resident_bytes,
                "step_seconds": result["seconds"], "version": result["version"],
                "others_cores": watched.others_cores,
                "text": f"{seconds:.3f} s a step, {watched.resident_bytes / 2**30:.2f} GiB resident"
                        + others_text(watched)}


class PyTorch(Peer):
    """Plain: everything in memory, bf16 autocast or fp32, fused AdamW, no checkpointing; of adapters PEFT's."""

    def __init__(self, work, shape, clip=0.0, fp32=False, environment=None, name="PyTorch"):
        super().__init__(work, "PyTorch, fp32" if fp32 else name, "pytorch_child.py", shape, clip)
        self.flags = [*shape.peer_flags, *(["--fp32"] if fp32 else [])]
        self.environment = environment

    def run(self):
        return self.figures(*self.child_run(self.work.steps, *self.flags,
                                            environment=self.environment))

    def about(self):
        return {"version": self.version}


class DeepSpeed(Peer):
    """ZeRO-3 with the optimizer on NVMe, and the parameters where `param_device` says."""

    def __init__(self, work, shape, param_device, clip=0.0):
        where = "all on NVMe" if param_device == "nvme" else "parameters in memory"
        super().__init__(work, f"DeepSpeed, {where}", "deepspeed_child.py", shape, clip)
        self.param_device, self.best, self.tried = param_device, None, {}

    def one(self, config, steps):
        folder, path = self.work.path("deepspeed"), os.environ["PATH"]
        os.makedirs(folder, exist_ok=True)
        if os.path.dirname(self.work.python):  # its operators are built by the ninja beside it
            path = os.path.dirname(os.path.abspath(self.work.python)) + ":" + path
        try:
            return self.child_run(
                steps, "--deepspeed", config, "--nvme", folder, "--param-device", self.param_device,
                environment={"DS_ACCELERATOR": "cpu", "MASTER_ADDR": "127.0.0.1", "RANK": "0",
                             "LOCAL_RANK": "0", "WORLD_SIZE": "1", "PATH": path})
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def prepare(self):
        """Tries each configuration for a few steps."""
        for config in [] if self.left_out else sorted(glob.glob(os.path.join(CONFIGS, "*.json"))):
            name = os.path.basename(config)
            try:
                result, _ = self.one(config, TRIED_STEPS)
            except DidNotRun as error:
                self.tried[name] = {"did_not_run": str(error)}
                yield f"{self.name}, {name}: did not run: {error}"
                if str(error).startswith(("ImportError", "ModuleNotFoundError")):
                    return
                continue
            seconds = statistics.median(result["seconds"][1:])
            self.tried[name] = {"seconds": seconds}
            yield f"{self.name}, {self.version}, {name}: {seconds:.3f} s a step (tried)"
            if self.best is None or seconds < self.tried[os.path.basename(self.best)]["seconds"]:
                self.best = config
        if self.best:
            yield f"{self.name}: {os.path.basename(self.best)} is the fastest, and the peer"

    def run(self):
        if self.best is None and self.tried:
            raise DidNotRun("; ".join(sorted({each["did_not_run"] for each in self.tried.values()})))
        return self.figures(*self.one(self.best, self.work.steps))

    def about(self):
        return {"version": self.version, "tried": self.tried,
                "config": os.path.basename(self.best) if self.best else None}
