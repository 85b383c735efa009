#include "engine/tokenizers/added_tokens.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/stop_signal.h"
#include "engine/base/utf8.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// \w by Unicode's Technical Standard 18.
bool IsWord(uint32_t point) {
  const auto c = static_cast<UChar32>(point);
  return u_hasBinaryProperty(c, UCHAR_ALPHABETIC) || u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL) ||
         (U_GET_GC_MASK(c) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
}

size_t PreviousBegin(absl::string_view text, size_t at) {
  --at;
  while (at > 0 && (text[at] & 0xc0) == 0x80) --at;
  return at;
}

bool WordBefore(absl::string_view text, size_t at) {
  if (at == 0) return false;
  size_t begin = PreviousBegin(text, at);
  return IsWord(TakeCodePoint(text, &begin));
}

bool WordAt(absl::string_view text, size_t at) {
  return at < text.size() && IsWord(TakeCodePoint(text, &at));
}

}  // namespace

AddedTokenSet::AddedTokenSet(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.content < b.content; });
  for (const AddedToken& token : tokens_) {
    first_[static_cast<unsigned char>(token.content[0])] = true;
    any_lstrip_ |= token.lstrip;
  }
}

size_t AddedTokenSet::Candidate(absl::string_view text, size_t at) const {
  while (at < text.size() && !first_[static_cast<unsigned char>(text[at])]) ++at;
  return at;
}

AddedTokenSet::Found AddedTokenSet::LongestAt(absl::string_view text, size_t at) const {
  Found found;
  auto low = tokens_.begin(), high = tokens_.end();  // tokens that match so far
  for (size_t depth = 0; low != high; ++depth) {
    // A token that ends here sorts before longer ones.
    if (low->content.size() == depth) {
      found.token = &*low;
      if (++low == high) break;
    }
    if (at + depth == text.size()) {
      found.undecided = true;
      break;
    }
    const auto byte = static_cast<unsigned char>(text[at + depth]);
    const auto byte_of = [&](const AddedToken& token) {
      return static_cast<unsigned char>(token.content[depth]);
    };
    low = std::partition_point(low, high, [&](const AddedToken& t) { return byte_of(t) < byte; });
    high = std::partition_point(low, high, [&](const AddedToken& t) { return byte_of(t) == byte; });
  }
  return found;
}

size_t AddedTokenStage::SpaceBefore(size_t end) const {
  size_t begin = end;
  while (begin > start_ && end - begin < kMaxHeldBytes) {
    const size_t previous = PreviousBegin(buffer_, begin);
    size_t at = previous;
    if (!u_isUWhiteSpace(static_cast<UChar32>(TakeCodePoint(buffer_, &at)))) break;
    begin = previous;
  }
  return std::max(begin, start_);
}

void AddedTokenStage::SkipSpace() {
  while (skipping_ && start_ < buffer_.size()) {
    size_t at = start_;
    if (!u_isUWhiteSpace(static_cast<UChar32>(TakeCodePoint(buffer_, &at)))) {
      skipping_ = false;
    } else {
      start_ = at;
    }
  }
}

absl::Status AddedTokenStage::Emit(size_t end) {
  if (end <= start_) return absl::OkStatus();
  const absl::Status status = next_->Text(absl::string_view(buffer_).substr(start_, end - start_));
  start_ = end;
  return status;
}

absl::Status AddedTokenStage::Scan(bool final) {
  while (true) {
    SkipSpace();
    scanned_ = set_->Candidate(buffer_, scanned_);
    if (scanned_ == buffer_.size()) break;
    RETURN_IF_ERROR(StopSignal::Check());
    const AddedTokenSet::Found found = set_->LongestAt(buffer_, scanned_);
    if (found.undecided && !final) break;
    if (found.token == nullptr) {
      ++scanned_;
      continue;
    }
    const AddedToken& token = *found.token;
    const size_t end = scanned_ + token.content.size();
    if (token.single_word) {
      if (end == buffer_.size() && !final) break;
      if (WordBefore(buffer_, scanned_) || WordAt(buffer_, end)) {
        scanned_ = end;
        continue;
      }
    }
    if (token.lstrip && end <= start_) {  // white space that the previous token has included
      scanned_ = end;
      continue;
    }
    RETURN_IF_ERROR(Emit(token.lstrip ? SpaceBefore(scanned_) : scanned_));
    RETURN_IF_ERROR(next_->EndSegment());
    RETURN_IF_ERROR(next_->Token(token.id));
    start_ = scanned_ = end;
    skipping_ = token.rstrip;
  }
  return Emit(final || !set_->any_lstrip() ? scanned_ : SpaceBefore(scanned_));
}

absl::Status AddedTokenStage::Text(absl::string_view piece) {
  if (set_->empty()) return next_->Text(piece);
  buffer_.append(piece.data(), piece.size());
  RETURN_IF_ERROR(Scan(false));
  const size_t kept = std::min(start_, scanned_);
  const size_t context = kept == 0 ? 0 : PreviousBegin(buffer_, kept);
  buffer_.erase(0, context);
  start_ -= context;
  scanned_ -= context;
  return absl::OkStatus();
}

absl::Status AddedTokenStage::EndSegment() {
  if (!set_->empty()) RETURN_IF_ERROR(Scan(true));
  buffer_.clear();
  start_ = scanned_ = 0;
  skipping_ = false;
  return next_->EndSegment();
}

void AddedTokenStage::Reset() {
  buffer_.clear();
  start_ = scanned_ = 0;
  skipping_ = false;
  next_->Reset();
}

}  // namespace spillway
