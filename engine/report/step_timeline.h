// The time line of one step by resource: the compute thread's work and waits, and the busy times of
// workers and disks. Built from the spans of every step in bounded memory; the report draws the
// last steady one, and OUTPUT/timeline.json stores it (docs/FORMATS.md). Plain values; no thread of
// its own.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/report/busy_intervals.h"
#include "nlohmann/json.hpp"
#include "swap/plan/phase_traffic.h"

namespace spillway {

// All times below are seconds from the beginning of the step.
struct TimelineSpan {
  double begin = 0;
  double end = 0;

  friend bool operator==(const TimelineSpan&, const TimelineSpan&) = default;
};

struct TimelineOp {
  std::string name;  // "forward h.3"
  TimelineSpan span;
};

struct TimelineStall {
  std::string reason;  // "disk", "update", "copy", "collective", "commit"
  std::string before;  // the operation that waited
  TimelineSpan span;
};

// A row of the drawing: one resource.
struct TimelineRow {
  std::string name;  // "update worker 1", "disk read", "copy to device"
  std::vector<TimelineSpan> busy;
  // For transfers: bytes in bins of equal width from the step's beginning.
  double bin_seconds = 0;
  std::vector<double> bin_bytes;
};

struct StepTimeline {
  int64_t step = 0;
  // The step contains only training, and is not the first.
  bool steady = false;
  double seconds = 0;                        // duration
  std::array<double, kPhases> phase_ends{};  // end of each phase; the rest is evaluation
  std::vector<TimelineOp> ops;
  std::vector<TimelineStall> stalls;  // the longest ones, in order of time
  std::vector<TimelineRow> waits;     // one per reason: "disk"
  std::vector<TimelineRow>
      resources;  // workers, a device's own updates, disk read, disk write, copies, collectives
  // Seconds of all workers by kind of work: "round", "update", "check", "save".
  std::map<std::string, double> worker_seconds;
  uint64_t lost_spans = 0;  // exceeded the trace's capacity: the time line is incomplete
  nlohmann::json metrics;   // the step's row
};

nlohmann::json ToJson(const StepTimeline& timeline);
// kInvalidArgument for JSON that ToJson cannot have written.
absl::StatusOr<StepTimeline> StepTimelineFromJson(const nlohmann::json& json);

// Returns OUTPUT/timeline.json. Reading is kNotFound if it is missing.
std::string TimelinePath(const std::string& output);
absl::StatusOr<StepTimeline> ReadTimeline(const std::string& output);

// The ends of a step's parts, by Trace::Now.
struct StepTimes {
  int64_t step = 0;
  bool steady = false;
  int64_t begin_ns = 0;
  std::array<int64_t, kPhases> phase_ends_ns{};
  int64_t end_ns = 0;
};

// The label "forward h.3" of a span; a unit without a name is "unit 3".
std::string SpanLabel(const Span& span, const std::vector<std::string>& units);

// Receives the spans of steps in order. A step's time line is complete when the next step has
// ended, since some spans end that late; or with Finish.
class TimelineBuilder {
 public:
  explicit TimelineBuilder(std::vector<std::string> units) : units_(std::move(units)) {}

  // The first step begins.
  void Begin(int64_t begin_ns);
  void Add(const Span& span);
  // The step ends, and the next one begins. `lost`: total of lost spans.
  void EndStep(const StepTimes& times, nlohmann::json metrics, uint64_t lost);
  // No more spans follow.
  void Finish();

  // The last complete steady step, or else the last one.
  const std::optional<StepTimeline>& timeline() const { return timeline_; }

 private:
  // A step whose spans are still arriving.
  struct Open {
    StepTimes times;  // end_ns: 0 until the step has ended
    nlohmann::json metrics;
    uint64_t lost = 0;
    std::vector<Span> ops;
    std::vector<Span> stalls;
    std::map<SpanKind, BusyIntervals> waits;
    std::map<uint16_t, BusyIntervals> workers;  // by thread
    BusyIntervals device_updates;
    std::map<SpanKind, int64_t> worker_ns;
    std::map<SpanKind, BusyIntervals> transfers;
    std::map<SpanKind, ByteBins> bytes;
  };

  void AddTo(Open& open, const Span& span) const;
  void Seal(Open& open);

  const std::vector<std::string> units_;
  std::optional<Open> current_;
  std::optional<Open> ended_;  // the previous step
  uint64_t lost_before_ = 0;
  std::optional<StepTimeline> timeline_;
};

}  // namespace spillway
