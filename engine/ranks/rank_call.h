// How a rank connects to another one that listens (rank_listener.h), and reads its table.
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
  std::string host;  // name or address
  int port = 0;
};

// Connects to a rank that listens there, possibly later, and proves to each end who the other is.
// Retries until the deadline if the name is not known, the connection is refused, or ranks of an
// earlier attempt still listen. kUnavailable: not reached, with the reason. kPermissionDenied: the
// secrets differ. kInvalidArgument: the numbers of ranks differ. kAlreadyExists: this rank is
// connected already. kFailedPrecondition: this machine has no loopback network. Also the status
// that interrupts `wait`.
absl::StatusOr<UniqueFd> CallRank(const RankCallOptions& options, const RankWait& wait);

// The error that the name in MASTER_ADDR has no known address, with the remedy.
absl::Status HasNoAddress(int rank, const std::string& host, const absl::Status& why);

// The table of the rank at the other end of a connection for kStoreConversation. After an error of
// the connection every call fails.
class RemoteRankStore : public RankStore {
 public:
  // `timeout_seconds`: limit of each call.
  RemoteRankStore(UniqueFd connection, double timeout_seconds)
      : connection_(std::move(connection)), timeout_seconds_(timeout_seconds) {}

  // Sets the limit of later calls. Any thread.
  void SetTimeout(double seconds) { timeout_seconds_ = seconds; }
  // Sets what ends later calls that wait (RankWait); null: nothing does.
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
