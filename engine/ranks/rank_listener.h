// Accepts connections of other ranks, on a thread of its own. It admits those that prove that they
// are ranks of this run (rank_guest.h), and answers requests to the table if this rank has it. Any
// other connection costs a descriptor and some hundred bytes for a few seconds: their number is
// bounded, a new one replaces the oldest, and without free descriptors newcomers wait.
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
  int rank = 0;                // this process's rank
  RankStore* store = nullptr;  // rank 0's table, which outlives the listener; null: not here
  // Called on the listener's thread when a rank that was connected to the table has left.
  std::function<void(int rank)> left;
  // Seconds within which a connection must prove itself, and the largest number of those.
  double stranger_seconds = 10;
  int most_strangers = kMostRankStrangers;
};

class RankListener {
 public:
  // `socket` is bound. kUnavailable if it cannot listen.
  static absl::StatusOr<std::unique_ptr<RankListener>> Open(const RankListenerOptions& options,
                                                            UniqueFd socket);
  // Closes all connections except those that were taken.
  ~RankListener();

  RankAddress address() const { return OwnRankAddress(socket_.get()); }

  // Waits for the connection of a higher rank for a conversation. Any thread.
  absl::StatusOr<UniqueFd> Take(const std::string& conversation, int rank, const RankWait& wait);

  // Whether a rank is connected to the table. Any thread.
  bool IsPresent(int rank);
  // Marks all ranks as present: a rank that connects to the table from now on is refused, since the
  // run has begun or its number is taken. Any thread.
  void Begin();
  // Refuses further connections for conversations. Any thread.
  void EndPairs();

 private:
  struct Guest;

  RankListener(const RankListenerOptions& options, UniqueFd socket);
  void Serve();
  // Accepts waiting connections; false if there are no descriptors for them.
  bool Accept();
  // False if the guest's connection must be closed.
  bool Converse(Guest& guest);
  void KeepPair(Guest& guest);
  void DropGuests(double now);
  Admission Admit(const RankCaller& caller);

  const RankListenerOptions options_;
  UniqueFd socket_, wake_;
  std::vector<std::unique_ptr<Guest>> guests_;  // in order of arrival; used by the thread alone
  bool warned_ = false;                         // about a connection without the secret; likewise

  Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool pairs_ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<bool> present_ ABSL_GUARDED_BY(mutex_);
  // Admitted connections that wait for Take; invalid before the handshake ends and after Take.
  std::map<std::pair<std::string, int>, UniqueFd> pairs_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace spillway
