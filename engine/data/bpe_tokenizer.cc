#include "engine/data/bpe_tokenizer.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/strict_json.h"
#include "engine/data/nfc.h"
#include "engine/data/utf8_repair.h"
#include "engine/data/word_splitter.h"
#include "io/base/check.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/checksum.h"
#include "io/file.h"
#include "io/file_system.h"

namespace spillway {
namespace {

// What encoders share.
struct Parts {
  BpeModel model;
  SplitPattern pattern;
  std::optional<NfcTable> nfc;
  AddedTokenSet before_nfc, after_nfc;
  bool add_prefix_space = false;
};

class BpeEncoder : public TextEncoder {
 public:
  BpeEncoder(absl::string_view source, const Parts& parts)
      : source_(source),
        words_(&parts.pattern, &parts.model, parts.add_prefix_space),
        after_(&parts.after_nfc, &words_) {
    TextStage* next = &after_;
    if (parts.nfc) {
      nfc_.emplace(&*parts.nfc, next);
      next = &*nfc_;
    }
    before_.emplace(&parts.before_nfc, next);
  }

  absl::Status Encode(absl::string_view piece, std::vector<uint32_t>* tokens) override {
    words_.AppendTo(tokens);
    return Named(before_->Text(repair_.Next(piece)));
  }

  absl::Status Finish(std::vector<uint32_t>* tokens) override {
    words_.AppendTo(tokens);
    RETURN_IF_ERROR(Named(before_->Text(repair_.Finish())));
    RETURN_IF_ERROR(Named(before_->EndSegment()));
    if (repair_.replaced() > 0) {
      LogWarning(absl::StrCat(source_, ": ", repair_.replaced(),
                              repair_.replaced() == 1 ? " place is" : " places are",
                              " not valid UTF-8 (the first at byte ", repair_.first_offset_bytes(),
                              "); each became U+FFFD, the replacement character"));
    }
    repair_ = Utf8Repair();
    before_->Reset();
    return absl::OkStatus();
  }

 private:
  absl::Status Named(const absl::Status& status) const {
    return status.ok() ? status : Annotate(status, source_);
  }

  const std::string source_;
  Utf8Repair repair_;
  WordSplitter words_;
  AddedTokenStage after_;
  std::optional<NfcStage> nfc_;
  std::optional<AddedTokenStage> before_;
};

uint64_t FingerprintOf(const TokenizerSpec& spec) {
  Digest digest;
  const auto number = [&](uint64_t value) { digest.Update(&value, sizeof(value)); };
  const auto text = [&](absl::string_view value) {
    number(value.size());
    digest.Update(value.data(), value.size());
  };
  number(spec.tokens.size());
  for (const std::string& token : spec.tokens) text(token);
  digest.Update(spec.byte_tokens.data(), sizeof(spec.byte_tokens));
  number(spec.merges.size());
  for (const MergeTable::Merge& merge : spec.merges) {
    number(uint64_t{merge.left} << 32 | merge.right);
    number(merge.merged);
  }
  number(spec.ignore_merges | spec.nfc << 1 | spec.add_prefix_space << 2);
  text(spec.split_pattern);
  for (const AddedToken& token : spec.added) {
    number(token.id);
    number(token.single_word | token.lstrip << 1 | token.rstrip << 2 | token.normalized << 3);
    text(token.content);
  }
  return digest.value();
}

class BpeTokenizer : public Tokenizer {
 public:
  BpeTokenizer(TokenizerSpec spec, std::optional<uint32_t> end_of_text, BpeFiles files,
               SplitPattern pattern)
      : end_of_text_(end_of_text),
        files_(std::move(files)),
        fingerprint_(absl::StrFormat("bpe-%d-%016x-%d", spec.tokens.size(), FingerprintOf(spec),
                                     end_of_text ? static_cast<int64_t>(*end_of_text) : -1)),
        parts_(MakeParts(spec, std::move(pattern))),
        tokens_(std::move(spec.tokens)) {}

  absl::string_view kind() const override { return "bpe"; }
  int64_t vocabulary_size() const override { return static_cast<int64_t>(tokens_.size()); }
  std::optional<uint32_t> end_of_text() const override { return end_of_text_; }
  std::string fingerprint() const override { return fingerprint_; }

  std::unique_ptr<TextEncoder> NewEncoder(absl::string_view source) const override {
    return std::make_unique<BpeEncoder>(source, parts_);
  }

  absl::StatusOr<std::string> Decode(absl::Span<const int64_t> tokens) const override {
    std::string text;
    for (const int64_t token : tokens) {
      if (token < 0 || token >= vocabulary_size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("token ", token, " is outside the vocabulary of ", vocabulary_size()));
      }
      text += tokens_[static_cast<size_t>(token)];
    }
    return text;
  }

