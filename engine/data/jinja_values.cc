#include "engine/data/jinja_values.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "engine/base/utf8.h"
#include "engine/measures/text_words.h"
#include "io/base/status.h"

namespace spillway {
namespace {

bool IsUndefined(const JinjaValue& value) { return value.is_discarded(); }

bool IsAscii(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

// Where each character of a string begins, and its end.
std::vector<size_t> CharactersOf(absl::string_view text) {
  std::vector<size_t> begins;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((text[i] & 0xc0) != 0x80) begins.push_back(i);
  }
  begins.push_back(text.size());
  return begins;
}

int64_t LengthOf(const JinjaValue& value) {
  return static_cast<int64_t>(value.is_string()
                                  ? CharactersOf(value.get_ref<const std::string&>()).size() - 1
                                  : value.size());
}

// One step makes a text longer by a multiple only within bounds.
absl::Status CheckGrowth(size_t times, size_t bytes, const JinjaPlace& at) {
  constexpr size_t kMostBytes = 16 << 20;
  if (bytes == 0 || times <= kMostBytes / bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      at.file, ":", at.line, ": the template makes a text of more than ", kMostBytes, " bytes"));
}

// White space of Python's str.strip(), or `characters`.
std::string Stripped(absl::string_view text, const std::optional<std::string>& characters,
                     bool left, bool right) {
  const auto strips = [&](absl::string_view c) {
    if (characters) return absl::StrContains(*characters, c);
    size_t at = 0;
    return IsWhiteSpace(TakeCodePoint(c, &at));
  };
  while (left && !text.empty()) {
    size_t at = 0;
    TakeCodePoint(text, &at);
    if (!strips(text.substr(0, at))) break;
    text.remove_prefix(at);
  }
  while (right && !text.empty()) {
    size_t begin = text.size() - 1;
    while ((text[begin] & 0xc0) == 0x80) --begin;
    if (!strips(text.substr(begin))) break;
    text = text.substr(0, begin);
  }
  return std::string(text);
}

// As Python's json.dumps(ensure_ascii=False): ", " and ": ", or lines with `indent`.
absl::Status DumpJson(const JinjaValue& value, const std::optional<std::string>& indent, int level,
                      const JinjaPlace& at, std::string* out) {
  if (IsUndefined(value) || value.is_binary()) {
    return at.Wrong(absl::StrCat("tojson of what is or holds ", JinjaTypeName(value)));
  }
  if (!value.is_structured() || value.empty()) {
    *out += value.dump();
    return absl::OkStatus();
  }
  const auto line = [&](int depth) {
    if (indent) *out += '\n';
    for (; indent && depth > 0; --depth) *out += *indent;
  };
  *out += value.is_object() ? '{' : '[';
  bool first = true;
  for (const auto& item : value.items()) {
    if (!std::exchange(first, false)) *out += indent ? "," : ", ";
    line(level + 1);
    if (value.is_object()) absl::StrAppend(out, JinjaValue(item.key()).dump(), ": ");
    RETURN_IF_ERROR(DumpJson(item.value(), indent, level + 1, at, out));
  }
  line(level);
  *out += value.is_object() ? '}' : ']';
  return absl::OkStatus();
}

// One level's, of a number of spaces or a text; none for None.
absl::StatusOr<std::optional<std::string>> IndentOf(const JinjaValue& given, const JinjaPlace& at) {
  constexpr size_t kMost = 64;
  if (IsUndefined(given) || given.is_null()) return std::nullopt;
  std::string indent;
  if (given.is_number_integer()) {
    const auto spaces = std::clamp<int64_t>(given.get<int64_t>(), 0, kMost + 1);
    indent = std::string(static_cast<size_t>(spaces), ' ');
  } else if (given.is_string()) {
    indent = given.get<std::string>();
  } else {
    return at.Refused(absl::StrCat("tojson with ", JinjaTypeName(given), " as indent"));
  }
  if (indent.size() > kMost)
    return at.Refused(absl::StrCat("tojson with an indent beyond ", kMost));
  return indent;
}

// Booleans are numbers, as in Python.
JinjaValue AsNumber(const JinjaValue& value) {
  return value.is_boolean() ? JinjaValue(int64_t{value.get<bool>()}) : value;
}

// int(value), or int(float(value)), or 0.
absl::StatusOr<JinjaValue> WholeNumber(const JinjaValue& value, const JinjaPlace& at) {
  if (IsUndefined(value)) return at.Wrong("int of what is undefined");
  const JinjaValue number = AsNumber(value);
  if (number.is_number_integer()) return number;
  double real = number.is_number() ? number.get<double>() : 0;
  if (number.is_string()) {
    std::string text = Stripped(number.get_ref<const std::string&>(), std::nullopt, true, true);
    if (!IsAscii(text)) return at.Refused("int of characters beyond ASCII");
    for (size_t i = 1; i + 1 < text.size(); ++i) {  // 1_000
      if (text[i] == '_' && absl::ascii_isdigit(text[i - 1]) && absl::ascii_isdigit(text[i + 1]))
        text.erase(i, 1);
    }
    int64_t whole = 0;
    if (absl::SimpleAtoi(text, &whole)) return JinjaValue(whole);
    if (absl::StrContains(absl::AsciiStrToLower(text), 'x') || !absl::SimpleAtod(text, &real)) {
      real = 0;  // Python reads no 0x10 here
    }
  }
  if (!std::isfinite(real)) return JinjaValue(0);
  if (std::abs(real) > 9.2e18) return at.Refused("int of a number that has no place in 64 bits");
  return JinjaValue(static_cast<int64_t>(real));
}

// upper, lower, title or capitalize. Words of the filter title begin after white space and some
// signs, those of the method after all that is no letter.
absl::StatusOr<JinjaValue> Cased(const std::string& name, std::string text, bool filter,
                                 const JinjaPlace& at) {
  if (!IsAscii(text)) return at.Refused(absl::StrCat(name, " of letters beyond ASCII"));
  bool begins = true;
  for (char& c : text) {
    const bool up = name == "upper" || (begins && name != "lower");
    const bool divides = filter ? IsWhiteSpace(static_cast<uint32_t>(c)) ||
                                      absl::StrContains("-({[<", std::string(1, c))
                                : !absl::ascii_isalpha(c);
    begins = name == "title" && divides;
    c = up ? absl::ascii_toupper(c) : absl::ascii_tolower(c);
  }
  return JinjaValue(text);
}

// The element of this name or number, or of "a.0.b" one within it.
absl::StatusOr<JinjaValue> AttributeAt(const JinjaValue& of, const JinjaValue& path,
                                       const JinjaPlace& at) {
  if (!path.is_string()) return JinjaItem(of, path, at);
  const JinjaValue* in = &of;
  JinjaValue found;
  const std::vector<std::string> parts = absl::StrSplit(path.get_ref<const std::string&>(), '.');
  for (const std::string& part : parts) {
    int64_t index = 0;
    const bool digits = part.find_first_not_of("0123456789") == std::string::npos;
    const bool number = digits && absl::SimpleAtoi(part, &index);
    ASSIGN_OR_RETURN(JinjaValue next,
                     JinjaItem(*in, number ? JinjaValue(index) : JinjaValue(part), at));
    found = std::move(next);
    in = &found;
  }
  return found;
}

}  // namespace

