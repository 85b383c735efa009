"""The comparisons of bench/step.py: which sides, which ratios, which limits."""
import statistics
from dataclasses import dataclass, field

from .adam import BenchAdam, FusedAdam
from .peers import DeepSpeed, PyTorch
from .shapes import Shape, families
from .spillway import Disk, Spillway

ABOUT = {
    "memory-124m": "GPT-2 124M, 4 x 256, all in memory: against plain PyTorch",
    "families": "ten models of other families, in memory: against transformers, and PEFT",
    "nvme-124m": "GPT-2 124M, 4 x 256, all on NVMe at 512 MiB + 512 MiB: in memory, DeepSpeed",
    "compute-124m": "GPT-2 124M, 4 x 256, all in memory, oneDNN without bf16: --compute fp32, PyTorch",
    "xl": "GPT-2 XL, 1 x 256, all on NVMe: DeepSpeed with its parameters in memory",
    "xl-small": "GPT-2 XL, 1 x 256, all on NVMe: in the least memory, against 1 GiB + 1 GiB",
    "lora-xl": "GPT-2 XL, 1 x 256, adapters on a base on NVMe: against training all of it",
    "budgets-355m": "GPT-2 355M, 1 x 256: host memory of 0.5, 1, 2, 4, 8 GiB, and all",
    "layers": "GPT-2 124M, 4 x 256, all on NVMe: against one of twice the layers",
    "accumulation": "GPT-2 124M, 1 x 256, all on NVMe: bytes moved with --accumulate 8 and 1",
    "adam": "the update of 100M parameters alone: PyTorch's fused AdamW, and a copy",
    "waiting": "GPT-2 124M, 4 x 256, all on NVMe: compute threads that spin a moment, sleep, spin",
    "before": "GPT-2 124M, 4 x 256, all on NVMe, and `bench io`: the program that --before names",
}

IN_MEMORY = ["--offload", "none"]
# Noise that "never slower" allows for.
NOISE = 1.05
# Traffic that "no more" allows for: a file's first blocks.
SAME_BYTES = 1.005
# What a program may take of what the one before it took.
AS_BEFORE = 1.02


@dataclass
class Limit:
    most: float = None
    least: float = None


@dataclass
class Ratio:
    """The median over the rounds of above's `key` to below's."""
    text: str
    above: str
    below: str
    key: str = "seconds"
    below_key: str = ""  # where it is another
    limit: Limit = None
    if_disk_carries: bool = False


@dataclass
class Bound:
    """Of the `key` of a side that is farthest on the wrong side of the limit."""
    text: str
    side: str
    key: str
    unit: float
    limit: Limit


@dataclass
class Comparison:
    name: str
    sides: list
    ratios: list
    bounds: list = field(default_factory=list)

    def prepare(self):
        for side in self.sides:
            if not side.ours:
                yield from side.prepare()

    def peers(self):
        return {side.name: side.about() for side in self.sides if not side.ours}

    def unjudged(self, ratio, runs):
        """Why the limit says nothing of these runs; "" where it does."""
        if not ratio.if_disk_carries:
            return ""
        rates = [run["bytes_per_second"] for run in runs[Disk.NAME] if run]
        if not rates:
            return "what the disk could carry was not measured"
        needed = statistics.median(
            on_disk["moved_bytes"] / in_memory["seconds"]
            for on_disk, in_memory in zip(runs[ratio.above], runs[ratio.below])
            if on_disk and in_memory)
        has = statistics.median(rates)
        if needed <= has:
            return ""
        return f"the traffic needs {needed / 1e9:.2f} GB/s, and the disk gave {has / 1e9:.2f}"


def nvme(work, device, host):
    return ["--offload", "nvme", "--swap", work.path("swap"), "--device-memory", device,
            "--host-memory", host]


