// The processors that this process may use, and their division.
#pragma once

namespace spillway {

// Cores in the affinity mask (taskset, cpuset, SLURM).
int AllowedCores();
// The lowest CPU quota of our cgroup and its ancestors, in cores; 0: none.
double CgroupCores();
// The smaller of both limits, at least 1.
int UsableCores();

// The number of workers that check, round and update tiles beside `compute_threads`, in a process
// with `cores`: the cores that compute leaves, or an eighth of the cores, shared with compute, if
// it leaves none; within bounds. Results do not depend on it.
int UpdateWorkersFor(int cores, int compute_threads);

}  // namespace spillway
