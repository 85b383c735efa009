// Judges the facts of a machine for a run: `spillway doctor`, one page. Pure functions of values;
// engine/machine/machine_facts.h collects the facts.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/machine/machine_facts.h"

namespace spillway {

// kWarn: a run works, but slower or with less than this machine could give. kBad: a run with
// these swap paths fails.
enum class Mark { kOk, kWarn, kBad };

// Returns "ok", "warn" or "bad".
absl::string_view MarkName(Mark mark);

struct DoctorLine {
  std::string section;  // "Storage", "Memory", ...
  std::string name;     // the thing that was checked
  Mark mark = Mark::kOk;
  std::string found;
  std::string advice;  // remedy; empty exactly if the mark is kOk
};

// Lines in the order of the page; the lines of a section follow one another.
std::vector<DoctorLine> Diagnose(const MachineFacts& facts);

// 1 if a line is bad, else 0.
int DoctorExitCode(const std::vector<DoctorLine>& lines);

}  // namespace spillway
