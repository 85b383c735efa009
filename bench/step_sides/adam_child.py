"""Times PyTorch's fused AdamW on fp32 parameters that lie in memory, as `spillway bench adam` does ours."""
import argparse
import sys
import time

import child


def parser():
    found = argparse.ArgumentParser()
    for name in ("parameters", "threads", "repeats"):
        found.add_argument("--" + name, type=int, required=True)
    found.add_argument("--result", required=True)
    return found


def update(args):
    import torch

    torch.set_num_threads(args.threads)
    weights = torch.nn.Parameter(torch.full((args.parameters,), 0.5))
    weights.grad = torch.full((args.parameters,), 1e-3)
    optimizer = torch.optim.AdamW([weights], lr=1e-5, fused=True)
    seconds = []
    for _ in range(args.repeats):
        begin = time.perf_counter()
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    return {"seconds": seconds, "version": f"torch {torch.__version__}"}


if __name__ == "__main__":
    sys.exit(child.report(parser().parse_args(), update))
