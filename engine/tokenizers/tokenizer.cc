#include "engine/tokenizers/tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/tokenizers/traced_text.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/file_system.h"

namespace spillway {
namespace {

class ByteEncoder : public TextEncoder {
 public:
  absl::Status Encode(absl::string_view piece, std::vector<uint32_t>* tokens) override {
    for (const char c : piece) tokens->push_back(static_cast<unsigned char>(c));
    return absl::OkStatus();
  }
  absl::Status Finish(std::vector<uint32_t>*) override { return absl::OkStatus(); }
};

class ByteTokenizer : public Tokenizer {
 public:
  absl::string_view kind() const override { return "bytes"; }
  int64_t vocabulary_size() const override { return 256; }
  std::unique_ptr<TextEncoder> NewEncoder(absl::string_view) const override {
    return std::make_unique<ByteEncoder>();
  }
  absl::StatusOr<std::string> Decode(absl::Span<const int64_t> tokens) const override {
    std::string text;
    for (const int64_t token : tokens) {
      if (token < 0 || token > 255) {
        return absl::InvalidArgumentError(absl::StrCat("token ", token, " is not a byte"));
      }
      text += static_cast<char>(token);
    }
    return text;
  }
  absl::Status Save(absl::string_view directory) const override {
    return WriteFileAtomically(absl::StrCat(directory, "/", kBytesFile),
                               "{\"kind\": \"bytes\", \"version\": 1}\n", FileAccess::kShared);
  }
  std::string fingerprint() const override { return "bytes"; }
};

}  // namespace

absl::StatusOr<std::vector<int64_t>> Tokenizer::Encode(absl::string_view text) const {
  ASSIGN_OR_RETURN(Beginning whole, EncodeBeginning(text, INT64_MAX));
  return std::move(whole.tokens);
}

absl::StatusOr<std::vector<TokenSpan>> Tokenizer::EncodeSpans(absl::string_view text) const {
  ASSIGN_OR_RETURN(const std::vector<int64_t> tokens, Encode(text));
  ASSIGN_OR_RETURN(TracedText traced, TracedText::Make({}, text, /*keeps_marks=*/false));
  std::vector<TokenSpan> spans;
  for (const int64_t token : tokens) {
    if (!traced.Find(TextOf(token))) {
      return absl::UnimplementedError("the tokens cannot be found in the text");
    }
    const auto [begin, end] = traced.PlaceOf(0, traced.found_bytes());
    spans.push_back({token, begin, end});
  }
  return spans;
}

absl::StatusOr<Tokenizer::Beginning> Tokenizer::EncodeBeginning(absl::string_view text,
                                                                int64_t most) const {
  constexpr size_t kPieceBytes = 256 << 10;
  const std::unique_ptr<TextEncoder> encoder = NewEncoder("the text");
  Beginning found;
  std::vector<uint32_t> tokens;
  const auto take = [&] {
    const int64_t room = std::max<int64_t>(0, most - found.all);
    const auto kept = std::min(room, static_cast<int64_t>(tokens.size()));
    found.tokens.insert(found.tokens.end(), tokens.begin(), tokens.begin() + kept);
    found.all += static_cast<int64_t>(tokens.size());
    tokens.clear();
  };
  for (size_t at = 0; at < text.size(); at += kPieceBytes) {
    RETURN_IF_ERROR(encoder->Encode(text.substr(at, kPieceBytes), &tokens));
    take();
  }
  RETURN_IF_ERROR(encoder->Finish(&tokens));
  take();
  return found;
}

std::vector<size_t> Tokenizer::EndsIn(absl::string_view text,
                                      absl::Span<const uint32_t> tokens) const {
  absl::string_view rest = text;
  // Whether the token comes next, possibly with a space before it that the text lacks.
  const auto take = [&](absl::string_view token) {
    return absl::ConsumePrefix(&rest, token) ||
           absl::ConsumePrefix(&rest, absl::StripPrefix(token, " "));
  };
  std::vector<size_t> ends;
  for (const uint32_t token : tokens) {
    const std::string written = TextOf(token);
    if (!take(written)) {
      // A token may include white space, or a pre-tokenizer may drop it.
      rest = absl::StripLeadingAsciiWhitespace(rest);
      if (!take(written)) return {};
    }
    ends.push_back(text.size() - rest.size());
  }
  return absl::StripLeadingAsciiWhitespace(rest).empty() ? ends : std::vector<size_t>();
}

std::vector<int64_t> Tokenizer::BeforeText() const {
  constexpr int64_t kAny[] = {0};
  const EncodedText around = Around(kAny, std::nullopt);
  const auto text = std::find(around.sources.begin(), around.sources.end(), 0);
  return {around.tokens.begin(), around.tokens.begin() + (text - around.sources.begin())};
}

absl::StatusOr<const ChatFormat*> Tokenizer::chat() const {
  return absl::InvalidArgumentError(absl::StrCat(
      "conversations need a tokenizer with a chat template, and ", kind(), " has none"));
}

std::unique_ptr<Tokenizer> NewByteTokenizer() { return std::make_unique<ByteTokenizer>(); }

absl::Status CheckVocabulary(const Tokenizer& tokenizer, int64_t vocabulary) {
  int64_t needed = tokenizer.vocabulary_size() - tokenizer.declared_tokens();
  if (const auto end = tokenizer.end_of_text()) needed = std::max(needed, int64_t{*end} + 1);
  if (needed <= vocabulary) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the tokenizer (", tokenizer.kind(), ") has ", tokenizer.vocabulary_size(),
                   " tokens, but the model's vocabulary has ", vocabulary,
                   ": use the model's own tokenizer, or, for a model without weights, raise "
                   "vocab_size in its config.json"));
}

absl::Status CheckKnown(const Tokenizer& tokenizer, absl::Span<const int64_t> tokens,
                        int64_t vocabulary) {
  for (const int64_t token : tokens) {
    if (token < vocabulary) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the text has token ", token, ", and the model knows ", vocabulary,
                     ": the tokenizer (", tokenizer.kind(), ") is not the model's"));
  }
  return absl::OkStatus();
}

void WarnOfCut(absl::string_view files, int64_t cut, int64_t all, absl::string_view what,
               absl::string_view flag, int64_t most) {
  if (cut == 0) return;
  LogWarning(absl::StrCat(files, ": ", cut, " of ", all, " ", what, " are longer than ", flag, " ",
                          most, " and lose their end"));
}

}  // namespace spillway
