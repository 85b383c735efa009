#include "engine/tokenizers/split_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/stop_signal.h"
#include "engine/tokenizers/text_stage.h"
#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// White space in Oniguruma and Rust. PCRE2's \s also has U+180E.
constexpr absl::string_view kSpaces =
    R"(\t-\r\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

// General categories; scripts and other properties differ between the engines.
constexpr absl::string_view kCategories[] = {
    "L",  "Ll", "Lu", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N",  "Nd", "Nl", "No", "P", "Pc",
    "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp"};

// The content allowed in (?i:...): only for these do both engines fold case equally.
constexpr absl::string_view kCaselessContent =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'|[]";

// Translates a pattern to PCRE2's dialect in one pass.
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
      // "{2}?" and "{1,3}+" differ between the engines.
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
    // An escaped punctuation character, or one of the few letters with the same meaning.
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

bool IsLinearPattern(absl::string_view translated) {
  constexpr int kFewTimes = 16;
  constexpr int kFewChoices = 2;
  bool unbounded = false;  // the alternative has an unbounded repetition
  int choices = 0;         // its items of variable length
  for (size_t at = 0; at < translated.size();) {
    if (translated[at] == '|') {
      unbounded = false;
      choices = 0;
      ++at;
      continue;
    }
    // One character or class...
    if (unbounded || translated[at] == '(') return false;
    if (translated[at] == '[') {
      while (++at < translated.size() && translated[at] != ']') at += translated[at] == '\\';
      ++at;
    } else if (translated[at] == '\\') {
      const bool property = at + 2 < translated.size() && translated[at + 2] == '{';
      at = property ? translated.find('}', at) + 1 : at + 2;
    } else {
      ++at;
    }
    // ... and its quantifier.
    if (at >= translated.size()) break;
    if (translated[at] == '{') {
      const size_t end = translated.find('}', at);
      if (end == absl::string_view::npos) return false;
      int most = 0;
      const absl::string_view count = translated.substr(at + 1, end - at - 1);
      const absl::string_view last = count.substr(count.rfind(',') + 1);
      unbounded = !absl::SimpleAtoi(last, &most) || most > kFewTimes;
      choices += last.size() < count.size();
      at = end + 1;
    } else if (translated[at] == '*' || translated[at] == '+' || translated[at] == '?') {
      unbounded = translated[at] != '?';
      ++choices;
      ++at;
    } else {
      continue;
    }
    if (choices > kFewChoices) return false;
    if (at < translated.size() && (translated[at] == '?' || translated[at] == '+')) ++at;
  }
  return true;
}

struct SplitPattern::Code {
  std::unique_ptr<pcre2_code, Freed<pcre2_code_free>> compiled;
  bool jit = false;  // compiled to machine code, unless the kernel forbids it
  // For patterns of possibly nonlinear time: matches only at the given position, and a second
  // program calls CountStep before each of its items.
  bool guarded = false;
  std::unique_ptr<pcre2_code, Freed<pcre2_code_free>> counted;
  bool counted_jit = false;
};

SplitPattern::SplitPattern(std::unique_ptr<Code> code) : code_(std::move(code)) {}
SplitPattern::SplitPattern(SplitPattern&&) = default;
SplitPattern& SplitPattern::operator=(SplitPattern&&) = default;
SplitPattern::~SplitPattern() = default;

namespace {

using CompiledPattern = std::unique_ptr<pcre2_code, Freed<pcre2_code_free>>;

// `jit`: set if the pattern is compiled to machine code.
absl::StatusOr<CompiledPattern> CompilePattern(const std::string& translated, uint32_t options,
                                               bool* jit) {
  int error = 0;
  PCRE2_SIZE where = 0;
  std::unique_ptr<pcre2_compile_context, Freed<pcre2_compile_context_free>> context(
      pcre2_compile_context_create(nullptr));
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  CompiledPattern compiled(pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | options, &error, &where, context.get()));
  if (compiled == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("not a regular expression (", Pcre2Message(error), ")"));
  }
  uint32_t matches_empty = 0;
  pcre2_pattern_info(compiled.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
  if (matches_empty) return absl::InvalidArgumentError("it can match no character at all");
  *jit = pcre2_jit_compile(compiled.get(), PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD) == 0;
  return compiled;
}

}  // namespace

