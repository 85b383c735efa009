// Stream parsers for the large values of a tokenizer.json, its model's "vocab" and "merges": as
// JSON values they would take some ten times their text's memory.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/base/strict_json.h"

namespace spillway {

// {"token": id, ...}
class VocabularyStream : public JsonStream {
 public:
  std::string Open(bool array) override;
  std::string Close() override { return ""; }
  std::string Key(std::string key) override;
  std::string Scalar(nlohmann::json value) override;

  // In file order; keys are unsorted, and may be duplicate.
  std::vector<std::pair<std::string, uint64_t>>& entries() { return entries_; }
  // Sorts entries, so that duplicates are neighbours, and writes them as nlohmann::json does.
  void SortAndDump(std::ostream& out);

 private:
  bool begun_ = false;
  std::vector<std::pair<std::string, uint64_t>> entries_;
};

// [["token", score], ...]
class ScoresStream : public JsonStream {
 public:
  std::string Open(bool array) override;
  std::string Close() override;
  std::string Key(std::string key) override { return Wrong(); }
  std::string Scalar(nlohmann::json value) override;

  std::vector<std::string>& tokens() { return tokens_; }
  const std::vector<nlohmann::json>& scores() const { return scores_; }
  // REQUIRES: the tokens have not been moved out.
  void Dump(std::ostream& out) const;

 private:
  std::string Wrong() const;

  int depth_ = 0;
  std::vector<std::string> tokens_;
  std::vector<nlohmann::json> scores_;  // as JSON numbers, to be written unchanged
};

// ["left right", ...] or [["left", "right"], ...], or both
class MergesStream : public JsonStream {
 public:
  std::string Open(bool array) override;
  std::string Close() override;
  std::string Key(std::string key) override { return Wrong(); }
  std::string Scalar(nlohmann::json value) override;

  size_t size() const { return merges_.size(); }
  // None for "#version: ...", which is no merge.
  std::optional<std::pair<absl::string_view, absl::string_view>> At(size_t place) const;
  void Dump(std::ostream& out) const;

 private:
  struct Merge {
    uint32_t begin = 0, left_bytes = 0, right_bytes = 0;
    bool is_text = false, is_comment = false;
  };
  static std::string Wrong();
  absl::string_view Text(size_t begin, size_t bytes) const {
    return absl::string_view(text_).substr(begin, bytes);
  }

  int depth_ = 0;
  int parts_ = 0;     // of the current pair
  std::string text_;  // text of all merges: both parts of a pair concatenated, a string unchanged
  std::vector<Merge> merges_;
};

// The consumers of ParseStrictJson for a tokenizer.json.
struct ModelStreams {
  VocabularyStream vocabulary;
  ScoresStream scores;
  MergesStream merges;
  bool has_vocabulary = false, has_scores = false, has_merges = false;

  // JsonLimits::elsewhere
  JsonStream* At(absl::string_view pointer, bool array);
  // Writes the object "model" with the streamed values in place, exactly as dump() would.
  void DumpModel(const nlohmann::json& model, std::ostream& out);
};

}  // namespace spillway
