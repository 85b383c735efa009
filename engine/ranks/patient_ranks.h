// A conversation in which ranks wait for one another without a limit, for example for the first
// rank's export or a slow copy of a commit. The timeout of exchanges is for ranks that hang.
//
// A thread of every rank tells the others, in a second conversation, that its process is alive and
// how many exchanges it has reached. An exchange begins when all ranks have reached it.
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
  // `world` and `beats` have the same ranks and outlive the object. Only the caller uses `world`,
  // and nobody else uses `beats` meanwhile. Every rank creates one, and destroys it.
  PatientRanks(Collectives* world, Collectives* beats,
               std::chrono::milliseconds period = std::chrono::milliseconds(50));
  // For the compute thread's messages while no commit is under way; null if there is one rank.
  static std::unique_ptr<PatientRanks> Among(const RankGroups& ranks) {
    if (ranks.world == nullptr) return nullptr;
    return std::make_unique<PatientRanks>(ranks.world, ranks.commits);
  }
  // Waits until all ranks destroy theirs, or one of them is gone.
  ~PatientRanks() override;

  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }
  // Returns the errors of both conversations; also kUnavailable if another rank has destroyed its
  // own and will not come.
  absl::Status Exchange(absl::Span<const char* const> send, absl::Span<char* const> receive,
                        uint64_t bytes) override;
  // Waits as long as `world` does.
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
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);      // of a beat; there are no beats after it
  int64_t own_ ABSL_GUARDED_BY(mutex_) = 0;           // exchanges reached, or kLeft
  std::vector<int64_t> all_ ABSL_GUARDED_BY(mutex_);  // `own_` of every rank, at the last beat
  std::thread thread_;
};

}  // namespace spillway
