#include "engine/report/step_timeline.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/strict_json.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr int kTimelineVersion = 1;
// Operations and stalls are listed one by one; models of more layers have only their rows.
constexpr size_t kMostOps = 1024;
constexpr size_t kMostStalls = 48;
// A handshake with the mover is shorter, and no stall.
constexpr int64_t kLeastStallNs = 100'000;

bool IsWorker(SpanKind kind) { return kind >= SpanKind::kRound && kind <= SpanKind::kFill; }
bool IsTransfer(SpanKind kind) { return kind >= SpanKind::kRead && kind <= SpanKind::kSum; }
bool IsWait(SpanKind kind) { return kind >= SpanKind::kWaitDisk && kind <= SpanKind::kWaitCommit; }

std::string WaitReason(SpanKind kind) {
  return kind == SpanKind::kWaitDisk         ? "disk"
         : kind == SpanKind::kWaitUpdate     ? "update"
         : kind == SpanKind::kWaitCopy       ? "copy"
         : kind == SpanKind::kWaitCollective ? "collective"
                                             : "commit";
}

nlohmann::json SpansJson(const std::vector<TimelineSpan>& spans) {
  nlohmann::json json = nlohmann::json::array();
  for (const TimelineSpan& span : spans) json.push_back({span.begin, span.end});
  return json;
}

TimelineSpan SpanFromJson(const nlohmann::json& json) {
  return {json.at(0).get<double>(), json.at(1).get<double>()};
}

std::vector<TimelineSpan> SpansFromJson(const nlohmann::json& json) {
  std::vector<TimelineSpan> spans;
  for (const auto& span : json) spans.push_back(SpanFromJson(span));
  return spans;
}

nlohmann::json RowsJson(const std::vector<TimelineRow>& rows) {
  nlohmann::json json = nlohmann::json::array();
  for (const TimelineRow& row : rows) {
    json.push_back({{"name", row.name}, {"busy", SpansJson(row.busy)}});
    if (row.bin_bytes.empty()) continue;
    json.back()["bin_seconds"] = row.bin_seconds;
    json.back()["bin_bytes"] = row.bin_bytes;
  }
  return json;
}

