#include "engine/data/token_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/stop_signal.h"
#include "engine/base/text_reader.h"
#include "engine/data/data_encoder.h"
#include "engine/data/encode_progress.h"
#include "engine/data/scratch_file.h"
#include "engine/data/token_writer.h"
#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {
namespace {

absl::StatusOr<PlainFile> OpenData(const std::string& path) {
  ASSIGN_OR_RETURN(PlainFile file, OpenPlainFile(path));
  if (file.size_bytes == 0) return absl::InvalidArgumentError(absl::StrCat(path, " is empty"));
  return file;
}

// Token number i of a piece of raw tokens. A uint64 beyond int64 becomes negative, and so is
// outside every vocabulary.
int64_t TokenAt(const char* data, const TokenFormat& format, uint64_t i) {
  const char* at = data + i * static_cast<uint64_t>(format.width_bytes);
  uint64_t value = 0;
  std::memcpy(&value, at, static_cast<size_t>(format.width_bytes));  // little-endian
  if (!format.is_signed || format.width_bytes == 8) return static_cast<int64_t>(value);
  const int unused_bits = 64 - 8 * format.width_bytes;
  return static_cast<int64_t>(value << unused_bits) >> unused_bits;
}

}  // namespace

absl::StatusOr<TokenFile> TokenFile::OpenRaw(const std::string& path, TokenFormat format,
                                             absl::string_view scratch_directory) {
  TokenFile tokens(path, format);
  ASSIGN_OR_RETURN(tokens.file_, SteadyFile::Open(path, scratch_directory));
  // The first pass checksums the header, too.
  std::string head(format.data_offset_bytes, '\0');
  RETURN_IF_ERROR(tokens.file_->ReadNext(head.data(), head.size()));
  return tokens;
}

absl::StatusOr<TokenFile> TokenFile::OpenBin(absl::string_view path,
                                             absl::string_view scratch_directory) {
  const std::string name(path);
  ASSIGN_OR_RETURN(PlainFile file, OpenData(name));
  if (file.size_bytes % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", file.size_bytes,
                                                   " bytes, an odd number; a .bin file holds raw "
                                                   "little-endian uint16 tokens"));
  }
  TokenFormat format;
  format.tokens = static_cast<int64_t>(file.size_bytes / 2);
  return OpenRaw(name, format, scratch_directory);
}

absl::StatusOr<TokenFile> TokenFile::OpenNpy(absl::string_view path,
                                             absl::string_view scratch_directory) {
  const std::string name(path);
  ASSIGN_OR_RETURN(PlainFile file, OpenData(name));
  std::string head(std::min<uint64_t>(file.size_bytes, kNpyHeadBytes), '\0');
  RETURN_IF_ERROR(ReadAt(file.fd.get(), name, 0, head.data(), head.size()));
  absl::StatusOr<TokenFormat> format = ParseNpyHeader(head, file.size_bytes);
  if (!format.ok()) return Annotate(format.status(), path);
  if (format->tokens == 0) return absl::InvalidArgumentError(absl::StrCat(path, " is empty"));
  return OpenRaw(name, *format, scratch_directory);
}

