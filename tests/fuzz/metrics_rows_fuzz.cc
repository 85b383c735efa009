// The rows of metrics.jsonl that a resumed run keeps.
#include <string>

#include "engine/metrics.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spillway;
  const std::string kept = RowsUpTo(Text(data, size), 100);
  SPILLWAY_CHECK(kept.size() <= size + 1);  // a last line without its end gets one
  SPILLWAY_CHECK(RowsUpTo(kept, 100) == kept);
  return 0;
}
