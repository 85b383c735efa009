#include "engine/chat/py_methods.h"

#include <unicode/locid.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "engine/base/utf8.h"
#include "engine/measures/text_words.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// The methods of types in Python 3.11, separated by spaces.
constexpr absl::string_view kTextMethods =
    " capitalize casefold center count encode endswith expandtabs find format format_map index "
    "isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace "
    "istitle isupper join ljust lower lstrip maketrans partition removeprefix removesuffix replace "
    "rfind rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title "
    "translate upper zfill ";
constexpr absl::string_view kDictMethods =
    " clear copy fromkeys get items keys pop popitem setdefault update values ";
constexpr absl::string_view kListMethods =
    " append clear copy count extend index insert pop remove reverse sort ";
constexpr absl::string_view kTupleMethods = " count index ";
// Methods that change their object, which Jinja's sandbox refuses.
constexpr absl::string_view kChangingMethods =
    " append clear extend insert pop popitem remove reverse setdefault sort update ";

bool IsWordAmong(absl::string_view words, absl::string_view name) {
  return !absl::StrContains(name, ' ') && absl::StrContains(words, absl::StrCat(" ", name, " "));
}

// Names of a method's parameters; only the listed methods are supported.
struct MethodSignature {
  const char *name, *parameters;
};
constexpr MethodSignature kTextSignatures[] = {
    {"capitalize", ""},
    {"center", "width! fillchar"},
    {"count", "sub! start end"},
    {"casefold", ""},
    {"endswith", "suffix! start end"},
    {"find", "sub! start end"},
    {"index", "sub! start end"},
    {"isalnum", ""},
    {"isalpha", ""},
    {"isascii", ""},
    {"isdecimal", ""},
    {"isdigit", ""},
    {"islower", ""},
    {"isnumeric", ""},
    {"isspace", ""},
    {"isupper", ""},
    {"join", "iterable!"},
    {"ljust", "width! fillchar"},
    {"lower", ""},
    {"lstrip", "chars"},
    {"partition", "sep!"},
    {"removeprefix", "prefix!"},
    {"removesuffix", "suffix!"},
    {"replace", "old! new! count"},
    {"rfind", "sub! start end"},
    {"rindex", "sub! start end"},
    {"rjust", "width! fillchar"},
    {"rpartition", "sep!"},
    {"rsplit", "sep maxsplit"},
    {"rstrip", "chars"},
    {"split", "sep maxsplit"},
    {"splitlines", "keepends"},
    {"startswith", "prefix! start end"},
    {"strip", "chars"},
    {"swapcase", ""},
    {"title", ""},
    {"upper", ""},
    {"zfill", "width!"},
};
constexpr MethodSignature kDictSignatures[] = {
    {"copy", ""}, {"get", "key! default"}, {"items", ""}, {"keys", ""}, {"values", ""}};
constexpr MethodSignature kListSignatures[] = {
    {"copy", ""}, {"count", "value!"}, {"index", "value!"}};

const char* SignatureOf(absl::Span<const MethodSignature> all, const std::string& name) {
  for (const auto& [known, parameters] : all) {
    if (name == known) return parameters;
  }
  return nullptr;
}

std::string Reversed(absl::string_view text) { return std::string(text.rbegin(), text.rend()); }

// The last position of `pattern`. Linear time.
size_t FindLast(absl::string_view text, absl::string_view pattern) {
  const size_t found = PyFind(Reversed(text), Reversed(pattern));
  return found == std::string::npos ? found : text.size() - found - pattern.size();
}

