// Placement of memory on a machine's NUMA nodes, of which it has one a socket, or more.
#pragma once

#include <sched.h>

#include <cstdint>
#include <string>
#include <vector>

namespace spillway {

// The nodes of the given processors, ascending. `nodes_directory` has a folder nodeN for each node,
// with a file cpulist ("0-3,8"). Empty where the directory lists no node.
std::vector<int> NodesOf(const cpu_set_t& processors, const std::string& nodes_directory);

// Places the untouched pages from `data` (the begin of a page) on near the processors that this
// process may use (affinity). With one node there is nothing to do: a page comes from the node of
// the thread that touches it first. With several nodes, threads on all of them read and write the
// memory, which would otherwise lie on the node of the one thread that filled or pinned it. So
// pages are dealt to the nodes round robin, and the nodes' bandwidths add up. Best effort: on
// failure memory is only slower.
void PlaceNearProcessors(char* data, uint64_t size_bytes);

// Deals the pages to `nodes` round robin: the second half of PlaceNearProcessors.
void DealOut(char* data, uint64_t size_bytes, const std::vector<int>& nodes);

}  // namespace spillway
