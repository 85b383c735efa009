// The rows of metrics.jsonl that a resumed run keeps and a report reads.
#include "absl/strings/str_split.h"
#include "engine/run/metrics_log.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {

SPILLWAY_FUZZ(metrics_rows, 5000) {
  bool any = false;
  for (const absl::string_view line : absl::StrSplit(input, '\n')) {
    const nlohmann::json row = ParseRow(line);
    if (row.is_null()) continue;
    SPILLWAY_CHECK(row["step"].get<int64_t>() == row["step"]);
    any = true;
  }
  return any;
}

}  // namespace spillway
