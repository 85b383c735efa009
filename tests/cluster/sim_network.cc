#include "tests/cluster/sim_network.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr uint64_t kMostTicks = 40;

}  // namespace

class SimNetwork::Talk final : public Collectives {
 public:
  Talk(SimNetwork* network, int number, int rank, int size)
      : network_(*network), number_(number), rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int number() const { return number_; }
  bool aborted() const { return aborted_; }

  absl::Status Exchange(absl::Span<const char* const> send, absl::Span<char* const> receive,
                        uint64_t bytes) override {
    RETURN_IF_ERROR(CheckHears());
    for (int to = 0; to < size_; ++to) {
      if (to != rank_) network_.Post(number_, rank_, to, send[to], bytes);
    }
    if (send[rank_] != receive[rank_]) std::memcpy(receive[rank_], send[rank_], bytes);
    for (int from = 0; from < size_; ++from) {
      if (from == rank_) continue;
      RETURN_IF_ERROR(Note(network_.Take(*this, from, receive[from], bytes)));
    }
    sent_bytes_ += bytes * (size_ - 1);
    return absl::OkStatus();
  }

  absl::Status Send(int to, const char* data, uint64_t bytes) override {
    RETURN_IF_ERROR(CheckHears());
    network_.Post(number_, rank_, to, data, bytes);
    sent_bytes_ += bytes;
    return absl::OkStatus();
  }

  absl::Status Receive(int from, char* data, uint64_t bytes) override {
    RETURN_IF_ERROR(CheckHears());
    return Note(network_.Take(*this, from, data, bytes));
  }

  uint64_t sent_bytes() const override { return sent_bytes_; }
  void Abort() override { aborted_ = true; }

 private:
  absl::Status CheckHears() const {
    if (!failure_.ok()) return failure_;
    if (aborted_) return absl::CancelledError("the conversation was ended");
    return absl::OkStatus();
  }
  absl::Status Note(absl::Status status) {
    if (failure_.ok()) failure_ = status;
    return status;
  }

  SimNetwork& network_;
  const int number_, rank_, size_;
  uint64_t sent_bytes_ = 0;
  bool aborted_ = false;
  absl::Status failure_;
};

std::unique_ptr<Collectives> SimNetwork::Join(int number, int rank, int size) {
  return std::make_unique<Talk>(this, number, rank, size);
}

void SimNetwork::Post(int number, int from, int to, const char* data, uint64_t bytes) {
  if (dead_(from)) return;
  const Key key{number, from, to};
  channels_[key].under_way.emplace_back(data, bytes);
  // In the order in which they were sent.
  world_.After(1 + world_.random().Below(kMostTicks), [this, key] {
    Channel& channel = channels_[key];
    if (channel.under_way.empty()) return;
    channel.arrived.push_back(std::move(channel.under_way.front()));
    channel.under_way.pop_front();
  });
}

absl::Status SimNetwork::Take(const Talk& talk, int from, char* data, uint64_t bytes) {
  Channel& channel = channels_[{talk.number(), from, talk.rank()}];
  const auto silent = [this, from, &channel] {
    return channel.under_way.empty() && (left_[from] || dead_(from));
  };
  world_.fibers().Wait("another rank", [&] {
    return !channel.arrived.empty() || silent() || talk.aborted() || dead_(talk.rank());
  });
  if (dead_(talk.rank())) return absl::UnavailableError("this rank is dead");
  if (channel.arrived.empty()) {
    return talk.aborted()
               ? absl::CancelledError("the conversation was ended")
               : absl::UnavailableError(absl::StrCat("the connection to rank ", from, " is lost"));
  }
  const std::string message = std::move(channel.arrived.front());
  channel.arrived.pop_front();
  if (message.size() != bytes) {
    misheard_(absl::StrCat("rank ", talk.rank(), " expects ", bytes, " bytes of rank ", from,
                           ", which has sent ", message.size()));
    return absl::InternalError("ranks say different things to each other");
  }
  std::memcpy(data, message.data(), bytes);
  return absl::OkStatus();
}

void SimNetwork::Leave(int rank, bool killed) {
  left_[rank] = true;
  if (!killed) return;
  for (auto& [key, channel] : channels_) {
    if (std::get<1>(key) == rank && world_.random().OneIn(2)) channel.under_way.clear();
  }
}

}  // namespace spillway
