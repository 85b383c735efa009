// A step's time line as an SVG picture that needs no script: the report's, in the page's
// colours, light and dark. Pure.
#pragma once

#include <string>

#include "engine/report/step_timeline.h"

namespace spillway {

// "" for a time line without any length. Whatever the time line's numbers are, what is drawn
// lies in the picture; names are escaped.
std::string TimelineSvg(const StepTimeline& timeline);

}  // namespace spillway
