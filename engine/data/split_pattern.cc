#include "engine/data/split_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// What Oniguruma and Rust call white space. PCRE2's \s has U+180E besides.
constexpr absl::string_view kSpaces =
    R"(\t-\r\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

// General categories; scripts and other properties differ between the engines.
constexpr absl::string_view kCategories[] = {
    "L",  "Ll", "Lu", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N",  "Nd", "Nl", "No", "P", "Pc",
    "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp"};

// What may stand in (?i:...): folding cases is the same in both only for these.
constexpr absl::string_view kCaselessContent =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'|[]";

// Walks over a pattern once and writes it down for PCRE2.
class Translator {
 public:
  explicit Translator(absl::string_view pattern) : rest_(pattern) {}

  absl::StatusOr<std::string> Run() {
    while (!rest_.empty()) RETURN_IF_ERROR(Item());
    return std::move(out_);
  }

 private:
  absl::Status Refuse(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat("\"", what, "\" in it is not supported"));
  }

  bool Take(absl::string_view text) {
    if (!absl::StartsWith(rest_, text)) return false;
    out_.append(text.data(), text.size());
    rest_.remove_prefix(text.size());
    return true;
  }

  absl::Status Item() {
    switch (rest_[0]) {
      case '\\':
        return Escape(/*in_class=*/false);
      case '[':
        return Class();
      case '(':
        return Group();
      case '*':
      case '+':
      case '?':
      case '{':
        return Quantifier();
      case '^':
      case '$':
        return Refuse(rest_.substr(0, 1));
      default:
        Take(rest_.substr(0, 1));
        return absl::OkStatus();
    }
  }

  absl::Status Group() {
    if (Take("(?:") || Take("(?=") || Take("(?!")) return absl::OkStatus();
    if (absl::StartsWith(rest_, "(?i:")) {
      const size_t end = rest_.find(')');
      const absl::string_view content =
          rest_.substr(4, end == absl::string_view::npos ? end : end - 4);
      if (content.find_first_not_of(kCaselessContent) != absl::string_view::npos) {
        return Refuse(absl::StrCat("(?i:", content, ")"));
      }
      Take(rest_.substr(0, 4 + content.size()));
      return absl::OkStatus();
    }
    if (absl::StartsWith(rest_, "(?") || absl::StartsWith(rest_, "(*")) {
      return Refuse(rest_.substr(0, 4));
    }
    Take("(");
    return absl::OkStatus();
  }

  absl::Status Quantifier() {
    if (rest_[0] == '{') {
      const size_t end = rest_.find('}');
      const absl::string_view whole =
          rest_.substr(0, end == absl::string_view::npos ? end : end + 1);
      const absl::string_view inner = whole.substr(1, whole.size() < 2 ? 0 : whole.size() - 2);
      const bool counted = end != absl::string_view::npos && !inner.empty() &&
                           absl::ascii_isdigit(inner[0]) && inner.size() <= 7 &&
                           inner.find_first_not_of("0123456789,") == absl::string_view::npos;
      if (!counted) return Refuse(whole.substr(0, 16));
      Take(whole);
      // "{2}?" and "{1,3}+" mean something else in each engine.
      if (absl::StartsWith(rest_, "?") || absl::StartsWith(rest_, "+")) {
        return Refuse(absl::StrCat(whole, rest_.substr(0, 1)));
      }
      return absl::OkStatus();
    }
    Take(rest_.substr(0, 1));
    if (!Take("?")) Take("+");
    return absl::OkStatus();
  }

  absl::Status Escape(bool in_class) {
    if (rest_.size() < 2) return Refuse("\\");
    const char c = rest_[1];
    if (c == 's' || c == 'S') {
      if (in_class && c == 'S') return Refuse("[\\S]");
      absl::StrAppend(&out_, in_class ? "" : c == 's' ? "[" : "[^", kSpaces, in_class ? "" : "]");
      rest_.remove_prefix(2);
      return absl::OkStatus();
    }
    if (c == 'p' || c == 'P') return Property();
    // A dollar or a brace that is meant, and the few letters that mean the same.
    if (c == 'r' || c == 'n' || c == 't' || c == 'd' || absl::ascii_ispunct(c)) {
      Take(rest_.substr(0, 2));
      return absl::OkStatus();
    }
    return Refuse(rest_.substr(0, 2));
  }

  absl::Status Property() {
    const size_t end = rest_.find('}');
    if (rest_.size() < 3 || rest_[2] != '{' || end == absl::string_view::npos) {
      return Refuse(rest_.substr(0, 3));
    }
    const absl::string_view name = rest_.substr(3, end - 3);
    for (const absl::string_view known : kCategories) {
      if (name != known) continue;
      Take(rest_.substr(0, end + 1));
      return absl::OkStatus();
    }
    return Refuse(rest_.substr(0, std::min<size_t>(end + 1, 40)));
  }

  absl::Status Class() {
    Take("[");
    Take("^");
    if (absl::StartsWith(rest_, "]")) return Refuse("[]");
    while (!rest_.empty() && rest_[0] != ']') {
      if (rest_[0] == '[') return Refuse("[ in [...]");
      if (absl::StartsWith(rest_, "&&")) return Refuse("&&");
      if (rest_[0] == '\\') {
        RETURN_IF_ERROR(Escape(/*in_class=*/true));
      } else {
        Take(rest_.substr(0, 1));
      }
    }
    if (!Take("]")) return Refuse("[ without ]");
    return absl::OkStatus();
  }

  absl::string_view rest_;
  std::string out_;
};

