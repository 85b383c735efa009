// Draws a step's time line as an SVG picture without a script, in the page's light and dark
// colours. Pure.
#pragma once

#include <string>

#include "engine/report/step_timeline.h"

namespace spillway {

// "" for a time line without any length. For any numbers in the time line all shapes are inside the
// picture; names are escaped.
std::string TimelineSvg(const StepTimeline& timeline);

}  // namespace spillway
