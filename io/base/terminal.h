// What standard error is written to: whether it is a terminal, how wide, and whether with colours;
// and how text is laid out there. Any thread.
#pragma once

#include <functional>
#include <string>

#include "absl/strings/string_view.h"

namespace spillway {

// The value of an environment variable, or null.
using EnvironmentLookup = std::function<const char*(const char* name)>;
const char* ProcessEnvironment(const char* name);

// Whether lines on standard error can be drawn again: it is a terminal, and TERM is set
// and not "dumb".
bool RedrawsStderr(const EnvironmentLookup& environment = ProcessEnvironment);

// Whether a stream gets colours: a terminal that redraws, and NO_COLOR (https://no-color.org) is
// unset or empty.
bool UsesColours(bool redraws, const EnvironmentLookup& environment = ProcessEnvironment);

// Columns of the terminal `descriptor`, asked anew each time: it may have been resized. Where it
// does not say, COLUMNS, or else 80.
int TerminalColumns(int descriptor, const EnvironmentLookup& environment = ProcessEnvironment);

// The width of texts for a terminal of 80 columns, whose last column stays free.
inline constexpr int kPageColumns = 79;

// To the terminal's first column, and nothing is left on its line.
inline constexpr absl::string_view kClearLine = "\r\x1b[K";

enum class TextStyle { kPlain, kError, kWarning, kLabel };

// `text` in that style: red, yellow, dim.
std::string Styled(TextStyle style, absl::string_view text);

// Columns that UTF-8 text takes: 2 for wide characters (CJK, most emoji), 0 for combining ones, 1
// for every other and for each byte that is no UTF-8.
int ColumnsOf(absl::string_view text);

// The longest beginning of `text` that takes no more than `columns`.
absl::string_view FirstColumns(absl::string_view text, int columns);

// The width of the label that a row of a table begins with ("  traffic    12 MiB"), the spaces
// around it included; 0 where `line` is no such row.
size_t LabelWidth(absl::string_view line);

// Which newlines ShownText keeps.
enum class ShownLines {
  kNone,  // of a name, or of a text that is one line
  kRows,  // those that two spaces follow, as our own messages go on; a name in them may have others
  kAll
};

// `text`, in which there may be names that others chose, as a terminal may have it. Escaped is what
// would command the terminal (control characters, also those of 8 bits), begin lines or change the
// direction of writing: "\n", "\x1b", "\u202e"; of a name also tabs.
std::string ShownText(absl::string_view text, ShownLines lines = ShownLines::kNone);

// `text` with each line broken at spaces so that none takes more than `columns`; a word that alone
// takes more stays whole, as does what begins with a command of ours ("spillway clean ..."). What a
// row of a table continues with stands below its value, other lines go on indented by two.
std::string FoldText(absl::string_view text, int columns);

}  // namespace spillway
