// The I/O engine on io_uring.
//
// Performance comes from a ladder of features. Each is tried once in Create and dropped alone where
// the kernel refuses it: the ring's set-up flags (io/uring_ring.h), registered memory and files,
// and on request SQPOLL and IOPOLL. A polling ring accepts only direct transfers, so IOPOLL is a
// second ring beside the one for everything else and Wake.
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
  // A refusal is explained by io/uring_refusal.h.
  static absl::StatusOr<std::unique_ptr<UringEngine>> Create(const IoEngineOptions& options);
  ~UringEngine() override;

  void Wake() override;
  absl::string_view name() const override { return "io_uring"; }
  IoFeatures features() const override { return features_; }

  // The set-up flags that this kernel accepted, for the log.
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

  // The ring for direct transfers: poll_ring_ if it exists.
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
  // Set when the kernel refused to enable a ring or stopped serving it; every block then returns
  // with this error.
  int ring_error_ = 0;
  std::vector<IoBlock*> refused_;
  std::vector<IoBlock*> under_way_;  // in a ring; at most `depth`
  absl::Time give_up_;               // broken ring: when these count as lost

  // Wake writes to it; the ring has a poll request on it.
  UniqueFd wake_fd_;
  bool wake_armed_ = false;
  std::atomic<bool> wake_pending_ = false;
};

}  // namespace spillway
