#include "engine/base/name_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace spillway {
namespace {

constexpr size_t kMostBytes = 1000;
// Limit for matching a name of some hundred bytes; ordinary patterns need some hundred.
constexpr uint32_t kMostAttempts = 1'000'000;

struct FreeMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

}  // namespace

absl::StatusOr<NamePattern> NamePattern::Parse(absl::string_view text) {
  if (text.size() > kMostBytes) {
    return absl::InvalidArgumentError(absl::StrCat(text.substr(0, 40), "...: a pattern of ",
                                                   text.size(), " bytes; at most ", kMostBytes,
                                                   " are read"));
  }
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* const code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                         PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr);
  if (code == nullptr) {
    PCRE2_UCHAR why[120] = {};
    pcre2_get_error_message(error, why, sizeof(why));
    return absl::InvalidArgumentError(absl::StrCat(text, ": that is no regular expression (",
                                                   reinterpret_cast<const char*>(why), ", at ", at,
                                                   ")"));
  }
  NamePattern pattern;
  pattern.code_ = std::shared_ptr<const void>(code, [](const void* held) {
    pcre2_code_free(const_cast<pcre2_code*>(static_cast<const pcre2_code*>(held)));
  });
  return pattern;
}

std::optional<std::string> NamePattern::GroupIn(absl::string_view name) const {
  std::optional<std::string> group;
  Match(name, true, &group);
  return group;
}

bool NamePattern::Match(absl::string_view name, bool whole,
                        std::optional<std::string>* group) const {
  const auto* const code = static_cast<const pcre2_code*>(code_.get());
  const std::unique_ptr<pcre2_match_data, FreeMatch> found(
      pcre2_match_data_create_from_pattern(code, nullptr));
  const std::unique_ptr<pcre2_match_context, FreeContext> context(
      pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(context.get(), kMostAttempts);
  const uint32_t options = whole ? PCRE2_ANCHORED | PCRE2_ENDANCHORED : 0;
  const int groups = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(), 0,
                                 options, found.get(), context.get());
  if (groups < 0) return false;
  if (group != nullptr && groups > 1) {
    const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(found.get());
    if (ends[2] != PCRE2_UNSET) {
      *group = std::string(name.substr(ends[2], ends[3] - ends[2]));
    }
  }
  return true;
}

}  // namespace spillway