absl::StatusOr<SplitPattern> SplitPattern::Compile(absl::string_view pattern) {
  ASSIGN_OR_RETURN(const std::string translated, TranslateSplitPattern(pattern));
  if (IsLinearPattern(translated)) return CompileOwn(translated);
  auto code = std::make_unique<Code>();
  code->guarded = true;
  ASSIGN_OR_RETURN(code->compiled, CompilePattern(translated, PCRE2_ANCHORED, &code->jit));
  ASSIGN_OR_RETURN(code->counted, CompilePattern(translated, PCRE2_ANCHORED | PCRE2_AUTO_CALLOUT,
                                                 &code->counted_jit));
  return SplitPattern(std::move(code));
}

absl::StatusOr<SplitPattern> SplitPattern::CompileOwn(const std::string& translated) {
  auto code = std::make_unique<Code>();
  ASSIGN_OR_RETURN(code->compiled, CompilePattern(translated, 0, &code->jit));
  return SplitPattern(std::move(code));
}

namespace {

// Limits of steps of a pattern: kFreeSteps, plus kStepsPerByte per byte of a text. A step passes a
// character, or backtracks.
constexpr int64_t kFreeSteps = 10'000'000, kStepsPerByte = 1000;

// The budget of a counted match.
struct StepCount {
  int64_t left = kFreeSteps;
  size_t place = 0;  // position in the text at the last item
  bool stopped = false;
};

// Called before each item of a pattern: 0 continues, anything else ends the match.
int CountStep(pcre2_callout_block* block, void* count) {
  auto& steps = *static_cast<StepCount*>(count);
  const size_t place = block->current_position;
  steps.left -=
      1 + static_cast<int64_t>(std::max(place, steps.place) - std::min(place, steps.place));
  steps.place = place;
  steps.stopped = StopSignal::received() != 0;
  return steps.left > 0 && !steps.stopped ? 0 : PCRE2_ERROR_CALLOUT;
}

absl::Status TooManySteps(absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("the tokenizer's pattern cannot be matched here (", why,
                   "): the text has a stretch that takes it too much backtracking"));
}

}  // namespace

struct SplitMatcher::State {
  std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data_free>> data;
  // For matches without counting, of short stretches, and with counting.
  std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context_free>> context, brief, counted;
  std::unique_ptr<pcre2_jit_stack, Freed<pcre2_jit_stack_free>> stack;
  const PCRE2_SIZE* bounds = nullptr;  // of the last match
  StepCount steps;

  int Run(const pcre2_code* code, bool jit, absl::string_view text, size_t from, bool more_follows,
          pcre2_match_context* how) {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    const uint32_t partial = more_follows ? PCRE2_PARTIAL_HARD : 0;
    return jit ? pcre2_jit_match(code, subject, text.size(), from, partial, data.get(), how)
               : pcre2_match(code, subject, text.size(), from, partial | PCRE2_NO_UTF_CHECK,
                             data.get(), how);
  }

  absl::StatusOr<Match> MatchOf(int result) const {
    if (result >= 0) return Match{Match::Kind::kFound, bounds[0], bounds[1]};
    if (result == PCRE2_ERROR_PARTIAL) return Match{Match::Kind::kMore, bounds[0], bounds[1]};
    if (result == PCRE2_ERROR_NOMATCH) return Match{};
    return TooManySteps(Pcre2Message(result));
  }
};

