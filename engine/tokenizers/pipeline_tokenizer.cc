#include "engine/tokenizers/pipeline_tokenizer.h"

#include <malloc.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "engine/base/model_file.h"
#include "engine/base/strict_json.h"
#include "engine/base/utf8_repair.h"
#include "engine/tokenizers/byte_alphabet.h"
#include "engine/tokenizers/declared_tokens.h"
#include "engine/tokenizers/model_stage.h"
#include "engine/tokenizers/token_decoder.h"
#include "engine/tokenizers/traced_text.h"
#include "io/base/check.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/checksum.h"
#include "io/file.h"
#include "io/file_system.h"

namespace spillway {
namespace {

constexpr absl::string_view kWordBegin = "\u2581";  // SentencePiece's space

// The stages before the model's, and the first of all.
class StagesBefore {
 public:
  // All outlive it.
  StagesBefore(TextStage* last, const TokenizerParts& parts, const AddedTokenSet& raw,
               const AddedTokenSet& normalized, const uint64_t* given_bytes)
      : first_(last) {
    const auto put_before = [&](std::unique_ptr<TextStage> stage) {
      first_ = stage.get();
      stages_.push_back(std::move(stage));
    };
    for (auto make = parts.pre_tokenizers.rbegin(); make != parts.pre_tokenizers.rend(); ++make) {
      put_before((*make)(first_, given_bytes));
    }
    if (!normalized.empty()) put_before(std::make_unique<AddedTokenStage>(&normalized, first_));
    for (auto rewrite = parts.normalizers.rbegin(); rewrite != parts.normalizers.rend();
         ++rewrite) {
      put_before(std::make_unique<RewriteStage>(*rewrite, first_, given_bytes));
    }
    if (!raw.empty()) put_before(std::make_unique<AddedTokenStage>(&raw, first_));
  }

  TextStage* first() { return first_; }

 private:
  TextStage* first_;
  std::vector<std::unique_ptr<TextStage>> stages_;
};

// In the place of the model's stage: words as they come, and the added tokens between them.
class WordCollector : public TextStage {
 public:
  struct Part {
    std::string word;  // "": a token
    uint32_t token = kNoToken;
  };

  absl::Status Text(absl::string_view piece) override {
    absl::StrAppend(&word_, piece);
    return absl::OkStatus();
  }
  absl::Status EndSegment() override {
    if (!word_.empty()) parts_.push_back({std::exchange(word_, ""), kNoToken});
    return absl::OkStatus();
  }
  absl::Status Token(uint32_t token) override {
    parts_.push_back({"", token});
    return absl::OkStatus();
  }
  void Continue() override {}
  void Reset() override {}

  const std::vector<Part>& parts() const { return parts_; }

 private:
  std::string word_;
  std::vector<Part> parts_;
};

class PipelineEncoder : public TextEncoder {
 public:
  PipelineEncoder(absl::string_view source, const TokenizerParts& parts, const AddedTokenSet& raw,
                  const AddedTokenSet& normalized)
      : source_(source),
        words_(parts.model.get()),
        before_(&words_, parts, raw, normalized, &given_bytes_),
        first_(before_.first()) {}

  absl::Status Encode(absl::string_view piece, std::vector<uint32_t>* tokens) override {
    words_.AppendTo(tokens);
    given_bytes_ += piece.size();
    // Enough for what stages hold, and the piece.
    if (recent_.size() > 2 * kMaxHeldBytes) {
      recent_begin_ += recent_.size() - kMaxHeldBytes;
      recent_.erase(0, recent_.size() - kMaxHeldBytes);
    }
    recent_.append(piece.data(), piece.size());
    return Named(first_->Text(repair_.Next(piece)));
  }

  void Continue() override { first_->Continue(); }

  absl::Status Finish(std::vector<uint32_t>* tokens) override {
    words_.AppendTo(tokens);
    RETURN_IF_ERROR(Named(first_->Text(repair_.Finish())));
    RETURN_IF_ERROR(Named(first_->EndSegment()));
    if (repair_.replaced() > 0) {
      LogWarning(absl::StrCat(source_, ": ", repair_.replaced(),
                              repair_.replaced() == 1 ? " place is" : " places are",
                              " not valid UTF-8 (the first at byte ", repair_.first_offset_bytes(),
                              "); each became U+FFFD, the replacement character"));
    }
    repair_ = Utf8Repair();
    first_->Reset();
    given_bytes_ = recent_begin_ = 0;
    recent_.clear();
    return absl::OkStatus();
  }

