// On which of a machine's memory nodes (NUMA: as many as it has sockets, or more) memory lies.
#pragma once

#include <sched.h>

#include <cstdint>
#include <string>
#include <vector>

namespace spillway {

// The nodes of those processors, ascending, as `nodes_directory` tells them: a folder nodeN for
// each, with a file cpulist ("0-3,8"). Empty where it tells none.
std::vector<int> NodesOf(const cpu_set_t& processors, const std::string& nodes_directory);

// Places pages that nobody has touched yet, of `data` (at a page's begin) on, near the processors
// that this process may use (affinity). Of one node nothing is to be done: a page comes from the
// node of who touches it. With several, everything in it is read and written from all of them, by
// threads that move about, and would otherwise lie on the node of the one thread that filled it or
// pinned it: pages are dealt out in turn, and the nodes' bandwidths add up. A wish: where it can't
// be had memory is only slower.
void PlaceNearProcessors(char* data, uint64_t size_bytes);

// The part of that which deals out.
void DealOut(char* data, uint64_t size_bytes, const std::vector<int>& nodes);

}  // namespace spillway