SplitMatcher::SplitMatcher(const SplitPattern& pattern)
    : pattern_(pattern), state_(std::make_unique<State>()) {
  constexpr size_t kStackBytes = 64 << 10, kMaxStackBytes = 4 << 20;
  constexpr uint32_t kMatchLimit = 10'000'000, kBriefMatchLimit = 256, kHeapLimitKib = 16 << 10;
  state_->data.reset(pcre2_match_data_create(1, nullptr));
  state_->stack.reset(pcre2_jit_stack_create(kStackBytes, kMaxStackBytes, nullptr));
  SPILLWAY_CHECK(state_->data && state_->stack);
  state_->bounds = pcre2_get_ovector_pointer(state_->data.get());
  const auto make_context = [&](uint32_t match_limit) {
    std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context_free>> context(
        pcre2_match_context_create(nullptr));
    SPILLWAY_CHECK(context != nullptr);
    pcre2_set_match_limit(context.get(), match_limit);
    pcre2_set_heap_limit(context.get(), kHeapLimitKib);
    pcre2_jit_stack_assign(context.get(), nullptr, state_->stack.get());
    return context;
  };
  state_->context = make_context(kMatchLimit);
  if (!pattern.code_->guarded) return;
  state_->brief = make_context(kBriefMatchLimit);
  state_->counted = make_context(kMatchLimit);
  pcre2_set_callout(state_->counted.get(), CountStep, &state_->steps);
}

SplitMatcher::~SplitMatcher() = default;

absl::StatusOr<SplitMatcher::Match> SplitMatcher::Find(absl::string_view text, size_t from,
                                                       bool more_follows) {
  const SplitPattern::Code& code = *pattern_.code_;
  if (code.guarded) return FindGuarded(text, from, more_follows);
  return state_->MatchOf(
      state_->Run(code.compiled.get(), code.jit, text, from, more_follows, state_->context.get()));
}

absl::StatusOr<SplitMatcher::Match> SplitMatcher::FindGuarded(absl::string_view text, size_t from,
                                                              bool more_follows) {
  for (size_t at = from; at < text.size();) {
    RETURN_IF_ERROR(StopSignal::Check());
    ASSIGN_OR_RETURN(const Match match, MatchAt(text, at, more_follows));
    if (match.kind != Match::Kind::kNone) {
      state_->steps.left += kStepsPerByte * static_cast<int64_t>(match.end - match.begin);
      return match;
    }
    const size_t place = at;
    do {
      ++at;
    } while (at < text.size() && (text[at] & 0xc0) == 0x80);
    state_->steps.left += kStepsPerByte * static_cast<int64_t>(at - place);
  }
  return Match{};
}

absl::StatusOr<SplitMatcher::Match> SplitMatcher::MatchAt(absl::string_view text, size_t at,
                                                          bool more_follows) {
  // Nearly every word is shorter and takes at most 32,000 steps, which is 20 us.
  constexpr size_t kBriefBytes = 128;
  const SplitPattern::Code& code = *pattern_.code_;
  const size_t end = at + HeldWindow(text.substr(at), kBriefBytes).size();
  const bool whole = end == text.size();
  const int result = state_->Run(code.compiled.get(), code.jit, text.substr(0, end), at,
                                 more_follows || !whole, state_->brief.get());
  const bool is_final =
      result >= 0 || result == PCRE2_ERROR_NOMATCH || (result == PCRE2_ERROR_PARTIAL && whole);
  return is_final ? state_->MatchOf(result) : CountedMatchAt(text, at, more_follows);
}

absl::StatusOr<SplitMatcher::Match> SplitMatcher::CountedMatchAt(absl::string_view text, size_t at,
                                                                 bool more_follows) {
  const SplitPattern::Code& code = *pattern_.code_;
  for (size_t most = 4 << 10;; most *= 8) {
    const size_t end = at + HeldWindow(text.substr(at), most).size();
    const bool whole = end == text.size();
    state_->steps.place = at;
    const int result = state_->Run(code.counted.get(), code.counted_jit, text.substr(0, end), at,
                                   more_follows || !whole, state_->counted.get());
    if (result == PCRE2_ERROR_CALLOUT) {
      RETURN_IF_ERROR(StopSignal::Check());
      return TooManySteps(absl::StrCat("more than ", kStepsPerByte, " steps a byte"));
    }
    if (result != PCRE2_ERROR_PARTIAL || whole) return state_->MatchOf(result);
  }
}

}  // namespace spillway
