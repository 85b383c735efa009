// Commits of a run's state, of one rank or several. Compute thread only.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "engine/ranks/collectives.h"
#include "engine/run/run_state.h"
#include "engine/run/run_storage.h"
#include "swap/mover/swap_manager.h"

namespace spillway {

// Until the copy under way is made (--persist), by all ranks; older ones go then. One that some
// rank could not make is none: its reason there, BecauseOf it (engine/ranks/collectives.h) on the
// others. `world`: as of StartRunCommit.
absl::Status AwaitCopies(RunStorage& storage, Collectives* world);

// Until a further commit may begin: that before is done, or lost, and copied (--persist), since the
// further one replaces it. A copy that could not be made costs that copy, and is said. `world`: as
// of StartRunCommit.
absl::Status AwaitEarlierCommit(RunStorage& storage, SwapManager& manager, Collectives* world);

// Begins a commit of `state`, which goes on beside the next step. Of several ranks each begins its
// own: `world` is the compute threads' conversation, `commits` that of the threads which make
// commits durable; null with one rank. `state` gets the commit's id. `durable` is called when the
// commit is one, on the swap manager's thread; its copy has begun then. `storage` and `commits`
// outlive that. REQUIRES: AwaitEarlierCommit.
absl::Status StartRunCommit(RunStorage& storage, SwapManager& manager, Collectives* world,
                            Collectives* commits, RunState& state, std::function<void()> durable);

}  // namespace spillway
