#include "engine/torch/cuda/nccl_ranks.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "io/base/clock.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// Waits up to this long do not sleep.
constexpr double kSpinSeconds = 100e-6;
constexpr auto kNap = std::chrono::microseconds(50);

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

class NcclRanks : public Collectives {
 public:
  NcclRanks(const ConversationOptions& options, const ComputePlace& place,
            std::function<bool()> somebody_failed)
      : options_(options),
        place_(place),
        somebody_failed_(std::move(somebody_failed)),
        rank_(static_cast<int>(
            std::find(options.members.begin(), options.members.end(), options.rank) -
            options.members.begin())) {}
  // Every exchange was waited for, so nothing is interrupted. shutdown() would wait for the other
  // ranks, and a rank that failed would wait for those that wait for it.
  ~NcclRanks() override { AbortGroup(); }

  absl::Status Connect(const c10::intrusive_ptr<c10d::Store>& store) {
    // A CUDA launch does not block, and neither does this.
    place_.device->Launch(StreamId::kExchange, [this](void* native_stream) {
      stream_ = static_cast<cudaStream_t>(native_stream);
      return absl::OkStatus();
    });
    // Failed ranks are reported here, so c10d must not end the process.
    ::setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", /*overwrite=*/1);
    ::setenv("TORCH_NCCL_ENABLE_MONITORING", "0", /*overwrite=*/1);
    // Otherwise its watchdog would rethrow CUDA's errors where nothing catches them, and sleep a
    // minute for a trace of the current work.
    for (const char* const name : {"TORCH_NCCL_RETHROW_CUDA_ERRORS", "TORCH_NCCL_DUMP_ON_TIMEOUT",
                                   "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC"}) {
      ::setenv(name, "0", /*overwrite=*/0);
    }
    try {
      auto nccl = c10d::ProcessGroupNCCL::Options::create();
      nccl->timeout =
          std::chrono::milliseconds(static_cast<int64_t>(options_.timeout_seconds * 1000));
      group_ = c10::make_intrusive<c10d::ProcessGroupNCCL>(
          c10::make_intrusive<c10d::PrefixStore>("nccl/" + options_.name, store), rank_, size(),
          nccl);
    } catch (const std::exception& error) {
      return Unconnected(error.what());
    }
    // The first exchange of each kind (a gather, or separate parts for each rank) creates
    // connections and their buffers: both run before budgets are measured.
    constexpr uint64_t kBytes = 64;
    ASSIGN_OR_RETURN(const PlaceMemory memory,
                     PlaceMemory::CreateZeroed(place_, 2 * kBytes * size()));
    char* const in = memory.data() + kBytes * size();
    const std::vector<const char*> same(size(), memory.data());
    std::vector<const char*> parts;
    std::vector<char*> receive;
    for (int peer = 0; peer < size(); ++peer) {
      parts.push_back(memory.data() + kBytes * peer);
      receive.push_back(in + kBytes * peer);
    }
    for (const auto& send : {absl::MakeConstSpan(same), absl::MakeConstSpan(parts)}) {
      const absl::Status first = Exchange(send, absl::MakeSpan(receive), kBytes);
      if (!first.ok()) return Unconnected(std::string(first.message()));
    }
    sent_bytes_ = 0;
    return absl::OkStatus();
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(options_.members.size()); }
  uint64_t sent_bytes() const override { return sent_bytes_; }

  absl::Status Exchange(absl::Span<const char* const> send, absl::Span<char* const> receive,
                        uint64_t bytes) override {
    if (bytes == 0) return absl::OkStatus();
    RETURN_IF_ERROR(Run([&]() -> c10::intrusive_ptr<c10d::Work> {
      if (IsGather(send, receive, bytes)) {
        torch::Tensor all = BytesAt(receive[0], bytes * size());
        torch::Tensor own = BytesAt(const_cast<char*>(send[0]), bytes);
        return group_->_allgather_base(all, own, {});
      }
      std::vector<torch::Tensor> in, out;
      for (int peer = 0; peer < size(); ++peer) {
        in.push_back(BytesAt(const_cast<char*>(send[peer]), bytes));
        out.push_back(BytesAt(receive[peer], bytes));
      }
      return group_->alltoall(out, in, {});
    }));
    sent_bytes_ += bytes * (size() - 1);
    return absl::OkStatus();
  }

