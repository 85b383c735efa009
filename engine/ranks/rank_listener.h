// Where other ranks connect to this one. A thread of its own accepts connections, lets in those
// that prove that they are ranks of this run (rank_guest.h), and answers for the table where this
// rank has it. Whatever else connects costs a descriptor and some hundred bytes, for a few seconds:
// there is a most of such strangers, of whom the first goes where another one comes, and running
// out of descriptors makes newcomers wait.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "engine/ranks/rank_guest.h"
#include "engine/ranks/rank_socket.h"
#include "engine/ranks/rank_store.h"
#include "io/base/mutex.h"
#include "io/base/unique_fd.h"

namespace spillway {

inline constexpr int kMostRankStrangers = 32;

struct RankListenerOptions {
  RankIdentity identity;
  int rank = 0;                // this process's
  RankStore* store = nullptr;  // rank 0's table, which outlives the listener; null: none here
  // Called on the listener's thread when a rank that was connected to the table has left.
  std::function<void(int rank)> left;
  // Within which a connection has to prove itself, and of how many at a time.
  double stranger_seconds = 10;
  int most_strangers = kMostRankStrangers;
};

class RankListener {
 public:
  // `socket` is bound. kUnavailable where it cannot listen.
  static absl::StatusOr<std::unique_ptr<RankListener>> Open(const RankListenerOptions& options,
                                                            UniqueFd socket);
  // Closes all connections but those that were taken.
  ~RankListener();

  RankAddress address() const { return OwnRankAddress(socket_.get()); }

  // The connection of a higher rank for a conversation, once that one has made it. Any thread.
  absl::StatusOr<UniqueFd> Take(const std::string& conversation, int rank, const RankWait& wait);

  // Whether a rank is connected to the table. Any thread.
  bool IsPresent(int rank);
  // All ranks are there: whoever comes to the table now is told that the run has begun, or that a
  // rank of its number is there. Any thread.
  void Begin();
  // No rank connects for a conversation any more. Any thread.
  void EndPairs();

 private:
  struct Guest;

  RankListener(const RankListenerOptions& options, UniqueFd socket);
  void Serve();
  // Accepts what waits; false where there are no descriptors for it.
  bool Accept();
  // False where the guest's connection is to be closed.
  bool Converse(Guest& guest);
  void KeepPair(Guest& guest);
  void DropGuests(double now);
  Admission Admit(const RankCaller& caller);

  const RankListenerOptions options_;
  UniqueFd socket_, wake_;
  std::vector<std::unique_ptr<Guest>> guests_;  // in the order in which they came; the thread's own
  bool warned_ = false;                         // likewise: of a connection without the secret

  Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool pairs_ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<bool> present_ ABSL_GUARDED_BY(mutex_);
  // Connections that wait to be taken; an invalid one was let in, and is about to.
  std::map<std::pair<std::string, int>, UniqueFd> pairs_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace spillway
