#include "engine/report/trace_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "io/base/format_bytes.h"
#include "io/base/status.h"
#include "io/file_system.h"
#include "io/io_engine.h"

namespace spillway {
namespace {

constexpr size_t kPieceBytes = 64 << 10;
constexpr absl::string_view kBegin = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
constexpr absl::string_view kEnd = "\n]}\n";
// More requests than are ever under way; additional ones share the last lane.
constexpr size_t kMostLanes = 400;

absl::string_view ClassName(uint8_t io_class) {
  switch (static_cast<IoClass>(io_class)) {
    case IoClass::kDemand:
      return "demand";
    case IoClass::kPrefetch:
      return "prefetch";
    case IoClass::kWriteBack:
      return "write-back";
  }
  return "?";
}

std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

absl::Status FileError(int error, const char* what, const std::string& path) {
  return ErrnoStatus(error, absl::StrCat("--trace: ", what, " ", path));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceFile>> TraceFile::Open(const std::string& path,
                                                           std::vector<std::string> units,
                                                           uint64_t most_bytes) {
  bool created = true;
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd.valid() && errno == EEXIST) {
    created = false;
    // Non-blocking, so that a pipe without a reader is an error instead of a wait.
    fd = UniqueFd(open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK));
  }
  if (!fd.valid()) {
    const absl::Status status = FileError(errno, "open", path);
    // A directory or a read-only file system: the argument is wrong.
    return absl::IsUnknown(status) ? absl::InvalidArgumentError(status.message()) : status;
  }
  struct stat found;
  if (fstat(fd.get(), &found) != 0) return FileError(errno, "look at", path);
  if (!S_ISREG(found.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--trace: ", path,
                     " is no regular file: a trace is written over and over at "
                     "its end, so give a file"));
  }
  return std::unique_ptr<TraceFile>(
      new TraceFile(path, std::move(fd), created, std::move(units), most_bytes));
}

TraceFile::TraceFile(std::string path, UniqueFd fd, bool created, std::vector<std::string> units,
                     uint64_t most_bytes)
    : path_(std::move(path)),
      fd_(std::move(fd)),
      created_(created),
      units_(std::move(units)),
      most_bytes_(most_bytes) {}

TraceFile::~TraceFile() {
  Flush().IgnoreError();
  if (created_ && end_ == 0) FileSystem::Real().Remove(path_).IgnoreError();
}

std::string TraceFile::Microseconds(int64_t ns) const {
  ns = std::max<int64_t>(0, ns);
  return absl::StrFormat("%d.%03d", ns / 1000, ns % 1000);
}

void TraceFile::Start(int64_t ns) {
  if (bytes() > 0) return;
  if (start_ns_ < 0) start_ns_ = ns;
  text_ = absl::StrCat(kBegin, R"({"ph":"M","pid":1,"tid":0,"name":"process_name","args":{"name":)",
                       R"("spillway train"}})");
  NameTrack(kSteps, "steps");
  NameTrack(kCompute, "compute");
  NameTrack(kWaits, "waits of compute");
  NameTrack(kCommits, "commits");
}

absl::Status TraceFile::Append(const std::string& text) {
  if (failed_) return absl::OkStatus();
  absl::StrAppend(&text_, ",\n{\"pid\":1,", text, "}");
  if (bytes() > most_bytes_) {
    RETURN_IF_ERROR(Flush());
    failed_ = true;
    return absl::ResourceExhaustedError(
        absl::StrCat("--trace: ", path_, " has become ", FormatBytes(end_),
                     " large and ends here; --trace-steps with fewer steps makes it smaller"));
  }
  return text_.size() >= kPieceBytes ? Flush() : absl::OkStatus();
}

absl::Status TraceFile::Flush() {
  if (failed_ || text_.empty()) return absl::OkStatus();
  const auto write_at = [&](uint64_t offset, const std::string& text) {
    for (size_t done = 0; done < text.size();) {
      const ssize_t wrote = pwrite(fd_.get(), text.data() + done, text.size() - done,
                                   static_cast<off_t>(offset + done));
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) return wrote < 0 ? errno : ENOSPC;
      done += wrote;
    }
    return 0;
  };
  // Removes the content of an earlier trace.
  int error = end_ == 0 && ftruncate(fd_.get(), 0) != 0 ? errno : 0;
  if (error == 0) error = write_at(end_, text_ + std::string(kEnd));
  if (error != 0) {
    // Returns to the last complete end, whose brackets fit there.
    failed_ = true;
    if (end_ > 0 && ftruncate(fd_.get(), end_) == 0) write_at(end_, std::string(kEnd));
    return FileError(error, "write", path_);
  }
  end_ += text_.size();
  text_.clear();
  return absl::OkStatus();
}

void TraceFile::NameTrack(int track, const std::string& name) {
  absl::StrAppendFormat(&text_,
                        ",\n"
                        R"({"ph":"M","pid":1,"tid":%d,"name":"thread_name","args":{"name":%s}})"
                        ",\n"
                        R"({"ph":"M","pid":1,"tid":%d,"name":"thread_sort_index",)"
                        R"("args":{"sort_index":%d}})",
                        track, Quoted(name), track, track);
}

int TraceFile::LaneFor(Track first, int64_t begin_ns, int64_t end_ns) {
  std::vector<int64_t>& ends = lane_ends_[first];
  size_t lane = 0;
  while (lane < ends.size() && ends[lane] > begin_ns) ++lane;
  if (lane == ends.size()) {
    if (lane == kMostLanes) {
      --lane;
    } else {
      ends.push_back(0);
      NameTrack(first + static_cast<int>(lane),
                absl::StrCat(first == kReads ? "disk reads " : "disk writes ", lane + 1));
    }
  }
  ends[lane] = end_ns;
  return first + static_cast<int>(lane);
}

