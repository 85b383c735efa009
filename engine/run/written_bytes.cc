#include "engine/run/written_bytes.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "engine/machine/memory_limits.h"
#include "engine/run/metrics_log.h"
#include "io/base/format_bytes.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr uint64_t kMostFileBytes = 64;
constexpr uint64_t kCountBytes = 21;
// An exabyte, more than any drive writes: a run's sum stays far from an overflow.
constexpr uint64_t kMostWrittenBytes = uint64_t{1} << 60;

// Total bytes of the smallest run with one more step.
uint64_t Needed(uint64_t written_bytes, const WritePlan& plan) {
  return written_bytes + plan.initial_bytes + plan.step_bytes + plan.end_bytes;
}

absl::StatusOr<uint64_t> WrittenInSteps(const std::string& output) {
  const std::string path = output + "/metrics.jsonl";
  uint64_t bytes = 0;
  bool possible = true;
  ReadRows(path, [&](const nlohmann::json& row, int64_t) {
    const auto written = nlohmann::json::json_pointer("/bytes/nvme_written");
    if (!row.contains(written) || !row[written].is_number_unsigned()) return;
    const uint64_t more = row[written].get<uint64_t>();
    possible = possible && more <= kMostWrittenBytes - bytes;
    if (possible) bytes += more;
  }).IgnoreError();
  if (possible) return bytes;
  return absl::InvalidArgumentError(
      absl::StrCat(path,
                   " says that this run has written more than any drive takes: put the bytes "
                   "that it has written into ",
                   WrittenBytes::PathIn(output), " (0 if nobody knows)"));
}

}  // namespace

WritePlan PlanWrites(const SwapPlan& plan, bool fresh, bool commits, const InPlaceUnits& in_place) {
  WritePlan writes;
  writes.step_bytes = plan.traffic.written_bytes;
  writes.end_bytes = writes.step_bytes;
  const StateLayout& layout = plan.layout;
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    if (in_place.Has(unit)) continue;
    const UnitPlacement& placement = plan.placements[unit];
    for (int plane = 0; plane < layout.NumPlanes(unit); ++plane) {
      const uint64_t bytes = layout.UnitPlanesBytes(unit, plane, plane + 1);
      // Frozen units are written once, if only by the first commit.
      if (placement.InStore(plane) || (commits && layout.frozen(unit))) {
        if (fresh) writes.initial_bytes += bytes;
      } else if (commits) {
        writes.end_bytes += bytes;
      }
    }
  }
  return writes;
}

bool StepWouldPass(uint64_t limit_bytes, uint64_t written_bytes, const WritePlan& plan) {
  const uint64_t due_bytes = plan.commits_between ? plan.end_bytes : 0;
  return limit_bytes > 0 &&
         written_bytes + due_bytes + plan.step_bytes + plan.end_bytes > limit_bytes;
}

absl::Status CheckWriteLimit(uint64_t limit_bytes, uint64_t written_bytes, const WritePlan& plan) {
  if (limit_bytes == 0 || Needed(written_bytes, plan) <= limit_bytes) return absl::OkStatus();
  std::string parts;
  const auto part = [&](uint64_t bytes, absl::string_view what) {
    if (bytes == 0) return;
    absl::StrAppend(&parts, parts.empty() ? "" : ", ", FormatBytes(bytes), " ", what);
  };
  part(written_bytes, "written by this run so far");
  part(plan.initial_bytes, "of first state");
  part(plan.step_bytes, "a step");
  part(plan.end_bytes, "at the end (updates under way, and the commit)");
  return DoesNotFitError(absl::StrCat("--max-bytes-written ", FormatBytes(limit_bytes),
                                      " allows no step: ", parts, "; give at least ",
                                      FormatBytesForFlag(Needed(written_bytes, plan))));
}

std::string WrittenBytes::PathIn(const std::string& output) { return output + "/bytes-written"; }

absl::StatusOr<uint64_t> WrittenBytes::Read(const std::string& output) {
  const std::string path = PathIn(output);
  const auto text = ReadSmallFile(path, kMostFileBytes, SymbolicLink::kRefuse);
  if (absl::IsNotFound(text.status())) return WrittenInSteps(output);
  RETURN_IF_ERROR(text.status());
  if (text->empty()) return WrittenInSteps(output);
  uint64_t bytes = 0;
  if (!absl::SimpleAtoi(absl::StripSuffix(*text, "\n"), &bytes) || bytes > kMostWrittenBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     " holds no possible number: it says how much this run has written; put the "
                     "bytes there (0 if nobody knows)"));
  }
  return bytes;
}

absl::StatusOr<std::unique_ptr<WrittenBytes>> WrittenBytes::Open(const std::string& output,
                                                                 uint64_t before,
                                                                 FileSystem& files) {
  ASSIGN_OR_RETURN(std::unique_ptr<File> file,
                   OpenInPlace(files, PathIn(output), FileAccess::kPrivate));
  std::unique_ptr<WrittenBytes> written(new WrittenBytes(std::move(file), before));
  RETURN_IF_ERROR(written->Set(0));
  // Written last: a process killed before this leaves a number.
  RETURN_IF_ERROR(written->file_->Preallocate(kCountBytes));
  return written;
}

absl::Status WrittenBytes::Set(uint64_t process_bytes, uint64_t expected_bytes) {
  process_bytes_ = process_bytes;
  // Always of the same length and in one write: a reader, or a process killed here, sees the old
  // number or the new one.
  const std::string text = absl::StrFormat("%020d\n", total() + expected_bytes);
  return file_->WriteAt(0, text.data(), text.size());
}

}  // namespace spillway
