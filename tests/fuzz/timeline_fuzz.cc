// OUTPUT/timeline.json, which the report reads and draws.
#include "engine/base/strict_json.h"
#include "engine/report/step_timeline.h"
#include "engine/report/timeline_svg.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spillway;
  const auto document = ParseStrictJson(Text(data, size), "timeline.json");
  if (!document.ok()) return 0;
  const auto timeline = StepTimelineFromJson(document->value);
  if (!timeline.ok()) {
    SPILLWAY_CHECK(absl::IsInvalidArgument(timeline.status()));
    return 0;
  }
  const std::string svg = TimelineSvg(*timeline);
  SPILLWAY_CHECK(svg.find("<script") == std::string::npos);
  SPILLWAY_CHECK(StepTimelineFromJson(ToJson(*timeline)).ok());
  return 0;
}