bool JinjaTrue(const JinjaValue& value) {
  if (IsUndefined(value) || value.is_null()) return false;
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0;
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return !value.empty();
}

std::string JinjaTypeName(const JinjaValue& value) {
  if (IsUndefined(value)) return "undefined";
  if (IsJinjaKept(value, JinjaKept::kNamespace)) return "a namespace";
  if (IsJinjaKept(value, JinjaKept::kGenerator)) return "a generator (|list makes it a list)";
  return value.is_null()      ? "none"
         : value.is_object()  ? "a dictionary"
         : value.is_array()   ? "a list"
         : value.is_string()  ? "a string"
         : value.is_boolean() ? "a boolean"
                              : "a number";
}

bool IsJinjaKept(const JinjaValue& value, JinjaKept kind) {
  return value.is_binary() && value.get_binary()[0] == static_cast<uint8_t>(kind);
}

absl::StatusOr<std::vector<JinjaValue>> JinjaItems(const JinjaValue& value, const JinjaPlace& at) {
  std::vector<JinjaValue> items;
  if (IsUndefined(value)) return items;
  if (value.is_object()) {
    for (const auto& item : value.items()) items.emplace_back(item.key());
  } else if (value.is_array()) {
    items.assign(value.begin(), value.end());
  } else if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    const std::vector<size_t> begins = CharactersOf(text);
    for (size_t i = 0; i + 1 < begins.size(); ++i)
      items.emplace_back(text.substr(begins[i], begins[i + 1] - begins[i]));
  } else {
    return at.Wrong(absl::StrCat(JinjaTypeName(value), " can't be gone through"));
  }
  return items;
}

