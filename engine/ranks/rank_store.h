// A small table of texts by name that all ranks of a run share. It is in rank 0's memory and
// answers while that process lives, even if the conversations between ranks have failed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "io/base/mutex.h"

namespace spillway {

// Bounds of one entry that a rank stores in another rank's memory.
inline constexpr size_t kMostStoreKeyBytes = 256;
inline constexpr size_t kMostStoreValueBytes = 64 << 10;

// Any thread. Errors: kInvalidArgument, a text is too long; kUnavailable, rank 0 is gone;
// kDeadlineExceeded, it has not answered in time; kResourceExhausted, the table is full.
class RankStore {
 public:
  virtual ~RankStore() = default;

  virtual absl::Status Set(absl::string_view key, absl::string_view value) = 0;
  // The value, or nullopt if there is no such key.
  virtual absl::StatusOr<std::optional<std::string>> Get(absl::string_view key) = 0;
  // Sets `desired` if there is no value, and returns the value that is stored then.
  virtual absl::StatusOr<std::string> SetIfAbsent(absl::string_view key,
                                                  absl::string_view desired) = 0;
  // Adds `amount` to the number at `key` (0 if absent) and returns it. kInvalidArgument: not a
  // number.
  virtual absl::StatusOr<int64_t> Add(absl::string_view key, int64_t amount) = 0;
  // Removes the key; returns whether it existed.
  virtual absl::StatusOr<bool> Erase(absl::string_view key) = 0;
};

// The table in this process's memory.
class RankTable : public RankStore {
 public:
  absl::Status Set(absl::string_view key, absl::string_view value) override;
  absl::StatusOr<std::optional<std::string>> Get(absl::string_view key) override;
  absl::StatusOr<std::string> SetIfAbsent(absl::string_view key,
                                          absl::string_view desired) override;
  absl::StatusOr<int64_t> Add(absl::string_view key, int64_t amount) override;
  absl::StatusOr<bool> Erase(absl::string_view key) override;

 private:
  absl::Status Put(absl::string_view key, absl::string_view value)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::map<std::string, std::string> values_ ABSL_GUARDED_BY(mutex_);
};

// A RankStore call as bytes, from a rank to the one that has the table, and its reply.
//
//   request  operation, bytes of the key, bytes of the value (4 bytes each, little-endian); both
//   reply    outcome, bytes of the text (4 bytes each); the text
//
// The outcome is 0 with a text, 1 without one, and 2 plus the status code for an error, whose
// message the text is.
inline constexpr size_t kStoreRequestHeader = 12;
inline constexpr size_t kStoreReplyHeader = 8;

enum class StoreOperation : uint32_t { kSet, kGet, kSetIfAbsent, kAdd, kErase };

std::string MakeStoreRequest(StoreOperation operation, absl::string_view key,
                             absl::string_view value);
// Number of bytes after a request's header. kInvalidArgument if a length is beyond its bound, or
// the operation is unknown.
absl::StatusOr<size_t> StoreRequestBody(absl::string_view header);
// Carries out a whole request. REQUIRES: the size that StoreRequestBody has returned.
std::string AnswerStoreRequest(absl::string_view request, RankStore& store);

// Number of bytes after a reply's header; kDataLoss beyond the bound.
absl::StatusOr<size_t> StoreReplyBody(absl::string_view header);
// The reply's text, nullopt if there is none, or the error; kDataLoss if the reply has no known
// outcome. REQUIRES: a whole reply.
absl::StatusOr<std::optional<std::string>> ReadStoreReply(absl::string_view reply);

}  // namespace spillway
