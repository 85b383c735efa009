// The I/O engine on io_uring.
//
// What makes it faster is a ladder of features, each tried once in Create and left
// out alone where the kernel refuses it: the ring's set-up flags (io/uring_ring.h),
// registered memory and files, and where asked for SQPOLL and IOPOLL. A ring that
// polls takes nothing but direct transfers, so IOPOLL is a second ring beside the
// one that carries the rest and Wake.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "io/base/unique_fd.h"
#include "io/block_engine.h"
#include "io/uring_ring.h"

namespace spillway {

class UringEngine final : public BlockEngine {
 public:
  // A refusal is explained as io/uring_refusal.h has it.
  static absl::StatusOr<std::unique_ptr<UringEngine>> Create(const IoEngineOptions& options);
  ~UringEngine() override;

  void Wake() override;
  absl::string_view name() const override { return "io_uring"; }
  IoFeatures features() const override { return features_; }

  // The set-up flags this kernel took, for the log.
  std::string flags() const;

 private:
  UringEngine(const IoEngineOptions& options, UniqueFd wake_fd);

  absl::Status CreateRings(const IoEngineOptions& options);
  int CreatePollRing(const IoEngineOptions& options);
  void RegisterWhatIsGiven(const IoEngineOptions& options);
  void Note(const std::string& feature, int error, uint64_t size_bytes = 0);

  void Start(IoBlock* block) override;
  void Flush() override;
  bool Exchange(absl::Duration wait) override;

  // What there is of it: the ring for direct transfers.
  UringRing& direct_ring() { return polling_ ? poll_ring_ : ring_; }
  void Enable();
  void ArmWake();
  void Add(UringRing& ring, IoBlock* block);
  void Wait(absl::Duration wait);
  void NoteEntered(int result);
  void Break(int error);
  bool ExchangePolling(absl::Duration wait);
  bool ExchangeBroken(absl::Duration wait);
  bool Reap();
  void ReapPolled();
  void StopPolling();
  bool ConsumeWake();

  UringRing ring_;
  UringRing poll_ring_;
  bool polling_ = false;  // direct blocks go to poll_ring_
  uint32_t polled_in_flight_ = 0;
  IoFeatures features_;

  bool enabled_ = false;
  // Set when the kernel refused to enable a ring or to serve it any longer: then each block comes
  // back with it.
  int ring_error_ = 0;
  std::vector<IoBlock*> refused_;
  std::vector<IoBlock*> under_way_;  // in a ring; at most `depth`
  absl::Time give_up_;               // of a broken ring: when these count as lost

  // Wake writes to it; a poll of it waits in the ring.
  UniqueFd wake_fd_;
  bool wake_armed_ = false;
  std::atomic<bool> wake_pending_ = false;
};

}  // namespace spillway
