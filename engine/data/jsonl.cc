#include "engine/data/jsonl.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "engine/base/strict_json.h"
#include "engine/data/text_reader.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr int kMaxDepth = 64;
constexpr size_t kShownKeys = 8;

}  // namespace

absl::StatusOr<JsonlRecord> ParseJsonlRecord(absl::string_view line, absl::string_view file,
                                             int64_t line_number) {
  const auto wrong = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(file, ":", line_number, ": ", why));
  };
  ASSIGN_OR_RETURN(JsonDocument document,
                   ParseStrictJson(line, file,
                                   {.max_bytes = kMaxJsonlLineBytes,
                                    .max_depth = kMaxDepth,
                                    .first_line = static_cast<int>(line_number)}));
  nlohmann::json& object = document.value;
  if (!object.is_object()) {
    return wrong(absl::StrCat("a line is an object like {\"text\": \"...\"}, and this is a JSON ",
                              object.type_name()));
  }
  const auto take = [&](const char* key, std::string* out) -> absl::Status {
    nlohmann::json& value = object[key];
    if (!value.is_string()) {
      return wrong(absl::StrCat("\"", key, "\" is a JSON ", value.type_name(), ", not a string"));
    }
    *out = std::move(value.get_ref<std::string&>());
    return absl::OkStatus();
  };
  const bool text = object.contains("text");
  const bool prompt = object.contains("prompt"), completion = object.contains("completion");
  if (text && (prompt || completion)) {
    return wrong("it has \"text\" and \"prompt\" or \"completion\": which of them is meant?");
  }
  if (!text && !(prompt && completion)) {
    if (prompt) return wrong("it has \"prompt\" but no \"completion\"");
    if (completion) return wrong("it has \"completion\" but no \"prompt\"");
    std::vector<std::string> keys;
    for (const auto& item : object.items()) {
      if (keys.size() == kShownKeys) {
        keys.push_back("...");
        break;
      }
      keys.push_back(item.key().substr(0, 40));
    }
    return wrong(
        absl::StrCat("it has neither \"text\" nor \"prompt\" and \"completion\"; its keys: ",
                     keys.empty() ? "none" : absl::StrJoin(keys, ", ")));
  }
  JsonlRecord record;
  record.has_prompt = prompt;
  if (prompt) RETURN_IF_ERROR(take("prompt", &record.prompt));
  RETURN_IF_ERROR(take(prompt ? "completion" : "text", &record.text));
  return record;
}

absl::Status JsonlReader::Line(absl::string_view line) {
  ++lines_;
  // Written on Windows, a file may begin with a byte order mark.
  if (lines_ == 1) absl::ConsumePrefix(&line, "\xef\xbb\xbf");
  if (absl::StripAsciiWhitespace(line).empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const JsonlRecord record, ParseJsonlRecord(line, file_, lines_));
  return Annotate(take_(record), absl::StrCat(file_, ":", lines_));
}

absl::Status JsonlReader::Next(absl::string_view piece) {
  while (true) {
    const size_t newline = piece.find('\n');
    const absl::string_view part = piece.substr(0, newline);
    if (part.size() > kMaxJsonlLineBytes - held_.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          file_, ":", lines_ + 1, ": a line of more than ", kMaxJsonlLineBytes >> 20,
          " MiB: is it .jsonl, one object a line? A longer text has to be cut into several"));
    }
    if (newline == absl::string_view::npos) {
      held_.append(part.data(), part.size());
      return absl::OkStatus();
    }
    if (held_.empty()) {
      RETURN_IF_ERROR(Line(part));
    } else {
      held_.append(part.data(), part.size());
      RETURN_IF_ERROR(Line(held_));
      held_.clear();
    }
    piece.remove_prefix(newline + 1);
  }
}

absl::Status JsonlReader::Finish() {
  const std::string last = std::exchange(held_, std::string());
  return last.empty() ? absl::OkStatus() : Line(last);
}

absl::Status ReadJsonl(const std::string& path, const JsonlReader::Take& take,
                       const std::function<absl::Status(uint64_t)>& after_piece) {
  JsonlReader reader(path, take);
  RETURN_IF_ERROR(ReadInPieces(path, [&](absl::string_view piece) -> absl::Status {
    RETURN_IF_ERROR(reader.Next(piece));
    return after_piece ? after_piece(piece.size()) : absl::OkStatus();
  }));
  return reader.Finish();
}

}  // namespace spillway
