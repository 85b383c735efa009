// Commits of a run's state, of one rank or several. Compute thread only.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "engine/ranks/collectives.h"
#include "engine/run/run_state.h"
#include "engine/run/run_storage.h"
#include "swap/mover/swap_manager.h"

namespace spillway {

// Waits until all ranks have made the copy under way (--persist), and removes older ones. If a rank
// fails, its reason is returned there, and BecauseOf it (engine/ranks/collectives.h) on the others.
// `world`: as for StartRunCommit.
absl::Status AwaitCopies(RunStorage& storage, Collectives* world);

// Waits until another commit may begin: the previous one is complete, or lost, and copied
// (--persist), since the new one replaces it. A copy that fails is logged and otherwise ignored.
// `world`: as for StartRunCommit.
absl::Status AwaitEarlierCommit(RunStorage& storage, SwapManager& manager, Collectives* world);

// Begins a commit of `state`, which continues beside the next step. Each of several ranks begins
// its own: `world` is the compute threads' conversation, `commits` that of the threads that make
// commits durable; null with one rank. Sets the commit's id in `state`. `durable` is called on the
// swap manager's thread when the commit is complete and its copy has begun. `storage` and `commits`
// outlive that. REQUIRES: AwaitEarlierCommit.
absl::Status StartRunCommit(RunStorage& storage, SwapManager& manager, Collectives* world,
                            Collectives* commits, RunState& state, std::function<void()> durable);

}  // namespace spillway
