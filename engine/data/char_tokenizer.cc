#include "engine/data/char_tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/base/model_file.h"
#include "engine/base/stop_signal.h"
#include "engine/base/strict_json.h"
#include "engine/base/text_reader.h"
#include "engine/base/utf8.h"
#include "engine/data/jsonl.h"
#include "io/base/check.h"
#include "io/base/status.h"
#include "io/checksum.h"
#include "io/file_system.h"

namespace spillway {
namespace {

constexpr uint32_t kCodePoints = 0x110000;

absl::Status InvalidUtf8(absl::string_view source, uint64_t offset_bytes) {
  return absl::InvalidArgumentError(
      absl::StrCat(source, ": invalid UTF-8 at byte ", offset_bytes,
                   ": convert the text to UTF-8, or use --tokenizer bytes"));
}

class CharEncoder : public TextEncoder {
 public:
  CharEncoder(absl::string_view source, const std::vector<uint32_t>& code_points)
      : source_(source), code_points_(code_points) {}

  absl::Status Encode(absl::string_view piece, std::vector<uint32_t>* tokens) override {
    for (const char c : piece) {
      switch (decoder_.Next(static_cast<unsigned char>(c))) {
        case Utf8Decoder::Result::kMore:
          break;
        case Utf8Decoder::Result::kInvalid:
          return InvalidUtf8(source_, decoder_.offset());
        case Utf8Decoder::Result::kCodePoint: {
          const uint32_t code_point = decoder_.code_point();
          const auto found = std::lower_bound(code_points_.begin(), code_points_.end(), code_point);
          if (found == code_points_.end() || *found != code_point) {
            return absl::InvalidArgumentError(absl::StrCat(
                source_, ": ", DescribeCodePoint(code_point), " at byte ", decoder_.offset(),
                " is not in the vocabulary of ", code_points_.size(),
                " characters, which comes from the training text"));
          }
          tokens->push_back(static_cast<uint32_t>(found - code_points_.begin()));
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status Finish(std::vector<uint32_t>*) override {
    if (!decoder_.complete()) return InvalidUtf8(source_, decoder_.offset());
    decoder_ = Utf8Decoder();
    return absl::OkStatus();
  }

 private:
  std::string source_;
  const std::vector<uint32_t>& code_points_;
  Utf8Decoder decoder_;
};

class CharTokenizer : public Tokenizer {
 public:
  explicit CharTokenizer(std::vector<uint32_t> code_points)
      : code_points_(std::move(code_points)) {}

  absl::string_view kind() const override { return "chars"; }
  int64_t vocabulary_size() const override { return static_cast<int64_t>(code_points_.size()); }
  std::unique_ptr<TextEncoder> NewEncoder(absl::string_view source) const override {
    return std::make_unique<CharEncoder>(source, code_points_);
  }
  absl::StatusOr<std::string> Decode(absl::Span<const int64_t> tokens) const override {
    std::string text;
    for (const int64_t token : tokens) {
      if (token < 0 || token >= vocabulary_size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("token ", token, " is outside the ", "vocabulary of ", vocabulary_size()));
      }
      AppendUtf8(code_points_[static_cast<size_t>(token)], &text);
    }
    return text;
  }
  absl::Status Save(absl::string_view directory) const override {
    return WriteFileAtomically(absl::StrCat(directory, "/", kCharsFile),
                               absl::StrCat("{\"kind\": \"chars\", \"version\": 1, "
                                            "\"code_points\": [",
                                            absl::StrJoin(code_points_, ", "), "]}\n"),
                               FileAccess::kShared);
  }
  std::string fingerprint() const override {
    return absl::StrFormat("chars-%d-%016x", code_points_.size(),
                           Checksum(code_points_.data(), code_points_.size() * sizeof(uint32_t)));
  }

 private:
  std::vector<uint32_t> code_points_;
};

}  // namespace

std::unique_ptr<Tokenizer> NewCharTokenizer(std::vector<uint32_t> code_points) {
  SPILLWAY_CHECK(!code_points.empty() && std::is_sorted(code_points.begin(), code_points.end()));
  return std::make_unique<CharTokenizer>(std::move(code_points));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> NewCharTokenizer(const std::vector<std::string>& files) {
  std::vector<bool> seen(kCodePoints);
  for (const std::string& file : files) {
    Utf8Decoder decoder;
    const auto look = [&](absl::string_view piece) -> absl::Status {
      RETURN_IF_ERROR(StopSignal::Check());
      for (const char c : piece) {
        const Utf8Decoder::Result result = decoder.Next(static_cast<unsigned char>(c));
        if (result == Utf8Decoder::Result::kInvalid) return InvalidUtf8(file, decoder.offset());
        if (result == Utf8Decoder::Result::kCodePoint) seen[decoder.code_point()] = true;
      }
      return absl::OkStatus();
    };
    if (absl::EndsWith(file, ".jsonl")) {
      seen['\n'] = true;  // ends each text
      RETURN_IF_ERROR(ReadJsonl(file, [&](const JsonlRecord& record) -> absl::Status {
        if (record.is_chat()) {
          return absl::InvalidArgumentError("\"messages\" need a tokenizer with a chat template");
        }
        RETURN_IF_ERROR(look(record.prompt));
        return look(record.text);
      }));
    } else {
      RETURN_IF_ERROR(ReadInPieces(file, look));
    }
    if (!decoder.complete()) return InvalidUtf8(file, decoder.offset());
  }
  std::vector<uint32_t> code_points;
  for (uint32_t i = 0; i < kCodePoints; ++i) {
    if (seen[i]) code_points.push_back(i);
  }
  if (code_points.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(absl::StrJoin(files, ", "), ": no text to take a vocabulary from"));
  }
  return NewCharTokenizer(std::move(code_points));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadCharTokenizer(absl::string_view path) {
  ASSIGN_OR_RETURN(const JsonDocument document,
                   ReadModelJson(ParentPath(path), FileName(path), {.max_depth = 4}));
  const nlohmann::json& root = document.value;
  const auto broken = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
  };
  const bool ours = root.is_object() && root.contains("kind") && root["kind"] == "chars" &&
                    root.contains("version") && root["version"] == 1 &&
                    root.contains("code_points") && root["code_points"].is_array();
  if (!ours) return broken("not a character vocabulary of version 1");
  std::vector<uint32_t> code_points;
  for (const nlohmann::json& item : root["code_points"]) {
    if (!item.is_number_unsigned() || item.get<uint64_t>() >= kCodePoints) {
      return broken(absl::StrCat("'", item.dump(-1, ' ', true), "' is not a code point"));
    }
    const uint32_t code_point = item.get<uint32_t>();
    if (code_point >= 0xd800 && code_point <= 0xdfff) return broken("a surrogate is listed");
    if (!code_points.empty() && code_points.back() >= code_point) {
      return broken("the code points are not sorted and distinct");
    }
    code_points.push_back(code_point);
  }
  if (code_points.empty()) return broken("the vocabulary is empty");
  return NewCharTokenizer(std::move(code_points));
}

}  // namespace spillway