// As Python writes it.
absl::StatusOr<std::string> JinjaToText(const JinjaValue& value, const JinjaPlace& at) {
  if (IsUndefined(value)) return "";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_number()) return value.dump();
  return at.Refused(
      absl::StrCat("writing ", JinjaTypeName(value), value.is_binary() ? "" : " without tojson"));
}

const JinjaValue* JinjaElement(const JinjaValue& of, const JinjaValue& key) {
  if (of.is_object() && key.is_string()) {
    const auto found = of.find(key.get_ref<const std::string&>());
    return found == of.end() ? nullptr : &*found;
  }
  const JinjaValue number = of.is_array() ? AsNumber(key) : nullptr;
  if (!number.is_number_integer()) return nullptr;
  const int64_t index = number.get<int64_t>() + (number.get<int64_t>() < 0 ? LengthOf(of) : 0);
  return index < 0 || index >= LengthOf(of) ? nullptr : &of[static_cast<size_t>(index)];
}

absl::StatusOr<JinjaValue> JinjaItem(const JinjaValue& of, const JinjaValue& key,
                                     const JinjaPlace& at) {
  if (IsUndefined(of)) return at.Wrong(absl::StrCat("what is undefined has no ", key.dump()));
  if (of.is_binary()) return at.Refused(absl::StrCat("an element of ", JinjaTypeName(of)));
  if (const JinjaValue* element = JinjaElement(of, key)) return *element;
  if (!of.is_string() || !key.is_number_integer()) return JinjaUndefined();
  ASSIGN_OR_RETURN(const JinjaValue characters, JinjaItems(of, at));
  const JinjaValue* character = JinjaElement(characters, key);
  return character == nullptr ? JinjaUndefined() : *character;
}

bool JinjaEqual(const JinjaValue& left, const JinjaValue& right) {
  if (IsUndefined(left) || IsUndefined(right)) return IsUndefined(left) && IsUndefined(right);
  if (left.is_array() && right.is_array()) {
    return std::equal(left.begin(), left.end(), right.begin(), right.end(), JinjaEqual);
  }
  if (left.is_object() && right.is_object()) {
    const auto items = left.items();
    return left.size() == right.size() && std::all_of(items.begin(), items.end(), [&](auto& item) {
             const auto found = right.find(item.key());
             return found != right.end() && JinjaEqual(item.value(), *found);
           });
  }
  return AsNumber(left) == AsNumber(right);
}

absl::StatusOr<bool> JinjaContains(const JinjaValue& all, const JinjaValue& one,
                                   const JinjaPlace& at) {
  if (IsUndefined(all)) return false;
  if (all.is_string() && one.is_string()) {
    return absl::StrContains(all.get_ref<const std::string&>(), one.get_ref<const std::string&>());
  }
  if (all.is_object()) return one.is_string() && all.contains(one.get_ref<const std::string&>());
  if (!all.is_array())
    return at.Wrong(absl::StrCat(JinjaTypeName(one), " in ", JinjaTypeName(all)));
  return std::any_of(all.begin(), all.end(),
                     [&](const JinjaValue& item) { return JinjaEqual(item, one); });
}