 private:
  absl::Status Named(const absl::Status& status) const {
    if (status.ok()) return status;
    const std::optional<std::string> bytes = BytesWithoutToken(status);
    const size_t place = bytes ? recent_.find(*bytes) : std::string::npos;
    if (place == std::string::npos) return Annotate(status, source_);
    return Annotate(status, absl::StrCat(source_, ": byte ", recent_begin_ + place));
  }

  const std::string source_;
  Utf8Repair repair_;
  uint64_t given_bytes_ = 0;   // of the current text
  std::string recent_;         // its last bytes...
  uint64_t recent_begin_ = 0;  // ... starting at this one
  ModelStage words_;
  StagesBefore before_;
  TextStage* const first_;
};

class PipelineTokenizer : public Tokenizer {
 public:
  PipelineTokenizer(TokenizerParts parts, std::optional<uint32_t> end_of_text, TokenizerFiles files,
                    absl::StatusOr<ChatFormat> chat)
      : end_of_text_(end_of_text),
        files_(std::move(files)),
        fingerprint_(absl::StrFormat("%s-%d-%016x-%d", parts.kind, parts.tokens.size(),
                                     parts.digest,
                                     end_of_text ? static_cast<int64_t>(*end_of_text) : -1)),
        chat_(std::move(chat)),
        parts_(std::move(parts)),
        raw_(AddedOf(parts_, false)),
        normalized_(AddedOf(parts_, true)) {
    special_.resize(parts_.tokens.size());
    added_.resize(parts_.tokens.size());
    for (const AddedToken& token : parts_.added) special_[token.id] = token.special;
    for (const AddedToken& token : parts_.added) added_[token.id] = true;
    if (!decodes_one_by_one()) return;
    for (std::string& token : parts_.tokens) token = FromByteAlphabet(token).value_or(token);
  }

  absl::string_view kind() const override { return parts_.kind; }
  int64_t vocabulary_size() const override { return static_cast<int64_t>(parts_.tokens.size()); }
  int64_t declared_tokens() const override { return parts_.declared; }
  std::optional<uint32_t> end_of_text() const override { return end_of_text_; }
  std::optional<uint32_t> mask_token() const override { return parts_.mask; }
  bool IsSpecial(int64_t token) const override {
    return token >= 0 && token < vocabulary_size() && special_[static_cast<size_t>(token)];
  }
  bool IsAdded(int64_t token) const override {
    return token >= 0 && token < vocabulary_size() && added_[static_cast<size_t>(token)];
  }
  std::optional<uint32_t> Find(absl::string_view token) const override {
    for (const AddedToken& added : parts_.added) {
      if (parts_.tokens[added.id] == token) return added.id;
    }
    const bool in_alphabet = decodes_one_by_one() && ValidUtf8Prefix(token) == token.size();
    const std::optional<std::string> bytes = in_alphabet ? FromByteAlphabet(token) : std::nullopt;
    const auto found =
        std::find(parts_.tokens.begin(), parts_.tokens.end(), bytes ? *bytes : std::string(token));
    if (token.empty() || found == parts_.tokens.end()) return std::nullopt;
    return static_cast<uint32_t>(found - parts_.tokens.begin());
  }
  std::string fingerprint() const override { return fingerprint_; }

  void ForgetEncoding() override {
    parts_.model = nullptr;
    parts_.normalizers.clear();
    parts_.pre_tokenizers.clear();
    ::malloc_trim(0);  // returns small free blocks to the system
  }

  std::unique_ptr<TextEncoder> NewEncoder(absl::string_view source) const override {
    SPILLWAY_CHECK(parts_.model != nullptr);
    return std::make_unique<PipelineEncoder>(source, parts_, raw_, normalized_);
  }

