#include "engine/config/yaml_entries.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/utf8_repair.h"
#include "io/base/status.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/exceptions.h"
#include "yaml-cpp/mark.h"
#include "yaml-cpp/parser.h"

namespace spillway {
namespace {

using nlohmann::json;

constexpr size_t kMostDepth = 16;

// "key: value" or "key:" begins a line.
bool IsTopLevelKey(absl::string_view line) {
  const absl::string_view key = line.substr(0, line.find(':'));
  const absl::string_view rest = line.substr(key.size());
  return !key.empty() && (rest == ":" || absl::StartsWith(rest, ": ")) &&
         std::all_of(key.begin(), key.end(),
                     [](char c) { return absl::ascii_isalnum(c) || c == '_' || c == '-'; });
}

// Takes a document's events one by one: aliases are never expanded, and depth is bounded. Throws
// YAML::ParserException, as yaml-cpp does.
class YamlReader : public YAML::EventHandler {
 public:
  std::vector<YamlEntry>& entries() { return entries_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) Stop(mark, "a second document: give one");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { Take(mark, nullptr); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    Stop(mark, "an alias (*name): write out what it stands for");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& text) override {
    CheckTag(mark, tag);
    if (text.find('\0') != text.npos) Stop(mark, "a character that no text has");
    const bool typed = tag == "?" && frames_.size() > 1 && frames_.back().value.is_object() &&
                       frames_.back().has_key;
    json value = typed ? json::parse(text, nullptr, /*allow_exceptions=*/false) : json(text);
    Take(mark, value.is_discarded() || value.is_structured() ? json(text) : std::move(value));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    Open(mark, tag, json::array());
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    Open(mark, tag, json::object());
  }
  void OnMapEnd() override { Close(); }

 private:
  struct Frame {
    json value;
    YAML::Mark mark;
    std::string key;
    bool has_key = false;  // of the member whose value comes next
    int line = 0;          // of that key
  };

  [[noreturn]] static void Stop(const YAML::Mark& mark, const std::string& what) {
    throw YAML::ParserException(mark, what);
  }
  static void CheckTag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.size() > 1 && !absl::StartsWith(tag, "tag:yaml.org,2002:")) {
      Stop(mark, absl::StrCat("a tag (", tag, "): leave it out"));
    }
  }
  void Open(const YAML::Mark& mark, const std::string& tag, json value) {
    CheckTag(mark, tag);
    if (frames_.size() == kMostDepth) Stop(mark, "nested too deep");
    if (frames_.empty() && !value.is_object())
      Stop(mark, "a list: a recipe is lines of KEY: VALUE");
    if (!frames_.empty() && frames_.back().value.is_object() && !frames_.back().has_key) {
      Stop(mark, "a key is a word");
    }
    frames_.push_back({std::move(value), mark, "", false, 0});
  }
  void Close() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    if (!frames_.empty()) Take(frame.mark, std::move(frame.value));
  }
  void Take(const YAML::Mark& mark, json value) {
    if (frames_.empty()) {
      if (value.is_null()) return;  // an empty file
      Stop(mark, "a recipe is lines of KEY: VALUE");
    }
    Frame& frame = frames_.back();
    if (frame.value.is_array()) {
      frame.value.push_back(std::move(value));
    } else if (!frame.has_key) {
      if (!value.is_string()) Stop(mark, "a key is a word");
      frame.key = value.get<std::string>();
      if (frame.value.contains(frame.key)) {
        Stop(mark, absl::StrCat("'", frame.key, "' is there twice"));
      }
      frame.has_key = true;
      frame.line = mark.line + 1;
    } else {
      frame.has_key = false;
      if (frames_.size() == 1) entries_.push_back({frame.key, frame.line, value});
      frame.value[frame.key] = frames_.size() == 1 ? json() : std::move(value);
    }
  }

  int documents_ = 0;
  std::vector<Frame> frames_;
  std::vector<YamlEntry> entries_;
};

absl::Status Invalid(absl::string_view file, int line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(file, ":", line, ": ", what));
}

}  // namespace

bool LooksLikeYaml(absl::string_view path, absl::string_view text) {
  if (absl::EndsWith(path, ".yaml") || absl::EndsWith(path, ".yml")) return true;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StripAsciiWhitespace(line).empty() || line[0] == '#' || line == "---") continue;
    return IsTopLevelKey(absl::StripTrailingAsciiWhitespace(line));
  }
  return false;
}

absl::StatusOr<std::vector<YamlEntry>> ParseYamlEntries(absl::string_view text,
                                                        absl::string_view file) {
  const size_t valid = std::min(ValidUtf8Prefix(text), text.find('\0'));
  if (valid < text.size()) {
    const auto before = text.substr(0, valid);
    return Invalid(file, 1 + std::count(before.begin(), before.end(), '\n'),
                   "this is not a text in UTF-8");
  }
  YamlReader reader;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(reader)) {
    }
  } catch (const YAML::Exception& error) {
    return Invalid(file, std::max(1, error.mark.line + 1), error.msg);
  }
  return std::move(reader.entries());
}

}  // namespace spillway
