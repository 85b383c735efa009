#include "engine/tokenizers/traced_text.h"

#include <unicode/uchar.h>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "engine/base/utf8.h"
#include "io/base/status.h"

namespace spillway {
namespace {

bool IsMark(uint32_t point) {
  return (U_MASK(u_charType(static_cast<UChar32>(point))) & U_GC_M_MASK) != 0;
}

}  // namespace

absl::StatusOr<TracedText> TracedText::Make(const std::vector<Rewrite>& rewrites,
                                            absl::string_view text, bool keeps_marks) {
  TracedText traced(text);
  absl::flat_hash_map<absl::string_view, std::string> known;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    TakeCodePoint(text, &at);
    for (size_t next = at; keeps_marks && next < text.size(); at = next) {
      if (!IsMark(TakeCodePoint(text, &next))) break;
    }
    const absl::string_view unit = text.substr(begin, at - begin);
    const auto [entry, is_new] = known.try_emplace(unit);
    std::string& becomes = entry->second;
    if (is_new) {
      becomes = std::string(unit);
      for (const Rewrite& rewrite : rewrites) {
        std::string out;
        if (becomes.empty()) break;
        RETURN_IF_ERROR(rewrite(becomes, {.ends = true}, &out).status());
        becomes = std::move(out);
      }
    }
    traced.rewritten_ += becomes;
    traced.places_.resize(traced.rewritten_.size(), {begin, at});
  }
  return traced;
}

bool TracedText::Find(absl::string_view written) {
  const absl::string_view rewritten = rewritten_;
  const auto find = [&](absl::string_view what) {
    for (size_t at = end_;;) {
      if (absl::StartsWith(rewritten.substr(at), what)) {
        begin_ = at;
        end_ = at + what.size();
        return true;
      }
      // The rest of a character is no white space.
      if (at == rewritten.size() || (rewritten[at] & 0xc0) == 0x80) return false;
      if (!u_isUWhiteSpace(static_cast<UChar32>(TakeCodePoint(rewritten, &at)))) return false;
    }
  };
  return find(written) || (absl::StartsWith(written, " ") && find(written.substr(1)));
}

std::pair<size_t, size_t> TracedText::PlaceOf(size_t first, size_t last) const {
  if (first >= last) {
    if (begin_ + first < places_.size()) return places_[begin_ + first];
    return {original_.size(), original_.size()};
  }
  size_t begin = places_[begin_ + first].first;
  size_t end = places_[begin_ + last - 1].second;
  while (begin < end && original_[begin] == ' ') ++begin;
  while (begin < end && original_[end - 1] == ' ') --end;
  return {begin, end};
}

}  // namespace spillway
