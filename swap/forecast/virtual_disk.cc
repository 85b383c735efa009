#include "swap/forecast/virtual_disk.h"

#include <algorithm>

#include "io/base/check.h"
#include "io/block_queue.h"

namespace spillway {

void VirtualDisk::Submit(IoRequest* request) {
  Waiting& waiting = Of(*request);
  waiting.requests.push_back(request);
  waiting.bytes += static_cast<double>(request->size_bytes);
  ++pending_;
  Start(request->op);
  Share();
}

void VirtualDisk::Start(IoOp op) {
  const int line = op == IoOp::kRead ? VirtualMachine::kRead : VirtualMachine::kWrite;
  if (machine_->busy(line)) return;
  for (auto& of_class : waiting_) {
    Waiting& waiting = of_class[static_cast<int>(op)];
    if (waiting.requests.empty()) continue;
    IoRequest* const request = waiting.requests.front();
    waiting.requests.pop_front();
    machine_->Begin(line, static_cast<double>(request->size_bytes), [this, request] {
      Of(*request).bytes -= static_cast<double>(request->size_bytes);
      --pending_;
      Start(request->op);
      Share();
      request->done(*request, absl::OkStatus());
    });
    return;
  }
}

// An engine's queue is filled class by class, with reads and writes as they are there; one that is
// passed over has a block in flight now and then all the same.
void VirtualDisk::Share() {
  const IoEngineOptions engine;
  const double depth = static_cast<double>(engine.depth) * engine.block_bytes;
  const double most = depth * BlockQueue::kPassedOverLimit / (BlockQueue::kPassedOverLimit + 1);
  double in_flight = 0, reads = 0;
  for (const auto& of_class : waiting_) {
    const double read = of_class[static_cast<int>(IoOp::kRead)].bytes;
    const double all = read + of_class[static_cast<int>(IoOp::kWrite)].bytes;
    const double taken = std::min({all, depth - in_flight, in_flight == 0 ? most : depth});
    if (taken <= 0) continue;
    in_flight += taken;
    reads += taken * read / all;
  }
  if (in_flight > 0) machine_->ShareDisk(reads / in_flight);
}

size_t VirtualDisk::Poll(absl::Duration) {
  if (woken_) {
    woken_ = false;
    return 0;
  }
  SPILLWAY_CHECK(machine_->Advance() && "a plan whose steps come to a standstill");
  return 1;
}

}  // namespace spillway
