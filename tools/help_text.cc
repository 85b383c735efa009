#include "tools/help_text.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace spillway {
namespace {

constexpr size_t kColumns = 80;
constexpr size_t kDescriptionColumn = 30;  // CLI11's

std::string FoldLine(absl::string_view line) {
  const size_t indent = line.size() - absl::StripLeadingAsciiWhitespace(line).size();
  const bool command = absl::StartsWith(line.substr(indent), "spillway ");
  // An option's or subcommand's line: a name, a gap, a description.
  const bool described = indent > 0 && line.size() > kDescriptionColumn &&
                         line[kDescriptionColumn - 1] == ' ' && line[kDescriptionColumn] != ' ' &&
                         (indent == kDescriptionColumn || line[kDescriptionColumn - 2] == ' ');
  const size_t hang = command ? indent + 4 : described ? kDescriptionColumn : indent;
  const size_t width = command ? kColumns - 2 : kColumns;
  std::string out;
  size_t least = described ? kDescriptionColumn : indent;  // no fold before it
  std::string rest(line);
  while (rest.size() > kColumns) {
    size_t at = rest.rfind(' ', width);
    if (at == std::string::npos || at <= least) break;  // one long word
    // A flag stays with its value.
    const size_t before = rest.rfind(' ', at - 1);
    if (command && before != std::string::npos && before > least && rest[before + 1] == '-') {
      at = before;
    }
    absl::StrAppend(&out, absl::StripTrailingAsciiWhitespace(rest.substr(0, at)),
                    command ? " \\\n" : "\n");
    rest = std::string(hang, ' ') + rest.substr(at + 1);
    least = hang;
  }
  return out + rest;
}

}  // namespace

std::string FoldHelp(absl::string_view help) {
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(help, '\n')) {
    lines.push_back(line.size() > kColumns ? FoldLine(line) : std::string(line));
  }
  return absl::StrCat(absl::StripTrailingAsciiWhitespace(absl::StrJoin(lines, "\n")), "\n");
}

}  // namespace spillway