  absl::StatusOr<std::vector<TokenSpan>> EncodeSpans(absl::string_view text) const override {
    SPILLWAY_CHECK(parts_.model != nullptr);
    WordCollector words;
    const uint64_t given_bytes = text.size();
    StagesBefore before(&words, parts_, raw_, normalized_, &given_bytes);
    RETURN_IF_ERROR(before.first()->Text(text));
    RETURN_IF_ERROR(before.first()->EndSegment());
    for (const bool keeps_marks : {false, true}) {
      ASSIGN_OR_RETURN(TracedText traced, TracedText::Make(parts_.normalizers, text, keeps_marks));
      ASSIGN_OR_RETURN(const auto spans, SpansIn(traced, words.parts()));
      if (spans) return *spans;
    }
    return absl::UnimplementedError(
        absl::StrCat("the tokenizer (", kind(),
                     ") has a normalizer whose tokens cannot be found in the text again"));
  }

  absl::StatusOr<std::string> Decode(absl::Span<const int64_t> tokens) const override {
    std::vector<std::string> written;
    for (const int64_t token : tokens) {
      if (token < 0 || token >= vocabulary_size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("token ", token, " is outside the vocabulary of ", vocabulary_size()));
      }
      const std::string& text = parts_.tokens[static_cast<size_t>(token)];
      if (!text.empty()) written.push_back(text);
    }
    return decodes_one_by_one() ? absl::StrJoin(written, "")
                                : parts_.decoder.Decode(std::move(written));
  }
  bool decodes_one_by_one() const override { return parts_.decoder.is_byte_level(); }
  std::string TextOf(int64_t token) const override {
    const std::string& text = parts_.tokens[static_cast<size_t>(token)];
    if (decodes_one_by_one()) return text;
    if (const std::optional<char> byte = FallbackByte(text)) return std::string(1, *byte);
    return absl::StrReplaceAll(text, {{kWordBegin, " "}});
  }

  EncodedText Around(absl::Span<const int64_t> text,
                     std::optional<absl::Span<const int64_t>> second) const override {
    return parts_.around.Apply(text, second);
  }

  absl::StatusOr<const ChatFormat*> chat() const override {
    if (absl::IsNotFound(chat_.status())) {
      return absl::InvalidArgumentError(absl::StrCat("a conversation: ", chat_.status().message()));
    }
    RETURN_IF_ERROR(chat_.status());
    return &*chat_;
  }

  absl::Status Save(absl::string_view directory) const override {
    SPILLWAY_CHECK(!files_.directory.empty());
    for (const char* name : kTokenizerJsonFiles) {
      const std::string from = absl::StrCat(files_.directory, "/", name);
      auto content = ReadModelFile(files_.directory, name, kMaxTokenizerJsonBytes);
      const bool is_main = absl::string_view(name) == "tokenizer.json";
      if (!files_.end_of_text.empty()) content = WithEndOfText(name, std::move(content));
      if (absl::IsNotFound(content.status()) && !is_main) continue;
      RETURN_IF_ERROR(content.status());
      if (is_main && Checksum(content->data(), content->size()) != files_.checksum) {
        return absl::FailedPreconditionError(
            absl::StrCat(from,
                         " has changed since it was read: the tokenizer that this used is not "
                         "there any more; put it back"));
      }
      RETURN_IF_ERROR(
          WriteFileAtomically(absl::StrCat(directory, "/", name), *content, FileAccess::kShared));
    }
    return absl::OkStatus();
  }

