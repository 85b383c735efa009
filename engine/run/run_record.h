// Who works on a run directory: the content of its lock file while it is held, and of the
// `owner` file that stays in a swap directory. Text, one "name value" a line, ended by an
// empty line. Pure, but for ThisProcess.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace spillway {

struct RunRecord {
  int64_t process = 0;
  std::string host;
  std::string machine;        // its id, where it has one
  std::string boot;           // of the kernel; another one after a restart, and elsewhere
  std::string process_ids;    // the namespace in which `process` is a number
  int64_t since_seconds = 0;  // 1970
  std::string output;         // OUTPUT of the run, absolute; empty: not said
  std::string run;            // drawn when OUTPUT began; empty: not said
};

// This process, now.
RunRecord ThisProcess();

std::string EncodeRunRecord(const RunRecord& record);
// None where the text is not whole, or another program's. Names it does not know are skipped.
std::optional<RunRecord> DecodeRunRecord(absl::string_view text);

// "process 17 on node7 since 2026-11-21 13:55:21 UTC, which runs /scratch/out", and, where that
// is so, that the number means nothing to `here`: another machine, another container.
std::string DescribeHolder(const RunRecord& holder, const RunRecord& here);

// "2026-11-21 13:55:21 UTC".
std::string TimeText(int64_t seconds);

}  // namespace spillway
