// How a rank connects to another one that listens (rank_listener.h), and asks it for its table.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "engine/ranks/rank_handshake.h"
#include "engine/ranks/rank_socket.h"
#include "engine/ranks/rank_store.h"
#include "io/base/mutex.h"

namespace spillway {

struct RankCallOptions {
  RankIdentity identity;
  RankCaller caller;  // this process's rank, and the conversation
  int to_rank = 0;
  std::string host;  // a name or an address
  int port = 0;
};

// Connects to the rank that listens there, which may come later, and proves to each end who the
// other one is. Names, refused connections and ranks of an earlier attempt that still listen are
// waited for until the deadline.
// kUnavailable: it was not reached, and why. kPermissionDenied: both have different secrets.
// kInvalidArgument: different numbers of ranks. kAlreadyExists: this rank is there already.
// kFailedPrecondition: this machine has no loopback network. What `wait` is interrupted with.
absl::StatusOr<UniqueFd> CallRank(const RankCallOptions& options, const RankWait& wait);

// That a machine's address, by its name in MASTER_ADDR, is not known, and what to do.
absl::Status HasNoAddress(int rank, const std::string& host, const absl::Status& why);

// The table of the rank that a connection for kStoreConversation leads to. After an error of the
// connection every call fails.
class RemoteRankStore : public RankStore {
 public:
  // `timeout_seconds`: of each call.
  RemoteRankStore(UniqueFd connection, double timeout_seconds)
      : connection_(std::move(connection)), timeout_seconds_(timeout_seconds) {}

  // Of later calls. Any thread.
  void SetTimeout(double seconds) { timeout_seconds_ = seconds; }
  // What ends later calls that wait (RankWait); null: nothing does.
  void SetInterrupted(std::function<absl::Status()> interrupted) {
    MutexLock lock(mutex_);
    interrupted_ = std::move(interrupted);
  }
  RankAddress own_address() const { return OwnRankAddress(connection_.get()); }

  absl::Status Set(absl::string_view key, absl::string_view value) override;
  absl::StatusOr<std::optional<std::string>> Get(absl::string_view key) override;
  absl::StatusOr<std::string> SetIfAbsent(absl::string_view key,
                                          absl::string_view desired) override;
  absl::StatusOr<int64_t> Add(absl::string_view key, int64_t amount) override;
  absl::StatusOr<bool> Erase(absl::string_view key) override;

 private:
  absl::StatusOr<std::optional<std::string>> Ask(StoreOperation operation, absl::string_view key,
                                                 absl::string_view value);
  absl::StatusOr<std::string> AskOnce(const std::string& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const UniqueFd connection_;
  std::atomic<double> timeout_seconds_;
  Mutex mutex_;
  std::function<absl::Status()> interrupted_ ABSL_GUARDED_BY(mutex_);
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace spillway
