// Which of several ranks' failures ended a run. The ranks tell each other in the table of rank 0,
// which answers as long as that one lives, whatever became of the conversations between them.
#pragma once

#include "absl/status/status.h"
#include "engine/ranks/rank_store.h"

namespace spillway {

// Whether `own` says only that other ranks are gone, or do not answer.
bool SeesOthersGone(const absl::Status& own);

// `own`, or if it only sees others gone, "stopped because " and its message: the rank that is gone
// reports the reason.
absl::Status AsConsequence(const absl::Status& own);

// Whether a rank has reported a failure; also true if rank 0 is gone, which has the table.
bool SomebodyFailed(RankStore& store);

// AsConsequence(own) if this rank of `world` reports first; otherwise BecauseOf the first one. A
// rank that only sees others gone waits some seconds for a rank that knows the reason: if rank 0
// waits for rank 2, which waits for rank 1, which hangs, then rank 2 knows. The table's answers
// take additional time.
absl::Status AgreeOnFirstFailure(RankStore& store, int rank, int world, const absl::Status& own);

}  // namespace spillway
