// OUTPUT/timeline.json, which the report reads and draws.
#include "engine/base/strict_json.h"
#include "engine/report/step_timeline.h"
#include "engine/report/timeline_svg.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {

SPILLWAY_FUZZ(timeline, 3000) {
  const auto document = ParseStrictJson(input, "timeline.json");
  if (!document.ok()) {
    return Refuse(document.status(), {absl::StatusCode::kInvalidArgument});
  }
  const auto timeline = StepTimelineFromJson(document->value);
  if (!timeline.ok()) {
    return Refuse(timeline.status(), {absl::StatusCode::kInvalidArgument});
  }
  const std::string svg = TimelineSvg(*timeline);
  SPILLWAY_CHECK(svg.find("<script") == std::string::npos);
  SPILLWAY_CHECK(StepTimelineFromJson(ToJson(*timeline)).ok());
  return true;
}

}  // namespace spillway
