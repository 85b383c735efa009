// The meeting of a run's ranks: rank 0 listens and has a table for all; the others connect to it
// and publish there the addresses where they listen for further conversations. Compute thread,
// unless stated otherwise.
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

  // Waits until all ranks have come. Errors as for RankConnection::Open.
  absl::Status Meet();

  // The table. REQUIRES: Meet. Any thread.
  RankStore& store() { return *store_; }

  // Sockets to all members for the conversation `name`, in their order, invalid for this rank: it
  // connects to lower ranks and accepts connections of higher ones. kUnavailable if a rank has
  // failed meanwhile. REQUIRES: Meet was OK.
  absl::StatusOr<std::vector<UniqueFd>> ConnectMembers(const std::string& name,
                                                       const std::vector<int>& members);
  // All conversations are connected: further connections can only come from a rank that was started
  // twice, and are refused.
  void EndConnecting();

  // The failure that ended the run (AgreeOnFirstFailure). Takes some seconds if rank 0 cannot be
  // reached. Any thread.
  absl::Status FirstFailure(const absl::Status& own);
  // Rank 0, which has the table, leaves last.
  absl::Status Leave();

 private:
  // Opens rank 0's side, or that of another rank.
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
  RankZeroPlace rank_zero_;  // on the other ranks
  bool failed_ = false;      // the meeting's outcome has the reason
  RankTable table_;          // on rank 0
  std::unique_ptr<RemoteRankStore> remote_;
  RankStore* store_ = nullptr;  // to either of these
  // Rank 0's listener, and this rank's own for conversations, if it has one.
  std::unique_ptr<RankListener> listener_, members_;
};

}  // namespace spillway