 private:
  // None where one is not in the text.
  absl::StatusOr<std::optional<std::vector<TokenSpan>>> SpansIn(
      TracedText& text, const std::vector<WordCollector::Part>& parts) const {
    const std::unique_ptr<WordEncoder> model = parts_.model->NewEncoder();
    std::vector<TokenSpan> spans;
    for (const WordCollector::Part& part : parts) {
      std::vector<uint32_t> tokens = {part.token};
      std::string written;
      if (part.word.empty()) {
        ASSIGN_OR_RETURN(written, RewriteAll(parts_.normalizers, parts_.tokens[part.token]));
      } else {
        tokens.clear();
        RETURN_IF_ERROR(model->Encode(part.word, &tokens));
        written =
            decodes_one_by_one() ? part.word : absl::StrReplaceAll(part.word, {{kWordBegin, " "}});
      }
      if (!text.Find(written)) {
        // Some pre-tokenizers write words in the byte alphabet, others leave that to the model.
        written = FromByteAlphabet(written).value_or("");
        if (written.empty() || !text.Find(written)) return std::nullopt;
      }
      // The tokens of an unknown word decode to another text, so each gets the place of the whole
      // word.
      const std::vector<size_t> ends = EndsInWord(written, tokens);
      const size_t added = written.size() - text.found_bytes();  // a space before it
      const auto in_text = [&](size_t at) { return at < added ? 0 : at - added; };
      for (size_t i = 0; i < tokens.size(); ++i) {
        const bool known = !ends.empty();
        const auto [begin, end] = text.PlaceOf(known && i > 0 ? in_text(ends[i - 1]) : 0,
                                               known ? in_text(ends[i]) : text.found_bytes());
        spans.push_back({tokens[i], begin, end});
      }
    }
    return spans;
  }

  // Where each token of a word ends in it; empty where they do not write it.
  std::vector<size_t> EndsInWord(absl::string_view word,
                                 const std::vector<uint32_t>& tokens) const {
    std::vector<size_t> ends;
    size_t at = 0;
    for (const uint32_t token : tokens) {
      std::string text = TextOf(token);
      absl::string_view piece = text;
      if (at > 0 && parts_.kind == "wordpiece") absl::ConsumePrefix(&piece, "##");
      if (!absl::StartsWith(word.substr(at), piece)) return {};
      at += piece.size();
      ends.push_back(at);
    }
    return at == word.size() ? ends : std::vector<size_t>();
  }

  static std::vector<AddedToken> AddedOf(const TokenizerParts& parts, bool normalized) {
    std::vector<AddedToken> tokens;
    for (const AddedToken& token : parts.added) {
      if (token.normalized == normalized) tokens.push_back(token);
    }
    return tokens;
  }

  // Content of a file with the requested eos_token. tokenizer_config.json gets it, and is created
  // if missing; special_tokens_map.json may repeat it.
  absl::StatusOr<std::string> WithEndOfText(absl::string_view name,
                                            absl::StatusOr<std::string> content) const {
    const bool is_config = name == "tokenizer_config.json";
    if (!is_config && name != "special_tokens_map.json") return content;
    if (is_config && absl::IsNotFound(content.status())) content = "{}";
    RETURN_IF_ERROR(content.status());
    auto json = nlohmann::ordered_json::parse(*content, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || (!is_config && !json.contains("eos_token"))) return content;
    json["eos_token"] = files_.end_of_text;
    return json.dump(2) + "\n";
  }

  const std::optional<uint32_t> end_of_text_;
  const TokenizerFiles files_;
  const std::string fingerprint_;
  const absl::StatusOr<ChatFormat> chat_;
  TokenizerParts parts_;  // with bytes in place of tokens if decoding is one by one
  const AddedTokenSet raw_, normalized_;
  std::vector<bool> special_, added_;  // [token]
};

}  // namespace

std::unique_ptr<Tokenizer> NewPipelineTokenizer(TokenizerParts parts,
                                                std::optional<uint32_t> end_of_text,
                                                TokenizerFiles files,
                                                absl::StatusOr<ChatFormat> chat) {
  return std::make_unique<PipelineTokenizer>(std::move(parts), end_of_text, std::move(files),
                                             std::move(chat));
}

namespace {

std::optional<uint32_t> IdOf(const TokenizerParts& parts, const std::string& token) {
  const auto found = std::find(parts.tokens.begin(), parts.tokens.end(), token);
  if (token.empty() || found == parts.tokens.end()) return std::nullopt;
  return static_cast<uint32_t>(found - parts.tokens.begin());
}

// A token by its text ("eos_token": "</s>" or {"content": "</s>", ...}) or its number
// ("eos_token_id": 2, or several, the first of which counts).
std::optional<uint32_t> TokenOf(const TokenizerParts& parts, const nlohmann::json& value) {
  if (value.is_string()) return IdOf(parts, value.get<std::string>());
  if (value.is_object() && value.contains("content")) return TokenOf(parts, value["content"]);
  if (value.is_array() && !value.empty() && value[0].is_number()) return TokenOf(parts, value[0]);
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= parts.tokens.size()) {
    return std::nullopt;
  }
  return value.get<uint32_t>();
}

