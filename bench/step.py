#!/usr/bin/env python3
"""What a training step takes beside its peers and beside itself with other means: one command a comparison.

  bench/step.py nvme-124m                       five rounds, ratios at the end
  bench/step.py memory-124m xl --pairs 7 --json figures.json
  bench/step.py prediction --seed 7             five shapes: predicted, and measured
  bench/step.py before --before OLD/spillway    is this program as fast as that one?
  bench/step.py all --tiny --pairs 1            does the script work here? (figures of no use)

Comparisons:
{names}
`prediction` trains each of its shapes once. Otherwise sides
take turns, in the other direction every other round; a round gives one ratio, and the answer is the
median of the rounds' ratios. A run's figure is the median of its steps but the first two, which warm up,
and the last, which ends with an update that no later step hides. Memory is the highest resident size of the
process (VmHWM); bytes moved are means of the same steps, of metrics.jsonl and beside them of /proc/PID/io.

PyTorch and DeepSpeed are peers that need not be there: in the Python that runs this (or --python) torch and
transformers, and for DeepSpeed also deepspeed, libaio-dev, ninja and a compiler (it builds its operators when
it first runs, which takes minutes). Of bench/deepspeed/*.json each is tried for a few steps, and the fastest is the
peer. A side that does not run is named with the reason, and there is no ratio with it.

Exit code 1 where a ratio is beyond its limit or a side of our own did not run, 0 otherwise, also when a peer is
missing. Needs disk below --work: 6 GB, xl 40 GB.
"""
import argparse
import json
import os
import platform
import shutil
import statistics
import sys

sys.dont_write_bytecode = True

from step_sides import comparisons, prediction, spillway  # noqa: E402
from step_sides.side import MOST_OTHERS, DidNotRun, Work  # noqa: E402

FEW_PAIRS = 5
ABOUT = comparisons.ABOUT | {prediction.NAME: prediction.ABOUT}


def measure(sides, pairs):
    """{side: [run or None a round]}, {side: why it did not run}."""
    runs, absent = {side.name: [] for side in sides}, {}
    for pair in range(pairs):
        for side in sides if pair % 2 == 0 else list(reversed(sides)):
            run = None
            if side.name not in absent:
                try:
                    run = side.run()
                except DidNotRun as error:
                    absent[side.name] = str(error)
                    print(f"round {pair + 1}  {side.name}: did not run: {error}", flush=True)
            runs[side.name].append(run)
            if run:
                print(f"round {pair + 1}  {side.name}: {run['text']}", flush=True)
    return runs, absent


def value(run, key):
    return run[key] if run else None


def ratios_of(ratio, runs):
    """Of the rounds in which both sides ran."""
    found = []
    for above, below in zip(runs[ratio.above], runs[ratio.below]):
        a, b = value(above, ratio.key), value(below, ratio.below_key or ratio.key)
        if a is not None and b:
            found.append(a / b)
    return found


def judged(limit, figure):
    if limit is None:
        return None, ""
    holds = ((limit.most is None or figure <= limit.most) and
             (limit.least is None or figure >= limit.least))
    word = " and ".join(f"at {side} {value:g}" for side, value in
                        (("least", limit.least), ("most", limit.most)) if value is not None)
    return holds, f"  ({word}: {'holds' if holds else 'MISSED'})"


def summarize(comparison, runs, absent, judge):
    """Prints the medians, ratios and limits; a JSON object of it all."""
    found = {"sides": {}, "ratios": [], "limits": [], "did_not_run": absent}
    print(f"\n{comparison.name}: medians")
    for name, each in runs.items():
        each = [run for run in each if run]
        if not each:
            print(f"  {name}: did not run: {absent[name]}")
            continue
        found["sides"][name] = {"runs": each}
        if "seconds" not in each[0]:
            rates = [run["bytes_per_second"] for run in each]
            print(f"  {name}: {statistics.median(rates) / 1e9:.2f} GB/s ({min(rates) / 1e9:.2f} to "
                  f"{max(rates) / 1e9:.2f})")
            continue
        seconds = [run["seconds"] for run in each]
        resident = statistics.median(run["resident_bytes"] for run in each)
        print(f"  {name}: {statistics.median(seconds):.3f} s a step ({min(seconds):.3f} to "
              f"{max(seconds):.3f}, {len(each)} runs), {resident / 2**30:.2f} GiB resident"
              + (f"; ended with: {absent[name]}" if name in absent else ""))
        found["sides"][name] |= {"seconds": statistics.median(seconds), "resident_bytes": resident}
    for ratio in comparison.ratios:
        each = ratios_of(ratio, runs)
        if not each:
            missing = ratio.above if ratio.above in absent else ratio.below
            print(f"  no ratio '{ratio.text}': {missing} did not run")
            continue
        middle = statistics.median(each)
        reason = comparison.unjudged(ratio, runs) if judge else "a shape to try the script with"
        holds, words = (None, f"  (not judged: {reason})") if ratio.limit and reason else \
            judged(ratio.limit, middle)
        print(f"  {middle:.3f}  {ratio.text}{words}\n         of "
              f"{' '.join(f'{one:.3f}' for one in each)}")
        found["ratios"].append({"name": ratio.text, "median": middle, "rounds": each, "holds": holds})
    for bound in comparison.bounds if judge else []:
        each = [run[bound.key] for run in runs[bound.side] if run]
        if each:
            worst = max(each) if bound.limit.most is not None else min(each)
            holds, words = judged(bound.limit, worst / bound.unit)
            print(f"  {worst / bound.unit:.3f}  {bound.text}{words}")
            found["limits"].append({"name": bound.text, "figure": worst, "holds": holds})
    return found