absl::StatusOr<bool> JinjaCompare(const std::string& sign, const JinjaValue& one,
                                  const JinjaValue& other, const JinjaPlace& at) {
  const JinjaValue left = AsNumber(one), right = AsNumber(other);
  const bool texts = left.is_string() && right.is_string();
  if (!texts && !(left.is_number() && right.is_number())) {
    const std::string what = absl::StrCat(JinjaTypeName(one), " ", sign, " ", JinjaTypeName(other));
    return left.is_array() && right.is_array() ? at.Refused(what) : at.Wrong(what);
  }
  return sign == "<"    ? left < right
         : sign == ">"  ? left > right
         : sign == "<=" ? left <= right
                        : left >= right;
}

absl::StatusOr<JinjaValue> JinjaArithmetic(const std::string& sign, const JinjaValue& one,
                                           const JinjaValue& other, const JinjaPlace& at) {
  if (sign == "+" && one.is_string() && other.is_string()) {
    return JinjaValue(one.get<std::string>() + other.get<std::string>());
  }
  if (sign == "+" && one.is_array() && other.is_array()) {
    JinjaValue joined = one;
    joined.insert(joined.end(), other.begin(), other.end());
    return joined;
  }
  const JinjaValue left = AsNumber(one), right = AsNumber(other);
  if (!left.is_number() || !right.is_number()) {
    const std::string what = absl::StrCat(JinjaTypeName(one), " ", sign, " ", JinjaTypeName(other));
    const auto repeats = [](const JinjaValue& all, const JinjaValue& times) {
      return (all.is_string() || all.is_array()) && times.is_number_integer();
    };
    const bool in_python = (sign == "*" && (repeats(left, right) || repeats(right, left))) ||
                           (sign == "%" && left.is_string());
    return in_python ? at.Refused(what) : at.Wrong(what);
  }
  const bool divides = sign == "/" || sign == "//" || sign == "%";
  if (divides && right.get<double>() == 0) return at.Wrong("a division by zero");
  if (!left.is_number_integer() || !right.is_number_integer() || sign == "/") {
    const double a = left.get<double>(), b = right.get<double>();
    if (sign == "//" || sign == "%")
      return at.Refused(absl::StrCat(sign, " of numbers with a point"));
    return JinjaValue(sign == "+" ? a + b : sign == "-" ? a - b : sign == "*" ? a * b : a / b);
  }
  const int64_t a = left.get<int64_t>(), b = right.get<int64_t>();
  int64_t result = 0;
  bool overflow = false;
  if (sign == "+") {
    overflow = __builtin_add_overflow(a, b, &result);
  } else if (sign == "-") {
    overflow = __builtin_sub_overflow(a, b, &result);
  } else if (sign == "*") {
    overflow = __builtin_mul_overflow(a, b, &result);
  } else {
    overflow = a == INT64_MIN && b == -1;
    if (!overflow) {
      const bool down = a % b != 0 && (a % b < 0) != (b < 0);  // Python rounds down
      result = sign == "//" ? a / b - down : a % b + (down ? b : 0);
    }
  }
  if (overflow) return at.Wrong("a number is too large");
  return JinjaValue(result);
}

absl::StatusOr<JinjaValue> JinjaMethod(const std::string& name, const JinjaValue& of,
                                       const JinjaArguments& arguments, const JinjaPlace& at) {
  RETURN_IF_ERROR(CheckMethodArguments(name, arguments, at));
  const auto text_argument = [&](size_t place) -> std::optional<std::string> {
    const JinjaValue value = arguments.Get(place, "");
    return value.is_string() ? std::optional(value.get<std::string>()) : std::nullopt;
  };
  if (of.is_string()) {
    const std::string& text = of.get_ref<const std::string&>();
    const std::optional<std::string> first = text_argument(0), second = text_argument(1);
    if (name == "strip" || name == "lstrip" || name == "rstrip") {
      return JinjaValue(Stripped(text, first, name != "rstrip", name != "lstrip"));
    }
    if (name == "upper" || name == "lower" || name == "title" || name == "capitalize") {
      return Cased(name, text, false, at);
    }
    if (name == "startswith" && first) return JinjaValue(absl::StartsWith(text, *first));
    if (name == "endswith" && first) return JinjaValue(absl::EndsWith(text, *first));
    if (name == "replace" && first && second && !first->empty()) {
      const size_t places = std::vector<absl::string_view>(absl::StrSplit(text, *first)).size() - 1;
      RETURN_IF_ERROR(CheckGrowth(places, second->size(), at));
      return JinjaValue(absl::StrReplaceAll(text, {{*first, *second}}));
    }
    if (name == "split" && arguments.values.size() <= 1) {
      if (arguments.values.empty() || arguments.values[0].is_null())
        return JinjaValue(SplitAtWhiteSpace(text));
      if (first && !first->empty())
        return JinjaValue(std::vector<std::string>(absl::StrSplit(text, *first)));
    }
  }
  if (of.is_object()) {
    if (name == "items" || name == "keys" || name == "values") {
      JinjaValue list = JinjaValue::array();
      for (const auto& item : of.items()) {
        list.push_back(name == "keys"     ? JinjaValue(item.key())
                       : name == "values" ? item.value()
                                          : JinjaValue::array({item.key(), item.value()}));
      }
      return list;
    }
    if (name == "get" && text_argument(0)) {
      const JinjaValue other = arguments.Get(1, "default");
      const auto found = of.find(*text_argument(0));
      return found != of.end() ? *found : IsUndefined(other) ? JinjaValue(nullptr) : other;
    }
  }
  return at.Refused(absl::StrCat("the method ", name, " of ", JinjaTypeName(of)));
}