icu::UnicodeString WideText(absl::string_view text) {
  return icu::UnicodeString::fromUTF8(
      icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
}

std::string NarrowText(const icu::UnicodeString& text) {
  std::string out;
  text.toUTF8String(out);
  return out;
}

// Splits at runs of white space, at most `most` times unless that is negative.
std::vector<std::string> SplitAtSpace(absl::string_view text, int64_t most, bool from_end) {
  std::vector<std::string> parts;
  if (!from_end) {
    size_t space = 0;
    for (size_t at = 0; at < text.size() && IsWhiteSpace(TakeCodePoint(text, &at));) space = at;
    text.remove_prefix(space);
    while (!text.empty()) {
      size_t end = 0, behind = 0;
      if (most-- == 0) {
        end = behind = text.size();
      }
      while (behind < text.size()) {
        end = behind;
        if (IsWhiteSpace(TakeCodePoint(text, &behind))) break;
        end = behind;
      }
      parts.emplace_back(text.substr(0, end));
      text.remove_prefix(end);
      space = 0;
      for (size_t at = 0; at < text.size() && IsWhiteSpace(TakeCodePoint(text, &at));) space = at;
      text.remove_prefix(space);
    }
    return parts;
  }
  text = WithoutTrailingSpace(text);
  while (!text.empty()) {
    size_t begin = 0;
    if (most-- == 0) {
      parts.emplace_back(text);
      break;
    }
    for (size_t at = text.size(); at > 0;) {
      size_t first = at - 1;
      while ((text[first] & 0xc0) == 0x80) --first;
      size_t behind = first;
      if (IsWhiteSpace(TakeCodePoint(text, &behind))) {
        begin = at;
        break;
      }
      at = first;
    }
    parts.emplace_back(text.substr(begin));
    text = WithoutTrailingSpace(text.substr(0, begin));
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> SplitAt(absl::string_view text, absl::string_view separator,
                                 int64_t most) {
  std::vector<std::string> parts;
  while (most-- != 0) {
    const size_t at = PyFind(text, separator);
    if (at == std::string::npos) break;
    parts.emplace_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  parts.emplace_back(text);
  return parts;
}

std::vector<std::string> SplitAtFromEnd(absl::string_view text, absl::string_view separator,
                                        int64_t most) {
  std::vector<std::string> parts = SplitAt(Reversed(text), Reversed(separator), most);
  for (std::string& part : parts) part = Reversed(part);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

absl::StatusOr<PyValue> ListOfTexts(std::vector<std::string> texts, PyValue::Kind kind,
                                    JinjaWork& work) {
  std::vector<PyValue> items;
  for (std::string& text : texts) {
    ASSIGN_OR_RETURN(items.emplace_back(), work.Text(std::move(text)));
  }
  return work.List(std::move(items), kind);
}

// isalpha and similar methods, for ASCII.
absl::StatusOr<PyValue> IsOfClass(const std::string& name, const PyTextRep& text, JinjaWork& work) {
  if (name == "isascii") return PyValue::Bool(text.ascii());
  if (name == "isspace") {
    bool all = text.length > 0;
    for (size_t at = 0; all && at < text.text.size();) {
      all = IsWhiteSpace(TakeCodePoint(text.text, &at));
    }
    return PyValue::Bool(all);
  }
  if (!text.ascii()) return work.Refused(name + " of letters beyond ASCII");
  const std::string& all = text.text;
  if (name == "islower" || name == "isupper") {
    const auto is = [](bool upper) {
      return [upper](char c) { return upper ? absl::ascii_isupper(c) : absl::ascii_islower(c); };
    };
    const bool upper = name == "isupper";
    return PyValue::Bool(std::any_of(all.begin(), all.end(), is(upper)) &&
                         std::none_of(all.begin(), all.end(), is(!upper)));
  }
  const auto fits = [&](char c) {
    return name == "isalnum"   ? absl::ascii_isalnum(c)
           : name == "isalpha" ? absl::ascii_isalpha(c)
                               : absl::ascii_isdigit(c);
  };
  return PyValue::Bool(!all.empty() && std::all_of(all.begin(), all.end(), fits));
}

// The range of bytes that the optional parameters `start` and `end` select; none if start is after
// the end.
absl::StatusOr<std::optional<std::pair<size_t, size_t>>> PartGiven(const PyTextRep& text,
                                                                   const PyParameters& given,
                                                                   JinjaWork& work) {
  const auto length = static_cast<int64_t>(text.length);
  int64_t bounds[2] = {0, length};
  for (size_t i = 0; i < 2; ++i) {
    if (!given.given(i + 1) || given.value(i + 1).is(PyValue::Kind::kNone)) continue;
    ASSIGN_OR_RETURN(int64_t bound, given.Integer(i + 1, 0, work));
    if (bound < 0) bound = std::max<int64_t>(bound + length, 0);
    bounds[i] = i == 1 ? std::min(bound, length) : bound;
  }
  if (bounds[0] > bounds[1]) return std::nullopt;
  return std::pair(PyByteOf(text, static_cast<size_t>(bounds[0])),
                   PyByteOf(text, static_cast<size_t>(bounds[1])));
}

size_t CharactersIn(absl::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

// find, rfind, index, rindex, count, startswith, endswith.
absl::StatusOr<PyValue> Searched(const std::string& name, const PyTextRep& text,
                                 const PyParameters& given, JinjaWork& work) {
  const bool counts = name == "count", tests = name == "startswith" || name == "endswith";
  ASSIGN_OR_RETURN(const auto part, PartGiven(text, given, work));
  const absl::string_view in =
      part ? absl::string_view(text.text).substr(part->first, part->second - part->first) : "";
  if (tests) {
    std::vector<PyValue> all = {given.value(0)};
    if (all[0].is(PyValue::Kind::kTuple)) all = PyListOf(given.value(0));
    for (const PyValue& one : all) {
      if (!one.is(PyValue::Kind::kString))
        return work.Wrong(absl::StrCat(PyTypeName(one), " in ", name));
      const std::string& wanted = PyTextOf(one);
      if (!part) continue;
      if (name == "startswith" ? absl::StartsWith(in, wanted) : absl::EndsWith(in, wanted)) {
        return PyValue::Bool(true);
      }
    }
    return PyValue::Bool(false);
  }
  ASSIGN_OR_RETURN(const std::string wanted, given.Text(0, "", work));
  if (counts) {
    if (!part) return PyValue::Int(0);
    if (wanted.empty()) return PyValue::Int(static_cast<int64_t>(CharactersIn(in)) + 1);
    int64_t found = 0;
    for (size_t at = 0; (at = PyFind(in, wanted, at)) != std::string::npos; at += wanted.size()) {
      ++found;
    }
    return PyValue::Int(found);
  }
  const bool last = name[0] == 'r';
  const size_t at = !part ? std::string::npos : last ? FindLast(in, wanted) : PyFind(in, wanted);
  if (at != std::string::npos) {
    return PyValue::Int(static_cast<int64_t>(
        CharactersIn(absl::string_view(text.text).substr(0, part->first + at))));
  }
  if (absl::EndsWith(name, "index")) return work.Wrong(name + ": there is no such part of it");
  return PyValue::Int(-1);
}

absl::StatusOr<PyValue> Partitioned(const std::string& name, const std::string& text,
                                    const PyParameters& given, JinjaWork& work) {
  ASSIGN_OR_RETURN(const std::string separator, given.Text(0, "", work));
  if (separator.empty()) return work.Wrong(name + " at an empty string");
  const bool last = name == "rpartition";
  const size_t at = last ? FindLast(text, separator) : PyFind(text, separator);
  std::vector<std::string> parts = {text, "", ""};
  if (at != std::string::npos) {
    parts = {text.substr(0, at), separator, text.substr(at + separator.size())};
  } else if (last) {
    std::swap(parts[0], parts[2]);
  }
  return ListOfTexts(std::move(parts), PyValue::Kind::kTuple, work);
}

absl::StatusOr<PyValue> Splitted(const std::string& name, const std::string& text,
                                 const PyParameters& given, JinjaWork& work) {
  ASSIGN_OR_RETURN(const int64_t most, given.Integer(1, -1, work));
  const bool from_end = name == "rsplit";
  if (!given.given(0) || given.value(0).is(PyValue::Kind::kNone)) {
    return ListOfTexts(SplitAtSpace(text, most, from_end), PyValue::Kind::kList, work);
  }
  ASSIGN_OR_RETURN(const std::string separator, given.Text(0, "", work));
  if (separator.empty()) return work.Wrong(name + " at an empty string");
  return ListOfTexts(
      from_end ? SplitAtFromEnd(text, separator, most) : SplitAt(text, separator, most),
      PyValue::Kind::kList, work);
}

// center, ljust, rjust, zfill.
absl::StatusOr<PyValue> Widened(const std::string& name, const PyTextRep& text,
                                const PyParameters& given, JinjaWork& work) {
  ASSIGN_OR_RETURN(const int64_t width, given.Integer(0, 0, work));
  const auto length = static_cast<int64_t>(text.length);
  if (width <= length) return work.Text(text.text);
  std::string fill = name == "zfill" ? "0" : " ";
  if (name != "zfill") {
    ASSIGN_OR_RETURN(fill, given.Text(1, " ", work));
    if (CharactersIn(fill) != 1) return work.Wrong(name + " takes one character to fill with");
  }
  RETURN_IF_ERROR(work.Spend(static_cast<size_t>(width) * fill.size()));
  if (name == "center") return work.Text(PyCentered(text.text, length, width, fill));
  std::string filled;
  for (int64_t i = length; i < width; ++i) filled += fill;
  if (name == "ljust") return work.Text(text.text + filled);
  const bool sign =
      name == "zfill" && !text.text.empty() && (text.text[0] == '-' || text.text[0] == '+');
  return work.Text(absl::StrCat(text.text.substr(0, sign), filled, text.text.substr(sign)));
}

// "{}, {0}, {name}".format(...), without attributes and formats.
absl::StatusOr<PyValue> Formatted(const std::string& text, const PyArguments& arguments,
                                  JinjaWork& work) {
  std::string out;
  size_t next = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c != '{' && c != '}') {
      out += c;
      continue;
    }
    if (at + 1 < text.size() && text[at + 1] == c) {
      out += text[at++];
      continue;
    }
    const size_t end = text.find('}', at);
    if (c == '}' || end == std::string::npos)
      return work.Wrong("format: a single " + text.substr(at, 1));
    const std::string field = text.substr(at + 1, end - at - 1);
    at = end;
    size_t place = next;
    PyValue value;
    if (field.empty() || absl::SimpleAtoi(field, &place)) {
      if (field.empty()) ++next;
      if (place >= arguments.values.size()) return work.Wrong("format: too few values");
      value = arguments.values[place];
    } else if (field.find_first_of("{!:.[") != std::string::npos) {
      return work.Refused("format with {" + field + "}");
    } else {
      const auto named = std::find_if(arguments.named.begin(), arguments.named.end(),
                                      [&](const auto& one) { return one.first == field; });
      if (named == arguments.named.end()) return work.Wrong("format: no value " + field);
      value = named->second;
    }
    ASSIGN_OR_RETURN(const std::string written, PyText(value, work));
    out += written;
  }
  return work.Text(std::move(out));
}

absl::StatusOr<PyValue> CallText(const std::string& name, const PyTextRep& text,
                                 const PyArguments& arguments, JinjaWork& work) {
  RETURN_IF_ERROR(work.Spend(text.text.size()));
  if (name == "format") return Formatted(text.text, arguments, work);
  const char* const parameters = SignatureOf(kTextSignatures, name);
  if (parameters == nullptr) return work.Refused(absl::StrCat("the method ", name, " of a string"));
  ASSIGN_OR_RETURN(const PyParameters given, PyParameters::Bind(name, parameters, arguments, work));
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    std::optional<std::string> characters;
    if (given.given(0) && !given.value(0).is(PyValue::Kind::kNone)) {
      ASSIGN_OR_RETURN(characters, given.Text(0, "", work));
      RETURN_IF_ERROR(work.Spend(characters->size() * 64));
    }
    return work.Text(PyStripped(text.text, characters, name != "rstrip", name != "lstrip"));
  }
  if (name == "split" || name == "rsplit") return Splitted(name, text.text, given, work);
  if (name == "partition" || name == "rpartition") return Partitioned(name, text.text, given, work);
  if (name == "replace") {
    ASSIGN_OR_RETURN(const std::string from, given.Text(0, "", work));
    ASSIGN_OR_RETURN(const std::string to, given.Text(1, "", work));
    ASSIGN_OR_RETURN(const int64_t count, given.Integer(2, -1, work));
    ASSIGN_OR_RETURN(std::string replaced, PyReplaced(text.text, from, to, count, work));
    return work.Text(std::move(replaced));
  }
  if (name == "removeprefix" || name == "removesuffix") {
    ASSIGN_OR_RETURN(const std::string end, given.Text(0, "", work));
    absl::string_view rest = text.text;
    name == "removeprefix" ? absl::ConsumePrefix(&rest, end) : absl::ConsumeSuffix(&rest, end);
    return work.Text(std::string(rest));
  }
  if (name == "join") {
    ASSIGN_OR_RETURN(const std::vector<PyValue> items, PyItems(given.value(0), work));
    std::string out;
    for (size_t i = 0; i < items.size(); ++i) {
      if (!items[i].is(PyValue::Kind::kString))
        return work.Wrong("join of " + PyTypeName(items[i]));
      RETURN_IF_ERROR(work.Spend(PyTextOf(items[i]).size() + text.text.size()));
      absl::StrAppend(&out, i == 0 ? "" : text.text, PyTextOf(items[i]));
    }
    return work.Text(std::move(out));
  }
  if (name == "splitlines") {
    return ListOfTexts(PyLinesOf(text.text, given.True(0)), PyValue::Kind::kList, work);
  }
  if (name == "center" || name == "ljust" || name == "rjust" || name == "zfill") {
    return Widened(name, text, given, work);
  }
  if (absl::StartsWith(name, "is")) return IsOfClass(name, text, work);
  if (std::string(parameters).empty()) {
    ASSIGN_OR_RETURN(std::string cased, PyCased(name, text.text, false, work));
    return work.Text(std::move(cased));
  }
  return Searched(name, text, given, work);
}

absl::StatusOr<PyValue> CallDict(const std::string& name, const PyValue& of,
                                 const PyArguments& arguments, JinjaWork& work) {
  const char* const parameters = SignatureOf(kDictSignatures, name);
  if (parameters == nullptr) return work.Refused("the method " + name + " of a dictionary");
  ASSIGN_OR_RETURN(const PyParameters given, PyParameters::Bind(name, parameters, arguments, work));
  if (name == "copy") return of;
  if (name == "get") {
    if (!PyHashable(given.value(0))) return work.Wrong(PyTypeName(given.value(0)) + " as a key");
    const PyValue* found = PyDictOf(of).Find(given.value(0));
    return found != nullptr ? *found : given.given(1) ? given.value(1) : PyValue::None();
  }
  std::vector<PyValue> items;
  for (const auto& [key, value] : PyDictOf(of).items()) {
    if (name == "items") {
      ASSIGN_OR_RETURN(items.emplace_back(), work.List({key, value}, PyValue::Kind::kTuple));
    } else {
      items.push_back(name == "keys" ? key : value);
    }
  }
  return work.List(std::move(items), PyValue::Kind::kView);
}

absl::StatusOr<PyValue> CallList(const std::string& name, const PyValue& of,
                                 const PyArguments& arguments, JinjaWork& work) {
  const char* const parameters = SignatureOf(kListSignatures, name);
  if (parameters == nullptr) return work.Refused("the method " + name + " of a list");
  ASSIGN_OR_RETURN(const PyParameters given, PyParameters::Bind(name, parameters, arguments, work));
  if (name == "copy") return of;
  int64_t count = 0, place = 0;
  for (const PyValue& item : PyListOf(of)) {
    ASSIGN_OR_RETURN(const bool equal, PyEqual(item, given.value(0), work));
    if (equal && name == "index") return PyValue::Int(place);
    count += equal;
    ++place;
  }
  if (name == "index") return work.Wrong("index: it is not in the list");
  return PyValue::Int(count);
}

// One of "%s", "%5.2f", "%(name)s", ... with its value.
absl::StatusOr<std::string> PercentOf(char kind, const std::string& flags, const PyValue& value,
                                      JinjaWork& work) {
  int64_t width = 0;
  std::string digits = flags.substr(std::min(flags.find_first_not_of("-+ 0#"), flags.size()));
  std::string precision;
  if (const size_t point = digits.find('.'); point != std::string::npos) {
    precision = digits.substr(point + 1);
    digits.resize(point);
  }
  const auto sign = [&](char one) {
    return flags.substr(0, flags.size() - digits.size()).find(one) != std::string::npos &&
           flags.find(one) < std::min(flags.find_first_of("123456789."), flags.size());
  };
  if (!digits.empty() && (!absl::SimpleAtoi(digits, &width) || width > 1000)) {
    return work.Refused("a format of this width");
  }
  int64_t places = kind == 'f' ? 6 : -1;
  if (!precision.empty() && (!absl::SimpleAtoi(precision, &places) || places > 100)) {
    return work.Refused("a format of this precision");
  }
  std::string text;
  if (kind == 's') {
    ASSIGN_OR_RETURN(text, PyText(value, work));
    if (places >= 0) {
      ASSIGN_OR_RETURN(const PyValue whole, work.Text(text));
      const PyTextRep& rep = whole.rep<PyTextRep>();
      text = text.substr(0, PyByteOf(rep, std::min(rep.length, static_cast<size_t>(places))));
    }
  } else if (!value.number() || (kind == 'x' && !value.integral()) ||
             (kind != 'f' && places >= 0)) {
    return work.Wrong(absl::StrCat("%", std::string(1, kind), " of ", PyTypeName(value)));
  } else if (kind == 'f') {
    text = absl::StrFormat("%.*f", static_cast<int>(places), value.real());
  } else {
    const int64_t whole = value.integral()
                              ? value.integer()
                              : static_cast<int64_t>(std::clamp(value.real(), -9e18, 9e18));
    text = kind == 'x' ? absl::StrFormat("%s%x", whole < 0 ? "-" : "", whole < 0 ? -whole : whole)
                       : absl::StrCat(whole);
  }
  if (kind != 's' && text[0] != '-' && (sign('+') || sign(' '))) {
    text.insert(0, 1, sign('+') ? '+' : ' ');
  }
  const auto length = static_cast<int64_t>(CharactersIn(text));
  if (length >= width) return text;
  const auto missing = static_cast<size_t>(width - length);
  if (sign('-')) return text + std::string(missing, ' ');
  if (kind == 's' || !sign('0')) return std::string(missing, ' ') + text;
  const bool signed_text = text[0] == '-' || text[0] == '+' || text[0] == ' ';
  return text.substr(0, signed_text) + std::string(missing, '0') + text.substr(signed_text);
}

}  // namespace

// ------------------------------------------------------------------------- parameters

absl::StatusOr<PyParameters> PyParameters::Bind(absl::string_view function,
                                                absl::string_view parameters,
                                                const PyArguments& given, JinjaWork& work) {
  PyParameters out;
  out.function_ = std::string(function);
  std::vector<bool> needed;
  for (absl::string_view name : absl::StrSplit(parameters, ' ', absl::SkipEmpty())) {
    needed.push_back(absl::ConsumeSuffix(&name, "!"));
    out.names_.emplace_back(name);
  }
  out.values_.resize(out.names_.size());
  if (given.values.size() > out.names_.size()) {
    return work.Wrong(absl::StrCat(function, " takes ", out.names_.size(), " arguments, not ",
                                   given.values.size()));
  }
  for (size_t i = 0; i < given.values.size(); ++i) out.values_[i] = given.values[i];
  for (const auto& [name, value] : given.named) {
    const auto place = std::find(out.names_.begin(), out.names_.end(), name);
    if (place == out.names_.end()) {
      return work.Wrong(absl::StrCat(function, " has no argument ", name));
    }
    auto& into = out.values_[static_cast<size_t>(place - out.names_.begin())];
    if (into) return work.Wrong(absl::StrCat(function, " is given ", name, " twice"));
    into = value;
  }
  for (size_t i = 0; i < needed.size(); ++i) {
    if (needed[i] && !out.values_[i]) {
      return work.Wrong(absl::StrCat(function, " needs an argument ", out.names_[i]));
    }
  }
  return out;
}

absl::StatusOr<std::string> PyParameters::Text(size_t place, absl::string_view otherwise,
                                               JinjaWork& work) const {
  if (!values_[place]) return std::string(otherwise);
  if (!values_[place]->is(PyValue::Kind::kString)) {
    return work.Wrong(absl::StrCat(function_, " with ", PyTypeName(*values_[place]), " as ",
                                   names_[place], ", which is a string"));
  }
  return PyTextOf(*values_[place]);
}

absl::StatusOr<int64_t> PyParameters::Integer(size_t place, int64_t otherwise,
                                              JinjaWork& work) const {
  if (!values_[place]) return otherwise;
  if (!values_[place]->integral()) {
    return work.Wrong(absl::StrCat(function_, " with ", PyTypeName(*values_[place]), " as ",
                                   names_[place], ", which is a whole number"));
  }
  return values_[place]->integer();
}

// ---------------------------------------------------------------------------- methods

bool PyHasMethod(const PyValue& of, const std::string& name) {
  return IsWordAmong(of.is(PyValue::Kind::kString)  ? kTextMethods
                     : of.is(PyValue::Kind::kDict)  ? kDictMethods
                     : of.is(PyValue::Kind::kList)  ? kListMethods
                     : of.is(PyValue::Kind::kTuple) ? kTupleMethods
                                                    : "",
                     name);
}

absl::StatusOr<PyValue> PyMethodOf(const PyValue& of, const std::string& name, JinjaWork& work) {
  if (IsWordAmong(kChangingMethods, name) && !of.is(PyValue::Kind::kString)) return PyValue();
  RETURN_IF_ERROR(work.Spend(sizeof(PyMethodRep)));
  auto rep = std::make_shared<PyMethodRep>();
  rep->of = of;
  rep->name = name;
  rep->depth = of.depth() + 1;
  return PyValue(PyValue::Kind::kMethod, std::move(rep));
}

absl::StatusOr<PyValue> PyCallMethod(const PyMethodRep& method, const PyArguments& arguments,
                                     JinjaWork& work) {
  if (method.of.is(PyValue::Kind::kString)) {
    return CallText(method.name, method.of.rep<PyTextRep>(), arguments, work);
  }
  return method.of.is(PyValue::Kind::kDict) ? CallDict(method.name, method.of, arguments, work)
                                            : CallList(method.name, method.of, arguments, work);
}

absl::StatusOr<PyValue> PyPercent(const std::string& text, const PyValue& values, JinjaWork& work) {
  std::vector<PyValue> all = {values};
  if (values.is(PyValue::Kind::kTuple)) all = PyListOf(values);
  std::string out;
  size_t next = 0;
  RETURN_IF_ERROR(work.Spend(text.size()));
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      out += text[at];
      continue;
    }
    if (at + 1 < text.size() && text[at + 1] == '%') {
      out += text[at++];
      continue;
    }
    std::string name;
    const bool named = at + 1 < text.size() && text[at + 1] == '(';
    if (named) {
      const size_t close = std::min(text.find(')', at), text.size());
      name = text.substr(at + 2, close - std::min(close, at + 2));
      at = close;
    }
    const size_t kind = std::min(text.find_first_not_of("-+ #0123456789.", at + 1), text.size());
    if (kind == text.size()) return work.Wrong("an incomplete format");
    if (!absl::StrContains("sdifx", text[kind])) {
      return work.Refused("a format with %" + text.substr(at + 1, kind - at));
    }
    PyValue value;
    if (named) {
      const PyValue* found = values.is(PyValue::Kind::kDict)
                                 ? PyDictOf(values).Find(absl::string_view(name))
                                 : nullptr;
      if (found == nullptr) return work.Wrong("a format without a value for " + name);
      value = *found;
    } else if (next < all.size()) {
      value = all[next++];
    } else {
      return work.Wrong("a format with too few values");
    }
    ASSIGN_OR_RETURN(const std::string written,
                     PercentOf(text[kind] == 'i' ? 'd' : text[kind],
                               text.substr(at + 1, kind - at - 1), value, work));
    out += written;
    at = kind;
  }
  if (next < all.size() && !values.is(PyValue::Kind::kDict)) {
    return work.Wrong("a format with too many values");
  }
  return work.Text(std::move(out));
}

