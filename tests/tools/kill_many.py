#!/usr/bin/env python3
"""kill -9 many times over, of one process and of a rank of three, at times and at calls that change
files, drawn from a seed: what is resumed ends with the bits of a run never killed, nothing is lost and
nothing is left behind. The cases of kill_test.py and ranks_faults_test.py, until there were so many.

  tests/tools/kill_many.py build/release/spillway [--one 200] [--ranks 100] [--endings 30] [--seed N]

Then so many endings by signals and kill -9, half of one rank's run and half of three, which commits by
time (test_drawn_endings of kill_test.py).

By hand, before a release: docs/measurements.json has the last result. The last line counts."""

import argparse
import os
import sys
import time
import unittest

# Of a round, in which about half as many kills are of one process and a rank's.
ONE_MOMENTS, RANKS_MOMENTS = 30, 30


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program")
    parser.add_argument("--one", type=int, default=200, help="kills of one process")
    parser.add_argument("--ranks", type=int, default=100, help="kills of a rank of three")
    parser.add_argument("--endings", type=int, default=30, help="by signals and kills")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    library = os.path.join(os.path.dirname(os.path.abspath(given.program)),
                           "libspillway_kill_at_call.so")
    if not os.path.exists(library):
        sys.exit(f"{library} is missing: tools/build release spillway_kill_at_call")
    # They read them when they are imported.
    os.environ |= {"SPILLWAY": os.path.abspath(given.program), "SPILLWAY_KILL_AT_CALL": library,
                   "SPILLWAY_KILL_MOMENTS": str(ONE_MOMENTS),
                   "SPILLWAY_RANKS_KILL_MOMENTS": str(RANKS_MOMENTS),
                   "SPILLWAY_ENDINGS": str(given.endings)}
    import kill_test
    import ranks_faults_test
    kinds = [(kill_test, kill_test.KillTest, ("test_same_bits", "test_at_calls_that_change_files"),
              given.one),
             (ranks_faults_test, ranks_faults_test.RanksFaultsTest,
              ("test_killed_at_any_moment",), given.ranks)]
    print(f"seed {given.seed}", flush=True)
    failed = 0
    for module, case, names, wanted in kinds:
        seed = given.seed
        while case.kills < wanted:
            module.SEED, seed, before = seed, seed + 10, case.kills
            result = unittest.TextTestRunner(verbosity=0).run(
                unittest.TestSuite(map(case, names)))
            failed += len(result.failures) + len(result.errors)
            print(f"{case.__name__}, seed {module.SEED}: {case.kills} kills of {wanted}", flush=True)
            if case.kills == before:
                sys.exit("no run was killed")
    if given.endings > 0:
        kill_test.SEED = given.seed
        result = unittest.TextTestRunner(verbosity=0).run(
            unittest.TestSuite([kill_test.EndingsTest("test_drawn_endings")]))
        failed += len(result.failures) + len(result.errors)
        print(f"{kill_test.EndingsTest.endings} endings by signals and kills", flush=True)
    print(f"seed {given.seed}: {kinds[0][1].kills} kills of one process, {kinds[1][1].kills} of a rank "
          f"of three; {failed} cases failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
