// Counts the bytes that a run has written to its drives, over all its processes: first state,
// updates, spilled gradients and commits; and decides when to stop at a limit
// (--max-bytes-written).
//
// The count is in OUTPUT/bytes-written (docs/FORMATS.md) and is never less than the bytes written:
// the expected bytes are added before a write, and corrected afterwards. A process that is killed
// thus counts its last step in full. The file is not synced: a power failure may lose the last
// minutes' count. Compute thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "io/file_system.h"
#include "swap/plan/swap_plan.h"
#include "swap/store/in_place.h"

namespace spillway {

// Bytes that a run is going to write, from its plan.
struct WritePlan {
  uint64_t initial_bytes = 0;  // the first state; 0 for a resumed run
  uint64_t step_bytes = 0;     // a steady step
  // Upper bound after the last step's end: deferred updates or those under way, and the commit of
  // state that is only in memory.
  uint64_t end_bytes = 0;
  // Whether there are commits before the last one, which may be due, or under way, as a step
  // begins.
  bool commits_between = false;
};

// `in_place`: units that are never written.
WritePlan PlanWrites(const SwapPlan& plan, bool fresh, bool commits,
                     const InPlaceUnits& in_place = {});

// Whether another step would pass the limit after `written_bytes`. 0: no limit.
bool StepWouldPass(uint64_t limit_bytes, uint64_t written_bytes, const WritePlan& plan);

// OK, or an error of exit code 3 that names the smallest limit that allows one step.
absl::Status CheckWriteLimit(uint64_t limit_bytes, uint64_t written_bytes, const WritePlan& plan);

class WrittenBytes {
 public:
  static std::string PathIn(const std::string& output);

  // Bytes that the run in `output` has written so far. Without a count (an earlier version, or
  // killed before the first), the sum over its steps.
  static absl::StatusOr<uint64_t> Read(const std::string& output);

  // Continues the count from `before`.
  static absl::StatusOr<std::unique_ptr<WrittenBytes>> Open(const std::string& output,
                                                            uint64_t before,
                                                            FileSystem& files = FileSystem::Real());

  // Sets the bytes written by this process, and those expected until the next call.
  absl::Status Set(uint64_t process_bytes, uint64_t expected_bytes = 0);

  // Bytes of all processes, without expected ones.
  uint64_t total() const { return before_ + process_bytes_; }

 private:
  WrittenBytes(std::unique_ptr<File> file, uint64_t before)
      : file_(std::move(file)), before_(before) {}

  const std::unique_ptr<File> file_;
  const uint64_t before_;
  uint64_t process_bytes_ = 0;
};

}  // namespace spillway
