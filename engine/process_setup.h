// What a program that trains does before anything else in main.
#pragma once

namespace spillway {

// Makes LibTorch's OpenMP threads sleep instead of spin while they wait. Spinning is
// for programs that have every core to themselves; here workers and the mover run
// beside the compute threads, and one spinning thread per barrier costs several times
// the step. OpenMP reads its environment when it is loaded, so this starts the program
// again with OMP_WAIT_POLICY=PASSIVE, unless the variable is set already.
// Returns where nothing had to be, or could be, done.
void SleepingOpenMpThreads(char** argv);

}  // namespace spillway
