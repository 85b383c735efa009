// What a program that trains does before anything else in main.
#pragma once

namespace spillway {

// Makes LibTorch's OpenMP threads sleep where they wait long, and spin only a moment before.
// Spinning on and on is for programs that have every core to themselves; here workers and the
// mover run beside the compute threads. But most waits are for a neighbour that is nearly done,
// and sleeping through those costs a fifth of a step (docs/BENCHMARKS.md, `waiting`). OpenMP reads
// its environment when it is loaded, so this starts the program again with
// OMP_WAIT_POLICY=PASSIVE and, of GNU's OpenMP, GOMP_SPINCOUNT (where that is not set), unless
// OMP_WAIT_POLICY is set already.
// Returns where nothing had to be, or could be, done.
void SleepingOpenMpThreads(char** argv);

}  // namespace spillway
