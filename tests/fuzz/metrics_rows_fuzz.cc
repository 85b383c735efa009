// The rows of metrics.jsonl that a resumed run keeps and a report reads.
#include "absl/strings/str_split.h"
#include "engine/run/metrics_log.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spillway;
  for (const absl::string_view line : absl::StrSplit(Text(data, size), '\n')) {
    const nlohmann::json row = ParseRow(line);
    if (!row.is_null()) SPILLWAY_CHECK(row["step"].get<int64_t>() == row["step"]);
  }
  return 0;
}
