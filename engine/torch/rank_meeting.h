// Where the ranks of a run meet: rank 0 listens and keeps a table for all; the others connect to it
// and tell there where they listen themselves, for the conversations that follow. Compute thread,
// but for what says otherwise.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/ranks/launch_environment.h"
#include "engine/ranks/rank_call.h"
#include "engine/ranks/rank_listener.h"
#include "engine/ranks/rank_store.h"
#include "engine/torch/agent_store.h"
#include "io/base/unique_fd.h"

namespace spillway {

class RankMeeting {
 public:
  RankMeeting(const Launch& launch, double timeout_seconds);

  // Waits until all ranks have come. Errors as of RankConnection::Open.
  absl::Status Meet();

  // The table. REQUIRES: Meet. Any thread.
  RankStore& store() { return *store_; }

  // For a conversation of that name sockets to all members, in their order, an invalid one for this
  // rank: it connects to those below it and is connected to by those above. kUnavailable where a
  // rank has failed meanwhile. REQUIRES: Meet was OK.
  absl::StatusOr<std::vector<UniqueFd>> ConnectMembers(const std::string& name,
                                                       const std::vector<int>& members);
  // All conversations are connected: nobody but a rank that is started twice has anything to look
  // for here any more.
  void EndConnecting();

  // What ended the run (AgreeOnFirstFailure). Where the way to rank 0 is cut that takes some
  // seconds. Any thread.
  absl::Status FirstFailure(const absl::Status& own);
  // Rank 0, which has the table, leaves last.
  absl::Status Leave();

 private:
  // Rank 0's side, and that of the others.
  absl::Status Open();
  absl::Status Join();
  absl::StatusOr<RankAddress> MasterAddress(int port) const;
  absl::StatusOr<UniqueFd> Bind();
  RankListenerOptions ListenerOptions(RankStore* store) const;
  absl::Status ListenForMembers(const RankAddress& own);
  void WarnOfNoSecret() const;

  absl::Status AwaitAll();
  absl::StatusOr<std::string> MissingRanks();
  absl::StatusOr<std::string> Outcome();

  absl::StatusOr<UniqueFd> Call(const RankZeroPlace& place, int rank,
                                const std::string& conversation) const;
  absl::StatusOr<RankZeroPlace> PlaceOfRank(int rank);
  absl::Status OthersGoOn();

  const Launch launch_;
  const double timeout_seconds_;
  const RankIdentity identity_;
  RankWait wait_;
  RankZeroPlace rank_zero_;  // for the others
  bool failed_ = false;      // the meeting's outcome says why
  RankTable table_;          // rank 0's
  std::unique_ptr<RemoteRankStore> remote_;
  RankStore* store_ = nullptr;  // either of them
  // Rank 0's, and that of this rank's conversations where it has one of its own.
  std::unique_ptr<RankListener> listener_, members_;
};

}  // namespace spillway
