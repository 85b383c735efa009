#include "engine/data/token_source.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/base/stop_signal.h"
#include "engine/data/data_encoder.h"
#include "engine/tokenizers/turn_end.h"
#include "io/base/check.h"
#include "io/base/status.h"
#include "io/checksum.h"

namespace spillway {
namespace {

absl::StatusOr<TokenFile> OpenPart(const std::string& path, const TokenSourceOptions& options) {
  if (absl::EndsWith(path, ".bin")) return TokenFile::OpenBin(path, options.scratch_directory);
  if (absl::EndsWith(path, ".npy")) return TokenFile::OpenNpy(path, options.scratch_directory);
  if (!IsText(path)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        ": what it holds is told by its name's end: .txt (text), .jsonl (texts, or prompts with "
        "completions), .bin (raw uint16 tokens) or .npy (an array of tokens)"));
  }
  if (options.tokenizer == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": text needs a tokenizer: --tokenizer DIR, chars or bytes"));
  }
  return TokenFile::Encode(path, *options.tokenizer, options.scratch_directory,
                           options.begins_lines, options.ends_lines, options.chat_clock);
}

// Facts about a data set, found by reading every token once.
struct Inventory {
  // Digest of the tokens' values, independent of file formats; a token without loss counts as its
  // complement.
  uint64_t digest = 0;
  int64_t with_loss = 0;
  // {a token that ends texts or turns, the number of times with loss}
  std::map<int64_t, int64_t> ends;
};

// Checks that all tokens are in the vocabulary.
absl::Status CheckTokens(TokenFile& part, int64_t vocabulary, Inventory* inventory) {
  std::vector<int64_t> piece(64 << 10);
  std::vector<uint8_t> marks(piece.size());
  for (int64_t first = 0; first < part.size(); first += static_cast<int64_t>(piece.size())) {
    RETURN_IF_ERROR(StopSignal::Check());
    const int64_t n = std::min(static_cast<int64_t>(piece.size()), part.size() - first);
    RETURN_IF_ERROR(part.ReadNext(n, vocabulary, piece.data(), marks.data()));
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      const bool without_loss = (marks[i] & kMarkWithoutLoss) != 0;
      for (auto& [token, learnt] : inventory->ends) learnt += !without_loss && piece[i] == token;
      if (without_loss) piece[i] = ~piece[i];
      inventory->with_loss += !without_loss;
    }
    const uint64_t pair[2] = {inventory->digest,
                              Checksum(piece.data(), static_cast<size_t>(n) * sizeof(int64_t))};
    inventory->digest = Checksum(pair, sizeof(pair));
  }
  return part.EndFirstPass();
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenSource>> TokenSource::Open(const TokenSourceOptions& options) {
  SPILLWAY_CHECK(options.vocabulary > 0);
  if (options.files.empty()) return absl::InvalidArgumentError("no data files are given");
  const Tokenizer* tokenizer = options.tokenizer;
  if (tokenizer != nullptr) RETURN_IF_ERROR(CheckVocabulary(*tokenizer, options.vocabulary));
  std::unique_ptr<TokenSource> source(new TokenSource);
  source->vocabulary_ = options.vocabulary;
  Inventory inventory;
  if (tokenizer != nullptr) {
    for (const auto& end : {EndOfTurn(*tokenizer), tokenizer->end_of_text()}) {
      if (end) inventory.ends[*end] = 0;
    }
  }
  for (const std::string& path : options.files) {
    ASSIGN_OR_RETURN(TokenFile part, OpenPart(path, options));
    RETURN_IF_ERROR(CheckTokens(part, options.vocabulary, &inventory));
    source->starts_.push_back(source->size_);
    source->size_ += part.size();
    source->parts_.push_back(std::move(part));
  }
  source->with_loss_ = inventory.with_loss;
  source->names_ = absl::StrJoin(options.files, ", ");
  if (options.window_tokens > 0) RETURN_IF_ERROR(source->CheckWindow(options.window_tokens));
  if (inventory.with_loss == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        source->names_,
        ": no token carries loss: every \"completion\" is empty, and nothing ends a text"));
  }
  for (const auto& [token, learnt] : inventory.ends) {
    if (learnt > 0) source->learnt_ends_.push_back(token);
  }
  source->fingerprint_ = absl::StrFormat("tokens-%d-%016x", source->size_, inventory.digest);
  return source;
}

absl::Status TokenSource::CheckWindow(int64_t window_tokens) const {
  if (size_ > window_tokens) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(names_, ": ", size_, " tokens, but one sequence of ", window_tokens, " needs ",
                   window_tokens + 1, ": give more data, or a smaller --seq-len"));
}

bool TokenSource::has_samples() const {
  return std::all_of(parts_.begin(), parts_.end(),
                     [](const TokenFile& part) { return part.has_samples(); });
}

absl::Status TokenSource::Read(int64_t first, int64_t count, int64_t* out, uint8_t* marks) const {
  SPILLWAY_CHECK(first >= 0 && count >= 0 && first <= size_ - count);
  size_t part = std::upper_bound(starts_.begin(), starts_.end(), first) - starts_.begin() - 1;
  while (count > 0) {
    const int64_t offset = first - starts_[part];
    const int64_t n = std::min(count, parts_[part].size() - offset);
    RETURN_IF_ERROR(parts_[part].Read(offset, n, vocabulary_, out, marks));
    first += n;
    count -= n;
    out += n;
    if (marks != nullptr) marks += n;
    ++part;
  }
  return absl::OkStatus();
}

}  // namespace spillway
