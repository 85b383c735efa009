// Every key of a DeepSpeed configuration, and what becomes of it here.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace spillway {

enum class KeyTreatment {
  kBlock,     // an object whose keys have rules of their own
  kHonoured,  // read by ParseDeepSpeedConfig
  // Accepted whatever the value; names in a block below are checked where they are known.
  kPlan,      // tunes DeepSpeed's machinery: the plan decides that here
  kNoEffect,  // nothing to do (monitoring, printing, checkpoint details)
  kOnly,      // accepted with the values listed, else an error
  // A feature that changes results: accepted only where disabled, whatever stands in it.
  kUnlessEnabled,
  kRefused,  // an error
};

struct KeyRule {
  std::string pointer;  // "/zero_optimization/stage"
  KeyTreatment treatment;
  // kOnly: the accepted values, a JSON array. Otherwise, of errors: why.
  absl::string_view only = {};
  absl::string_view why = {};
};

const std::vector<KeyRule>& DeepSpeedKeyRules();

}  // namespace spillway
