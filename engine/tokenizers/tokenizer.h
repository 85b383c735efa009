// Converts text to tokens and back: `bytes`, `chars`, and tokenizers of a Hugging Face
// tokenizer.json. docs/DATA.md describes each.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/chat/chat_format.h"
#include "engine/tokenizers/token_template.h"

namespace spillway {

// Encodes a text given in pieces; holds the incomplete part at a piece's end. One thread.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  // Appends the tokens that `piece` completes. kInvalidArgument names the file and the byte offset
  // of text that cannot be encoded.
  virtual absl::Status Encode(absl::string_view piece, std::vector<uint32_t>* tokens) = 0;

  // The text has ended; the encoder is ready for another one. After an error it is not.
  virtual absl::Status Finish(std::vector<uint32_t>* tokens) = 0;

  // The next text continues another one, which was encoded by itself: no space that marks the start
  // of a text is inserted. REQUIRES: nothing of it has been encoded.
  virtual void Continue() {}
};

// A token of a text, and the bytes of the text that it stands for.
struct TokenSpan {
  int64_t token = 0;
  size_t begin = 0, end = 0;
};

// Immutable except for ForgetEncoding: any thread.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // "bytes", "chars"; for a tokenizer.json "bpe", "unigram", "wordpiece", "wordlevel".
  virtual absl::string_view kind() const = 0;
  virtual int64_t vocabulary_size() const = 0;
  // The number of tokens, the last ones, that only files beside a tokenizer.json declare: a model's
  // vocabulary may lack those that its texts never have.
  virtual int64_t declared_tokens() const { return 0; }

  // The token that ends a text; `bytes` and `chars` have none.
  virtual std::optional<uint32_t> end_of_text() const { return std::nullopt; }

  // The token that replaces masked ones, such as "[MASK]"; most tokenizers have none.
  virtual std::optional<uint32_t> mask_token() const { return std::nullopt; }
  // Whether the token is not part of text: "[CLS]", "[PAD]" and others.
  virtual bool IsSpecial(int64_t token) const { return token == end_of_text(); }
  // Whether the token is matched literally in text, special or not.
  virtual bool IsAdded(int64_t token) const { return IsSpecial(token); }
  // The token with this text; none if the vocabulary lacks it.
  virtual std::optional<uint32_t> Find(absl::string_view) const { return std::nullopt; }

  // Frees memory that only encoding needs, most of a tokenizer.json's. REQUIRES: no encoder exists
  // or will be created.
  virtual void ForgetEncoding() {}

  // `source` names the text in errors. The tokenizer must outlive the encoder.
  virtual std::unique_ptr<TextEncoder> NewEncoder(absl::string_view source) const = 0;

  // The text of the tokens; kInvalidArgument for a token outside the vocabulary.
  virtual absl::StatusOr<std::string> Decode(absl::Span<const int64_t> tokens) const = 0;

  // The text of a token inside a text; REQUIRES: it is in the vocabulary.
  virtual std::string TextOf(int64_t token) const { return *Decode({&token, 1}); }

  // [token] Its end in `text`, in bytes from 0 to text.size(). White space that encoding inserts or
  // drops is allowed for; none if the tokens decode to another text, as after a normalizer.
  std::vector<size_t> EndsIn(absl::string_view text, absl::Span<const uint32_t> tokens) const;

  // Whether the bytes of several tokens are the concatenation of each one's.
  virtual bool decodes_one_by_one() const { return true; }

  // The tokens of a text or a pair, with those that the tokenizer adds.
  virtual EncodedText Around(absl::Span<const int64_t> text,
                             std::optional<absl::Span<const int64_t>> second) const {
    return TokenTemplate().Apply(text, second);
  }

  // The tokens that are added before a text, such as "<s>"; prompts start with them, too.
  std::vector<int64_t> BeforeText() const;

  // The format of conversations; kInvalidArgument without a chat template. Lives as long as the
  // tokenizer.
  virtual absl::StatusOr<const ChatFormat*> chat() const;

  // Writes the files that LoadTokenizer needs into `directory` (atomically).
  virtual absl::Status Save(absl::string_view directory) const = 0;

  // Changes with the vocabulary; part of a run's identity.
  virtual std::string fingerprint() const = 0;

  // Encodes a whole text without added tokens, like add_special_tokens=False.
  absl::StatusOr<std::vector<int64_t>> Encode(absl::string_view text) const;

  // Encode with the place of each token: whole characters, without spaces around them, like the
  // trimmed offsets of Hugging Face's tokenizers. Every token of an unknown word has the place of
  // the word. kUnimplemented if normalizers rewrite the text so that its tokens cannot be found in
  // it. REQUIRES: valid UTF-8.
  virtual absl::StatusOr<std::vector<TokenSpan>> EncodeSpans(absl::string_view text) const;

  // The first tokens of a text, at most `most`, and the total number: all tokens of a long text
  // would take far more memory than it.
  struct Beginning {
    std::vector<int64_t> tokens;
    int64_t all = 0;
  };
  absl::StatusOr<Beginning> EncodeBeginning(absl::string_view text, int64_t most) const;
};

// kInvalidArgument for a tokenizer with more tokens than a model of `vocabulary`, not counting
// declared_tokens() that end no text.
absl::Status CheckVocabulary(const Tokenizer& tokenizer, int64_t vocabulary);

// kInvalidArgument for tokens of a text outside a model's `vocabulary`.
absl::Status CheckKnown(const Tokenizer& tokenizer, absl::Span<const int64_t> tokens,
                        int64_t vocabulary);

// Warns if `cut` of `all` (`what`: "texts") are longer than `flag` `most` and are truncated.
void WarnOfCut(absl::string_view files, int64_t cut, int64_t all, absl::string_view what,
               absl::string_view flag, int64_t most);

// One token per byte, 256 in total; Save writes this file.
inline constexpr absl::string_view kBytesFile = "bytes.json";
std::unique_ptr<Tokenizer> NewByteTokenizer();

}  // namespace spillway