// {a file beside a tokenizer.json, its key}; files are read only for this key, and may be missing.
using TokenPlaces = std::vector<std::pair<const char*, const char*>>;
absl::StatusOr<std::optional<uint32_t>> FindNamedToken(const TokenizerParts& parts,
                                                       absl::string_view directory,
                                                       const TokenPlaces& places) {
  for (const auto& [name, key] : places) {
    const auto document = ReadModelJson(directory, name);
    if (absl::IsNotFound(document.status())) continue;
    RETURN_IF_ERROR(document.status());
    if (!document->value.is_object() || !document->value.contains(key)) continue;
    const std::optional<uint32_t> token = TokenOf(parts, document->value[key]);
    if (token) return token;
  }
  return std::optional<uint32_t>();
}

std::optional<uint32_t> NamedToken(const TokenizerParts& parts, const DeclaredTokens& declared,
                                   const char* key) {
  const auto found = declared.named.find(key);
  return found == declared.named.end() ? std::nullopt : IdOf(parts, found->second);
}

absl::StatusOr<std::optional<uint32_t>> FindEndOfText(const TokenizerParts& parts,
                                                      const DeclaredTokens& declared,
                                                      absl::string_view directory,
                                                      const std::string& asked) {
  std::optional<uint32_t> token = IdOf(parts, asked);
  if (!asked.empty() && !token) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--eos-token ", asked, ": ", directory, "/tokenizer.json and the files beside it have no ",
        "such token: name one that is there, or declare it in tokenizer_config.json"));
  }
  const auto named = declared.named.find("eos_token");
  if (token && parts.declared > 0 && (named == declared.named.end() || named->second != asked)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--eos-token ", asked, ": with it ", parts.declared, " tokens that ", directory,
        "/tokenizer.json lacks and the files beside it declare would get other ids: put them there "
        "first (AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR))"));
  }
  if (!token) token = NamedToken(parts, declared, "eos_token");
  if (!token) {
    ASSIGN_OR_RETURN(token, FindNamedToken(parts, directory,
                                           {{"special_tokens_map.json", "eos_token"},
                                            {"config.json", "eos_token_id"},
                                            {"generation_config.json", "eos_token_id"}}));
  }
  return token ? token : IdOf(parts, "<|endoftext|>");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadPipelineTokenizer(absl::string_view directory,
                                                                 const std::string& end_of_text) {
  const std::string path = absl::StrCat(directory, "/tokenizer.json");
  ASSIGN_OR_RETURN(const std::string text,
                   ReadModelFile(directory, "tokenizer.json", kMaxTokenizerJsonBytes));
  ASSIGN_OR_RETURN(const DeclaredTokens declared, ReadDeclaredTokens(directory));
  ASSIGN_OR_RETURN(TokenizerParts parts, ParseTokenizerJson(text, path, declared));
  for (const std::string& notice : parts.notices) LogInfo(notice);
  for (const std::string& warning : parts.warnings) LogWarning(warning);
  ASSIGN_OR_RETURN(const std::optional<uint32_t> end,
                   FindEndOfText(parts, declared, directory, end_of_text));
  parts.mask = NamedToken(parts, declared, "mask_token");
  if (!parts.mask) {
    ASSIGN_OR_RETURN(parts.mask,
                     FindNamedToken(parts, directory, {{"special_tokens_map.json", "mask_token"}}));
  }
  if (!parts.mask) parts.mask = IdOf(parts, "[MASK]");
  if (!parts.mask) parts.mask = IdOf(parts, "<mask>");
  auto chat = ChatFormat::Load(directory);
  if (chat.ok() && !end_of_text.empty()) chat->SetToken("eos_token", end_of_text);
  return NewPipelineTokenizer(
      std::move(parts), end,
      {std::string(directory), Checksum(text.data(), text.size()), end_of_text}, std::move(chat));
}

}  // namespace spillway
