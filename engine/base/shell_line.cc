#include "engine/base/shell_line.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace spillway {
namespace {

// Whether a shell reads the word unchanged without quotes.
constexpr char kPlain[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";

}  // namespace

std::string ShellLine(const std::vector<std::string>& words) {
  return absl::StrJoin(words, " ", [](std::string* out, const std::string& word) {
    const bool plain = !word.empty() && word.find_first_not_of(kPlain) == std::string::npos;
    absl::StrAppend(
        out, plain ? word : absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'"));
  });
}

}  // namespace spillway
