#include "engine/chat/jinja_filters.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "engine/base/utf8.h"
#include "engine/chat/py_operations.h"
#include "engine/measures/text_words.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using PyItemList = std::vector<PyValue>;
using PyResult = absl::StatusOr<PyValue>;

struct FilterCall {
  const std::string& name;
  const PyValue& of;
  const PyParameters& given;
  JinjaWork& work;
};

PyArguments RestOf(const PyArguments& all, size_t from) {
  PyArguments rest;
  for (size_t i = from; i < all.values.size(); ++i) rest.values.push_back(all.values[i]);
  rest.named = all.named;
  return rest;
}

// int(text) of Python, with white space around it and "_" between digits.
std::optional<int64_t> WholeOf(std::string text, int base) {
  text = PyStripped(text, std::nullopt, true, true);
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] == '_' && absl::ascii_isalnum(text[i - 1]) && absl::ascii_isalnum(text[i + 1])) {
      text.erase(i, 1);
    }
  }
  int64_t whole = 0;
  if (base == 16) {
    return absl::SimpleHexAtoi(text, &whole) ? std::optional(whole) : std::nullopt;
  }
  return absl::SimpleAtoi(text, &whole) ? std::optional(whole) : std::nullopt;
}

std::optional<double> RealOf(std::string text) {
  text = PyStripped(text, std::nullopt, true, true);
  double real = 0;
  const bool reads = absl::SimpleAtod(text, &real) &&
                     !absl::StrContains(absl::AsciiStrToLower(text), 'x');  // Python reads no 0x10
  return reads ? std::optional(real) : std::nullopt;
}

// int(value), or int(float(value)), or the default.
PyResult ToWhole(const FilterCall& call) {
  const PyValue& of = call.of;
  JinjaWork& work = call.work;
  if (of.undefined()) return work.Wrong("int of what is undefined");
  const PyValue otherwise = call.given.given(0) ? call.given.value(0) : PyValue::Int(0);
  ASSIGN_OR_RETURN(const int64_t base, call.given.Integer(1, 10, work));
  if (base != 10 && base != 16) return work.Refused(absl::StrCat("int with the base ", base));
  if (of.integral()) return PyValue::Int(of.integer());
  double real = 0;
  if (of.is(PyValue::Kind::kString)) {
    const std::string& text = PyTextOf(of);
    RETURN_IF_ERROR(work.Spend(text.size()));
    const std::string plain = PyStripped(text, std::nullopt, true, true);
    if (!PyIsAscii(plain)) return work.Refused("int of characters beyond ASCII");
    if (plain.size() > 4000) return otherwise;
    if (const auto whole = WholeOf(plain, static_cast<int>(base))) return PyValue::Int(*whole);
    const auto read = RealOf(plain);
    if (!read) return otherwise;
    real = *read;
  } else if (of.is(PyValue::Kind::kFloat)) {
    real = of.real();
  } else {
    return otherwise;
  }
  if (!std::isfinite(real)) return otherwise;
  if (std::abs(real) > 9.2e18) return work.Refused("int of a number that has no place in 64 bits");
  return PyValue::Int(static_cast<int64_t>(real));
}

PyResult ToReal(const FilterCall& call) {
  if (call.of.undefined()) return call.work.Wrong("float of what is undefined");
  if (call.of.number()) return PyValue::Float(call.of.real());
  const PyValue otherwise = call.given.given(0) ? call.given.value(0) : PyValue::Float(0);
  if (!call.of.is(PyValue::Kind::kString)) return otherwise;
  const std::string plain = PyStripped(PyTextOf(call.of), std::nullopt, true, true);
  if (!PyIsAscii(plain) || absl::StrContains(plain, '_')) {
    return call.work.Refused("float of such a text");
  }
  const auto real = RealOf(plain);
  return real ? PyValue::Float(*real) : otherwise;
}

