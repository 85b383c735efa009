#include "engine/torch/gloo_ranks.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "io/base/mutex.h"
#include "io/base/status.h"

namespace spillway {
namespace {

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

torch::Tensor BytesAt(char* data, uint64_t bytes) {
  return torch::from_blob(data, {static_cast<int64_t>(bytes)}, torch::kUInt8);
}

class GlooRanks : public Collectives {
 public:
  explicit GlooRanks(const GlooOptions& options)
      : options_(options),
        rank_(static_cast<int>(
            std::find(options.members.begin(), options.members.end(), options.rank) -
            options.members.begin())) {}
  ~GlooRanks() override { Abort(); }

  absl::Status Connect(const c10::intrusive_ptr<c10d::Store>& store) {
    try {
      auto gloo = c10d::ProcessGroupGloo::Options::create(
          std::chrono::milliseconds(static_cast<int64_t>(options_.timeout_seconds * 1000)));
      gloo->threads = 1;  // sends and receives need none
      // As in torch, who names an interface gets that one.
      const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
      gloo->devices.push_back(
          interface != nullptr && *interface != '\0'
              ? c10d::ProcessGroupGloo::createDeviceForInterface(interface)
          : options_.address.empty()
              ? c10d::ProcessGroupGloo::createDefaultDevice()
              : c10d::ProcessGroupGloo::createDeviceForHostname(options_.address));
      group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(
          c10::make_intrusive<c10d::PrefixStore>(options_.name, store), rank_, size(), gloo);
    } catch (const std::exception& error) {
      return absl::UnavailableError(absl::StrCat(
          "rank ", options_.rank, " can't connect to the other ranks: ", FirstLine(error.what())));
    }
    return absl::OkStatus();
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(options_.members.size()); }
  uint64_t sent_bytes() const override { return sent_bytes_; }

  absl::Status Exchange(absl::Span<const char* const> send, absl::Span<char* const> receive,
                        uint64_t bytes) override {
    if (bytes == 0) return absl::OkStatus();
    std::vector<Message> messages;
    // Everyone begins with another, so that not all send to the same at once.
    for (int i = 1; i < size(); ++i) {
      const int peer = (rank_ + size() - i) % size();
      messages.push_back({peer, false, receive[peer]});
    }
    for (int i = 1; i < size(); ++i) {
      const int peer = (rank_ + i) % size();
      messages.push_back({peer, true, const_cast<char*>(send[peer])});
    }
    if (receive[rank_] != send[rank_]) std::memcpy(receive[rank_], send[rank_], bytes);
    return Pass(messages, bytes);
  }

  absl::Status Send(int to, const char* data, uint64_t bytes) override {
    return Pass({{to, true, const_cast<char*>(data)}}, bytes);
  }
  absl::Status Receive(int from, char* data, uint64_t bytes) override {
    return Pass({{from, false, data}}, bytes);
  }

  void Abort() override {
    MutexLock lock(mutex_);
    aborted_ = true;
    for (Pending& work : pending_) AbortOne(work);
  }

 private:
  struct Pending {
    c10::intrusive_ptr<c10d::Work> work;
    int peer = 0;
  };

  struct Message {
    int peer = 0;
    bool sent = false;  // else received
    char* data = nullptr;
  };

  // All at once. Messages between two ranks arrive in the order in which they were sent.
  absl::Status Pass(const std::vector<Message>& messages, uint64_t bytes) {
    int peer = rank_;
    std::vector<Pending> pending;
    absl::Status status;
    try {
      for (const Message& message : messages) {
        peer = message.peer;
        std::vector<torch::Tensor> tensors = {BytesAt(message.data, bytes)};
        pending.push_back(
            {message.sent ? group_->send(tensors, peer, 0) : group_->recv(tensors, peer, 0), peer});
      }
      status = Publish(pending);
      for (Pending& work : pending) {
        peer = work.peer;
        if (status.ok() && !work.work->wait()) status = absl::CancelledError("aborted");
      }
      for (const Message& message : messages) sent_bytes_ += message.sent ? bytes : 0;
    } catch (const std::exception& error) {
      status = StatusOf(error.what(), peer);
    }
    MutexLock lock(mutex_);
    pending_.clear();
    if (status.ok() || aborted_) return aborted_ ? absl::CancelledError("aborted") : status;
    // What is still under way points to memory of the caller's.
    for (Pending& work : pending) AbortOne(work);
    return status;
  }

  static void AbortOne(Pending& pending) {
    try {
      pending.work->abort();
    } catch (const std::exception&) {
      // Over already.
    }
  }

  absl::Status Publish(const std::vector<Pending>& pending) {
    MutexLock lock(mutex_);
    if (aborted_) {
      for (Pending work : pending) AbortOne(work);
      return absl::CancelledError("aborted");
    }
    pending_ = pending;
    return absl::OkStatus();
  }

  absl::Status StatusOf(const std::string& what, int peer) const {
    const int world_rank = options_.members[peer];
    if (absl::StrContains(what, "imed out")) {
      return HasNotAnswered(world_rank, options_.timeout_seconds);
    }
    return absl::UnavailableError(
        absl::StrCat("rank ", world_rank, " is gone (", FirstLine(what), ")"));
  }

  const GlooOptions options_;
  const int rank_;  // among the members
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  std::atomic<uint64_t> sent_bytes_{0};

  Mutex mutex_;
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Pending> pending_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<Collectives>> ConnectGloo(
    const c10::intrusive_ptr<c10d::Store>& store, const GlooOptions& options) {
  auto ranks = std::make_unique<GlooRanks>(options);
  RETURN_IF_ERROR(ranks->Connect(store));
  return std::unique_ptr<Collectives>(std::move(ranks));
}

}  // namespace spillway