  absl::Status Send(int to, const char* data, uint64_t bytes) override {
    RETURN_IF_ERROR(Run([&] {
      std::vector<torch::Tensor> tensors = {BytesAt(const_cast<char*>(data), bytes)};
      return group_->send(tensors, to, 0);
    }));
    sent_bytes_ += bytes;
    return absl::OkStatus();
  }
  absl::Status Receive(int from, char* data, uint64_t bytes) override {
    return Run([&] {
      std::vector<torch::Tensor> tensors = {BytesAt(data, bytes)};
      return group_->recv(tensors, from, 0);
    });
  }

  void Abort() override { aborted_ = true; }

 private:
  torch::Tensor BytesAt(char* data, uint64_t bytes) const {
    return torch::from_blob(data, {static_cast<int64_t>(bytes)},
                            torch::TensorOptions().dtype(torch::kUInt8).device(place_.where));
  }

  // Whether all get the same bytes, and the received parts are adjacent.
  bool IsGather(absl::Span<const char* const> send, absl::Span<char* const> receive,
                uint64_t bytes) const {
    for (int peer = 0; peer < size(); ++peer) {
      if (send[peer] != send[0] || receive[peer] != receive[0] + peer * bytes) return false;
    }
    return true;
  }

  // Puts the work into the stream of exchanges, and waits until it is done. If that fails the group
  // is aborted at once: a kernel that waits for others blocks the freeing of the GPU's memory.
  template <typename Start>
  absl::Status Run(const Start& start) {
    if (aborted_) return absl::CancelledError("aborted");
    RETURN_IF_ERROR(failure_);
    absl::Status status;
    try {
      const c10::cuda::CUDAStreamGuard guard(
          c10::cuda::getStreamFromExternal(stream_, place_.where.index()));
      const c10::intrusive_ptr<c10d::Work> work = start();
      status = Await(*work);
    } catch (const std::exception& error) {
      status = absl::UnavailableError(
          absl::StrCat("the exchange with the other GPUs failed (", FirstLine(error.what()), ")"));
    }
    if (!status.ok()) {
      failure_ = status;
      AbortGroup();
    }
    return status;
  }

  absl::Status Await(c10d::Work& work) {
    const double began = MonotonicSeconds();
    double asked = 0;
    while (!work.isCompleted()) {
      if (aborted_) return absl::CancelledError("aborted");
      const double waited = MonotonicSeconds() - began;
      if (waited > options_.timeout_seconds) {
        return absl::DeadlineExceededError(
            absl::StrCat("another rank has not answered for ", options_.timeout_seconds,
                         " s: it hangs, or its machine is gone (slower on purpose: "
                         "--collective-timeout)"));
      }
      if (waited > asked + 1) {
        asked = waited;
        if (somebody_failed_()) return absl::UnavailableError("another rank has ended");
      }
      if (waited > kSpinSeconds) std::this_thread::sleep_for(kNap);
    }
    if (work.exception() != nullptr) std::rethrow_exception(work.exception());
    return absl::OkStatus();
  }

  absl::Status Unconnected(const std::string& why) const {
    return absl::UnavailableError(absl::StrCat("rank ", options_.rank,
                                               " can't connect its GPU to those of the other "
                                               "ranks: ",
                                               FirstLine(why),
                                               " (NCCL_DEBUG=INFO says what NCCL tried)"));
  }

  // Aborts once. c10d's destructor, which must not throw, then has nothing to abort.
  void AbortGroup() {
    if (group_ == nullptr || group_aborted_) return;
    group_aborted_ = true;
    try {
      group_->abort();
    } catch (const std::exception&) {
      // The cause was reported already.
    }
  }

  const ConversationOptions options_;
  const ComputePlace place_;
  const std::function<bool()> somebody_failed_;
  const int rank_;  // index among the members
  cudaStream_t stream_ = nullptr;
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> group_;
  std::atomic<uint64_t> sent_bytes_{0};
  std::atomic<bool> aborted_{false};
  absl::Status failure_;  // the first failure; every later call fails
  bool group_aborted_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Collectives>> ConnectNccl(
    const c10::intrusive_ptr<c10d::Store>& store, const ConversationOptions& options,
    const ComputePlace& place, std::function<bool()> somebody_failed) {
  auto ranks = std::make_unique<NcclRanks>(options, place, std::move(somebody_failed));
  RETURN_IF_ERROR(ranks->Connect(store));
  return std::unique_ptr<Collectives>(std::move(ranks));
}

}  // namespace spillway
