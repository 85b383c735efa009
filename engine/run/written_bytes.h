// How much a run has had written to its drives: in all its processes, first state, updates,
// spilled gradients and commits. And when to stop, where there is a limit (--max-bytes-written).
//
// The count is kept in OUTPUT/bytes-written (docs/FORMATS.md), which always holds at least what
// was written: before something is written, what is expected of it is added, and corrected
// afterwards. A process that is killed thus counts its last step in full. It is not synced:
// a power failure may lose the last minutes' count. Compute thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "io/file_system.h"
#include "swap/plan/swap_plan.h"
#include "swap/store/in_place.h"

namespace spillway {

// What a run is going to write, from its plan.
struct WritePlan {
  uint64_t initial_bytes = 0;  // the first state; 0 for a run that is resumed
  uint64_t step_bytes = 0;     // a steady step
  // What may come after the last step's end: updates that it put off or has under way, and the
  // commit of what only lives in memory. At most.
  uint64_t end_bytes = 0;
  // Whether there are commits before the last one: one may be due, or under way, as a step begins.
  bool commits_between = false;
};

// `in_place`: what is never written.
WritePlan PlanWrites(const SwapPlan& plan, bool fresh, bool commits,
                     const InPlaceUnits& in_place = {});

// Whether a further step would pass the limit, when so much has been written. 0: no limit.
bool StepWouldPass(uint64_t limit_bytes, uint64_t written_bytes, const WritePlan& plan);

// OK, or what ends in exit code 3 and names the smallest limit that allows one step.
absl::Status CheckWriteLimit(uint64_t limit_bytes, uint64_t written_bytes, const WritePlan& plan);

class WrittenBytes {
 public:
  static std::string PathIn(const std::string& output);

  // What the run in `output` has written so far. Of a run of an earlier version, which kept no
  // count, or one killed before its first, what its steps have.
  static absl::StatusOr<uint64_t> Read(const std::string& output);

  // Goes on from `before`.
  static absl::StatusOr<std::unique_ptr<WrittenBytes>> Open(const std::string& output,
                                                            uint64_t before,
                                                            FileSystem& files = FileSystem::Real());

  // This process has written `process_bytes`, and up to `expected_bytes` more come now.
  absl::Status Set(uint64_t process_bytes, uint64_t expected_bytes = 0);

  // Of all processes, without what is expected.
  uint64_t total() const { return before_ + process_bytes_; }

 private:
  WrittenBytes(std::unique_ptr<File> file, uint64_t before)
      : file_(std::move(file)), before_(before) {}

  const std::unique_ptr<File> file_;
  const uint64_t before_;
  uint64_t process_bytes_ = 0;
};

}  // namespace spillway