PyResult FilterRounded(const FilterCall& call) {
  JinjaWork& work = call.work;
  ASSIGN_OR_RETURN(const int64_t precision, call.given.Integer(0, 0, work));
  ASSIGN_OR_RETURN(const std::string method, call.given.Text(1, "common", work));
  if (!call.of.number()) return work.Wrong("round of " + PyTypeName(call.of));
  if (precision < 0 || precision > 100) return work.Refused("round to such a place");
  const double real = call.of.real();
  if (method == "ceil" || method == "floor") {
    const double scale = std::pow(10.0, static_cast<double>(precision));
    const double scaled = real * scale;
    return PyValue::Float((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
  }
  if (method != "common") return work.Wrong("round takes common, ceil or floor");
  if (call.of.integral()) return PyValue::Int(call.of.integer());
  double rounded = 0;
  // The decimal that is nearest, as Python rounds.
  const bool read =
      absl::SimpleAtod(absl::StrFormat("%.*f", static_cast<int>(precision), real), &rounded);
  return PyValue::Float(read ? rounded : real);
}

// "a.0.b" of a value: the element of each name or number within that before, or `otherwise` where
// there is none.
PyResult AttributeAt(const PyValue& of, const PyValue& path, JinjaWork& work,
                     const PyValue& otherwise = PyValue()) {
  if (!path.is(PyValue::Kind::kString)) {
    ASSIGN_OR_RETURN(PyValue item, PyItem(of, path, work));
    return item.undefined() ? otherwise : item;
  }
  PyValue found = of;
  for (absl::string_view part : absl::StrSplit(PyTextOf(path), '.')) {
    int64_t index = 0;
    const bool digits = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    PyValue key;
    if (digits && absl::SimpleAtoi(part, &index)) {
      key = PyValue::Int(index);
    } else {
      ASSIGN_OR_RETURN(key, work.Text(std::string(part)));
    }
    ASSIGN_OR_RETURN(found, PyItem(found, key, work));
    if (found.undefined()) found = otherwise;
  }
  return found;
}

// What an item is compared by: the attribute, if there is one, and a text without its case.
PyResult SortKey(const PyValue& item, const PyValue& attribute, bool with_case, JinjaWork& work) {
  PyValue key = item;
  if (!attribute.undefined() && !attribute.is(PyValue::Kind::kNone)) {
    if (attribute.is(PyValue::Kind::kString) && absl::StrContains(PyTextOf(attribute), ',')) {
      return work.Refused("sorting by several attributes");
    }
    ASSIGN_OR_RETURN(key, AttributeAt(item, attribute, work));
  }
  if (with_case || !key.is(PyValue::Kind::kString)) return key;
  ASSIGN_OR_RETURN(std::string lower, PyCased("lower", PyTextOf(key), true, work));
  return work.Text(std::move(lower));
}

// Stable, by keys; an error of a comparison ends it.
absl::Status SortByKeys(std::vector<std::pair<PyValue, PyValue>>& keyed, bool reverse,
                        JinjaWork& work) {
  absl::Status status;
  // Merges by hand: a comparator of std::sort must not fail.
  std::vector<std::pair<PyValue, PyValue>> merged(keyed.size());
  for (size_t width = 1; width < keyed.size(); width *= 2) {
    for (size_t begin = 0; begin < keyed.size(); begin += 2 * width) {
      const size_t middle = std::min(begin + width, keyed.size());
      const size_t end = std::min(begin + 2 * width, keyed.size());
      size_t left = begin, right = middle;
      RETURN_IF_ERROR(work.Spend((end - begin) * 8));
      for (size_t out = begin; out < end; ++out) {
        bool take_right = left == middle;
        if (left < middle && right < end) {
          ASSIGN_OR_RETURN(take_right,
                           PyCompare("<", reverse ? keyed[left].first : keyed[right].first,
                                     reverse ? keyed[right].first : keyed[left].first, work));
        }
        merged[out] = std::move(keyed[take_right ? right++ : left++]);
      }
    }
    std::swap(keyed, merged);
  }
  return absl::OkStatus();
}

PyResult FilterSorted(const FilterCall& call) {
  ASSIGN_OR_RETURN(const PyItemList items, PyItems(call.of, call.work));
  std::vector<std::pair<PyValue, PyValue>> keyed;
  for (const PyValue& item : items) {
    ASSIGN_OR_RETURN(PyValue key,
                     SortKey(item, call.given.value(2), call.given.True(1), call.work));
    keyed.emplace_back(std::move(key), item);
  }
  RETURN_IF_ERROR(SortByKeys(keyed, call.given.True(0), call.work));
  PyItemList sorted;
  for (auto& [key, item] : keyed) sorted.push_back(std::move(item));
  return call.work.List(std::move(sorted));
}

PyResult DictSorted(const FilterCall& call) {
  if (!call.of.is(PyValue::Kind::kDict))
    return call.work.Wrong("dictsort of " + PyTypeName(call.of));
  ASSIGN_OR_RETURN(const std::string by, call.given.Text(1, "key", call.work));
  if (by != "key" && by != "value") return call.work.Wrong("dictsort is by key or value");
  std::vector<std::pair<PyValue, PyValue>> keyed;
  for (const auto& [key, value] : PyDictOf(call.of).items()) {
    ASSIGN_OR_RETURN(PyValue sorted_by,
                     SortKey(by == "key" ? key : value, PyValue(), call.given.True(0), call.work));
    ASSIGN_OR_RETURN(PyValue pair, call.work.List({key, value}, PyValue::Kind::kTuple));
    keyed.emplace_back(std::move(sorted_by), std::move(pair));
  }
  RETURN_IF_ERROR(SortByKeys(keyed, call.given.True(2), call.work));
  PyItemList sorted;
  for (auto& [key, pair] : keyed) sorted.push_back(std::move(pair));
  return call.work.List(std::move(sorted));
}

// min and max.
PyResult Extreme(const FilterCall& call) {
  ASSIGN_OR_RETURN(const PyItemList items, PyItems(call.of, call.work));
  if (items.empty()) return PyValue();
  PyValue best, best_key;
  for (size_t i = 0; i < items.size(); ++i) {
    ASSIGN_OR_RETURN(const PyValue key,
                     SortKey(items[i], call.given.value(1), call.given.True(0), call.work));
    bool better = i == 0;
    if (i > 0) {
      ASSIGN_OR_RETURN(better, PyCompare(call.name == "min" ? "<" : ">", key, best_key, call.work));
    }
    if (!better) continue;
    best = items[i];
    best_key = key;
  }
  return best;
}

PyResult Unique(const FilterCall& call) {
  ASSIGN_OR_RETURN(const PyItemList items, PyItems(call.of, call.work));
  PyItemList kept, keys;
  for (const PyValue& item : items) {
    ASSIGN_OR_RETURN(PyValue key,
                     SortKey(item, call.given.value(1), call.given.True(0), call.work));
    if (!PyHashable(key)) return call.work.Wrong("unique of " + PyTypeName(key));
    bool known = false;
    for (size_t i = 0; i < keys.size() && !known; ++i) {
      ASSIGN_OR_RETURN(known, PyEqual(keys[i], key, call.work));
    }
    if (known) continue;
    keys.push_back(std::move(key));
    kept.push_back(item);
  }
  return call.work.Generator(std::move(kept));
}

PyResult Summed(const FilterCall& call) {
  ASSIGN_OR_RETURN(const PyItemList items, PyItems(call.of, call.work));
  PyValue sum = call.given.given(1) ? call.given.value(1) : PyValue::Int(0);
  for (const PyValue& item : items) {
    PyValue one = item;
    if (call.given.given(0)) {
      ASSIGN_OR_RETURN(one, AttributeAt(item, call.given.value(0), call.work));
    }
    ASSIGN_OR_RETURN(sum, PyArithmetic("+", sum, one, call.work));
  }
  return sum;
}

// So many items a list, the last filled up.
PyResult Batched(const FilterCall& call) {
  ASSIGN_OR_RETURN(const PyItemList items, PyItems(call.of, call.work));
  ASSIGN_OR_RETURN(const int64_t count, call.given.Integer(0, 1, call.work));
  if (count < 1 || count > 100'000) return call.work.Refused("batch of such a number");
  PyItemList lists, now;
  const auto finish = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(lists.emplace_back(), call.work.List(std::exchange(now, {})));
    return absl::OkStatus();
  };
  for (const PyValue& item : items) {
    if (static_cast<int64_t>(now.size()) == count) RETURN_IF_ERROR(finish());
    now.push_back(item);
  }
  if (!now.empty()) {
    if (call.given.given(1) && !call.given.value(1).is(PyValue::Kind::kNone)) {
      now.resize(static_cast<size_t>(count), call.given.value(1));
    }
    RETURN_IF_ERROR(finish());
  }
  return call.work.Generator(std::move(lists));
}

PyResult FilterJoined(const FilterCall& call) {
  ASSIGN_OR_RETURN(const PyItemList items, PyItems(call.of, call.work));
  ASSIGN_OR_RETURN(const std::string between,
                   PyText(call.given.given(0) ? call.given.value(0) : PyTextValue(""), call.work));
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    PyValue item = items[i];
    if (call.given.given(1)) {
      ASSIGN_OR_RETURN(item, AttributeAt(item, call.given.value(1), call.work));
    }
    ASSIGN_OR_RETURN(const std::string text, PyText(item, call.work));
    if (i > 0) RETURN_IF_ERROR(call.work.Spend(between.size()));
    absl::StrAppend(&out, i == 0 ? "" : between, text);
  }
  return call.work.Text(std::move(out));
}

PyResult ReversedOf(const FilterCall& call) {
  if (call.of.is(PyValue::Kind::kString)) {
    return PySlice(call.of, {PyValue::None(), PyValue::None(), PyValue::Int(-1)}, call.work);
  }
  ASSIGN_OR_RETURN(PyItemList items, PyItems(call.of, call.work));
  std::reverse(items.begin(), items.end());
  // In Python a list is reversed bit by bit, a generator at once.
  return call.of.is(PyValue::Kind::kGenerator) ? call.work.List(std::move(items))
                                               : call.work.Generator(std::move(items));
}

// The first is taken from a generator, and no more.
PyResult FirstOf(const FilterCall& call) {
  if (call.of.is(PyValue::Kind::kGenerator)) {
    PyGeneratorRep& generator = call.of.rep<PyGeneratorRep>();
    if (generator.lost) return call.work.Refused("going on with a generator that a loop has left");
    return generator.next < generator.items.size() ? generator.items[generator.next++] : PyValue();
  }
  ASSIGN_OR_RETURN(const PyItemList items, PyItems(call.of, call.work));
  return items.empty() ? PyValue() : items.front();
}

PyResult LastOf(const FilterCall& call) {
  if (call.of.is(PyValue::Kind::kGenerator))
    return call.work.Wrong("last of " + PyTypeName(call.of));
  ASSIGN_OR_RETURN(const PyItemList items, PyItems(call.of, call.work));
  return items.empty() ? PyValue() : items.back();
}

PyResult Indented(const FilterCall& call) {
  ASSIGN_OR_RETURN(const std::string text, PyText(call.of, call.work));
  std::string indent;
  if (call.given.value(0).is(PyValue::Kind::kString)) {
    indent = PyTextOf(call.given.value(0));
  } else {
    ASSIGN_OR_RETURN(const int64_t width, call.given.Integer(0, 4, call.work));
    if (width > 1000) return call.work.Refused("an indent of more than 1000");
    indent.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  const bool first = call.given.True(1), blank = call.given.True(2);
  std::string out;
  bool begins = true;
  for (const std::string& one : PyLinesOf(text + "\n", false)) {
    RETURN_IF_ERROR(call.work.Spend(indent.size() + one.size()));
    if (!begins) out += '\n';
    if ((begins && first) || (!begins && (blank || !one.empty()))) out += indent;
    out += one;
    begins = false;
  }
  return call.work.Text(std::move(out));
}

PyResult FilterToJson(const FilterCall& call) {
  PyJsonOptions options;
  options.ascii = call.given.True(0);
  const PyValue indent = call.given.value(1), separators = call.given.value(2);
  options.sorted = call.given.True(3);
  if (indent.integral()) {
    if (indent.integer() > 1000) return call.work.Refused("tojson with an indent beyond 1000");
    options.indented = true;
    options.indent.assign(static_cast<size_t>(std::max<int64_t>(indent.integer(), 0)), ' ');
  } else if (indent.is(PyValue::Kind::kString)) {
    options.indented = true;
    options.indent = PyTextOf(indent);
  } else if (!indent.undefined() && !indent.is(PyValue::Kind::kNone)) {
    return call.work.Wrong("tojson with " + PyTypeName(indent) + " as indent");
  }
  if (options.indented) options.item_separator = ",";
  if (!separators.undefined() && !separators.is(PyValue::Kind::kNone)) {
    const bool two =
        (separators.is(PyValue::Kind::kTuple) || separators.is(PyValue::Kind::kList)) &&
        PyListOf(separators).size() == 2;
    if (!two || !PyListOf(separators)[0].is(PyValue::Kind::kString) ||
        !PyListOf(separators)[1].is(PyValue::Kind::kString)) {
      return call.work.Wrong("tojson takes two strings as separators");
    }
    options.item_separator = PyTextOf(PyListOf(separators)[0]);
    options.key_separator = PyTextOf(PyListOf(separators)[1]);
  }
  ASSIGN_OR_RETURN(std::string text, PyJson(call.of, options, call.work));
  return call.work.Text(std::move(text));
}

PyResult DefaultOf(const FilterCall& call) {
  const bool use = call.of.undefined() || (call.given.True(1) && !PyTrue(call.of));
  if (!use) return call.of;
  return call.given.given(0) ? call.given.value(0) : call.work.Text("");
}

PyResult TextFilter(const FilterCall& call) {
  JinjaWork& work = call.work;
  const std::string& name = call.name;
  ASSIGN_OR_RETURN(std::string text, PyText(call.of, work));
  if (name == "string" && call.of.is(PyValue::Kind::kString)) return call.of;
  if (name == "string") return work.Text(std::move(text));
  if (name == "safe") return work.Text(std::move(text), true);
  if (name == "escape" || name == "e" || name == "forceescape") {
    if (call.of.is(PyValue::Kind::kString) && call.of.rep<PyTextRep>().markup && name[0] == 'e') {
      return call.of;
    }
    return work.Text(PyEscaped(text), true);
  }
  if (name == "trim") {
    std::optional<std::string> characters;
    if (call.given.given(0) && !call.given.value(0).is(PyValue::Kind::kNone)) {
      ASSIGN_OR_RETURN(characters, call.given.Text(0, "", work));
    }
    return work.Text(PyStripped(text, characters, true, true));
  }
  if (name == "replace") {
    ASSIGN_OR_RETURN(const std::string from, PyText(call.given.value(0), work));
    ASSIGN_OR_RETURN(const std::string to, PyText(call.given.value(1), work));
    int64_t count = -1;
    if (!call.given.value(2).is(PyValue::Kind::kNone)) {
      ASSIGN_OR_RETURN(count, call.given.Integer(2, -1, work));
    }
    ASSIGN_OR_RETURN(std::string replaced, PyReplaced(text, from, to, count, work));
    return work.Text(std::move(replaced));
  }
  if (name == "center") {
    ASSIGN_OR_RETURN(const int64_t width, call.given.Integer(0, 80, work));
    const PyValue whole = PyTextValue(text);
    RETURN_IF_ERROR(work.Spend(static_cast<size_t>(std::max<int64_t>(width, 0))));
    return work.Text(
        PyCentered(text, static_cast<int64_t>(whole.rep<PyTextRep>().length), width, " "));
  }
  if (name == "wordcount") {
    if (!PyIsAscii(text)) return work.Refused("wordcount of letters beyond ASCII");
    int64_t words = 0;
    bool within = false;
    for (const char c : text) {
      const bool word = absl::ascii_isalnum(c) || c == '_';
      words += word && !within;
      within = word;
    }
    return PyValue::Int(words);
  }
  ASSIGN_OR_RETURN(std::string cased, PyCased(name, std::move(text), true, work));
  return work.Text(std::move(cased));
}

PyResult FilterItems(const FilterCall& call) {
  if (call.of.undefined()) return call.work.Generator({});
  if (!call.of.is(PyValue::Kind::kDict)) return call.work.Wrong("items of " + PyTypeName(call.of));
  PyItemList items;
  for (const auto& [key, value] : PyDictOf(call.of).items()) {
    ASSIGN_OR_RETURN(items.emplace_back(), call.work.List({key, value}, PyValue::Kind::kTuple));
  }
  return call.work.Generator(std::move(items));
}

PyResult FilterLength(const FilterCall& call) {
  ASSIGN_OR_RETURN(const int64_t length, PyLength(call.of, call.work));
  return PyValue::Int(length);
}

PyResult FilterList(const FilterCall& call) {
  ASSIGN_OR_RETURN(PyItemList items, PyItems(call.of, call.work));
  return call.work.List(std::move(items));
}

PyResult AbsoluteOf(const FilterCall& call) {
  if (!call.of.number()) return call.work.Wrong("abs of " + PyTypeName(call.of));
  if (!call.of.integral()) return PyValue::Float(std::abs(call.of.real()));
  if (call.of.integer() == INT64_MIN) return call.work.Wrong("a number is too large");
  return PyValue::Int(std::abs(call.of.integer()));
}

PyResult AttributeFilter(const FilterCall& call) {
  ASSIGN_OR_RETURN(const std::string name, call.given.Text(0, "", call.work));
  if (call.of.is(PyValue::Kind::kNamespace) || PyHasMethod(call.of, name)) {
    return PyAttribute(call.of, name, call.work);
  }
  if (call.of.undefined()) return PyAttribute(call.of, name, call.work);
  return PyValue();  // of a dictionary its keys are no attributes
}

struct FilterEntry {
  const char* parameters;
  PyResult (*apply)(const FilterCall& call);
};

const std::map<std::string, FilterEntry>& Filters() {
  static const auto* const filters = [] {
    auto* all = new std::map<std::string, FilterEntry>{
        {"abs", {"", AbsoluteOf}},
        {"attr", {"name!", AttributeFilter}},
        {"batch", {"linecount! fill_with", Batched}},
        {"default", {"default_value boolean", DefaultOf}},
        {"dictsort", {"case_sensitive by reverse", DictSorted}},
        {"first", {"", FirstOf}},
        {"float", {"default", ToReal}},
        {"indent", {"width first blank", Indented}},
        {"int", {"default base", ToWhole}},
        {"items", {"", FilterItems}},
        {"join", {"d attribute", FilterJoined}},
        {"last", {"", LastOf}},
        {"length", {"", FilterLength}},
        {"list", {"", FilterList}},
        {"max", {"case_sensitive attribute", Extreme}},
        {"min", {"case_sensitive attribute", Extreme}},
        {"reverse", {"", ReversedOf}},
        {"round", {"precision method", FilterRounded}},
        {"sort", {"reverse case_sensitive attribute", FilterSorted}},
        {"sum", {"attribute start", Summed}},
        {"tojson", {"ensure_ascii indent separators sort_keys", FilterToJson}},
        {"unique", {"case_sensitive attribute", Unique}},
        {"trim", {"chars", TextFilter}},
        {"replace", {"old! new! count", TextFilter}},
        {"center", {"width", TextFilter}},
    };
    for (const char* plain : {"string", "safe", "escape", "e", "forceescape", "wordcount", "upper",
                              "lower", "title", "capitalize"}) {
      (*all)[plain] = {"", TextFilter};
    }
    (*all)["d"] = all->at("default");
    (*all)["count"] = all->at("length");
    return all;
  }();
  return *filters;
}

// map, select, reject, selectattr and rejectattr: each item through a filter or a test. Jinja makes
// nothing of any false value, as none.
PyResult Mapped(const PyValue& of, const PyArguments& arguments, JinjaWork& work) {
  if (!PyTrue(of)) return work.Generator({});
  ASSIGN_OR_RETURN(const PyItemList items, PyItems(of, work));
  PyItemList out;
  if (arguments.values.empty()) {
    ASSIGN_OR_RETURN(const PyParameters given,
                     PyParameters::Bind("map", "attribute! default", arguments, work));
    for (const PyValue& item : items) {
      ASSIGN_OR_RETURN(out.emplace_back(), AttributeAt(item, given.value(0), work, given.value(1)));
    }
    return work.Generator(std::move(out));
  }
  if (!arguments.values[0].is(PyValue::Kind::kString))
    return work.Wrong("map takes the name of a filter");
  for (const PyValue& item : items) {
    ASSIGN_OR_RETURN(out.emplace_back(),
                     JinjaFilter(PyTextOf(arguments.values[0]), item, RestOf(arguments, 1), work));
  }
  return work.Generator(std::move(out));
}

PyResult Selected(const std::string& name, const PyValue& of, const PyArguments& arguments,
                  JinjaWork& work) {
  if (!PyTrue(of)) return work.Generator({});
  const bool by_attribute = absl::EndsWith(name, "attr");
  const bool keeps = absl::StartsWith(name, "select");
  if (by_attribute && arguments.values.empty()) return work.Wrong(name + " needs an attribute");
  const size_t test = by_attribute ? 1 : 0;
  const bool tests = arguments.values.size() > test;
  if (tests && !arguments.values[test].is(PyValue::Kind::kString)) {
    return work.Wrong(name + " takes the name of a test");
  }
  ASSIGN_OR_RETURN(const PyItemList items, PyItems(of, work));
  const PyArguments rest = RestOf(arguments, test + 1);
  PyItemList out;
  for (const PyValue& item : items) {
    PyValue value = item;
    if (by_attribute) {
      ASSIGN_OR_RETURN(value, AttributeAt(item, arguments.values[0], work));
    }
    bool holds = PyTrue(value);
    if (tests) {
      ASSIGN_OR_RETURN(holds, JinjaTest(PyTextOf(arguments.values[test]), value, rest, work));
    }
    if (holds == keeps) out.push_back(item);
  }
  return work.Generator(std::move(out));
}

// Tests of two values.
std::string SignOfTest(const std::string& name) {
  static const auto& signs = *new std::map<std::string, std::string>{
      {"eq", "=="}, {"equalto", "=="},    {"ne", "!="}, {"lt", "<"}, {"lessthan", "<"},
      {"gt", ">"},  {"greaterthan", ">"}, {"le", "<="}, {"ge", ">="}};
  const auto found = signs.find(name);
  return found == signs.end() ? "" : found->second;
}

}  // namespace

absl::StatusOr<PyValue> JinjaFilter(const std::string& name, const PyValue& of,
                                    const PyArguments& arguments, JinjaWork& work) {
  if (name == "map") return Mapped(of, arguments, work);
  if (name == "select" || name == "reject" || name == "selectattr" || name == "rejectattr") {
    return Selected(name, of, arguments, work);
  }
  if (name == "format") {
    if (!arguments.named.empty()) return work.Refused("the filter format with names");
    ASSIGN_OR_RETURN(const std::string text, PyText(of, work));
    ASSIGN_OR_RETURN(const PyValue values, work.List(arguments.values, PyValue::Kind::kTuple));
    return PyPercent(text, values, work);
  }
  const auto found = Filters().find(name);
  if (found == Filters().end()) return work.Refused("the filter " + name);
  ASSIGN_OR_RETURN(const PyParameters given,
                   PyParameters::Bind(name, found->second.parameters, arguments, work));
  return found->second.apply({name, of, given, work});
}

absl::StatusOr<bool> JinjaTest(const std::string& name, const PyValue& of,
                               const PyArguments& arguments, JinjaWork& work) {
  const PyValue other = arguments.values.empty() ? PyValue() : arguments.values[0];
  if (name == "defined") return !of.undefined();
  if (name == "undefined") return of.undefined();
  if (name == "none") return of.is(PyValue::Kind::kNone);
  if (name == "string") return of.is(PyValue::Kind::kString);
  if (name == "mapping") return of.is(PyValue::Kind::kDict);
  if (name == "sequence" || name == "iterable") {
    if (of.undefined() || of.is(PyValue::Kind::kString) || of.is(PyValue::Kind::kList) ||
        of.is(PyValue::Kind::kTuple) || of.is(PyValue::Kind::kDict)) {
      return true;
    }
    if (of.is(PyValue::Kind::kView) && name == "sequence")
      return work.Refused("\"sequence\" of a view");
    return name == "iterable" && (of.is(PyValue::Kind::kView) || of.is(PyValue::Kind::kGenerator) ||
                                  of.is(PyValue::Kind::kLoop));
  }
  if (name == "number") return of.number();
  if (name == "integer") return of.is(PyValue::Kind::kInt);
  if (name == "float") return of.is(PyValue::Kind::kFloat);
  if (name == "boolean") return of.is(PyValue::Kind::kBool);
  if (name == "true" || name == "false") {
    return of.is(PyValue::Kind::kBool) && (of.integer() != 0) == (name == "true");
  }
  if (name == "callable") return of.is(PyValue::Kind::kMethod) || of.is(PyValue::Kind::kFunction);
  if (name == "sameas") return of.SameAs(other);
  if (name == "escaped") return of.is(PyValue::Kind::kString) && of.rep<PyTextRep>().markup;
  if (name == "lower" || name == "upper") {
    ASSIGN_OR_RETURN(const std::string text, PyText(of, work));
    if (!PyIsAscii(text)) return work.Refused(name + " of letters beyond ASCII");
    const bool upper = name == "upper";
    return std::any_of(text.begin(), text.end(), [](char c) { return absl::ascii_isalpha(c); }) &&
           std::none_of(text.begin(), text.end(), [&](char c) {
             return upper ? absl::ascii_islower(c) : absl::ascii_isupper(c);
           });
  }
  if (const std::string sign = SignOfTest(name); !sign.empty()) {
    if (arguments.values.empty()) return work.Wrong("the test " + name + " needs another value");
    if (sign[0] == '<' || sign[0] == '>') return PyCompare(sign, of, other, work);
    ASSIGN_OR_RETURN(const bool equal, PyEqual(of, other, work));
    return equal == (sign == "==");
  }
  if (name == "in") return PyContains(other, of, work);
  if (name == "even" || name == "odd" || name == "divisibleby") {
    if (!of.number()) return work.Wrong(name + " of " + PyTypeName(of));
    const PyValue by = name == "divisibleby" ? other : PyValue::Int(2);
    ASSIGN_OR_RETURN(const PyValue rest, PyArithmetic("%", of, by, work));
    return PyTrue(rest) == (name == "odd");
  }
  return work.Refused(absl::StrCat("the test ", name));
}

}  // namespace spillway