std::string Pcre2Message(int code) {
  char text[256] = "";
  pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof(text));
  return text;
}

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};

}  // namespace

absl::StatusOr<std::string> TranslateSplitPattern(absl::string_view pattern) {
  if (pattern.empty()) return absl::InvalidArgumentError("the pattern is empty");
  if (pattern.size() > kMaxSplitPatternBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the pattern has ", pattern.size(),
                                                   " bytes; at most ", kMaxSplitPatternBytes,
                                                   " are supported"));
  }
  return Translator(pattern).Run();
}

struct SplitPattern::Code {
  std::unique_ptr<pcre2_code, Freed<pcre2_code_free>> compiled;
  bool jit = false;  // not where a kernel forbids writing programs
};

SplitPattern::SplitPattern(std::unique_ptr<Code> code) : code_(std::move(code)) {}
SplitPattern::SplitPattern(SplitPattern&&) = default;
SplitPattern& SplitPattern::operator=(SplitPattern&&) = default;
SplitPattern::~SplitPattern() = default;

absl::StatusOr<SplitPattern> SplitPattern::Compile(absl::string_view pattern) {
  ASSIGN_OR_RETURN(const std::string translated, TranslateSplitPattern(pattern));
  return CompileOwn(translated);
}

absl::StatusOr<SplitPattern> SplitPattern::CompileOwn(const std::string& translated) {
  int error = 0;
  PCRE2_SIZE where = 0;
  auto code = std::make_unique<Code>();
  std::unique_ptr<pcre2_compile_context, Freed<pcre2_compile_context_free>> context(
      pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  code->compiled.reset(pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &where, context.get()));
  if (code->compiled == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("not a regular expression (", Pcre2Message(error), ")"));
  }
  uint32_t matches_empty = 0;
  pcre2_pattern_info(code->compiled.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty) return absl::InvalidArgumentError("it can match no character at all");
  code->jit =
      pcre2_jit_compile(code->compiled.get(), PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD) == 0;
  return SplitPattern(std::move(code));
}

struct SplitMatcher::State {
  std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data_free>> data;
  std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context_free>> context;
  std::unique_ptr<pcre2_jit_stack, Freed<pcre2_jit_stack_free>> stack;
  const PCRE2_SIZE* bounds = nullptr;  // of the last match
};

SplitMatcher::SplitMatcher(const SplitPattern& pattern)
    : pattern_(pattern), state_(std::make_unique<State>()) {
  constexpr size_t kStackBytes = 64 << 10, kMaxStackBytes = 4 << 20;
  constexpr uint32_t kMatchLimit = 10'000'000, kHeapLimitKib = 16 << 10;
  state_->data.reset(pcre2_match_data_create(1, nullptr));
  state_->context.reset(pcre2_match_context_create(nullptr));
  state_->stack.reset(pcre2_jit_stack_create(kStackBytes, kMaxStackBytes, nullptr));
  SPILLWAY_CHECK(state_->data && state_->context && state_->stack);
  state_->bounds = pcre2_get_ovector_pointer(state_->data.get());
  pcre2_set_match_limit(state_->context.get(), kMatchLimit);
  pcre2_set_heap_limit(state_->context.get(), kHeapLimitKib);
  pcre2_jit_stack_assign(state_->context.get(), nullptr, state_->stack.get());
}

SplitMatcher::~SplitMatcher() = default;

absl::StatusOr<SplitMatcher::Match> SplitMatcher::Find(absl::string_view text, size_t from,
                                                       bool more_follows) {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const uint32_t partial = more_follows ? PCRE2_PARTIAL_HARD : 0;
  const SplitPattern::Code& code = *pattern_.code_;
  const int result = code.jit ? pcre2_jit_match(code.compiled.get(), subject, text.size(), from,
                                                partial, state_->data.get(), state_->context.get())
                              : pcre2_match(code.compiled.get(), subject, text.size(), from,
                                            partial | PCRE2_NO_UTF_CHECK, state_->data.get(),
                                            state_->context.get());
  const PCRE2_SIZE* bounds = state_->bounds;
  if (result >= 0) return Match{Match::Kind::kFound, bounds[0], bounds[1]};
  if (result == PCRE2_ERROR_PARTIAL) return Match{Match::Kind::kMore, bounds[0], bounds[1]};
  if (result == PCRE2_ERROR_NOMATCH) return Match{};
  return absl::InvalidArgumentError(
      absl::StrCat("the tokenizer's pattern cannot be matched here (", Pcre2Message(result),
                   "): the text has a stretch that takes it too much backtracking"));
}

}  // namespace spillway
