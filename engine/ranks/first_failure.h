// Which of several ranks' failures ended a run. The ranks tell each other in the table of rank 0,
// which answers as long as that one lives, whatever became of the conversations between them.
#pragma once

#include "absl/status/status.h"
#include "engine/ranks/rank_store.h"

namespace spillway {

// Whether `own` says no more than that others are gone, or don't answer.
bool SeesOthersGone(const absl::Status& own);

// `own`, or where it only sees others gone, "stopped because " and that: whoever is gone is to say
// why.
absl::Status AsConsequence(const absl::Status& own);

// Whether a rank has told of a failure; also true where rank 0 is gone, which has the table.
bool SomebodyFailed(RankStore& store);

// AsConsequence(own) where this rank of `world` is the first to tell; otherwise BecauseOf the
// first. A rank that only sees others gone first gives the one that knows why some seconds to say
// it: where rank 0 waits for rank 2 and that one for rank 1, which hangs, it is rank 2 that knows.
// Takes as long besides as the table takes to answer.
absl::Status AgreeOnFirstFailure(RankStore& store, int rank, int world, const absl::Status& own);

}  // namespace spillway
