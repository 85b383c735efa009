// What the program does before anything else, and before it loads LibTorch.
#pragma once

#include <string>

namespace spillway {

// The path of the running program, links resolved; without /proc that which it was started by, or
// empty where that is relative and its folder was left since.
std::string ProgramPath();

// Opens /dev/null as standard input, output or error where the process began without: a file of
// its own would get that number, and what is logged.
void OpenStandardStreams();

// Makes a write beyond `ulimit -f` fail (EFBIG, which is said with the file's name), where by
// default it ends the process (SIGXFSZ). A handler that there is stays.
void FailBeyondFileSizeLimit();

// Makes a write to a pipe or socket that nobody reads any more fail (EPIPE), where by default it
// ends the process (SIGPIPE); and makes a background process write to a terminal whose `stty
// tostop` would stop it (SIGTTOU). A write to a terminal that is gone fails by itself (EIO). A
// handler that there is stays.
void FailWritesToNobody();

// Makes LibTorch's OpenMP threads sleep where they wait long, and spin only a moment before.
// Spinning on and on is for programs that have every core to themselves; here workers and the
// mover run beside the compute threads. But most waits are for a neighbour that is nearly done,
// and sleeping through those costs a fifth of a step (docs/BENCHMARKS.md, `waiting`). OpenMP reads
// its environment when it is loaded, and this sets OMP_WAIT_POLICY=PASSIVE there and, of GNU's
// OpenMP, GOMP_SPINCOUNT (where that is not set). Returns false where OMP_WAIT_POLICY was set
// already, and nothing was changed.
bool SetOpenMpWaits();

// Makes MKL, which computes LibTorch's products, give the same bits for the same numbers wherever
// in memory they lie (MKL_CBWR=AUTO: by the same instructions as before), with no fewer threads
// than it is told (MKL_DYNAMIC=FALSE). What the user has set stays. MKL reads both at its first
// product.
void SetMklRepeats();

// Both for a program that is linked with LibTorch, so that OpenMP is loaded before main:
// starts the program again where SetOpenMpWaits changed anything. Returns where nothing had to
// be, or could be, done.
void SleepingOpenMpThreads(char** argv);

}  // namespace spillway