std::string PyStripped(absl::string_view text, const std::optional<std::string>& characters,
                       bool left, bool right) {
  std::vector<uint32_t> wanted;
  if (characters) {
    wanted = CodePointsOf(*characters);
    std::sort(wanted.begin(), wanted.end());
  }
  const auto strips = [&](size_t at) {
    const uint32_t point = TakeCodePoint(text, &at);
    return characters ? std::binary_search(wanted.begin(), wanted.end(), point)
                      : IsWhiteSpace(point);
  };
  while (left && !text.empty() && strips(0)) {
    size_t end = 0;
    TakeCodePoint(text, &end);
    text.remove_prefix(end);
  }
  while (right && !text.empty()) {
    size_t begin = text.size() - 1;
    while ((text[begin] & 0xc0) == 0x80) --begin;
    if (!strips(begin)) break;
    text = text.substr(0, begin);
  }
  return std::string(text);
}

absl::StatusOr<std::string> PyReplaced(const std::string& text, const std::string& from,
                                       const std::string& to, int64_t count, JinjaWork& work) {
  std::string out;
  size_t at = 0;
  RETURN_IF_ERROR(work.Spend(text.size() + from.size()));
  while (count-- != 0) {
    size_t found = PyFind(text, from, at);
    if (found == std::string::npos) break;
    if (from.empty()) {
      // Before each character, and behind the last.
      RETURN_IF_ERROR(work.Spend(to.size()));
      out += to;
      if (found == text.size()) return out;
      TakeCodePoint(text, &found);
      out.append(text, at, found - at);
      at = found;
      continue;
    }
    RETURN_IF_ERROR(work.Spend(to.size()));
    out.append(text, at, found - at);
    out += to;
    at = found + from.size();
  }
  return out.append(text, at, std::string::npos);
}

