#include "engine/tokenizers/model_streams.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace spillway {
namespace {

using nlohmann::json;

std::string BrokenModel(const char* where, const std::string& why) {
  return absl::StrCat("not a tokenizer.json: /model/", where, ": ", why);
}

std::string NoId(absl::string_view token) {
  return BrokenModel("vocab",
                     absl::StrCat("the id of \"", token.substr(0, 80), "\" is not a number"));
}

// Fast path: most texts need no escapes, and there may be millions.
void DumpText(absl::string_view text, std::ostream& out) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\';
  });
  if (!plain) {
    out << json(std::string(text));
    return;
  }
  out.put('"');
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.put('"');
}

}  // namespace

std::string VocabularyStream::Open(bool array) {
  if (!begun_) {
    begun_ = true;
    return "";
  }
  return NoId(entries_.back().first);
}

std::string VocabularyStream::Key(std::string key) {
  entries_.emplace_back(std::move(key), 0);
  return "";
}

std::string VocabularyStream::Scalar(json value) {
  auto& [token, id] = entries_.back();
  if (!value.is_number_unsigned()) return NoId(token);
  id = value.get<uint64_t>();
  return "";
}

void VocabularyStream::SortAndDump(std::ostream& out) {
  std::sort(entries_.begin(), entries_.end());
  out << '{';
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (i > 0) out << ',';
    DumpText(entries_[i].first, out);
    out << ':' << entries_[i].second;
  }
  out << '}';
}

std::string ScoresStream::Wrong() const {
  return BrokenModel("vocab",
                     absl::StrCat("entry ", scores_.size(), " is not a token with its score"));
}

std::string ScoresStream::Open(bool array) {
  ++depth_;
  return array && depth_ <= 2 ? "" : Wrong();
}

std::string ScoresStream::Close() {
  --depth_;
  return depth_ == 0 || tokens_.size() == scores_.size() ? "" : Wrong();
}

std::string ScoresStream::Scalar(json value) {
  const bool open = tokens_.size() > scores_.size();
  if (depth_ != 2 || (open ? !value.is_number() : !value.is_string())) return Wrong();
  if (open) {
    scores_.push_back(std::move(value));
  } else {
    tokens_.push_back(std::move(value.get_ref<std::string&>()));
  }
  return "";
}

void ScoresStream::Dump(std::ostream& out) const {
  out << '[';
  for (size_t i = 0; i < scores_.size(); ++i) {
    out << (i > 0 ? ",[" : "[");
    DumpText(tokens_[i], out);
    out << ',' << scores_[i] << ']';
  }
  out << ']';
}

std::string MergesStream::Wrong() {
  return BrokenModel("merges", "a merge is neither \"a b\" nor [\"a\", \"b\"]");
}

std::string MergesStream::Open(bool array) {
  ++depth_;
  if (!array || depth_ > 2) return Wrong();
  parts_ = 0;
  return "";
}

std::string MergesStream::Close() {
  --depth_;
  return depth_ == 0 || parts_ == 2 ? "" : Wrong();
}

std::string MergesStream::Scalar(json value) {
  if (!value.is_string()) return Wrong();
  const std::string& text = value.get_ref<const std::string&>();
  const auto begin = static_cast<uint32_t>(text_.size());
  const auto bytes = static_cast<uint32_t>(text.size());
  text_ += text;
  if (depth_ == 2) {
    if (++parts_ == 1) {
      merges_.push_back({begin, bytes, 0, false, false});
    } else {
      merges_.back().right_bytes = bytes;
    }
    return parts_ <= 2 ? "" : Wrong();
  }
  Merge merge = {begin, bytes, 0, true, absl::StartsWith(text, "#version")};
  if (!merge.is_comment) {
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      return BrokenModel("merges",
                         absl::StrCat("the merge \"", text.substr(0, 80), "\" is not two tokens"));
    }
    merge.left_bytes = static_cast<uint32_t>(space);
    merge.right_bytes = bytes - merge.left_bytes - 1;
  }
  merges_.push_back(merge);
  return "";
}

std::optional<std::pair<absl::string_view, absl::string_view>> MergesStream::At(
    size_t place) const {
  const Merge& merge = merges_[place];
  if (merge.is_comment) return std::nullopt;
  return std::pair(Text(merge.begin, merge.left_bytes),
                   Text(merge.begin + merge.left_bytes + merge.is_text, merge.right_bytes));
}

void MergesStream::Dump(std::ostream& out) const {
  out << '[';
  for (size_t i = 0; i < merges_.size(); ++i) {
    const Merge& merge = merges_[i];
    if (i > 0) out << ',';
    if (merge.is_text) {
      const size_t space = merge.is_comment ? 0 : 1;
      DumpText(Text(merge.begin, merge.left_bytes + space + merge.right_bytes), out);
      continue;
    }
    out << '[';
    DumpText(Text(merge.begin, merge.left_bytes), out);
    out << ',';
    DumpText(Text(merge.begin + merge.left_bytes, merge.right_bytes), out);
    out << ']';
  }
  out << ']';
}

JsonStream* ModelStreams::At(absl::string_view pointer, bool array) {
  if (pointer == "/model/vocab" && array) {
    has_scores = true;
    return &scores;
  }
  if (pointer == "/model/vocab") {
    has_vocabulary = true;
    return &vocabulary;
  }
  if (pointer != "/model/merges" || !array) return nullptr;
  has_merges = true;
  return &merges;
}

void ModelStreams::DumpModel(const json& model, std::ostream& out) {
  out << '{';
  bool first = true;
  for (const auto& item : model.items()) {
    if (!first) out << ',';
    first = false;
    DumpText(item.key(), out);
    out << ':';
    if (item.key() == "vocab" && has_vocabulary) {
      vocabulary.SortAndDump(out);
    } else if (item.key() == "vocab" && has_scores) {
      scores.Dump(out);
    } else if (item.key() == "merges" && has_merges) {
      merges.Dump(out);
    } else {
      out << item.value();
    }
  }
  out << '}';
}

}  // namespace spillway
