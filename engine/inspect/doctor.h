// What a machine's findings mean for a run: `spillway doctor`, one page. Pure functions of
// values; the looking and trying is engine/machine/machine_facts.h.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/machine/machine_facts.h"

namespace spillway {

// kWarn: a run works, but slower or with less than this machine could give. kBad: a run with
// these swap paths fails.
enum class Mark { kOk, kWarn, kBad };

// "ok", "warn", "bad".
absl::string_view MarkName(Mark mark);

struct DoctorLine {
  std::string section;  // "Storage", "Memory", ...
  std::string name;     // what was looked at
  Mark mark = Mark::kOk;
  std::string found;
  std::string advice;  // what to do; empty exactly where the mark is kOk
};

// In the order of the page; the lines of a section follow one another.
std::vector<DoctorLine> Diagnose(const MachineFacts& facts);

// 1 when a line is bad, else 0.
int DoctorExitCode(const std::vector<DoctorLine>& lines);

}  // namespace spillway
