// Which of several ranks' failures ended a run. The ranks tell each other in c10d's store, which
// answers as long as rank 0 lives, whatever became of the conversations between them.
#pragma once

#include "absl/status/status.h"
#include "torch/csrc/distributed/c10d/Store.hpp"

namespace spillway {

// Whether `own` says no more than that others are gone, or don't answer.
bool SeesOthersGone(const absl::Status& own);

// `own`, or where it only sees others gone, "stopped because " and that: whoever is gone is to say
// why.
absl::Status AsConsequence(const absl::Status& own);

// Whether a rank has told of a failure. Throws what the store does where it is gone.
bool SomebodyFailed(c10d::Store& store);

// AsConsequence(own) where this rank is the first to tell; otherwise BecauseOf the first. A rank
// that only sees others gone first gives the one that knows why some seconds to say it: where rank
// 0 waits for rank 2 and that one for rank 1, which hangs, it is rank 2 that knows. Blocks for as
// long as the store does not answer.
absl::Status AgreeOnFirstFailure(c10d::Store& store, int rank, const absl::Status& own);

}  // namespace spillway
