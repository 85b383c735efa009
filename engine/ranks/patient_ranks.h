// A conversation in which ranks wait for one another for as long as it takes: for the first one's
// export, or a slow copy of a commit. The timeout of exchanges is for ranks that hang.
//
// Beside it a thread of every rank tells the others, in a conversation of their own, that its
// process lives, and how many exchanges it has come to. An exchange begins when all have come to
// it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "engine/ranks/collectives.h"
#include "io/base/mutex.h"

namespace spillway {

class PatientRanks : public Collectives {
 public:
  // `world` and `beats` have the same ranks and outlive it. `world` is used by the caller's calls
  // alone; `beats` by nobody else meanwhile. Every rank makes one, and ends it.
  PatientRanks(Collectives* world, Collectives* beats,
               std::chrono::milliseconds period = std::chrono::milliseconds(50));
  // For what the compute thread says while no commit is under way; null where there is one rank.
  static std::unique_ptr<PatientRanks> Among(const RankGroups& ranks) {
    if (ranks.world == nullptr) return nullptr;
    return std::make_unique<PatientRanks>(ranks.world, ranks.commits);
  }
  // Waits until all ranks end theirs, or one of them is gone.
  ~PatientRanks() override;

  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }
  // Errors are those of both conversations; also kUnavailable where another rank has ended its own
  // and will not come.
  absl::Status Exchange(absl::Span<const char* const> send, absl::Span<char* const> receive,
                        uint64_t bytes) override;
  // As long as `world` waits.
  absl::Status Send(int to, const char* data, uint64_t bytes) override {
    return world_.Send(to, data, bytes);
  }
  absl::Status Receive(int from, char* data, uint64_t bytes) override {
    return world_.Receive(from, data, bytes);
  }
  uint64_t sent_bytes() const override { return world_.sent_bytes(); }
  void Abort() override;

 private:
  void Beat();
  absl::Status AwaitAll();

  Collectives& world_;
  Collectives& beats_;
  const std::chrono::milliseconds period_;

  Mutex mutex_;
  CondVar changed_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);      // of a beat: there are no more then
  int64_t own_ ABSL_GUARDED_BY(mutex_) = 0;           // exchanges come to, or kLeft
  std::vector<int64_t> all_ ABSL_GUARDED_BY(mutex_);  // those of every rank, at the last beat
  std::thread thread_;
};

}  // namespace spillway
