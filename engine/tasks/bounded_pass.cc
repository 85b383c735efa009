#include "engine/tasks/bounded_pass.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "engine/machine/memory_limits.h"
#include "io/base/format_bytes.h"
#include "swap/device/memory_budget.h"

namespace spillway {
namespace {

absl::Status Guarded(const std::function<absl::Status(ForwardPass&)>& work, ForwardPass& pass,
                     const TorchMemory& memory) {
  try {
    return work(pass);
  } catch (const c10::OutOfMemoryError& error) {
    return DoesNotFitError(memory.RefusalText(error.what_without_backtrace()));
  }
}

}  // namespace

absl::Status RunWithinBudget(const PassWork& work, const Model& model, WeightSource* weights,
                             const ForwardOptions& options) {
  TorchMemory& memory = *options.place.memory;
  const absl::Status done = [&] {
    ForwardPass pass(model, weights, options);
    return Guarded(work.all, pass, memory);
  }();
  if (ExitCodeOf(done) != 3) return done;
  const uint64_t given = options.device_memory_bytes;
  MemoryBudget most("device", memory.DryRunBytes(given, AvailableMemoryBytes()));
  ForwardOptions enough = options;
  // Twice: with more memory all weights may stay there, and take more of it.
  for (int i = 0; i < 2; ++i) {
    ForwardPass pass(model, weights, enough);
    const bool weights_stay = pass.batches_at_once(/*hidden_bytes=*/1) == 1;
    memory.SetBudget(&most);
    memory.ResetPeak();
    if (!Guarded(work.largest, pass, memory).ok()) return done;
    uint64_t needed = memory.peak_live_bytes();
    // Others beside it get up to a quarter of the budget.
    if (work.several && !weights_stay) needed += needed / 3;
    enough.device_memory_bytes =
        std::max(enough.device_memory_bytes, (needed + kMiB - 1) / kMiB * kMiB);
  }
  if (enough.device_memory_bytes == given) return done;
  return DoesNotFitError(absl::StrCat(work.what, " does not fit --device-memory ",
                                      FormatBytes(given), ": it needs at least --device-memory ",
                                      FormatBytesForFlag(enough.device_memory_bytes)));
}

}  // namespace spillway
