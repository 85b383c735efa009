// Who works on a run directory, as lock and owner files of anybody on a shared parent say it.
#include "engine/run/run_record.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {

SPILLWAY_FUZZ(run_record, 5000) {
  static const RunRecord& here = *new RunRecord(ThisProcess());
  const auto record = DecodeRunRecord(input);
  if (!record) return false;
  SPILLWAY_CHECK(!DescribeHolder(*record, here).empty() &&
                 !TimeText(record->since_seconds).empty());
  const std::string encoded = EncodeRunRecord(*record);
  const auto again = DecodeRunRecord(encoded);
  // Escaped, names may take four times the room.
  if (!again) SPILLWAY_CHECK(encoded.size() > input.size());
  if (again) SPILLWAY_CHECK(EncodeRunRecord(*again) == encoded);
  return true;
}

}  // namespace spillway