def gpt2_124m(args, micro_batch=4, layers=12):
    if args.tiny:
        return Shape(layers // 6, 64, 2, micro_batch, vocabulary=512, seq_len=64)
    return Shape(layers, 768, 12, micro_batch)


def gpt2_355m(args):
    return Shape(3, 64, 2, 1, vocabulary=512, seq_len=64) if args.tiny else Shape(24, 1024, 16, 1)


def gpt2_xl(args):
    return Shape(4, 64, 2, 1, vocabulary=512, seq_len=64) if args.tiny else Shape(48, 1600, 25, 1)


def memory_124m(args, work):
    shape = gpt2_124m(args)
    return Comparison(
        "memory-124m", [Spillway(work, "in memory", shape, IN_MEMORY),
                        PyTorch(work, shape)],
        [Ratio("Spillway / PyTorch, seconds", "in memory", "PyTorch", limit=Limit(most=1.0)),
         Ratio("Spillway / PyTorch, resident", "in memory", "PyTorch", "resident_bytes")])


def other_families(args, work):
    sides, ratios = [], []
    for name, shape in families(args.tiny).items():
        peer = PyTorch(work, shape, name=f"{name}, PyTorch")
        sides += [Spillway(work, name, shape, IN_MEMORY), peer]
        ratios += [Ratio(f"{name}: Spillway / PyTorch, seconds", name, peer.name, limit=Limit(most=NOISE)),
                   Ratio(f"{name}: Spillway / PyTorch, resident", name, peer.name, "resident_bytes")]
    return Comparison("families", sides, ratios)


def compute_124m(args, work):
    shape = gpt2_124m(args)
    without = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI"}
    sides = [Spillway(work, f"in {compute}", shape, IN_MEMORY + ["--compute", compute],
                      environment=without) for compute in ("fp32", "bf16")]
    return Comparison(
        "compute-124m", [*sides, PyTorch(work, shape, fp32=True, environment=without),
                         PyTorch(work, shape, environment=without)],
        [Ratio("Spillway in fp32 / PyTorch in fp32", "in fp32", "PyTorch, fp32",
               limit=Limit(most=1.05)),
         Ratio("PyTorch's bf16 / Spillway in fp32", "PyTorch", "in fp32", limit=Limit(least=2.2)),
         Ratio("Spillway in bf16 / in fp32", "in bf16", "in fp32")])


def nvme_124m(args, work):
    shape = gpt2_124m(args)
    flags = nvme(work, "512MiB", "512MiB")
    sides = [Disk(work), Spillway(work, "in memory", shape, IN_MEMORY),
             Spillway(work, "on NVMe", shape, flags),
             Spillway(work, "in memory, clipped", shape, IN_MEMORY, clip=1.0),
             Spillway(work, "on NVMe, clipped", shape, flags, clip=1.0)]
    peer = DeepSpeed(work, shape, "nvme")
    return Comparison(
        "nvme-124m", [*sides, peer],
        [Ratio("on NVMe / in memory, no clipping", "on NVMe", "in memory", limit=Limit(most=1.2),
               if_disk_carries=True),
         Ratio("on NVMe / in memory, clipping", "on NVMe, clipped", "in memory, clipped",
               limit=Limit(most=1.3), if_disk_carries=True),
         Ratio("DeepSpeed / Spillway on NVMe, seconds", peer.name, "on NVMe",
               limit=Limit(least=1.6)),
         Ratio("DeepSpeed / Spillway on NVMe, resident", peer.name, "on NVMe", "resident_bytes",
               limit=Limit(least=6.0))])


def xl(args, work):
    shape = gpt2_xl(args)
    peer = DeepSpeed(work, shape, "cpu")
    return Comparison(
        "xl", [Spillway(work, "on NVMe", shape, nvme(work, "1GiB", "1GiB")), peer],
        [Ratio("DeepSpeed / Spillway on NVMe, seconds", peer.name, "on NVMe",
               limit=Limit(least=2.0)),
         Ratio("DeepSpeed / Spillway on NVMe, resident", peer.name, "on NVMe", "resident_bytes")],
        [Bound("GiB resident at most, Spillway", "on NVMe", "resident_bytes", 2**30,
               Limit(most=2.5))])


def xl_small(args, work):
    shape = gpt2_xl(args)
    least, more = "256 MiB + 512 MiB", "1 GiB + 1 GiB"
    return Comparison(
        "xl-small", [Spillway(work, least, shape, nvme(work, "256MiB", "512MiB")),
                     Spillway(work, more, shape, nvme(work, "1GiB", "1GiB"))],
        [Ratio("the least memory / more, seconds", least, more, limit=Limit(most=1.4))],
        [Bound("GiB resident at most, in the least memory", least, "resident_bytes", 2**30,
               Limit(most=1.5))])


def lora_xl(args, work):
    shape = gpt2_xl(args)
    lora, full = "adapters, 256 MiB + 512 MiB", "all of it, 1 GiB + 1 GiB"
    adapters = ["--lora-r", "16", "--lora-alpha", "32", "--lora-targets", "c_attn,attn.c_proj"]
    return Comparison(
        "lora-xl", [Spillway(work, lora, shape, nvme(work, "256MiB", "512MiB") + adapters, weights=True),
                    Spillway(work, full, shape, nvme(work, "1GiB", "1GiB"), weights=True)],
        [Ratio("all of it / adapters, seconds", full, lora),
         Ratio("all of it / adapters, bytes moved", full, lora, "moved_bytes"),
         Ratio("predicted / measured, adapters", lora, lora, "predicted_seconds", "seconds",
               Limit(least=0.9, most=1.1))],
        [Bound("GiB resident at most, adapters", lora, "resident_bytes", 2**30, Limit(most=1.1))])


def budgets_355m(args, work):
    shape = gpt2_355m(args)
    names, sides = [], []
    for host in ("512MiB", "1GiB", "2GiB", "4GiB", "8GiB"):
        names.append(f"host {host}")
        sides.append(Spillway(work, names[-1], shape, ["--offload", "auto", "--swap",
                                                       work.path("swap"), "--device-memory", "1GiB",
                                                       "--host-memory", host]))
    names.append("in memory")
    sides.append(Spillway(work, names[-1], shape, IN_MEMORY))
    return Comparison("budgets-355m", sides,
                      [Ratio(f"{more} / {less}", more, less, limit=Limit(most=NOISE))
                       for less, more in zip(names[:-2], names[1:-1])] +
                      [Ratio(f"{names[-2]} / in memory", names[-2], names[-1],
                             limit=Limit(most=NOISE))])


def layers(args, work):
    flags = nvme(work, "512MiB", "512MiB")
    once, twice = gpt2_124m(args), gpt2_124m(args, layers=24)
    return Comparison(
        "layers", [Spillway(work, f"{once.layers} layers", once, flags),
                   Spillway(work, f"{twice.layers} layers", twice, flags)],
        [Ratio("twice the layers, seconds", f"{twice.layers} layers", f"{once.layers} layers",
               limit=Limit(most=2.05)),
         Ratio("twice the layers, resident", f"{twice.layers} layers", f"{once.layers} layers",
               "resident_bytes")])


def accumulation(args, work):
    shape, flags = gpt2_124m(args, micro_batch=1), nvme(work, "512MiB", "512MiB")
    names = ["--accumulate 1", "--accumulate 8"]
    # What is under way when a step ends counts for the next: over many short ones that evens out.
    return Comparison(
        "accumulation", [Spillway(work, names[0], shape, flags, times_steps=6),
                         Spillway(work, names[1], shape, flags, accumulate=8)],
        [Ratio("bytes moved a step, 8 / 1", names[1], names[0], "moved_bytes",
               limit=Limit(most=SAME_BYTES)),
         Ratio("the same by the kernel's count", names[1], names[0], "kernel_moved_bytes"),
         Ratio("seconds a step, 8 / 1", names[1], names[0])])


def waiting(args, work):
    shape, flags = gpt2_124m(args), nvme(work, "512MiB", "512MiB")
    ours, sleep, spin = "as it is", "sleeping at once", "spinning on and on"
    one = "one thread, the other core free"
    first, last = "the mover before compute", "updates behind compute"
    passive = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}
    return Comparison(
        "waiting", [Spillway(work, ours, shape, flags),
                    Spillway(work, sleep, shape, flags, environment=passive),
                    Spillway(work, spin, shape, flags, environment={"OMP_WAIT_POLICY": "ACTIVE"}),
                    Spillway(work, one, shape, [*flags, "--threads", "1"]),
                    Spillway(work, first, shape, flags, nice={"spill-mover": -10}),
                    Spillway(work, last, shape, flags, nice={"spill-worker": 10})],
        [Ratio(f"as it is / {sleep}, seconds", ours, sleep, limit=Limit(most=NOISE)),
         Ratio(f"as it is / {spin}, seconds", ours, spin, limit=Limit(most=NOISE)),
         *(Ratio(f"as it is / {other}, seconds", ours, other, limit=Limit(most=NOISE))
           for other in (one, first, last)),
         Ratio(f"as it is / {one}, seconds the disk was busy", ours, one, "disk_seconds")])


