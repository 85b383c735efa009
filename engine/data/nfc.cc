#include "engine/data/nfc.h"

#include <utf8proc.h>

#include <algorithm>

#include "engine/base/utf8.h"
#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr auto kCanonical = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

int CombiningClass(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

// The decompositions, in canonical order, composed again. utf8proc's own sort is quadratic
// in the length of a run of marks, so the order is made here.
std::string Normalized(absl::string_view text) {
  std::vector<utf8proc_int32_t> points;
  for (size_t at = 0; at < text.size();) {
    points.push_back(static_cast<utf8proc_int32_t>(TakeCodePoint(text, &at)));
  }
  std::vector<utf8proc_int32_t> parts;
  for (const utf8proc_int32_t point : points) {
    utf8proc_int32_t buffer[32];
    int boundary_class = 0;
    const utf8proc_ssize_t n =
        utf8proc_decompose_char(point, buffer, 32, kCanonical, &boundary_class);
    SPILLWAY_CHECK(n >= 0 && n <= 32);
    parts.insert(parts.end(), buffer, buffer + n);
  }
  for (size_t begin = 0; begin < parts.size();) {
    if (CombiningClass(parts[begin]) == 0) {
      ++begin;
      continue;
    }
    size_t end = begin;
    while (end < parts.size() && CombiningClass(parts[end]) != 0) ++end;
    std::stable_sort(parts.begin() + static_cast<std::ptrdiff_t>(begin),
                     parts.begin() + static_cast<std::ptrdiff_t>(end),
                     [](utf8proc_int32_t a, utf8proc_int32_t b) {
                       return CombiningClass(a) < CombiningClass(b);
                     });
    begin = end;
  }
  const utf8proc_ssize_t n =
      utf8proc_normalize_utf32(parts.data(), static_cast<utf8proc_ssize_t>(parts.size()), kCompose);
  SPILLWAY_CHECK(n >= 0);
  std::string out;
  for (utf8proc_ssize_t i = 0; i < n; ++i) AppendUtf8(static_cast<uint32_t>(parts[i]), &out);
  return out;
}

// Where the next character at or after `at` stands alone: a boundary begins it and one
// follows it, or the text ends. Appends what lies before a boundary, normalised.
void AppendNormalized(const NfcTable& table, absl::string_view text, std::string* out) {
  size_t plain = 0;  // [plain, begin) is its own normal form
  size_t begin = 0;  // of the stretch since the last boundary
  bool changes = false;
  const auto end_stretch = [&](size_t end) {
    if (changes) {
      out->append(text.data() + plain, begin - plain);
      out->append(Normalized(text.substr(begin, end - begin)));
      plain = end;
    }
    begin = end;
  };
  for (size_t at = 0; at < text.size();) {
    const size_t here = at;
    const uint32_t point = TakeCodePoint(text, &at);
    const bool boundary = table.IsBoundary(point);
    if (boundary) {
      end_stretch(here);
      changes = false;
    }
    changes |= !boundary || !table.IsStable(point);
  }
  end_stretch(text.size());
  out->append(text.data() + plain, text.size() - plain);
}

// The start of the last stretch: what follows the text may still change it from here.
size_t LastBoundary(const NfcTable& table, absl::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while ((text[begin] & 0xc0) == 0x80) --begin;
    size_t at = begin;
    if (table.IsBoundary(TakeCodePoint(text, &at))) return begin;
    end = begin;
  }
  return 0;
}

}  // namespace

NfcTable::NfcTable() : boundary_(kLimit), stable_(kLimit) {
  for (uint32_t point = 0; point < kLimit; ++point) {
    if (point < 0x300) {  // the quick check of Unicode's Standard Annex 15
      boundary_[point] = stable_[point] = true;
      continue;
    }
    if (point >= 0xd800 && point <= 0xdfff) continue;
    const utf8proc_property_t* property = utf8proc_get_property(static_cast<int32_t>(point));
    // What joins the character before it is a mark, or a vowel or final consonant of Hangul.
    const bool mark = property->category == UTF8PROC_CATEGORY_MN ||
                      property->category == UTF8PROC_CATEGORY_MC ||
                      property->category == UTF8PROC_CATEGORY_ME;
    const bool jamo = point >= 0x1160 && point <= 0x11ff;
    boundary_[point] = property->combining_class == 0 && !mark && !jamo;
    std::string text;
    AppendUtf8(point, &text);
    stable_[point] = property->decomp_seqindex == UINT16_MAX || Normalized(text) == text;
  }
}

std::string NormalizeNfc(const NfcTable& table, absl::string_view text) {
  std::string out;
  AppendNormalized(table, text, &out);
  return out;
}

absl::Status NfcStage::Text(absl::string_view piece) {
  held_.append(piece.data(), piece.size());
  size_t end = LastBoundary(*table_, held_);
  out_.clear();
  AppendNormalized(*table_, absl::string_view(held_).substr(0, end), &out_);
  // A run of marks without end.
  while (held_.size() - end > kMaxHeldBytes) {
    size_t cut = end + kMaxHeldBytes;
    while ((held_[cut] & 0xc0) == 0x80) --cut;
    AppendNormalized(*table_, absl::string_view(held_).substr(end, cut - end), &out_);
    end = cut;
  }
  held_.erase(0, end);
  return out_.empty() ? absl::OkStatus() : next_->Text(out_);
}

absl::Status NfcStage::EndSegment() {
  if (!held_.empty()) RETURN_IF_ERROR(next_->Text(NormalizeNfc(*table_, held_)));
  held_.clear();
  return next_->EndSegment();
}

void NfcStage::Reset() {
  held_.clear();
  next_->Reset();
}

}  // namespace spillway
