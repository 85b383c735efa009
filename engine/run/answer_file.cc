#include "engine/run/answer_file.h"

#include "absl/strings/str_cat.h"
#include "engine/base/print_json.h"
#include "engine/base/shallow_json.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using nlohmann::ordered_json;

constexpr uint64_t kMostAnswerBytes = uint64_t{4} << 30;

}  // namespace

absl::StatusOr<std::unique_ptr<AnswerFile>> AnswerFile::Open(const std::string& path,
                                                             const ordered_json& identity) {
  ASSIGN_OR_RETURN(const std::string resolved, ResolveForWriting(FileSystem::Real(), path));
  auto file = std::unique_ptr<AnswerFile>(new AnswerFile(resolved));
  auto left = ReadSmallFile(file->partial_path_, kMostAnswerBytes, SymbolicLink::kRefuse);
  if (!left.ok() && !absl::IsNotFound(left.status())) return left.status();
  file->identity_ = identity;
  if (left.ok()) RETURN_IF_ERROR(file->TakeUp(*left));
  ASSIGN_OR_RETURN(file->partial_,
                   OpenInPlace(FileSystem::Real(), file->partial_path_, FileAccess::kShared));
  return file;
}

AnswerFile::~AnswerFile() {
  if (partial_ == nullptr || written_bytes_ > 0) return;
  (void)RemoveIfThere(FileSystem::Real(), partial_path_);  // nothing is lost with it
}

absl::Status AnswerFile::TakeUp(const std::string& content) {
  bool first = true;
  for (size_t at = 0, end; (end = content.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string text = content.substr(at, end - at);
    const auto line = ParseShallowJson<ordered_json>(text);
    if (first) {
      for (const auto& [key, value] : identity_.items()) {
        const bool told = line.is_object() && line.contains(key);
        const std::string theirs = told ? JsonLine(line[key]) : "not there", ours = JsonLine(value);
        if (theirs == ours) continue;
        return absl::FailedPreconditionError(
            absl::StrCat(partial_path_, " holds answers of another run (its ", key, " is ", theirs,
                         ", now ", ours, "): finish that run with its flags, or remove the file"));
      }
    } else if (line.is_object() && line.contains("row") && line["row"].is_number_unsigned() &&
               line.contains("answer") && line["answer"].is_object()) {
      answers_[line["row"].get<int64_t>()] = JsonLine(line["answer"]);
    } else {
      return WrongBytesError(absl::StrCat(partial_path_, ", at byte ", at,
                                          ": this is no answer; remove the file to start again"));
    }
    first = false;
    written_bytes_ = end + 1;  // a line that was cut short is written over
  }
  return absl::OkStatus();
}

absl::Status AnswerFile::Add(int64_t row, const ordered_json& answer) {
  return AddAll({{row, answer}});
}

absl::Status AnswerFile::AddAll(const std::vector<std::pair<int64_t, ordered_json>>& answers) {
  std::string lines = written_bytes_ == 0 ? JsonLine(identity_) + "\n" : "";
  for (const auto& [row, answer] : answers) {
    answers_[row] = JsonLine(answer);
    absl::StrAppend(&lines, JsonLine(ordered_json{{"row", row}, {"answer", answer}}), "\n");
  }
  RETURN_IF_ERROR(partial_->WriteAt(written_bytes_, lines.data(), lines.size()));
  written_bytes_ += lines.size();
  return partial_->Sync();
}

absl::Status AnswerFile::Finish() {
  std::string content;
  for (const auto& [row, answer] : answers_) absl::StrAppend(&content, answer, "\n");
  RETURN_IF_ERROR(WriteFileAtomically(path_, content, FileAccess::kShared));
  partial_.reset();
  return RemoveIfThere(FileSystem::Real(), partial_path_);
}

}  // namespace spillway