  absl::Status Save(absl::string_view directory) const override {
    SPILLWAY_CHECK(!files_.directory.empty());
    // tokenizer.json last: where it is, the others are.
    for (const char* name :
         {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
          "merges.txt", "chat_template.jinja", "tokenizer.json"}) {
      const std::string from = absl::StrCat(files_.directory, "/", name);
      const auto content = ReadSmallFile(from);
      const bool is_main = absl::string_view(name) == "tokenizer.json";
      if (absl::IsNotFound(content.status()) && !is_main) continue;
      RETURN_IF_ERROR(content.status());
      if (is_main && Checksum(content->data(), content->size()) != files_.checksum) {
        return absl::FailedPreconditionError(
            absl::StrCat(from,
                         " has changed since it was read: the tokenizer that this used is not "
                         "there any more; put it back"));
      }
      RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(directory, "/", name), *content));
    }
    return absl::OkStatus();
  }

 private:
  static Parts MakeParts(const TokenizerSpec& spec, SplitPattern pattern) {
    BpeModel model{
        .byte_tokens = spec.byte_tokens, .merges = MergeTable(spec.merges), .whole_words = {}};
    if (spec.ignore_merges) {
      for (const uint32_t id : spec.word_tokens) model.whole_words.emplace(spec.tokens[id], id);
    }
    std::optional<NfcTable> nfc;
    if (spec.nfc) nfc.emplace();
    std::vector<AddedToken> before, after;
    for (AddedToken token : spec.added) {
      if (token.normalized && nfc) token.content = NormalizeNfc(*nfc, token.content);
      (token.normalized ? after : before).push_back(std::move(token));
    }
    return {.model = std::move(model),
            .pattern = std::move(pattern),
            .nfc = std::move(nfc),
            .before_nfc = AddedTokenSet(std::move(before)),
            .after_nfc = AddedTokenSet(std::move(after)),
            .add_prefix_space = spec.add_prefix_space};
  }

  const std::optional<uint32_t> end_of_text_;
  const BpeFiles files_;
  const std::string fingerprint_;
  const Parts parts_;
  const std::vector<std::string> tokens_;  // the bytes of each
};

}  // namespace

std::unique_ptr<Tokenizer> NewBpeTokenizer(TokenizerSpec spec, std::optional<uint32_t> end_of_text,
                                           BpeFiles files) {
  auto pattern = SplitPattern::Compile(spec.split_pattern);
  SPILLWAY_CHECK(pattern.ok());  // ParseTokenizerJson has tried it
  return std::make_unique<BpeTokenizer>(std::move(spec), end_of_text, std::move(files),
                                        *std::move(pattern));
}

namespace {

std::optional<uint32_t> IdOf(const TokenizerSpec& spec, const std::string& token) {
  for (const AddedToken& added : spec.added) {
    if (added.content == token) return added.id;
  }
  const auto found = std::find(spec.tokens.begin(), spec.tokens.end(), token);
  if (token.empty() || found == spec.tokens.end()) return std::nullopt;
  return static_cast<uint32_t>(found - spec.tokens.begin());
}

// A token by its text ("eos_token": "</s>" or {"content": "</s>", ...}) or by its number
// ("eos_token_id": 2, or several, of which the first ends a text).
std::optional<uint32_t> TokenOf(const TokenizerSpec& spec, const nlohmann::json& value) {
  if (value.is_string()) return IdOf(spec, value.get<std::string>());
  if (value.is_object() && value.contains("content")) return TokenOf(spec, value["content"]);
  if (value.is_array() && !value.empty() && value[0].is_number()) return TokenOf(spec, value[0]);
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= spec.tokens.size()) {
    return std::nullopt;
  }
  return value.get<uint32_t>();
}

// The files beside a tokenizer.json are read for this only; one that is missing says nothing.
absl::StatusOr<std::optional<uint32_t>> FindEndOfText(const TokenizerSpec& spec,
                                                      absl::string_view directory) {
  constexpr const char* kSources[][2] = {{"tokenizer_config.json", "eos_token"},
                                         {"special_tokens_map.json", "eos_token"},
                                         {"config.json", "eos_token_id"},
                                         {"generation_config.json", "eos_token_id"}};
  for (const auto& [name, key] : kSources) {
    const auto document = ReadStrictJson(absl::StrCat(directory, "/", name));
    if (absl::IsNotFound(document.status())) continue;
    RETURN_IF_ERROR(document.status());
    if (!document->value.is_object() || !document->value.contains(key)) continue;
    const std::optional<uint32_t> token = TokenOf(spec, document->value[key]);
    if (token) return token;
  }
  return IdOf(spec, "<|endoftext|>");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadBpeTokenizer(absl::string_view directory) {
  const std::string path = absl::StrCat(directory, "/tokenizer.json");
  ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(path, kMaxTokenizerJsonBytes));
  ASSIGN_OR_RETURN(TokenizerSpec spec, ParseTokenizerJson(text, path));
  ASSIGN_OR_RETURN(const std::optional<uint32_t> end_of_text, FindEndOfText(spec, directory));
  return NewBpeTokenizer(std::move(spec), end_of_text,
                         {std::string(directory), Checksum(text.data(), text.size())});
}

}  // namespace spillway
