#include "engine/token_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "io/check.h"
#include "io/checksum.h"
#include "io/status.h"

namespace spillway {
namespace {

absl::StatusOr<TokenFile> OpenPart(const std::string& path, const TokenSourceOptions& options) {
  if (absl::EndsWith(path, ".bin")) return TokenFile::OpenBin(path);
  if (absl::EndsWith(path, ".npy")) return TokenFile::OpenNpy(path);
  if (absl::EndsWith(path, ".jsonl")) {
    return absl::UnimplementedError(absl::StrCat(path, ": this build does not read .jsonl yet"));
  }
  if (!absl::EndsWith(path, ".txt")) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        ": what it holds is told by its name's end: .txt (text), .bin (raw uint16 tokens) "
        "or .npy (an array of tokens)"));
  }
  if (options.tokenizer == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": text needs a tokenizer: --tokenizer chars or bytes"));
  }
  return TokenFile::EncodeText(path, *options.tokenizer, options.scratch_directory);
}

// Reads every token once: all are in the vocabulary, and the digest is of their values,
// not of the files' format.
absl::StatusOr<uint64_t> CheckTokens(const TokenFile& part, int64_t vocabulary, uint64_t digest) {
  std::vector<int64_t> piece(64 << 10);
  for (int64_t first = 0; first < part.size(); first += static_cast<int64_t>(piece.size())) {
    const int64_t n = std::min(static_cast<int64_t>(piece.size()), part.size() - first);
    RETURN_IF_ERROR(part.Read(first, n, vocabulary, piece.data()));
    const uint64_t pair[2] = {digest,
                              Checksum(piece.data(), static_cast<size_t>(n) * sizeof(int64_t))};
    digest = Checksum(pair, sizeof(pair));
  }
  return digest;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenSource>> TokenSource::Open(const TokenSourceOptions& options) {
  SPILLWAY_CHECK(options.vocabulary > 0);
  if (options.files.empty()) return absl::InvalidArgumentError("no data files are given");
  const Tokenizer* tokenizer = options.tokenizer;
  if (tokenizer != nullptr && tokenizer->vocabulary_size() > options.vocabulary) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tokenizer (", tokenizer->kind(), ") has ", tokenizer->vocabulary_size(),
                     " tokens, but the model's vocabulary has ", options.vocabulary,
                     ": raise vocab_size in its config.json, or use another tokenizer"));
  }
  std::unique_ptr<TokenSource> source(new TokenSource);
  source->vocabulary_ = options.vocabulary;
  uint64_t digest = 0;
  for (const std::string& path : options.files) {
    ASSIGN_OR_RETURN(TokenFile part, OpenPart(path, options));
    ASSIGN_OR_RETURN(digest, CheckTokens(part, options.vocabulary, digest));
    source->starts_.push_back(source->size_);
    source->size_ += part.size();
    source->parts_.push_back(std::move(part));
  }
  if (options.window_tokens > 0 && source->size_ <= options.window_tokens) {
    return absl::InvalidArgumentError(
        absl::StrCat(absl::StrJoin(options.files, ", "), ": ", source->size_,
                     " tokens, but one sequence of ", options.window_tokens, " needs ",
                     options.window_tokens + 1, ": give more data, or a smaller --seq-len"));
  }
  source->fingerprint_ = absl::StrFormat("tokens-%d-%016x", source->size_, digest);
  return source;
}

absl::Status TokenSource::Read(int64_t first, int64_t count, int64_t* out) const {
  SPILLWAY_CHECK(first >= 0 && count >= 0 && first <= size_ - count);
  size_t part = std::upper_bound(starts_.begin(), starts_.end(), first) - starts_.begin() - 1;
  while (count > 0) {
    const int64_t offset = first - starts_[part];
    const int64_t n = std::min(count, parts_[part].size() - offset);
    RETURN_IF_ERROR(parts_[part].Read(offset, n, vocabulary_, out));
    first += n;
    count -= n;
    out += n;
    ++part;
  }
  return absl::OkStatus();
}

}  // namespace spillway
