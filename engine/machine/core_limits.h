// What processors this process may use, and for what.
#pragma once

namespace spillway {

// By the affinity mask (taskset, cpuset, SLURM).
int AllowedCores();
// By the least quota of our cgroup and those above it; 0: none.
double CgroupCores();
// Both together, at least 1.
int UsableCores();

// How many workers check, round and update tiles beside `compute_threads`, of one process that has
// `cores`: as many as compute leaves, or where it leaves none an eighth of the cores, which it has
// to share; within bounds. Numbers don't depend on it.
int UpdateWorkersFor(int cores, int compute_threads);

}  // namespace spillway