def parse(argv):
    names = "".join(f"  {name:14}{about}\n" for name, about in ABOUT.items())
    parser = argparse.ArgumentParser(description=__doc__.replace("{names}", names.rstrip("\n")),
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME", choices=[*ABOUT, "all"])
    parser.add_argument("--program", default="build/release/spillway")
    parser.add_argument("--work", default="out/step", help="folder on the disk to measure; emptied at the end")
    parser.add_argument("--pairs", type=int, default=5, help="rounds (5)")
    parser.add_argument("--steps", type=int, default=7, help="steps a run, at least 4 (7)")
    parser.add_argument("--seed", type=int, default=1, help="of prediction's shapes and budgets (1)")
    parser.add_argument("--python", default=sys.executable, help="of the peers")
    parser.add_argument("--before", metavar="PROGRAM", help="another spillway, for `before`")
    parser.add_argument("--without", default="", help="peers to leave out: pytorch,deepspeed")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds a run may take (1800)")
    parser.add_argument("--tiny", action="store_true", help="a shape of seconds, to try the script with")
    parser.add_argument("--json", metavar="FILE", help="every run, ratio and limit")
    args = parser.parse_args(argv)
    if args.steps < 4 or args.pairs < 1:
        parser.error("--steps at least 4 and --pairs at least 1")
    unknown = set(filter(None, args.without.split(","))) - {"pytorch", "deepspeed"}
    if unknown:
        parser.error(f"--without {','.join(sorted(unknown))}: there are pytorch and deepspeed")
    if "before" in args.names and not args.before:
        parser.error("before: --before names the program to compare with")
    if args.json:
        try:
            open(args.json, "a", encoding="utf-8").close()  # now, and not after an hour
        except OSError as error:
            parser.error(f"--json {args.json}: {error.strerror}")
    return args


def run_comparison(name, args, work):
    """What JSON says of it, whether it failed, and how many processors others kept busy in its runs."""
    comparison = comparisons.make(name, args, work)
    for line in comparison.prepare():
        print(f"  {line}", flush=True)
    runs, absent = measure(comparison.sides, args.pairs)
    result = summarize(comparison, runs, absent, judge=not args.tiny)
    result["peers"] = comparison.peers()
    failed = any(each["holds"] is False for each in result["ratios"] + result["limits"])
    failed |= any(side.ours and side.name in absent for side in comparison.sides)
    return result, failed, [run["others_cores"] for each in runs.values() for run in each
                            if run and "others_cores" in run]


def judge_predictions(_, args, work):
    """As run_comparison: of one run a shape."""
    result = prediction.measure(args, work)
    return result, bool(result["did_not_run"]) or result["holds"] is False, result["others_cores"]


def main():
    args = parse(sys.argv[1:])
    names = [name for name in ABOUT if name != "before" or args.before] if "all" in args.names else args.names
    found = {"machine": {"kernel": platform.release(), "cpus": len(os.sched_getaffinity(0))},
             "spillway": spillway.version(args.program), "steps": args.steps, "tiny": args.tiny,
             "comparisons": {}}
    failed = False
    work = Work(args)
    try:
        for name in names:
            print(f"{name}: {ABOUT[name]}", flush=True)
            compare = judge_predictions if name == prediction.NAME else run_comparison
            found["comparisons"][name], failed_here, others = compare(name, args, work)
            failed |= failed_here
            if others and statistics.median(others) > MOST_OTHERS:
                print(f"  others kept {statistics.median(others):.1f} processors busy meanwhile: figures "
                      "that count take a quiet machine")
            if args.pairs < FEW_PAIRS and name != prediction.NAME:
                print(f"  {args.pairs} rounds say little: figures that count take {FEW_PAIRS}")
            print(flush=True)
    except KeyboardInterrupt:
        sys.exit("stopped: the run under way was ended, and nothing is left below --work")
    finally:
        shutil.rmtree(args.work, ignore_errors=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