def adam(args, work):
    peer = FusedAdam(work)
    return Comparison(
        "adam", [BenchAdam(work), peer],
        [Ratio("bench adam / PyTorch's fused AdamW, seconds", BenchAdam.NAME, peer.name,
               limit=Limit(most=1.0))],
        [Bound("of a plain copy's rate, at least", BenchAdam.NAME, "of_a_copy", 1,
               Limit(least=0.9))])


def before(args, work):
    shape, flags = gpt2_124m(args), nvme(work, "512MiB", "512MiB")
    sides = [Spillway(work, "now", shape, flags),
             Spillway(work, "before", shape, flags, program=args.before)]
    ratios = [Ratio("now / before, seconds", "now", "before", limit=Limit(most=AS_BEFORE)),
              Ratio("now / before, bytes moved", "now", "before", "moved_bytes")]
    for op in ("read", "write"):
        sides += [Disk(work, f"{op}, now", op), Disk(work, f"{op}, before", op, args.before)]
        ratios.append(Ratio(f"bench io --op {op}, before / now", f"{op}, before", f"{op}, now", "bytes_per_second",
                            limit=Limit(most=AS_BEFORE)))
    return Comparison("before", sides, ratios)


MAKERS = {"memory-124m": memory_124m, "families": other_families, "nvme-124m": nvme_124m, "compute-124m": compute_124m, "xl": xl,
          "xl-small": xl_small, "lora-xl": lora_xl,
          "budgets-355m": budgets_355m,
          "layers": layers, "accumulation": accumulation, "adam": adam, "waiting": waiting, "before": before}


def make(name, args, work):
    return MAKERS[name](args, work)
