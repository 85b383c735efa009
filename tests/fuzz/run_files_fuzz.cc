// OUTPUT/bytes-written and OUTPUT/run-id: a count that goes on from there, and a name below swap
// paths.
#include "engine/run/swap_inventory.h"
#include "engine/run/written_bytes.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {

SPILLWAY_FUZZ(run_files, 500) {
  static const ScratchDirectory output;
  output.Empty();
  output.Write("bytes-written", input);
  output.Write(kRunIdName, input);

  const std::string id = ReadRunId(output.path());
  if (!id.empty()) {
    SPILLWAY_CHECK(id.size() == 16 && IsSwapDirectoryName(SwapDirectoryName(id, 0)));
  }

  const auto before = WrittenBytes::Read(output.path());
  if (!before.ok()) {
    Refuse(before.status(), {absl::StatusCode::kInvalidArgument});
    return !id.empty();
  }
  // A limit of one byte more than was written has no room for a step, whatever was written.
  const WritePlan plan{.initial_bytes = 0, .step_bytes = 1 << 20, .end_bytes = 1 << 20};
  SPILLWAY_CHECK(!CheckWriteLimit(*before + 1, *before, plan).ok());
  SPILLWAY_CHECK(StepWouldPass(*before + 1, *before, plan));
  const auto written = WrittenBytes::Open(output.path(), *before);
  SPILLWAY_CHECK(written.ok());
  const auto again = WrittenBytes::Read(output.path());
  SPILLWAY_CHECK(again.ok() && *again == *before);
  SPILLWAY_CHECK((*written)->Set(1, 4096).ok());
  const auto more = WrittenBytes::Read(output.path());
  // What is beyond an exabyte counts as damaged.
  SPILLWAY_CHECK(more.ok() ? *more >= *before : *before > uint64_t{1} << 59);
  return true;
}

}  // namespace spillway
