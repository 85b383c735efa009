// Ranks that are threads of one process, for tests of what stands on Collectives.
#pragma once

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "engine/ranks/collectives.h"
#include "engine/ranks/shard_grid.h"
#include "io/base/mutex.h"

namespace spillway {

// One conversation of `size` ranks.
class ThreadRanks {
 public:
  explicit ThreadRanks(int size) : size_(size), posts_(size) {
    for (int rank = 0; rank < size; ++rank) ranks_.push_back(std::make_unique<Rank>(this, rank));
  }
  Collectives* rank(int rank) { return ranks_[rank].get(); }
  // Every exchange takes so long.
  void SetDelay(std::chrono::microseconds delay) { delay_ = delay; }
  // The exchange after the next `calls` of `rank` fails on it, as if it had died.
  void FailAfter(int rank, int calls) { ranks_[rank]->calls_left = calls; }

 private:
  struct Post {
    uint64_t round = 0;
    const char* const* send = nullptr;
    uint64_t bytes = 0;
    int readers_left = 0;
  };

  class Rank : public Collectives {
   public:
    Rank(ThreadRanks* all, int rank) : all_(all), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return all_->size_; }
    absl::Status Exchange(absl::Span<const char* const> send, absl::Span<char* const> receive,
                          uint64_t bytes) override {
      return all_->Exchange(*this, send, receive, bytes);
    }
    absl::Status Send(int to, const char* data, uint64_t bytes) override {
      return all_->Send(rank_, to, data, bytes);
    }
    absl::Status Receive(int from, char* data, uint64_t bytes) override {
      return all_->Receive(from, rank_, data, bytes);
    }
    uint64_t sent_bytes() const override { return sent_; }
    void Abort() override { all_->Break(absl::CancelledError("aborted")); }

    int calls_left = -1;
    uint64_t rounds = 0;
    std::atomic<uint64_t> sent_{0};

   private:
    friend class ThreadRanks;
    ThreadRanks* const all_;
    const int rank_;
  };

  void Break(const absl::Status& status) {
    MutexLock lock(mutex_);
    if (broken_.ok()) broken_ = status;
    changed_.NotifyAll();
  }

  absl::Status Exchange(Rank& self, absl::Span<const char* const> send,
                        absl::Span<char* const> receive, uint64_t bytes) {
    if (delay_.count() > 0) std::this_thread::sleep_for(delay_);
    if (self.calls_left == 0) {
      Break(absl::UnavailableError("a rank is gone"));
      return absl::UnavailableError("this rank is gone");
    }
    if (self.calls_left > 0) --self.calls_left;
    MutexLock lock(mutex_);
    const uint64_t round = ++self.rounds;
    Post& own = posts_[self.rank_];
    own = {round, send.data(), bytes, size_};
    changed_.NotifyAll();
    for (int rank = 0; rank < size_; ++rank) {
      Post& post = posts_[rank];
      while (broken_.ok() && post.round != round) changed_.Wait(mutex_);
      if (!broken_.ok()) return broken_;
      if (post.bytes != bytes) return absl::InternalError("ranks exchange different sizes");
      if (post.send[self.rank_] != receive[rank]) {
        std::memcpy(receive[rank], post.send[self.rank_], bytes);
      }
      --post.readers_left;
    }
    changed_.NotifyAll();
    // The others still read from here.
    while (broken_.ok() && own.readers_left > 0) changed_.Wait(mutex_);
    self.sent_ += bytes * (size_ - 1);
    return broken_;
  }

  absl::Status Send(int from, int to, const char* data, uint64_t bytes) {
    MutexLock lock(mutex_);
    mail_[{from, to}].emplace_back(data, bytes);
    ranks_[from]->sent_ += bytes;
    changed_.NotifyAll();
    return broken_;
  }
  absl::Status Receive(int from, int to, char* data, uint64_t bytes) {
    MutexLock lock(mutex_);
    std::deque<std::string>& mail = mail_[{from, to}];
    while (broken_.ok() && mail.empty()) changed_.Wait(mutex_);
    if (!broken_.ok()) return broken_;
    if (mail.front().size() != bytes) return absl::InternalError("a message of another size");
    std::memcpy(data, mail.front().data(), bytes);
    mail.pop_front();
    return absl::OkStatus();
  }

  const int size_;
  std::map<std::pair<int, int>, std::deque<std::string>> mail_;
  std::chrono::microseconds delay_{0};
  Mutex mutex_;
  CondVar changed_;
  absl::Status broken_;
  std::vector<Post> posts_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

// The conversations of one run.
struct Conversations {
  Conversations(int size, int group) : world(size) {
    for (int i = 0; i < size / group; ++i) groups.push_back(std::make_unique<ThreadRanks>(group));
    for (int i = 0; i < group; ++i) replicas.push_back(std::make_unique<ThreadRanks>(size / group));
  }
  RankGroups Of(const ShardGrid& grid) {
    RankGroups all;
    all.world = world.rank(grid.rank);
    if (grid.group > 1) all.group = groups[grid.replica()]->rank(grid.shard());
    if (grid.replicas() > 1) {
      all.host_replicas = all.replicas = replicas[grid.shard()]->rank(grid.replica());
    }
    return all;
  }
  void SetDelay(std::chrono::microseconds delay) {
    for (auto& group : groups) group->SetDelay(delay);
    for (auto& group : replicas) group->SetDelay(delay);
  }
  ThreadRanks world;
  std::vector<std::unique_ptr<ThreadRanks>> groups, replicas;
};

}  // namespace spillway
