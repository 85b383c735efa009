// The I/O engine on io_uring.
//
// The ring is asked for with COOP_TASKRUN, SINGLE_ISSUER and DEFER_TASKRUN:
// completions are then handled when we ask and not by interrupting compute.
// Older kernels get what they have. DEFER_TASKRUN ties the ring to the thread
// that enables it; the ring is made disabled in Create, so that every refusal
// is found there, and enabled by the owner's first Poll.
#pragma once

#include <liburing.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "io/block_engine.h"
#include "io/unique_fd.h"

namespace spillway {

class UringEngine final : public BlockEngine {
 public:
  // A refusal is explained as io/uring_refusal.h has it.
  static absl::StatusOr<std::unique_ptr<UringEngine>> Create(const IoEngineOptions& options);
  ~UringEngine() override;

  void Wake() override;
  absl::string_view name() const override { return "io_uring"; }

  // The set-up flags this kernel took, for the log.
  std::string flags() const;

 private:
  UringEngine(const IoEngineOptions& options, UniqueFd wake_fd);

  absl::Status CreateRing(uint32_t entries);
  void Start(IoBlock* block) override;
  void Flush() override;
  bool Exchange(absl::Duration wait) override;

  // The one place that says how a block becomes a submission: registered
  // buffers and files go here.
  void Prepare(io_uring_sqe* sqe, const IoBlock& block);
  io_uring_sqe* NextSqe();
  void Enable();
  void ArmWake();
  bool Reap();
  bool ConsumeWake();

  io_uring ring_ = {};
  unsigned setup_flags_ = 0;
  bool ring_exists_ = false;
  bool enabled_ = false;
  // Set when enabling failed: then each block comes back with it.
  int enable_error_ = 0;
  std::vector<IoBlock*> refused_;

  // Wake writes to it; a poll of it waits in the ring.
  UniqueFd wake_fd_;
  bool wake_armed_ = false;
  std::atomic<bool> wake_pending_ = false;
};

}  // namespace spillway