absl::StatusOr<JinjaValue> JinjaFilter(const std::string& name, const JinjaValue& of,
                                       const JinjaArguments& arguments, const JinjaPlace& at) {
  RETURN_IF_ERROR(CheckFilterArguments(name, arguments, at));
  if (name == "default" || name == "d") {
    const bool boolean = JinjaTrue(arguments.Get(1, "boolean"));
    if (!IsUndefined(of) && (!boolean || JinjaTrue(of))) return of;
    const JinjaValue other = arguments.Get(0, "default_value");
    return IsUndefined(other) ? JinjaValue("") : other;
  }
  if (name == "tojson") {
    if (JinjaTrue(arguments.Get(0, "ensure_ascii"))) return at.Refused("ensure_ascii of tojson");
    ASSIGN_OR_RETURN(const std::optional<std::string> indent,
                     IndentOf(arguments.Get(0, "indent"), at));
    std::string text;
    RETURN_IF_ERROR(DumpJson(of, indent, 0, at, &text));
    return JinjaValue(text);
  }
  if (name == "length" || name == "count") {
    if (!IsUndefined(of) && !of.is_structured() && !of.is_string())
      return at.Wrong(absl::StrCat(JinjaTypeName(of), " has no length"));
    return JinjaValue(IsUndefined(of) ? 0 : LengthOf(of));
  }
  if (name == "string" || name == "safe") return JinjaToText(of, at);
  if (name == "int") return WholeNumber(of, at);
  if (name == "items") return JinjaMethod("items", of, arguments, at);
  if (name == "trim" || name == "upper" || name == "lower" || name == "title" ||
      name == "capitalize") {
    ASSIGN_OR_RETURN(std::string text, JinjaToText(of, at));
    if (name == "trim") return JinjaValue(Stripped(text, std::nullopt, true, true));
    return Cased(name, std::move(text), true, at);
  }
  if (name == "replace") return JinjaMethod("replace", of, arguments, at);
  ASSIGN_OR_RETURN(std::vector<JinjaValue> items, JinjaItems(of, at));
  if (name == "first" || name == "last") {
    return items.empty() ? JinjaUndefined() : name == "first" ? items.front() : items.back();
  }
  if (name == "join") {
    ASSIGN_OR_RETURN(const std::string between, JinjaToText(arguments.Get(0, "d"), at));
    std::vector<std::string> texts;
    for (const JinjaValue& item : items) {
      ASSIGN_OR_RETURN(texts.emplace_back(), JinjaToText(item, at));
    }
    RETURN_IF_ERROR(CheckGrowth(texts.size(), between.size(), at));
    return JinjaValue(absl::StrJoin(texts, between));
  }
  if (name == "reverse") {
    if (of.is_string()) return at.Refused("reverse of a string");
    std::reverse(items.begin(), items.end());
    return JinjaValue(items);
  }
  if (name == "list") return JinjaValue(items);
  const JinjaValue attribute = arguments.Get(0, "attribute");
  if ((name == "map" || name == "selectattr" || name == "rejectattr") &&
      (attribute.is_string() || attribute.is_number_integer())) {
    if (name == "map" && arguments.named.count("attribute") == 0)
      return at.Refused("map without attribute=");
    JinjaValue list = JinjaValue::array();
    const JinjaValue test = arguments.Get(1, "");
    JinjaArguments rest;
    for (size_t i = 2; i < arguments.values.size(); ++i) rest.values.push_back(arguments.values[i]);
    for (const JinjaValue& item : items) {
      ASSIGN_OR_RETURN(JinjaValue value, AttributeAt(item, attribute, at));
      if (name == "map") {
        list.push_back(std::move(value));
        continue;
      }
      if (test.is_string()) {
        ASSIGN_OR_RETURN(value, JinjaTest(test.get<std::string>(), value, rest, at));
      }
      if (JinjaTrue(value) == (name == "selectattr")) list.push_back(item);
    }
    return list;
  }
  return at.Refused(absl::StrCat("the filter ", name));
}

