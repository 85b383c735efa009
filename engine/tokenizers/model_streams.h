// The large values of a tokenizer.json, "vocab" and "merges" of its model, taken as they are
// parsed: as JSON values they would take some ten times as much memory as their text.
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

  // As they stand; keys are in no order, and may be doubled.
  std::vector<std::pair<std::string, uint64_t>>& entries() { return entries_; }
  // Sorts them, so that keys that are doubled are neighbours, and writes them as JSON does.
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
  // REQUIRES: the tokens are there still.
  void Dump(std::ostream& out) const;

 private:
  std::string Wrong() const;

  int depth_ = 0;
  std::vector<std::string> tokens_;
  std::vector<nlohmann::json> scores_;  // numbers, as they are written
};

// ["left right", ...] or [["left", "right"], ...], or both
class MergesStream : public JsonStream {
 public:
  std::string Open(bool array) override;
  std::string Close() override;
  std::string Key(std::string key) override { return Wrong(); }
  std::string Scalar(nlohmann::json value) override;

  size_t size() const { return merges_.size(); }
  // None of "#version: ...", which is no merge.
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
  int parts_ = 0;     // of the pair that is open
  std::string text_;  // of all: of a pair one behind the other, of a text as it is
  std::vector<Merge> merges_;
};

// What ParseStrictJson gives away of a tokenizer.json.
struct ModelStreams {
  VocabularyStream vocabulary;
  ScoresStream scores;
  MergesStream merges;
  bool has_vocabulary = false, has_scores = false, has_merges = false;

  // JsonLimits::elsewhere
  JsonStream* At(absl::string_view pointer, bool array);
  // The object "model" as if all of it were there; the same text as JSON's dump has.
  void DumpModel(const nlohmann::json& model, std::ostream& out);
};

}  // namespace spillway