absl::StatusOr<std::string> PyCased(const std::string& name, std::string text, bool filter,
                                    JinjaWork& work) {
  RETURN_IF_ERROR(work.Spend(text.size()));
  if (!PyIsAscii(text)) {
    const icu::Locale& root = icu::Locale::getRoot();
    if (name == "upper") return NarrowText(WideText(text).toUpper(root));
    if (name == "lower") return NarrowText(WideText(text).toLower(root));
    if (name == "casefold") return NarrowText(WideText(text).foldCase());
    return work.Refused(absl::StrCat(name, " of letters beyond ASCII"));
  }
  bool begins = true;
  for (char& c : text) {
    const bool swapped = name == "swapcase" && absl::ascii_islower(c);
    const bool up =
        name == "upper" || swapped || (begins && (name == "title" || name == "capitalize"));
    const bool divides = filter ? IsWhiteSpace(static_cast<uint32_t>(c)) ||
                                      absl::StrContains("-({[<", std::string(1, c))
                                : !absl::ascii_isalpha(c);
    begins = name == "title" && divides;
    c = up ? absl::ascii_toupper(c) : absl::ascii_tolower(c);
  }
  return text;
}

std::string PyCentered(const std::string& text, int64_t length, int64_t width,
                       const std::string& fill) {
  const int64_t missing = std::max<int64_t>(width - length, 0);
  const int64_t left = missing / 2 + (missing & width & 1);  // Python's rounding
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += text;
  for (int64_t i = left; i < missing; ++i) out += fill;
  return out;
}

std::vector<std::string> PyLinesOf(absl::string_view text, bool keep_ends) {
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const uint32_t point = TakeCodePoint(text, &at);
    const bool ends = (point >= 0x0a && point <= 0x0d) || (point >= 0x1c && point <= 0x1e) ||
                      point == 0x85 || point == 0x2028 || point == 0x2029;
    if (!ends) continue;
    if (point == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.emplace_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  return lines;
}

std::string PyEscaped(absl::string_view text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"'", "&#39;"}, {"\"", "&#34;"}});
}

bool PyIsAscii(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

}  // namespace spillway
