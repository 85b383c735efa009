// Identifies the process that works on a run directory: the content of its lock file while the lock
// is held, and of the `owner` file that stays in a swap directory. Text, one "name value" a line,
// ended by an empty line. Pure, except for ThisProcess.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace spillway {

struct RunRecord {
  int64_t process = 0;
  std::string host;
  std::string machine;        // its id, if it has one
  std::string boot;           // id of the kernel's boot, unique to a machine and its start
  std::string process_ids;    // PID namespace of `process`
  int64_t since_seconds = 0;  // since 1970
  std::string output;         // OUTPUT of the run, absolute; empty: unknown
  std::string run;            // id created with OUTPUT; empty: unknown
};

// The record of this process, now.
RunRecord ThisProcess();

std::string EncodeRunRecord(const RunRecord& record);
// nullopt if the text is incomplete, or another program's. Unknown names are skipped.
std::optional<RunRecord> DecodeRunRecord(absl::string_view text);

// "process 17 on node7 since 2026-11-21 13:55:21 UTC, which runs /scratch/out"; if the number is
// meaningless for `here`, it says that it is of another machine or container.
std::string DescribeHolder(const RunRecord& holder, const RunRecord& here);

// Returns "2026-11-21 13:55:21 UTC".
std::string TimeText(int64_t seconds);

}  // namespace spillway