absl::StatusOr<JinjaValue> JinjaTest(const std::string& name, const JinjaValue& of,
                                     const JinjaArguments& arguments, const JinjaPlace& at) {
  if (name == "defined") return JinjaValue(!IsUndefined(of));
  if (name == "undefined") return JinjaValue(IsUndefined(of));
  if (name == "none") return JinjaValue(!IsUndefined(of) && of.is_null());
  if (name == "string") return JinjaValue(of.is_string());
  if (name == "mapping") return JinjaValue(of.is_object());
  if (name == "sequence" || name == "iterable")
    return JinjaValue(IsUndefined(of) || of.is_structured() || of.is_string() ||
                      (name == "iterable" && IsJinjaKept(of, JinjaKept::kGenerator)));
  if (name == "number") return JinjaValue(of.is_number() || of.is_boolean());
  if (name == "integer") return JinjaValue(of.is_number_integer());
  if (name == "float") return JinjaValue(of.is_number_float());
  if (name == "boolean") return JinjaValue(of.is_boolean());
  if (name == "true" || name == "false")
    return JinjaValue(of.is_boolean() && of.get<bool>() == (name == "true"));
  const JinjaValue other = arguments.Get(0, "");
  if (name == "equalto" || name == "eq") return JinjaValue(JinjaEqual(of, other));
  if (name == "ne") return JinjaValue(!JinjaEqual(of, other));
  if (name == "in") {
    ASSIGN_OR_RETURN(const bool found, JinjaContains(other, of, at));
    return JinjaValue(found);
  }
  if ((name == "even" || name == "odd") && of.is_number_integer()) {
    return JinjaValue((of.get<int64_t>() % 2 == 0) == (name == "even"));
  }
  return at.Refused(absl::StrCat("the test ", name));
}

absl::StatusOr<JinjaValue> JinjaSlice(const JinjaValue& of,
                                      const std::optional<int64_t> (&bounds)[3],
                                      const JinjaPlace& at) {
  if (!of.is_array() && !of.is_string())
    return at.Wrong(absl::StrCat(JinjaTypeName(of), " can't be sliced"));
  const int64_t length = LengthOf(of), step = bounds[2].value_or(1);
  if (step == 0) return at.Wrong("a slice of step 0");
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? length : length - 1;
  const auto place = [&](const std::optional<int64_t>& bound, int64_t otherwise) {
    return !bound ? otherwise : std::clamp(*bound < 0 ? *bound + length : *bound, low, high);
  };
  const int64_t stop = place(bounds[1], step > 0 ? high : low);
  ASSIGN_OR_RETURN(const std::vector<JinjaValue> items, JinjaItems(of, at));
  JinjaValue list = JinjaValue::array();
  std::string text;
  for (int64_t i = place(bounds[0], step > 0 ? low : high); step > 0 ? i < stop : i > stop;
       i += step) {
    if (of.is_string()) {
      text += items[static_cast<size_t>(i)].get_ref<const std::string&>();
    } else {
      list.push_back(items[static_cast<size_t>(i)]);
    }
  }
  return of.is_string() ? JinjaValue(text) : list;
}

}  // namespace spillway