absl::StatusOr<TokenFile> TokenFile::Encode(absl::string_view path, const Tokenizer& tokenizer,
                                            absl::string_view scratch_directory, bool begins_lines,
                                            bool ends_lines, ChatClock chat_clock) {
  const std::string name(path);
  ASSIGN_OR_RETURN(const PlainFile text, OpenData(name));  // refuses missing and empty files
  ASSIGN_OR_RETURN(ScratchFile encoded, ScratchFile::Create(scratch_directory));
  TokenFormat format;
  format.flagged = absl::EndsWith(path, ".jsonl");
  format.width_bytes = tokenizer.vocabulary_size() <= 65536 && !format.flagged ? 2 : 4;
  TokenWriter writer(
      [&](absl::string_view bytes) { return encoded.Append(bytes.data(), bytes.size()); },
      format.width_bytes);
  DataSink sink;
  sink.begins_lines = begins_lines;
  sink.ends_lines = ends_lines;
  sink.chat_clock = chat_clock;
  bool begins = false;
  sink.begin_sample = [&] { begins = true; };
  sink.take = [&](const std::vector<uint32_t>& tokens, bool carry_loss) {
    const uint32_t first_flags = begins && !tokens.empty() ? kBeginsSample : 0;
    if (!tokens.empty()) begins = false;
    return writer.Append(tokens, carry_loss ? 0 : kWithoutLoss, first_flags);
  };
  EncodeProgress progress(absl::StrCat("MB encoded of ", name), text.size_bytes);
  uint64_t done_bytes = 0;
  sink.progress = [&](uint64_t bytes) {
    progress.Update(done_bytes += bytes);
    return StopSignal::Check();
  };
  RETURN_IF_ERROR(EncodeData(name, tokenizer, sink));
  RETURN_IF_ERROR(writer.Flush());
  RETURN_IF_ERROR(encoded.Flush());
  format.tokens = writer.tokens();
  if (format.tokens == 0) return absl::InvalidArgumentError(absl::StrCat(path, " holds no text"));
  TokenFile tokens(name, format);
  tokens.encoded_ = std::move(encoded);
  return tokens;
}

absl::Status TokenFile::ReadNext(int64_t count, int64_t vocabulary, int64_t* out, uint8_t* marks) {
  const int64_t first = next_;
  next_ += count;
  if (encoded_) return Read(first, count, vocabulary, out, marks);
  return ReadBy([&](uint64_t, char* bytes, uint64_t n) { return file_->ReadNext(bytes, n); }, first,
                count, vocabulary, out, marks);
}

absl::Status TokenFile::EndFirstPass() {
  return file_ != nullptr ? file_->EndFirstPass() : absl::OkStatus();
}

absl::Status TokenFile::Read(int64_t first, int64_t count, int64_t vocabulary, int64_t* out,
                             uint8_t* marks) const {
  const auto read = [&](uint64_t offset_bytes, char* bytes, uint64_t n) {
    return encoded_ ? encoded_->Read(offset_bytes, bytes, n) : file_->Read(offset_bytes, bytes, n);
  };
  return ReadBy(read, first, count, vocabulary, out, marks);
}

absl::Status TokenFile::ReadBy(ReadBytes read, int64_t first, int64_t count, int64_t vocabulary,
                               int64_t* out, uint8_t* marks) const {
  SPILLWAY_CHECK(first >= 0 && count >= 0 && first <= format_.tokens - count);
  std::array<char, 32 << 10> piece;
  const int64_t piece_tokens = static_cast<int64_t>(piece.size()) / format_.width_bytes;
  const uint64_t width = static_cast<uint64_t>(format_.width_bytes);
  for (int64_t begin = 0; begin < count; begin += piece_tokens) {
    const int64_t n = std::min(piece_tokens, count - begin);
    const uint64_t offset_bytes =
        format_.data_offset_bytes + static_cast<uint64_t>(first + begin) * width;
    RETURN_IF_ERROR(read(offset_bytes, piece.data(), static_cast<uint64_t>(n) * width));
    for (int64_t i = 0; i < n; ++i) {
      int64_t token = TokenAt(piece.data(), format_, static_cast<uint64_t>(i));
      uint8_t found = 0;
      if (format_.flagged) {
        if ((token & kWithoutLoss) != 0) found |= kMarkWithoutLoss;
        if ((token & kBeginsSample) != 0) found |= kMarkBegin;
        token &= ~int64_t{kWithoutLoss | kBeginsSample};
      }
      if (marks != nullptr) marks[begin + i] = found;
      if (token < 0 || token >= vocabulary) {
        return absl::InvalidArgumentError(
            absl::StrCat(path_, ": token ", token, " at position ", first + begin + i,
                         " is outside the model's vocabulary of ", vocabulary));
      }
      out[begin + i] = token;
    }
  }
  return absl::OkStatus();
}

}  // namespace spillway
