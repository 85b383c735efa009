#include "swap/device/device.h"

#include <chrono>
#include <memory>
#include <optional>

#include "io/base/mutex.h"

namespace spillway {

absl::Status AwaitStream(Device& device, StreamId stream, double seconds) {
  // A caller whose wait has timed out leaves before the note comes.
  struct Arrival {
    Mutex mutex;
    CondVar changed;
    std::optional<absl::Status> status ABSL_GUARDED_BY(mutex);
  };
  constexpr double kForever = 1e9;
  auto arrival = std::make_shared<Arrival>();
  device.Notify(stream, [arrival](const absl::Status& status) {
    MutexLock lock(arrival->mutex);
    arrival->status = status;
    arrival->changed.NotifyAll();
  });
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                       std::chrono::duration<double>(seconds < kForever ? seconds : kForever));
  MutexLock lock(arrival->mutex);
  while (!arrival->status) {
    if (arrival->changed.WaitUntil(arrival->mutex, end) || arrival->status) continue;
    return absl::DeadlineExceededError("the device has not come so far in time");
  }
  return *arrival->status;
}

}  // namespace spillway
