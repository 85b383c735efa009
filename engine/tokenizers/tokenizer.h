// From text to tokens and back: `bytes`, `chars`, and what a Hugging Face tokenizer.json
// describes. docs/DATA.md says what each does.
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

// Encodes one text given in pieces; remembers what a piece's end cut in two. One thread.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  // Appends the tokens that `piece` completes. kInvalidArgument names the file and the
  // byte offset of what cannot be encoded.
  virtual absl::Status Encode(absl::string_view piece, std::vector<uint32_t>* tokens) = 0;

  // The text has ended; the encoder is ready for another one. After an error it is not.
  virtual absl::Status Finish(std::vector<uint32_t>* tokens) = 0;

  // The next text continues another one, which was encoded by itself: no space that stands for a
  // text's beginning is put before it. REQUIRES: nothing of it has been encoded.
  virtual void Continue() {}
};

// Immutable, but for ForgetEncoding: any thread.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // "bytes", "chars"; of a tokenizer.json "bpe", "unigram", "wordpiece", "wordlevel".
  virtual absl::string_view kind() const = 0;
  virtual int64_t vocabulary_size() const = 0;
  // How many tokens, the last ones, only the files beside a tokenizer.json declare: a model may
  // have no room for those that its texts never have.
  virtual int64_t declared_tokens() const { return 0; }

  // The token that ends a text; `bytes` and `chars` have none.
  virtual std::optional<uint32_t> end_of_text() const { return std::nullopt; }

  // The token that stands where another is to be found, as "[MASK]" does; most have none.
  virtual std::optional<uint32_t> mask_token() const { return std::nullopt; }
  // What is of no text: "[CLS]", "[PAD]" and their like.
  virtual bool IsSpecial(int64_t token) const { return token == end_of_text(); }
  // Whether a text has the token wherever its content stands, special or not.
  virtual bool IsAdded(int64_t token) const { return IsSpecial(token); }
  // The token that is written so; none where the vocabulary lacks it.
  virtual std::optional<uint32_t> Find(absl::string_view) const { return std::nullopt; }

  // Frees what nothing but encoding needs: most of a tokenizer.json's memory. REQUIRES: there are
  // no encoders, and will be none.
  virtual void ForgetEncoding() {}

  // `source` names the text in errors. The tokenizer must outlive the encoder.
  virtual std::unique_ptr<TextEncoder> NewEncoder(absl::string_view source) const = 0;

  // Bytes of the text; kInvalidArgument for a token outside the vocabulary.
  virtual absl::StatusOr<std::string> Decode(absl::Span<const int64_t> tokens) const = 0;

  // What a token writes where a text goes on; REQUIRES: one of the vocabulary.
  virtual std::string TextOf(int64_t token) const { return *Decode({&token, 1}); }

  // In which byte of `text` each of its tokens ends, counted from 0 to text.size(). White space
  // that an encoding puts before words or leaves out is allowed for; nothing where tokens write
  // another text, as after a normalizer.
  std::vector<size_t> EndsIn(absl::string_view text, absl::Span<const uint32_t> tokens) const;

  // The bytes of several tokens are those of each, one after another.
  virtual bool decodes_one_by_one() const { return true; }

  // The tokens of a text, or of a pair, with what the tokenizer puts around them.
  virtual EncodedText Around(absl::Span<const int64_t> text,
                             std::optional<absl::Span<const int64_t>> second) const {
    return TokenTemplate().Apply(text, second);
  }

  // What is put before a text, as "<s>": prompts begin with it, too.
  std::vector<int64_t> BeforeText() const;

  // How it writes conversations; kInvalidArgument where it has no chat template. Lives as long as
  // the tokenizer.
  virtual absl::StatusOr<const ChatFormat*> chat() const;

  // Writes what LoadTokenizer needs into `directory` (atomically).
  virtual absl::Status Save(absl::string_view directory) const = 0;

  // Changes with the vocabulary; part of a run's identity.
  virtual std::string fingerprint() const = 0;

  // A whole text at once; nothing is put around it, as with add_special_tokens=False.
  absl::StatusOr<std::vector<int64_t>> Encode(absl::string_view text) const;

  // Its first tokens, at most `most`, and how many there are in all: of a long text all of them
  // would take far more memory than it.
  struct Beginning {
    std::vector<int64_t> tokens;
    int64_t all = 0;
  };
  absl::StatusOr<Beginning> EncodeBeginning(absl::string_view text, int64_t most) const;
};

// kInvalidArgument for a tokenizer with more tokens than a model of `vocabulary` knows, but for
// declared_tokens() that end no text.
absl::Status CheckVocabulary(const Tokenizer& tokenizer, int64_t vocabulary);

// kInvalidArgument for tokens of a text that a model of `vocabulary` does not know.
absl::Status CheckKnown(const Tokenizer& tokenizer, absl::Span<const int64_t> tokens,
                        int64_t vocabulary);

// Warns where `cut` of `all` (`what`: "texts") are longer than `flag` `most` and lose their end.
void WarnOfCut(absl::string_view files, int64_t cut, int64_t all, absl::string_view what,
               absl::string_view flag, int64_t most);

// One token a byte, 256 of them; Save writes this file.
inline constexpr absl::string_view kBytesFile = "bytes.json";
std::unique_ptr<Tokenizer> NewByteTokenizer();

}  // namespace spillway
