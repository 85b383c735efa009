// Communication between the ranks of a run: an exchange, from which gathers, sums and agreements
// are made (below), and plain messages.
//
// An object is one conversation: every rank makes the same calls in the same order with the same
// sizes, from one thread at a time. Conversations that overlap need an object each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace spillway {

class Collectives {
 public:
  virtual ~Collectives() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Sends `bytes` from send[r] to rank r, and receives into receive[r] what rank r sends here. A
  // rank's message to itself is copied, unless both addresses are equal. Returns when everything
  // has arrived and `send` is no longer needed. Sends may share memory with each other, but with
  // nothing else.
  //
  // kUnavailable if a rank is gone, kDeadlineExceeded if it does not answer; every later call
  // fails, too.
  virtual absl::Status Exchange(absl::Span<const char* const> send, absl::Span<char* const> receive,
                                uint64_t bytes) = 0;

  // Sends from this rank to one other, which receives the same number of bytes. Errors as for
  // Exchange. REQUIRES: no Exchange between the two is under way.
  virtual absl::Status Send(int to, const char* data, uint64_t bytes) = 0;
  virtual absl::Status Receive(int from, char* data, uint64_t bytes) = 0;

  // Bytes sent to other ranks so far. Any thread.
  virtual uint64_t sent_bytes() const = 0;

  // Ends the current call and every later one with kCancelled. Any thread.
  virtual void Abort() = 0;
};

// Conversations between ranks; all are null if there is one rank.
struct RankGroups {
  Collectives* world = nullptr;  // for the compute thread
  // For the thread of a step's exchanges (engine/ranks/sharded_step.h), in the memory that has the
  // whole units: the shard group, and the ranks that have the same shard.
  Collectives* group = nullptr;
  Collectives* replicas = nullptr;
  Collectives* host_replicas = nullptr;  // `replicas` in the host's memory, before the first step
  Collectives* commits = nullptr;        // for the thread that makes commits durable
};

// Gathers `bytes` from every rank at all + rank * bytes; `own` may be this rank's place there.
absl::Status AllGather(Collectives& ranks, const void* own, void* all, uint64_t bytes);

// Returns every rank's number, in rank order.
absl::StatusOr<std::vector<double>> AllGatherNumber(Collectives& ranks, double own);
absl::StatusOr<std::vector<int64_t>> AllGatherCount(Collectives& ranks, int64_t own);

// Returns every rank's text, in rank order.
absl::StatusOr<std::vector<std::string>> AllGatherText(Collectives& ranks, const std::string& own);

// Returns rank 0's text on every rank.
absl::StatusOr<std::string> FromFirstRank(Collectives& ranks, const std::string& text);

// Passes a failure to other ranks: the exit code (ExitCodeOf) stays the same, and the message
// begins with "stopped because of rank R: ". It becomes one line without control characters; an
// invalid code becomes kUnknown.
int64_t CodeForOthers(const absl::Status& status);
absl::Status BecauseOf(int rank, int64_t code, const std::string& message);
bool IsBecauseOfAnother(const absl::Status& status);

// kDeadlineExceeded: `rank` did not answer within `seconds`. NotAnswering returns its number, also
// if text was put in front of the message; -1 for other statuses.
absl::Status HasNotAnswered(int rank, double seconds);
int NotAnswering(const absl::Status& status);

// OK if every rank's status is OK; otherwise the failure of the lowest rank: unchanged on that
// rank, BecauseOf it elsewhere. Failures with a cause of their own come before those that
// IsBecauseOfAnother recognizes.
absl::Status Agree(Collectives& ranks, const absl::Status& own);
// Agree, or `own` if there is one rank alone (null).
inline absl::Status AgreeAll(Collectives* ranks, const absl::Status& own) {
  return ranks == nullptr ? own : Agree(*ranks, own);
}

}  // namespace spillway
