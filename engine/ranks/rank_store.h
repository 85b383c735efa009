// A small table of texts by name that all ranks of a run share. It lies in rank 0's memory and
// answers as long as that process lives, whatever became of the conversations between ranks.
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

// Bounds of what one rank may make another one keep.
inline constexpr size_t kMostStoreKeyBytes = 256;
inline constexpr size_t kMostStoreValueBytes = 64 << 10;

// Any thread. Errors: kInvalidArgument, a text beyond its bound; kUnavailable, rank 0 is gone;
// kDeadlineExceeded, it has not answered in time; kResourceExhausted, the table is full.
class RankStore {
 public:
  virtual ~RankStore() = default;

  virtual absl::Status Set(absl::string_view key, absl::string_view value) = 0;
  // Nothing where there is no such key.
  virtual absl::StatusOr<std::optional<std::string>> Get(absl::string_view key) = 0;
  // Sets `desired` where there is no value, and returns the value that is there then.
  virtual absl::StatusOr<std::string> SetIfAbsent(absl::string_view key,
                                                  absl::string_view desired) = 0;
  // The number at `key`, 0 where there is none, plus `amount`. kInvalidArgument: it is no number.
  virtual absl::StatusOr<int64_t> Add(absl::string_view key, int64_t amount) = 0;
  // Whether there was such a key.
  virtual absl::StatusOr<bool> Erase(absl::string_view key) = 0;
};

// The table itself.
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

// A call of a RankStore as bytes, from a rank to the one that has the table, and its reply.
//
//   request  operation, bytes of the key, bytes of the value (4 bytes each, little-endian); both
//   reply    outcome, bytes of the text (4 bytes each); the text
//
// An outcome is 0 where there is a text, 1 where there is none, and 2 plus the status code of an
// error, whose message the text is.
inline constexpr size_t kStoreRequestHeader = 12;
inline constexpr size_t kStoreReplyHeader = 8;

enum class StoreOperation : uint32_t { kSet, kGet, kSetIfAbsent, kAdd, kErase };

std::string MakeStoreRequest(StoreOperation operation, absl::string_view key,
                             absl::string_view value);
// How many bytes follow a request's header. kInvalidArgument where a length is beyond its bound, or
// the operation is none.
absl::StatusOr<size_t> StoreRequestBody(absl::string_view header);
// Does what a whole request asks for. REQUIRES: the size that StoreRequestBody has given.
std::string AnswerStoreRequest(absl::string_view request, RankStore& store);

// How many bytes follow a reply's header; kDataLoss beyond the bound.
absl::StatusOr<size_t> StoreReplyBody(absl::string_view header);
// The reply's text, nothing where there is none, or the error; kDataLoss for a reply that is none
// of them. REQUIRES: a whole reply.
absl::StatusOr<std::optional<std::string>> ReadStoreReply(absl::string_view reply);

}  // namespace spillway