std::vector<TimelineRow> RowsFromJson(const nlohmann::json& json) {
  std::vector<TimelineRow> rows;
  for (const auto& from : json) {
    TimelineRow row;
    row.name = from.at("name").get<std::string>();
    row.busy = SpansFromJson(from.at("busy"));
    if (from.contains("bin_bytes")) {
      row.bin_seconds = from.at("bin_seconds").get<double>();
      row.bin_bytes = from.at("bin_bytes").get<std::vector<double>>();
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// Bounds of valid numbers: a year, an exabyte.
constexpr double kMostSeconds = 3.2e7;
constexpr double kMostBytes = 1e18;

bool IsPlausible(const TimelineSpan& span) {
  return span.begin >= 0 && span.begin <= span.end && span.end <= kMostSeconds;
}

bool IsPlausible(const TimelineRow& row) {
  const auto good = [](const TimelineSpan& span) { return IsPlausible(span); };
  const auto bytes = [](double bin) { return bin >= 0 && bin <= kMostBytes; };
  return row.bin_seconds >= 0 && row.bin_seconds <= kMostSeconds &&
         std::all_of(row.busy.begin(), row.busy.end(), good) &&
         std::all_of(row.bin_bytes.begin(), row.bin_bytes.end(), bytes);
}

bool IsPlausible(const StepTimeline& t) {
  const auto good = [](const auto& item) { return IsPlausible(item.span); };
  const auto good_row = [](const TimelineRow& row) { return IsPlausible(row); };
  return IsPlausible(TimelineSpan{0, t.seconds}) && std::all_of(t.ops.begin(), t.ops.end(), good) &&
         std::all_of(t.stalls.begin(), t.stalls.end(), good) &&
         std::all_of(t.waits.begin(), t.waits.end(), good_row) &&
         std::all_of(t.resources.begin(), t.resources.end(), good_row);
}

std::string UnitName(int unit, const std::vector<std::string>& units) {
  if (unit >= 0 && unit < static_cast<int>(units.size())) return units[unit];
  return absl::StrCat("unit ", unit);
}

}  // namespace

std::string SpanLabel(const Span& span, const std::vector<std::string>& units) {
  const std::string kind(SpanKindName(span.kind));
  return span.unit < 0 || IsWait(span.kind) ? kind
                                            : absl::StrCat(kind, " ", UnitName(span.unit, units));
}

void TimelineBuilder::Begin(int64_t begin_ns) {
  current_ = Open{};
  current_->times.begin_ns = begin_ns;
}

void TimelineBuilder::Add(const Span& span) {
  if (current_) AddTo(*current_, span);
  if (ended_) AddTo(*ended_, span);
}

void TimelineBuilder::AddTo(Open& open, const Span& span) const {
  if (span.end_ns <= open.times.begin_ns) return;
  if (open.times.end_ns > 0 && span.begin_ns >= open.times.end_ns) return;
  if (span.kind <= SpanKind::kBackward) {
    if (open.ops.size() < kMostOps) open.ops.push_back(span);
  } else if (IsWorker(span.kind)) {
    open.workers[span.thread].Add(span.begin_ns, span.end_ns);
    open.worker_ns[span.kind] += span.end_ns - std::max(span.begin_ns, open.times.begin_ns);
  } else if (span.kind == SpanKind::kDeviceUpdate) {
    open.device_updates.Add(span.begin_ns, span.end_ns);
  } else if (IsWait(span.kind)) {
    open.waits[span.kind].Add(span.begin_ns, span.end_ns);
    if (span.end_ns - span.begin_ns < kLeastStallNs) return;
    open.stalls.push_back(span);
    if (open.stalls.size() <= kMostStalls) return;
    open.stalls.erase(
        std::min_element(open.stalls.begin(), open.stalls.end(), [](const Span& a, const Span& b) {
          return a.end_ns - a.begin_ns < b.end_ns - b.begin_ns;
        }));
  } else if (IsTransfer(span.kind)) {
    // Gathers and sums are in one row, since they never overlap.
    const SpanKind row = span.kind == SpanKind::kSum ? SpanKind::kGather : span.kind;
    open.transfers[row].Add(span.begin_ns, span.end_ns);
    open.bytes.try_emplace(row, open.times.begin_ns)
        .first->second.Add(span.begin_ns, span.end_ns, span.bytes);
  }
}

void TimelineBuilder::EndStep(const StepTimes& times, nlohmann::json metrics, uint64_t lost) {
  if (!current_) return;
  if (ended_) Seal(*ended_);
  const int64_t begin_ns = current_->times.begin_ns;
  ended_ = std::move(current_);
  ended_->times = times;
  ended_->times.begin_ns = begin_ns;
  ended_->metrics = std::move(metrics);
  ended_->lost = lost - std::exchange(lost_before_, lost);
  Begin(times.end_ns);
}

void TimelineBuilder::Finish() {
  if (ended_) Seal(*ended_);
  ended_.reset();
  current_.reset();
}

void TimelineBuilder::Seal(Open& open) {
  const StepTimes& times = open.times;
  if (timeline_ && timeline_->steady && !times.steady) return;
  // Rounded to a tenth of a microsecond, which shortens the file.
  const auto seconds = [&](int64_t ns) {
    return static_cast<double>((ns - times.begin_ns + 50) / 100) / 1e7;
  };
  const auto clipped = [&](const Span& span) -> TimelineSpan {
    return {seconds(std::max(span.begin_ns, times.begin_ns)),
            seconds(std::min(span.end_ns, times.end_ns))};
  };
  const auto row_of = [&](std::string name, BusyIntervals busy) {
    TimelineRow row;
    row.name = std::move(name);
    busy.Clip(times.begin_ns, times.end_ns);
    for (const auto& [begin, end] : busy.pieces())
      row.busy.push_back({seconds(begin), seconds(end)});
    return row;
  };
  StepTimeline done;
  done.step = times.step;
  done.steady = times.steady;
  done.seconds = seconds(times.end_ns);
  for (int i = 0; i < kPhases; ++i) done.phase_ends[i] = seconds(times.phase_ends_ns[i]);
  for (const Span& op : open.ops) done.ops.push_back({SpanLabel(op, units_), clipped(op)});
  std::sort(open.stalls.begin(), open.stalls.end(),
            [](const Span& a, const Span& b) { return a.begin_ns < b.begin_ns; });
  for (const Span& stall : open.stalls) {
    Span op = stall;
    op.kind = static_cast<SpanKind>(stall.detail);
    // A wait without an operation waits for the step's end.
    done.stalls.push_back({WaitReason(stall.kind),
                           stall.unit >= 0 ? SpanLabel(op, units_) : "the end of the step",
                           clipped(stall)});
  }
  for (const auto& [kind, busy] : open.waits) done.waits.push_back(row_of(WaitReason(kind), busy));
  int worker = 0;
  for (const auto& [thread, busy] : open.workers) {
    done.resources.push_back(row_of(absl::StrCat("update worker ", ++worker), busy));
  }
  if (!open.device_updates.pieces().empty()) {
    done.resources.push_back(
        row_of(std::string(SpanKindName(SpanKind::kDeviceUpdate)), open.device_updates));
  }
  for (const auto& [kind, busy] : open.transfers) {
    const bool disk = kind == SpanKind::kRead || kind == SpanKind::kWrite;
    TimelineRow row =
        row_of(kind == SpanKind::kGather ? "collectives"
                                         : absl::StrCat(disk ? "disk " : "", SpanKindName(kind)),
               busy);
    const ByteBins& bytes = open.bytes.at(kind);
    row.bin_seconds = static_cast<double>(bytes.width_ns()) * 1e-9;
    for (const double bin : bytes.bins()) row.bin_bytes.push_back(std::round(bin));
    // Removes bins entirely after the end.
    const size_t bins = static_cast<size_t>(done.seconds / row.bin_seconds) + 1;
    if (row.bin_bytes.size() > bins) row.bin_bytes.resize(bins);
    done.resources.push_back(std::move(row));
  }
  for (const auto& [kind, ns] : open.worker_ns) {
    done.worker_seconds[std::string(SpanKindName(kind))] = static_cast<double>(ns) * 1e-9;
  }
  done.lost_spans = open.lost;
  done.metrics = std::move(open.metrics);
  timeline_ = std::move(done);
}

nlohmann::json ToJson(const StepTimeline& t) {
  nlohmann::json json;
  json["version"] = kTimelineVersion;
  json["step"] = t.step;
  json["steady"] = t.steady;
  json["seconds"] = t.seconds;
  json["phase_ends"] = t.phase_ends;
  json["ops"] = nlohmann::json::array();
  for (const TimelineOp& op : t.ops) json["ops"].push_back({op.name, op.span.begin, op.span.end});
  json["stalls"] = nlohmann::json::array();
  for (const TimelineStall& stall : t.stalls) {
    json["stalls"].push_back({{"reason", stall.reason},
                              {"before", stall.before},
                              {"span", {stall.span.begin, stall.span.end}}});
  }
  json["waits"] = RowsJson(t.waits);
  json["resources"] = RowsJson(t.resources);
  json["worker_seconds"] = t.worker_seconds;
  json["lost_spans"] = t.lost_spans;
  json["metrics"] = t.metrics;
  return json;
}

absl::StatusOr<StepTimeline> StepTimelineFromJson(const nlohmann::json& json) {
  StepTimeline t;
  try {
    if (json.at("version") != kTimelineVersion) {
      return absl::InvalidArgumentError(absl::StrCat("version ", json.at("version").dump(),
                                                     "; this program reads ", kTimelineVersion));
    }
    if (!json.at("step").is_number_integer() || !json.at("lost_spans").is_number_unsigned()) {
      return absl::InvalidArgumentError("\"step\" and \"lost_spans\" are whole numbers");
    }
    t.step = json.at("step").get<int64_t>();
    t.steady = json.at("steady").get<bool>();
    t.seconds = json.at("seconds").get<double>();
    t.phase_ends = json.at("phase_ends").get<std::array<double, kPhases>>();
    for (const auto& op : json.at("ops")) {
      t.ops.push_back(
          {op.at(0).get<std::string>(), {op.at(1).get<double>(), op.at(2).get<double>()}});
    }
    for (const auto& stall : json.at("stalls")) {
      t.stalls.push_back({stall.at("reason").get<std::string>(),
                          stall.at("before").get<std::string>(), SpanFromJson(stall.at("span"))});
    }
    t.waits = RowsFromJson(json.at("waits"));
    t.resources = RowsFromJson(json.at("resources"));
    t.worker_seconds = json.at("worker_seconds").get<std::map<std::string, double>>();
    t.lost_spans = json.at("lost_spans").get<uint64_t>();
    t.metrics = json.at("metrics");
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(error.what());
  }
  if (!IsPlausible(t)) return absl::InvalidArgumentError("times that no step has");
  return t;
}

std::string TimelinePath(const std::string& output) { return output + "/timeline.json"; }

absl::StatusOr<StepTimeline> ReadTimeline(const std::string& output) {
  const std::string path = TimelinePath(output);
  ASSIGN_OR_RETURN(const JsonDocument document, ReadStrictJson(path));
  absl::StatusOr<StepTimeline> timeline = StepTimelineFromJson(document.value);
  if (!timeline.ok()) return Annotate(timeline.status(), absl::StrCat(path, " is no time line"));
  return timeline;
}

}  // namespace spillway
