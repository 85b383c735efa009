#include "engine/data/text_rows.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/data/jsonl.h"
#include "engine/data/line_reader.h"
#include "engine/data/table_reader.h"
#include "io/base/status.h"

namespace spillway {

using nlohmann::json;

bool IsRowFile(absl::string_view path) {
  return absl::EndsWith(path, ".jsonl") || absl::EndsWith(path, ".csv") ||
         absl::EndsWith(path, ".tsv");
}

absl::Status ReadRows(const std::string& path, const char* example, const KeepKey& keep,
                      const std::function<absl::Status(const json&, int64_t)>& take) {
  if (!IsRowFile(path)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": rows of texts are in .jsonl, .csv or .tsv"));
  }
  bool any = false;
  const auto taken = [&](const json& row, int64_t line) {
    any = true;
    return Annotate(take(row, line), absl::StrCat(path, ":", line));
  };
  if (absl::EndsWith(path, ".jsonl")) {
    RETURN_IF_ERROR(ReadLines(path, [&](absl::string_view line, int64_t number) -> absl::Status {
      if (absl::StripAsciiWhitespace(line).empty()) return absl::OkStatus();
      ASSIGN_OR_RETURN(const JsonDocument document,
                       ParseJsonlObject(line, path, number, example, keep));
      return taken(document.value, number);
    }));
  } else {
    RETURN_IF_ERROR(ReadTable(path, absl::EndsWith(path, ".tsv"),
                              [&](const std::vector<std::string>& names,
                                  const std::vector<std::string>& cells, int64_t line) {
                                json row = json::object();
                                for (size_t i = 0; i < names.size(); ++i) {
                                  row[names[i]] = keep(names[i]) ? json(cells[i]) : json();
                                }
                                return taken(row, line);
                              }));
  }
  if (any) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": there are no texts in it"));
}

absl::StatusOr<std::string> TextOf(const json& value, const std::string& key, const char* to_do) {
  if (!value.is_string()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", key, "\" is a JSON ", value.type_name(), ", not a string"));
  }
  std::string text = value.get<std::string>();
  if (absl::StripAsciiWhitespace(text).empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", key, "\" is empty: there is nothing to ", to_do));
  }
  return text;
}

}  // namespace spillway
