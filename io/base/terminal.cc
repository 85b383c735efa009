#include "io/base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace spillway {
namespace {

constexpr int kDefaultColumns = 80;
// If a row's value has fewer columns than this, it continues at the left instead.
constexpr size_t kLeastValueColumns = 12;

// A character and its length in bytes; an invalid byte is a character by itself.
struct Character {
  uint32_t code;
  size_t bytes;
};

Character FirstCharacter(absl::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t bytes = lead < 0x80   ? 1
                       : lead < 0xc2 ? 0
                       : lead < 0xe0 ? 2
                       : lead < 0xf0 ? 3
                       : lead < 0xf5 ? 4
                                     : 0;
  if (bytes == 0 || bytes > text.size()) return {lead, 1};
  uint32_t code = bytes == 1 ? lead : lead & (0xffu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xc0) != 0x80) return {lead, 1};
    code = code << 6 | (byte & 0x3f);
  }
  return {code, bytes};
}

struct CodeRange {
  uint32_t first, last;
};
// From Unicode 15: East Asian Width (W, F), and the combining marks that occur in names and texts.
constexpr CodeRange kWide[] = {
    {0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},  {0xa960, 0xa97f}, {0xac00, 0xd7a3},
    {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},  {0xffe0, 0xffe6}, {0x1f300, 0x1f64f},
    {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};
constexpr CodeRange kCombining[] = {{0x0300, 0x036f}, {0x0483, 0x0489}, {0x0591, 0x05bd},
                                    {0x064b, 0x065f}, {0x200b, 0x200f}, {0x20d0, 0x20f0},
                                    {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xfeff, 0xfeff}};

// Control characters, line separators, and characters that change the direction of writing.
constexpr CodeRange kUnshown[] = {{0x00, 0x1f},     {0x7f, 0x9f},     {0x061c, 0x061c},
                                  {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}};

template <size_t kSize>
bool IsIn(const CodeRange (&ranges)[kSize], uint32_t code) {
  return std::any_of(std::begin(ranges), std::end(ranges), [code](const CodeRange& range) {
    return range.first <= code && code <= range.last;
  });
}

int ColumnsOfCode(uint32_t code) {
  if (code < 0x300) return 1;
  return IsIn(kCombining, code) ? 0 : IsIn(kWide, code) ? 2 : 1;
}

// The position of a command of ours in a line, which stays in one piece; npos: none.
size_t CommandIn(const std::string& line) {
  const size_t space = line.find(" spillway ");
  return space == std::string::npos ? space : space + 1;
}

// The position of a space at which `line` is broken so that at most `columns` precede it, or npos.
// `least`: no break before it.
size_t BreakAt(const std::string& line, size_t least, int columns) {
  const size_t fits = FirstColumns(line, columns).size();
  size_t at = line.rfind(' ', fits);
  if (at == std::string::npos || at < least) at = line.find(' ', std::max(least, fits));
  const size_t command = CommandIn(line);
  if (command == std::string::npos || at == std::string::npos || at < command) return at;
  return command > least ? command - 1 : std::string::npos;
}

std::string FoldLine(absl::string_view line, int columns) {
  const size_t label = LabelWidth(line);
  const size_t spaces = std::min(line.find_first_not_of(' '), line.size());
  size_t indent = label > 0 ? label : spaces > 2 ? spaces : 2;
  if (indent + kLeastValueColumns > static_cast<size_t>(columns)) indent = 2;
  std::string folded, rest(line);
  size_t least = std::max(label, spaces) + 1;
  while (ColumnsOf(rest) > columns) {
    const size_t at = BreakAt(rest, least, columns);
    if (at == std::string::npos) break;
    folded.append(rest, 0, rest.find_last_not_of(' ', at) + 1).push_back('\n');
    const size_t next = rest.find_first_not_of(' ', at);
    if (next == std::string::npos) return folded.substr(0, folded.size() - 1);
    rest = std::string(indent, ' ') + rest.substr(next);
    least = indent + 1;
  }
  return folded + rest;
}

}  // namespace

const char* ProcessEnvironment(const char* name) { return std::getenv(name); }

bool RedrawsStderr(const EnvironmentLookup& environment) {
  if (isatty(STDERR_FILENO) == 0) return false;
  const char* const term = environment("TERM");
  return term != nullptr && absl::string_view(term) != "dumb";
}

bool UsesColours(bool redraws, const EnvironmentLookup& environment) {
  const char* const refused = environment("NO_COLOR");
  return redraws && (refused == nullptr || *refused == '\0');
}

int TerminalColumns(int descriptor, const EnvironmentLookup& environment) {
  winsize size = {};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* const text = environment("COLUMNS");
  int columns = 0;
  return text != nullptr && absl::SimpleAtoi(text, &columns) && columns > 0 ? columns
                                                                            : kDefaultColumns;
}

std::string Styled(TextStyle style, absl::string_view text) {
  const char* begin = "";
  switch (style) {
    case TextStyle::kPlain:
      return std::string(text);
    case TextStyle::kError:
      begin = "\x1b[31m";
      break;
    case TextStyle::kWarning:
      begin = "\x1b[33m";
      break;
    case TextStyle::kLabel:
      begin = "\x1b[2m";
      break;
  }
  return absl::StrCat(begin, text, "\x1b[0m");
}

int ColumnsOf(absl::string_view text) {
  int columns = 0;
  while (!text.empty()) {
    const Character next = FirstCharacter(text);
    columns += ColumnsOfCode(next.code);
    text.remove_prefix(next.bytes);
  }
  return columns;
}

absl::string_view FirstColumns(absl::string_view text, int columns) {
  size_t taken = 0;
  while (taken < text.size()) {
    const Character next = FirstCharacter(text.substr(taken));
    columns -= ColumnsOfCode(next.code);
    if (columns < 0) break;
    taken += next.bytes;
  }
  return text.substr(0, taken);
}

size_t LabelWidth(absl::string_view line) {
  if (line.substr(0, 2) != "  " || line.size() < 3 || line[2] == ' ') return 0;
  constexpr size_t kWidest = 13;
  size_t end = line.find("  ", 2);
  if (end == absl::string_view::npos || end >= kWidest) return 0;
  end = line.find_first_not_of(' ', end);
  return end == absl::string_view::npos || end > kWidest ? 0 : end;
}

std::string ShownText(absl::string_view text, ShownLines lines) {
  std::string shown;
  for (; !text.empty();) {
    const Character next = FirstCharacter(text);
    const absl::string_view after = text.substr(next.bytes);
    const bool kept_line =
        lines == ShownLines::kAll || (lines == ShownLines::kRows && after.substr(0, 2) == "  ");
    if (next.code == '\n') {
      shown.append(kept_line ? "\n" : "\\n");
    } else if (next.code == '\t') {
      shown.append(lines == ShownLines::kNone ? "\\t" : "\t");
    } else if (!IsIn(kUnshown, next.code)) {
      absl::StrAppend(&shown, text.substr(0, next.bytes));
    } else if (next.bytes == 1) {
      absl::StrAppendFormat(&shown, "\\x%02x", next.code);
    } else {
      absl::StrAppendFormat(&shown, "\\u%04x", next.code);
    }
    text = after;
  }
  return shown;
}

std::string FoldText(absl::string_view text, int columns) {
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    lines.push_back(FoldLine(line, columns));
  }
  return absl::StrJoin(lines, "\n");
}

}  // namespace spillway