int TraceFile::TrackOf(const Span& span) {
  switch (span.kind) {
    case SpanKind::kForward:
    case SpanKind::kLoss:
    case SpanKind::kBackward:
      return kCompute;
    case SpanKind::kRound:
    case SpanKind::kUpdate:
    case SpanKind::kMeasure:
    case SpanKind::kCheck:
    case SpanKind::kSave:
    case SpanKind::kFill:
      break;
    case SpanKind::kRead:
      return LaneFor(kReads, span.begin_ns, span.end_ns);
    case SpanKind::kWrite:
      return LaneFor(kWrites, span.begin_ns, span.end_ns);
    case SpanKind::kDeviceUpdate:
    case SpanKind::kCopyToDevice:
    case SpanKind::kCopyToHost: {
      const Track track = span.kind == SpanKind::kCopyToDevice ? kToDevice
                          : span.kind == SpanKind::kCopyToHost ? kToHost
                                                               : kDeviceUpdates;
      if (named_.insert(track).second) NameTrack(track, std::string(SpanKindName(span.kind)));
      return track;
    }
    case SpanKind::kGather:
    case SpanKind::kSum:
      if (named_.insert(kCollectives).second) NameTrack(kCollectives, "collectives");
      return kCollectives;
    case SpanKind::kWaitDisk:
    case SpanKind::kWaitUpdate:
    case SpanKind::kWaitCopy:
    case SpanKind::kWaitCollective:
    case SpanKind::kWaitCommit:
      return kWaits;
    case SpanKind::kCommit:
      return kCommits;
    case SpanKind::kEvaluation:
      return kSteps;
  }
  const auto [found, is_new] =
      workers_.try_emplace(span.thread, kWorkers + static_cast<int>(workers_.size()));
  if (is_new) NameTrack(found->second, absl::StrCat("update worker ", workers_.size()));
  return found->second;
}

absl::Status TraceFile::Complete(int track, const std::string& name, const char* category,
                                 int64_t begin_ns, int64_t end_ns, const std::string& arguments) {
  return Append(absl::StrFormat(
      R"("ph":"X","tid":%d,"name":%s,"cat":"%s","ts":%s,"dur":%s,"args":{%s})", track, Quoted(name),
      category, Microseconds(begin_ns - start_ns_), Microseconds(end_ns - begin_ns), arguments));
}

absl::Status TraceFile::Add(const Span& span) {
  if (failed_) return absl::OkStatus();
  Start(span.begin_ns);
  const bool transfer = span.kind == SpanKind::kRead || span.kind == SpanKind::kWrite;
  const bool wait = span.kind >= SpanKind::kWaitDisk && span.kind <= SpanKind::kWaitCommit;
  std::string arguments;
  if (span.tile >= 0) absl::StrAppend(&arguments, "\"tile\":", span.tile);
  if (transfer) {
    absl::StrAppend(&arguments, arguments.empty() ? "" : ",", "\"class\":\"",
                    ClassName(span.detail), "\",\"bytes\":", span.bytes,
                    ",\"queued_us\":", Microseconds(span.begin_ns - span.submitted_ns));
  }
  if (wait && span.unit >= 0) {
    Span op = span;
    op.kind = static_cast<SpanKind>(span.detail);
    absl::StrAppend(&arguments, "\"before\":", Quoted(SpanLabel(op, units_)));
  }
  const bool copy = span.kind == SpanKind::kCopyToDevice || span.kind == SpanKind::kCopyToHost;
  const bool collective = span.kind == SpanKind::kGather || span.kind == SpanKind::kSum;
  if (copy || collective) absl::StrAppend(&arguments, "\"bytes\":", span.bytes);
  const char* category = transfer     ? "disk"
                         : copy       ? "copy"
                         : collective ? "collective"
                         : wait       ? "wait"
                                      : "work";
  const int track = TrackOf(span);
  RETURN_IF_ERROR(
      Complete(track, SpanLabel(span, units_), category, span.begin_ns, span.end_ns, arguments));
  if (!transfer) return absl::OkStatus();
  for (const auto& [at_ns, bytes] : {std::pair(span.begin_ns, span.in_flight_at_begin),
                                     std::pair(span.end_ns, span.in_flight_at_end)}) {
    RETURN_IF_ERROR(Append(
        absl::StrFormat(R"("ph":"C","tid":0,"name":"bytes in flight","ts":%s,"args":{"bytes":%d})",
                        Microseconds(at_ns - start_ns_), bytes)));
  }
  return absl::OkStatus();
}

absl::Status TraceFile::AddStep(const StepTimes& times) {
  if (failed_) return absl::OkStatus();
  Start(times.begin_ns);
  RETURN_IF_ERROR(Complete(kSteps, absl::StrCat("step ", times.step), "step", times.begin_ns,
                           times.end_ns, absl::StrCat("\"step\":", times.step)));
  int64_t begin_ns = times.begin_ns;
  for (int i = 0; i < kPhases; ++i) {
    RETURN_IF_ERROR(Complete(kSteps, std::string(PhaseName(static_cast<Phase>(i))), "phase",
                             begin_ns, times.phase_ends_ns[i], ""));
    begin_ns = times.phase_ends_ns[i];
  }
  return Flush();
}

absl::Status TraceFile::AddLost(int64_t at_ns, uint64_t spans) {
  Start(at_ns);
  return Append(absl::StrFormat(R"("ph":"i","tid":%d,"s":"g","name":"%d spans were lost","ts":%s)",
                                kSteps, spans, Microseconds(at_ns - start_ns_)));
}

}  // namespace spillway
