// The disk of a forecast: an I/O engine that moves no bytes and whose transfers take simulated
// time.
//
// Requests of a class start in order of arrival, and every request of one class before those of the
// next class, as in io/block_queue.h. The reads and writes that are in flight share the disk.
#pragma once

#include <deque>

#include "io/io_engine.h"
#include "swap/forecast/virtual_machine.h"

namespace spillway {

class VirtualDisk final : public IoEngine {
 public:
  // The machine outlives it.
  explicit VirtualDisk(VirtualMachine* machine) : machine_(machine) {}

  void Submit(IoRequest* request) override;
  // Lets the machine's time pass until any of its work ends, a transfer or other work.
  size_t Poll(absl::Duration timeout) override;
  void Wake() override { woken_ = true; }
  size_t pending() const override { return pending_; }
  absl::string_view name() const override { return "virtual"; }
  IoStats stats() const override { return {}; }

 private:
  static constexpr int kClasses = 3;
  struct Waiting {
    std::deque<IoRequest*> requests;
    double bytes = 0;  // with those of the transfer under way
  };
  Waiting& Of(const IoRequest& request) {
    return waiting_[static_cast<int>(request.io_class)][static_cast<int>(request.op)];
  }
  void Start(IoOp op);
  void Share();

  VirtualMachine* const machine_;
  Waiting waiting_[kClasses][2];  // [class][op]
  size_t pending_ = 0;
  bool woken_ = false;
};

}  // namespace spillway
