// Process set-up at program start and before LibTorch is loaded.
#pragma once

#include <string>

namespace spillway {

// The path of the running program, links resolved. Without /proc it is the path by which it was
// started, or "" if that is relative and the working directory has changed.
std::string ProgramPath();

// Opens /dev/null for standard input, output or error if the parent closed it: otherwise a file of
// ours would get that descriptor, and log lines would go into it.
void OpenStandardStreams();

// Makes a write beyond `ulimit -f` fail (EFBIG, reported with the file's name) instead of ending
// the process (SIGXFSZ). An existing handler stays.
void FailBeyondFileSizeLimit();

// Makes a write to a pipe or socket without a reader fail (EPIPE) instead of ending the process
// (SIGPIPE); and makes a background process write to a terminal whose `stty tostop` would stop it
// (SIGTTOU). A write to a closed terminal fails by itself (EIO). An existing handler stays.
void FailWritesToNobody();

// Makes LibTorch's OpenMP threads spin only briefly while they wait, and then sleep. Long spinning
// suits programs that own every core; here workers and the mover run beside the compute threads.
// Most waits are for a thread that is nearly done, and sleeping at once costs a fifth of a step
// (docs/BENCHMARKS.md, `waiting`). Sets OMP_WAIT_POLICY=PASSIVE and, for GNU's OpenMP,
// GOMP_SPINCOUNT (unless set), which OpenMP reads when it is loaded. Returns false, and changes
// nothing, if OMP_WAIT_POLICY was set already.
bool SetOpenMpWaits();

// Makes MKL's products give the same bits for the same numbers wherever in memory they are
// (MKL_CBWR=AUTO: with the same instructions as before), with exactly the configured number of
// threads (MKL_DYNAMIC=FALSE). The user's settings stay. MKL reads both at its first product.
void SetMklRepeats();

// Does both for a program linked with LibTorch, whose OpenMP is loaded before main: restarts the
// program if SetOpenMpWaits changed anything. Returns if no restart was necessary or possible.
void SleepingOpenMpThreads(char** argv);

}  // namespace spillway
