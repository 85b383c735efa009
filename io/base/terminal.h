// Properties of standard error (a terminal, its width, colours), and layout of text for it. Any
// thread.
#pragma once

#include <functional>
#include <string>

#include "absl/strings/string_view.h"

namespace spillway {

// The value of an environment variable, or null.
using EnvironmentLookup = std::function<const char*(const char* name)>;
const char* ProcessEnvironment(const char* name);

// Whether lines on standard error can be redrawn: it is a terminal, and TERM is set and not "dumb".
bool RedrawsStderr(const EnvironmentLookup& environment = ProcessEnvironment);

// Whether a stream gets colours: it is a terminal that redraws, and NO_COLOR (https://no-color.org)
// is unset or empty.
bool UsesColours(bool redraws, const EnvironmentLookup& environment = ProcessEnvironment);

// Columns of the terminal `descriptor`, read anew each time because it may have been resized. Falls
// back to COLUMNS, then to 80.
int TerminalColumns(int descriptor, const EnvironmentLookup& environment = ProcessEnvironment);

// Width of texts for a terminal of 80 columns; the last column stays free.
inline constexpr int kPageColumns = 79;

// Moves to the first column and clears the line.
inline constexpr absl::string_view kClearLine = "\r\x1b[K";

enum class TextStyle { kPlain, kError, kWarning, kLabel };

// `text` in that style: red, yellow, dim.
std::string Styled(TextStyle style, absl::string_view text);

// Columns that UTF-8 text takes: 2 for wide characters (CJK, most emoji), 0 for combining ones, 1
// for others and for each invalid byte.
int ColumnsOf(absl::string_view text);

// The longest prefix of `text` that takes no more than `columns`.
absl::string_view FirstColumns(absl::string_view text, int columns);

// Width of the label of a table's row ("  traffic    12 MiB"), including the spaces around it; 0 if
// `line` is no such row.
size_t LabelWidth(absl::string_view line);

// Which newlines ShownText keeps.
enum class ShownLines {
  kNone,  // for names and single-line texts
  kRows,  // those followed by two spaces, as in our own messages; a name in one may have others
  kAll
};

// `text`, which may contain names that others chose, made safe for a terminal. Escaped as "\n",
// "\x1b", "\u202e" are control characters (8-bit ones too), line starts and characters that change
// the direction of writing; in names also tabs.
std::string ShownText(absl::string_view text, ShownLines lines = ShownLines::kNone);

// `text` with lines broken at spaces so that none exceeds `columns`. A longer word stays whole, and
// so does anything that starts with a command of ours ("spillway clean ..."). Continuation lines of
// a table's row start below its value, others are indented by two.
std::string FoldText(absl::string_view text, int columns);

}  // namespace spillway
