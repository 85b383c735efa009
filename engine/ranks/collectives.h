// What the ranks of a run say to one another: an exchange, from which gathers, sums and
// agreements are made (below), and plain messages.
//
// An object is one conversation: its calls happen in the same order, with the same sizes, on
// every rank, from one thread at a time. Conversations that overlap need an object each.
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

  // `bytes` at send[r] go to rank r, and those that rank r sends here come to receive[r]. What
  // a rank sends itself is copied, unless both are the same address. Returns when all have come
  // and nothing of `send` is needed any more. Sends may share addresses with sends, and nothing
  // else with anything.
  //
  // kUnavailable where a rank is gone, kDeadlineExceeded where it does not answer: then no call
  // succeeds any more.
  virtual absl::Status Exchange(absl::Span<const char* const> send, absl::Span<char* const> receive,
                                uint64_t bytes) = 0;

  // From one rank to one other, which receives as many; errors as of Exchange. No Exchange of
  // the two is under way.
  virtual absl::Status Send(int to, const char* data, uint64_t bytes) = 0;
  virtual absl::Status Receive(int from, char* data, uint64_t bytes) = 0;

  // Sent to other ranks so far. Any thread.
  virtual uint64_t sent_bytes() const = 0;

  // Ends a call under way, and every later one, with kCancelled. Any thread.
  virtual void Abort() = 0;
};

// Conversations between ranks; a null one is of a rank alone.
struct RankGroups {
  Collectives* world = nullptr;  // of the compute thread
  // Of the thread of a step's exchanges (engine/ranks/sharded_step.h), in the memory in which units
  // are whole: the shard group, and those with the same shard.
  Collectives* group = nullptr;
  Collectives* replicas = nullptr;
  Collectives* host_replicas = nullptr;  // the latter in the host's memory, before the first step
  Collectives* commits = nullptr;        // of the thread that makes commits durable
};

// The same `bytes` of every rank at all + rank * bytes; `own` may be this rank's place there.
absl::Status AllGather(Collectives& ranks, const void* own, void* all, uint64_t bytes);

// Every rank's number, in rank order.
absl::StatusOr<std::vector<double>> AllGatherNumber(Collectives& ranks, double own);
absl::StatusOr<std::vector<int64_t>> AllGatherCount(Collectives& ranks, int64_t own);

// Every rank's text, in rank order.
absl::StatusOr<std::vector<std::string>> AllGatherText(Collectives& ranks, const std::string& own);

// Rank 0's text, on every rank.
absl::StatusOr<std::string> FromFirstRank(Collectives& ranks, const std::string& text);

// What another rank ended with, told on this one: the exit code (ExitCodeOf) is the same, and
// "stopped because of rank R: " in front says that it is no failure of this rank's. The message is
// one line afterwards, without control characters; a code that is none becomes kUnknown.
int64_t CodeForOthers(const absl::Status& status);
absl::Status BecauseOf(int rank, int64_t code, const std::string& message);
bool IsBecauseOfAnother(const absl::Status& status);

// kDeadlineExceeded: `rank` was waited for in vain for so long. NotAnswering is its number, also
// where something was put in front; -1 of other statuses.
absl::Status HasNotAnswered(int rank, double seconds);
int NotAnswering(const absl::Status& status);

// OK where every rank's status is; otherwise that of the first rank with another: its own there,
// BecauseOf it elsewhere. Who has stopped because of another rank is not asked where that one
// can be.
absl::Status Agree(Collectives& ranks, const absl::Status& own);
// The same where there may be one rank alone (null).
inline absl::Status AgreeAll(Collectives* ranks, const absl::Status& own) {
  return ranks == nullptr ? own : Agree(*ranks, own);
}

}  // namespace spillway
