// --trace FILE: every span of some steps, as JSON in Chrome's trace format, which ui.perfetto.dev
// and chrome://tracing open (docs/REPORT.md describes the content).
//
// The file grows during the run and is valid JSON after every write: each piece ends with the
// closing brackets, and the next piece overwrites them. So a run that is stopped, or fails, leaves
// a complete trace; only kill -9 during a write, or a full disk, could cut it. Memory is one piece,
// 64 KiB and an operation's spans.
//
// One thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/report/step_timeline.h"
#include "io/base/unique_fd.h"

namespace spillway {

class TraceFile {
 public:
  // Largest size; browsers cannot handle more.
  static constexpr uint64_t kMostBytes = uint64_t{1} << 30;

  // Opens the file, which must be writable (an error names it and the flag), and changes nothing in
  // it before the first Add. `units`: names, for labels.
  static absl::StatusOr<std::unique_ptr<TraceFile>> Open(const std::string& path,
                                                         std::vector<std::string> units,
                                                         uint64_t most_bytes = kMostBytes);
  // Removes the file if Open created it and nothing was written.
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // Sets time zero of the trace; nothing in it begins before.
  void Begin(int64_t start_ns) { start_ns_ = start_ns; }

  // Adds spans; those of one thread in order of their ends. kResourceExhausted when the file has
  // become too large: nothing more is added.
  absl::Status Add(const Span& span);
  // Adds a step and its phases.
  absl::Status AddStep(const StepTimes& times);
  // Notes in the trace that spans were lost before `at_ns`.
  absl::Status AddLost(int64_t at_ns, uint64_t spans);
  absl::Status Flush();

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return end_ + text_.size(); }

 private:
  TraceFile(std::string path, UniqueFd fd, bool created, std::vector<std::string> units,
            uint64_t most_bytes);

  // Tracks of the trace, "tid" in the format; lanes of a resource follow each other.
  enum Track : int {
    kSteps = 1,
    kCompute = 2,
    kWaits = 3,
    kCommits = 4,
    kToDevice = 50,  // copies of one direction do not overlap
    kToHost = 51,
    kDeviceUpdates = 52,  // likewise
    kCollectives = 53,    // likewise, of several ranks
    kWorkers = 100,
    kReads = 200,
    kWrites = 600,
  };
  // Writes the beginning of the file; time zero is `ns` if Begin was not called.
  void Start(int64_t ns);
  // Takes the lane from `first` on that is free at `begin_ns`, until `end_ns`.
  int LaneFor(Track first, int64_t begin_ns, int64_t end_ns);
  int TrackOf(const Span& span);
  void NameTrack(int track, const std::string& name);
  // Appends an event; `text` has its members except the common ones.
  absl::Status Append(const std::string& text);
  absl::Status Complete(int track, const std::string& name, const char* category, int64_t begin_ns,
                        int64_t end_ns, const std::string& arguments);
  std::string Microseconds(int64_t ns) const;

  const std::string path_;
  const UniqueFd fd_;
  const bool created_;
  const std::vector<std::string> units_;
  const uint64_t most_bytes_;
  int64_t start_ns_ = -1;
  uint64_t end_ = 0;  // after the last event in the file
  std::string text_;  // events not written yet
  bool failed_ = false;
  std::map<int, std::vector<int64_t>> lane_ends_;  // by the first track
  std::map<uint16_t, int> workers_;                // thread -> track
  std::set<int> named_;                            // tracks of a separate device, or of ranks
};

}  // namespace spillway
