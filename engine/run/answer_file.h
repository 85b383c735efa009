// The answers of a run of predict on disk: each is kept as soon as it is whole, in FILE.partial,
// and FILE appears when all are there, in the prompts' order.
//
// FILE.partial is .jsonl, too: first an object that says which run it is of, then
// {"row": number of the prompt, "answer": {...}} for each, as they ended.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "io/file_system.h"
#include "nlohmann/json.hpp"

namespace spillway {

// One thread.
class AnswerFile {
 public:
  // Takes up what an earlier run of the same `identity` (an object of plain values) left.
  // kFailedPrecondition, with the first difference, where it was another's; kInvalidArgument for a
  // FILE that is there and no regular file. A link is followed.
  static absl::StatusOr<std::unique_ptr<AnswerFile>> Open(const std::string& path,
                                                          const nlohmann::ordered_json& identity);

  ~AnswerFile();

  const std::string& partial_path() const { return partial_path_; }
  bool Has(int64_t row) const { return answers_.count(row) > 0; }
  size_t size() const { return answers_.size(); }
  // REQUIRES: Has(row).
  nlohmann::ordered_json Answer(int64_t row) const {
    return nlohmann::ordered_json::parse(answers_.at(row));
  }

  // Durable when it returns.
  absl::Status Add(int64_t row, const nlohmann::ordered_json& answer);
  // The same of several at once: {row, answer}.
  absl::Status AddAll(const std::vector<std::pair<int64_t, nlohmann::ordered_json>>& answers);

  // All are there: writes FILE, atomically, and removes FILE.partial.
  absl::Status Finish();

 private:
  explicit AnswerFile(const std::string& path) : path_(path), partial_path_(path + ".partial") {}
  absl::Status TakeUp(const std::string& content);

  const std::string path_, partial_path_;
  nlohmann::ordered_json identity_;
  std::map<int64_t, std::string> answers_;  // as they are written
  std::unique_ptr<File> partial_;
  uint64_t written_bytes_ = 0;
};

}  // namespace spillway
