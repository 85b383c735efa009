#include "engine/chat/py_value.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/stop_signal.h"
#include "engine/base/utf8.h"
#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using PyPairs = std::vector<std::pair<PyValue, PyValue>>;

constexpr size_t kValueBytes = 64;      // about what an element takes
constexpr size_t kLookBytes = 1 << 20;  // work between two looks at the signal
constexpr size_t kIndexedFrom = 8;      // keys of a dictionary that are compared one by one

// Equal keys, and no others, have equal ones.
std::string DictKeyOf(const PyValue& key) {
  switch (key.kind()) {
    case PyValue::Kind::kString:
      return "s" + PyTextOf(key);
    case PyValue::Kind::kBool:
    case PyValue::Kind::kInt:
      return absl::StrCat("n", key.integer());
    case PyValue::Kind::kFloat: {
      const double real = key.real();
      const bool whole = std::abs(real) < 9e15 && std::floor(real) == real;
      return whole ? absl::StrCat("n", static_cast<int64_t>(real)) : "f" + PyFloatText(real);
    }
    case PyValue::Kind::kTuple: {
      std::string text = "(";
      for (const PyValue& item : PyListOf(key)) {
        const std::string inner = DictKeyOf(item);
        absl::StrAppend(&text, inner.size(), ":", inner);
      }
      return text;
    }
    default:
      return "N";
  }
}

bool IsPrintable(uint32_t point) {
  if (point == ' ') return true;
  switch (u_charType(static_cast<UChar32>(point))) {
    case U_CONTROL_CHAR:
    case U_FORMAT_CHAR:
    case U_SURROGATE:
    case U_PRIVATE_USE_CHAR:
    case U_UNASSIGNED:
    case U_LINE_SEPARATOR:
    case U_PARAGRAPH_SEPARATOR:
    case U_SPACE_SEPARATOR:
      return false;
    default:
      return true;
  }
}

// repr() of a string.
std::string QuotedText(const std::string& text) {
  const bool doubled = absl::StrContains(text, '\'') && !absl::StrContains(text, '"');
  const char quote = doubled ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const uint32_t point = TakeCodePoint(text, &at);
    if (point == static_cast<uint32_t>(quote) || point == '\\') {
      absl::StrAppend(&out, "\\", std::string(1, static_cast<char>(point)));
    } else if (point == '\n' || point == '\r' || point == '\t') {
      out += point == '\n' ? "\\n" : point == '\r' ? "\\r" : "\\t";
    } else if (IsPrintable(point)) {
      out.append(text, begin, at - begin);
    } else if (point < 0x100) {
      absl::StrAppendFormat(&out, "\\x%02x", point);
    } else if (point < 0x10000) {
      absl::StrAppendFormat(&out, "\\u%04x", point);
    } else {
      absl::StrAppendFormat(&out, "\\U%08x", point);
    }
  }
  return out + quote;
}

void AppendJsonText(absl::string_view text, bool ascii, std::string* out) {
  *out += '"';
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const uint32_t point = TakeCodePoint(text, &at);
    constexpr absl::string_view kLetters = "\"\\\n\r\t\b\f", kWritten = "\"\\nrtbf";
    const size_t letter =
        point < 0x80 ? kLetters.find(static_cast<char>(point)) : absl::string_view::npos;
    if (letter != absl::string_view::npos) {
      *out += '\\';
      *out += kWritten[letter];
    } else if (point < 0x20 || (ascii && point >= 0x7f && point < 0x10000)) {
      absl::StrAppendFormat(out, "\\u%04x", point);
    } else if (ascii && point >= 0x10000) {
      absl::StrAppendFormat(out, "\\u%04x\\u%04x", 0xd800 + ((point - 0x10000) >> 10),
                            0xdc00 + ((point - 0x10000) & 0x3ff));
    } else {
      out->append(text.data() + begin, at - begin);
    }
  }
  *out += '"';
}

// str() of what stands in a list: a string is quoted.
absl::Status AppendRepr(const PyValue& value, JinjaWork& work, std::string* out) {
  switch (value.kind()) {
    case PyValue::Kind::kString:
      RETURN_IF_ERROR(work.Spend(PyTextOf(value).size()));
      if (value.rep<PyTextRep>().markup) return work.Refused("writing a list with safe strings");
      *out += QuotedText(PyTextOf(value));
      return absl::OkStatus();
    case PyValue::Kind::kUndefined:
      *out += "Undefined";
      return absl::OkStatus();
    case PyValue::Kind::kList:
    case PyValue::Kind::kTuple: {
      const std::vector<PyValue>& items = PyListOf(value);
      const bool list = value.is(PyValue::Kind::kList);
      *out += list ? '[' : '(';
      for (size_t i = 0; i < items.size(); ++i) {
        RETURN_IF_ERROR(work.Spend(2));
        if (i > 0) *out += ", ";
        RETURN_IF_ERROR(AppendRepr(items[i], work, out));
      }
      *out += list ? "]" : items.size() == 1 ? ",)" : ")";
      return absl::OkStatus();
    }
    case PyValue::Kind::kDict: {
      *out += '{';
      bool first = true;
      for (const auto& [key, item] : PyDictOf(value).items()) {
        RETURN_IF_ERROR(work.Spend(4));
        if (!std::exchange(first, false)) *out += ", ";
        RETURN_IF_ERROR(AppendRepr(key, work, out));
        *out += ": ";
        RETURN_IF_ERROR(AppendRepr(item, work, out));
      }
      *out += '}';
      return absl::OkStatus();
    }
    case PyValue::Kind::kNone:
      *out += "None";
      return absl::OkStatus();
    case PyValue::Kind::kBool:
      *out += value.integer() != 0 ? "True" : "False";
      return absl::OkStatus();
    case PyValue::Kind::kInt:
      absl::StrAppend(out, value.integer());
      return absl::OkStatus();
    case PyValue::Kind::kFloat:
      *out += PyFloatText(value.real());
      return absl::OkStatus();
    default:
      return work.Refused("writing " + PyTypeName(value));
  }
}

class JsonWriter {
 public:
  JsonWriter(const PyJsonOptions& options, JinjaWork& work) : options_(options), work_(work) {}

  absl::Status Write(const PyValue& value, int level) {
    RETURN_IF_ERROR(work_.Spend(4));
    switch (value.kind()) {
      case PyValue::Kind::kString:
        RETURN_IF_ERROR(work_.Spend(PyTextOf(value).size()));
        AppendJsonText(PyTextOf(value), options_.ascii, &out);
        return absl::OkStatus();
      case PyValue::Kind::kNone:
        out += "null";
        return absl::OkStatus();
      case PyValue::Kind::kBool:
        out += value.integer() != 0 ? "true" : "false";
        return absl::OkStatus();
      case PyValue::Kind::kInt:
      case PyValue::Kind::kFloat:
        out += Number(value);
        return absl::OkStatus();
      case PyValue::Kind::kList:
      case PyValue::Kind::kTuple: {
        const std::vector<PyValue>& items = PyListOf(value);
        return Structure("[]", items.size(), level,
                         [&](size_t i) { return Write(items[i], level + 1); });
      }
      case PyValue::Kind::kDict:
        return Object(value, level);
      default:
        return work_.Wrong("tojson of what is or holds " + PyTypeName(value));
    }
  }

  std::string out;

 private:
  static std::string Number(const PyValue& value) {
    if (value.is(PyValue::Kind::kInt)) return absl::StrCat(value.integer());
    const double real = value.real();
    if (std::isnan(real)) return "NaN";
    if (std::isinf(real)) return real < 0 ? "-Infinity" : "Infinity";
    return PyFloatText(real);
  }

  absl::Status Object(const PyValue& value, int level) {
    std::vector<const std::pair<PyValue, PyValue>*> items;
    for (const auto& item : PyDictOf(value).items()) {
      if (options_.sorted && !item.first.is(PyValue::Kind::kString)) {
        return work_.Refused("tojson with sort_keys and keys that are no strings");
      }
      items.push_back(&item);
    }
    if (options_.sorted) {
      std::sort(items.begin(), items.end(),
                [](auto* one, auto* two) { return PyTextOf(one->first) < PyTextOf(two->first); });
    }
    return Structure("{}", items.size(), level, [&](size_t i) -> absl::Status {
      const PyValue& key = items[i]->first;
      if (key.is(PyValue::Kind::kTuple)) return work_.Wrong("tojson with a tuple as a key");
      if (key.is(PyValue::Kind::kString)) {
        RETURN_IF_ERROR(work_.Spend(PyTextOf(key).size()));
        AppendJsonText(PyTextOf(key), options_.ascii, &out);
      } else {
        absl::StrAppend(&out, "\"",
                        key.is(PyValue::Kind::kNone)   ? "null"
                        : key.is(PyValue::Kind::kBool) ? (key.integer() != 0 ? "true" : "false")
                                                       : Number(key),
                        "\"");
      }
      out += options_.key_separator;
      return Write(items[i]->second, level + 1);
    });
  }

  template <typename WriteItem>
  absl::Status Structure(absl::string_view brackets, size_t count, int level, WriteItem write) {
    out += brackets[0];
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) out += options_.item_separator;
      RETURN_IF_ERROR(Line(level + 1));
      RETURN_IF_ERROR(write(i));
    }
    if (count > 0) RETURN_IF_ERROR(Line(level));
    out += brackets[1];
    return absl::OkStatus();
  }

  absl::Status Line(int level) {
    if (!options_.indented) return absl::OkStatus();
    RETURN_IF_ERROR(work_.Spend(1 + static_cast<size_t>(level) * options_.indent.size()));
    out += '\n';
    for (; level > 0; --level) out += options_.indent;
    return absl::OkStatus();
  }

  const PyJsonOptions& options_;
  JinjaWork& work_;
};

// -1, 0 or 1, 2 where neither is smaller (NaN).
absl::StatusOr<int> OrderOf(absl::string_view sign, const PyValue& left, const PyValue& right,
                            JinjaWork& work) {
  if (left.number() && right.number()) {
    if (left.integral() && right.integral()) {
      return (left.integer() > right.integer()) - (left.integer() < right.integer());
    }
    const double a = left.real(), b = right.real();
    return std::isnan(a) || std::isnan(b) ? 2 : (a > b) - (a < b);
  }
  if (left.is(PyValue::Kind::kString) && right.is(PyValue::Kind::kString)) {
    RETURN_IF_ERROR(work.Spend(std::min(PyTextOf(left).size(), PyTextOf(right).size())));
    const int order = PyTextOf(left).compare(PyTextOf(right));
    return (order > 0) - (order < 0);
  }
  if (left.kind() == right.kind() &&
      (left.is(PyValue::Kind::kList) || left.is(PyValue::Kind::kTuple))) {
    const std::vector<PyValue>&a = PyListOf(left), &b = PyListOf(right);
    for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
      ASSIGN_OR_RETURN(const bool equal, PyEqual(a[i], b[i], work));
      if (!equal) return OrderOf(sign, a[i], b[i], work);
    }
    return (a.size() > b.size()) - (a.size() < b.size());
  }
  return work.Wrong(absl::StrCat(PyTypeName(left), " ", sign, " ", PyTypeName(right)));
}

}  // namespace

// ------------------------------------------------------------------------- the values

PyValue PyValue::Bool(bool value) {
  PyValue out(PyValue::Kind::kBool);
  out.integer_ = value;
  return out;
}

PyValue PyValue::Int(int64_t value) {
  PyValue out(PyValue::Kind::kInt);
  out.integer_ = value;
  return out;
}

PyValue PyValue::Float(double value) {
  PyValue out(PyValue::Kind::kFloat);
  out.real_ = value;
  return out;
}

double PyValue::real() const {
  return kind_ == PyValue::Kind::kFloat ? real_ : static_cast<double>(integer_);
}

int PyValue::depth() const {
  // A namespace belongs to nobody that holds it.
  return rep_ == nullptr || kind_ == PyValue::Kind::kNamespace ? 0 : rep_->depth;
}

bool PyValue::SameAs(const PyValue& other) const {
  if (kind_ != other.kind_) return false;
  if (kind_ == PyValue::Kind::kUndefined) return true;
  if (rep_ != nullptr || other.rep_ != nullptr) return rep_ == other.rep_;
  return kind_ == PyValue::Kind::kFloat ? real_ == other.real_ : integer_ == other.integer_;
}

const PyValue* PyDictRep::Find(absl::string_view key) const {
  if (items_.size() > kIndexedFrom) {
    const auto found = places_.find(absl::StrCat("s", key));
    return found == places_.end() ? nullptr : &items_[found->second].second;
  }
  for (const auto& [name, value] : items_) {
    if (name.is(PyValue::Kind::kString) && PyTextOf(name) == key) return &value;
  }
  return nullptr;
}

const PyValue* PyDictRep::Find(const PyValue& key) const {
  if (key.is(PyValue::Kind::kString)) return Find(absl::string_view(PyTextOf(key)));
  const std::string wanted = DictKeyOf(key);
  if (items_.size() > kIndexedFrom) {
    const auto found = places_.find(wanted);
    return found == places_.end() ? nullptr : &items_[found->second].second;
  }
  for (const auto& [name, value] : items_) {
    if (!name.is(PyValue::Kind::kString) && DictKeyOf(name) == wanted) return &value;
  }
  return nullptr;
}

void PyDictRep::Set(PyValue key, PyValue value) {
  if (const PyValue* found = Find(key)) {
    for (auto& item : items_) {
      if (&item.second == found) item.second = std::move(value);
    }
    return;
  }
  items_.emplace_back(std::move(key), std::move(value));
  if (items_.size() <= kIndexedFrom) return;
  for (size_t i = places_.size(); i < items_.size(); ++i) places_[DictKeyOf(items_[i].first)] = i;
}

PyValue* PyNamespaceRep::Find(absl::string_view name) {
  for (auto& [known, value] : attributes) {
    if (known == name) return &value;
  }
  return nullptr;
}

// --------------------------------------------------------------------------- the work

absl::Status JinjaWork::Spend(size_t work) {
  if ((unchecked_ += work) > kLookBytes) {
    unchecked_ = 0;
    RETURN_IF_ERROR(StopSignal::Check());
  }
  if (work <= static_cast<size_t>(left_)) {
    left_ -= static_cast<int64_t>(work);
    return absl::OkStatus();
  }
  left_ = 0;
  return absl::InvalidArgumentError(
      absl::StrCat(file_, ":", line, ": the template does not come to an end"));
}

absl::Status JinjaWork::CheckDepth(PyRep* rep, const PyValue& child) const {
  rep->depth = std::max(rep->depth, child.depth() + 1);
  if (rep->depth <= kMostDepth) return absl::OkStatus();
  return Wrong(absl::StrCat("lists in lists, more than ", kMostDepth, " levels"));
}

absl::StatusOr<PyValue> JinjaWork::Text(std::string text, bool markup) {
  RETURN_IF_ERROR(Spend(kValueBytes + text.size()));
  if (text.size() > kMostTextBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        file_, ":", line, ": the template makes a text of more than ", kMostTextBytes, " bytes"));
  }
  return PyTextValue(std::move(text), markup);
}

absl::StatusOr<PyValue> JinjaWork::List(std::vector<PyValue> items, PyValue::Kind kind) {
  RETURN_IF_ERROR(Spend(kValueBytes * (1 + items.size())));
  auto rep = std::make_shared<PyListRep>();
  for (const PyValue& item : items) RETURN_IF_ERROR(CheckDepth(rep.get(), item));
  rep->items = std::move(items);
  return PyValue(kind, std::move(rep));
}

absl::StatusOr<PyValue> JinjaWork::Generator(std::vector<PyValue> items) {
  RETURN_IF_ERROR(Spend(kValueBytes * (1 + items.size())));
  auto rep = std::make_shared<PyGeneratorRep>();
  for (const PyValue& item : items) RETURN_IF_ERROR(CheckDepth(rep.get(), item));
  rep->items = std::move(items);
  return PyValue(PyValue::Kind::kGenerator, std::move(rep));
}

absl::StatusOr<PyValue> JinjaWork::Dict(PyPairs items) {
  RETURN_IF_ERROR(Spend(2 * kValueBytes * (1 + items.size())));
  auto rep = std::make_shared<PyDictRep>();
  for (auto& [key, value] : items) {
    if (!PyHashable(key)) return Wrong(PyTypeName(key) + " as a key");
    RETURN_IF_ERROR(CheckDepth(rep.get(), key));
    RETURN_IF_ERROR(CheckDepth(rep.get(), value));
    rep->Set(std::move(key), std::move(value));
  }
  return PyValue(PyValue::Kind::kDict, std::move(rep));
}

absl::StatusOr<PyValue> JinjaWork::FromJson(const JinjaValue& json) {
  switch (json.type()) {
    case JinjaValue::value_t::null:
      return PyValue::None();
    case JinjaValue::value_t::boolean:
      return PyValue::Bool(json.get<bool>());
    case JinjaValue::value_t::number_unsigned:
      if (json.get<uint64_t>() > INT64_MAX) {
        return Refused(absl::StrCat("the number ", json.get<uint64_t>(), " of the data"));
      }
      return PyValue::Int(json.get<int64_t>());
    case JinjaValue::value_t::number_integer:
      return PyValue::Int(json.get<int64_t>());
    case JinjaValue::value_t::number_float:
      return PyValue::Float(json.get<double>());
    case JinjaValue::value_t::string:
      return Text(json.get<std::string>());
    case JinjaValue::value_t::array: {
      std::vector<PyValue> items;
      for (const JinjaValue& item : json) {
        ASSIGN_OR_RETURN(items.emplace_back(), FromJson(item));
      }
      return List(std::move(items));
    }
    case JinjaValue::value_t::object: {
      PyPairs items;
      for (const auto& item : json.items()) {
        ASSIGN_OR_RETURN(PyValue key, Text(item.key()));
        ASSIGN_OR_RETURN(PyValue value, FromJson(item.value()));
        items.emplace_back(std::move(key), std::move(value));
      }
      return Dict(std::move(items));
    }
    default:
      return PyValue();
  }
}

// -------------------------------------------------------------------------- functions

PyValue PyTextValue(std::string text, bool markup) {
  auto rep = std::make_shared<PyTextRep>();
  rep->length = static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
  rep->text = std::move(text);
  rep->markup = markup;
  return PyValue(PyValue::Kind::kString, std::move(rep));
}

bool PyTrue(const PyValue& value) {
  switch (value.kind()) {
    case PyValue::Kind::kUndefined:
    case PyValue::Kind::kNone:
      return false;
    case PyValue::Kind::kBool:
    case PyValue::Kind::kInt:
      return value.integer() != 0;
    case PyValue::Kind::kFloat:
      return value.real() != 0;
    case PyValue::Kind::kString:
      return !PyTextOf(value).empty();
    case PyValue::Kind::kList:
    case PyValue::Kind::kTuple:
    case PyValue::Kind::kView:
      return !PyListOf(value).empty();
    case PyValue::Kind::kDict:
      return !PyDictOf(value).items().empty();
    default:
      return true;
  }
}

bool PyHashable(const PyValue& value) {
  if (value.is(PyValue::Kind::kTuple)) {
    return std::all_of(PyListOf(value).begin(), PyListOf(value).end(), PyHashable);
  }
  return value.is(PyValue::Kind::kString) || value.number() || value.is(PyValue::Kind::kNone);
}

std::string PyTypeName(const PyValue& value) {
  switch (value.kind()) {
    case PyValue::Kind::kUndefined:
      return "undefined";
    case PyValue::Kind::kNone:
      return "none";
    case PyValue::Kind::kBool:
      return "a boolean";
    case PyValue::Kind::kInt:
    case PyValue::Kind::kFloat:
      return "a number";
    case PyValue::Kind::kString:
      return "a string";
    case PyValue::Kind::kList:
      return "a list";
    case PyValue::Kind::kTuple:
      return "a tuple";
    case PyValue::Kind::kDict:
      return "a dictionary";
    case PyValue::Kind::kView:
      return "a view or range (|list makes it a list)";
    case PyValue::Kind::kGenerator:
      return "a generator (|list makes it a list)";
    case PyValue::Kind::kNamespace:
      return "a namespace";
    case PyValue::Kind::kMethod:
      return absl::StrCat("the method ", value.rep<PyMethodRep>().name);
    case PyValue::Kind::kFunction:
      return absl::StrCat("the function ", value.rep<PyFunctionRep>().name);
    case PyValue::Kind::kLoop:
      return "a loop";
  }
  return "";
}

absl::StatusOr<bool> PyEqual(const PyValue& left, const PyValue& right, JinjaWork& work) {
  RETURN_IF_ERROR(work.Spend(1));
  if (left.number() && right.number()) {
    if (left.integral() && right.integral()) return left.integer() == right.integer();
    return left.real() == right.real();
  }
  if (left.kind() != right.kind()) return false;
  if (left.is(PyValue::Kind::kString)) {
    const std::string &one = PyTextOf(left), &other = PyTextOf(right);
    if (one.size() != other.size()) return false;
    RETURN_IF_ERROR(work.Spend(one.size()));
    return one == other;
  }
  if (left.is(PyValue::Kind::kList) || left.is(PyValue::Kind::kTuple)) {
    const std::vector<PyValue>&one = PyListOf(left), &other = PyListOf(right);
    if (one.size() != other.size()) return false;
    for (size_t i = 0; i < one.size(); ++i) {
      ASSIGN_OR_RETURN(const bool equal, PyEqual(one[i], other[i], work));
      if (!equal) return false;
    }
    return true;
  }
  if (left.is(PyValue::Kind::kDict)) {
    const PyDictRep &one = PyDictOf(left), &other = PyDictOf(right);
    if (one.items().size() != other.items().size()) return false;
    for (const auto& [key, value] : one.items()) {
      RETURN_IF_ERROR(work.Spend(kValueBytes));
      const PyValue* found = other.Find(key);
      if (found == nullptr) return false;
      ASSIGN_OR_RETURN(const bool equal, PyEqual(value, *found, work));
      if (!equal) return false;
    }
    return true;
  }
  if (left.is(PyValue::Kind::kMethod)) {
    const PyMethodRep &one = left.rep<PyMethodRep>(), &other = right.rep<PyMethodRep>();
    return one.name == other.name && one.of.SameAs(other.of);
  }
  return left.SameAs(right);
}

absl::StatusOr<bool> PyCompare(absl::string_view sign, const PyValue& left, const PyValue& right,
                               JinjaWork& work) {
  ASSIGN_OR_RETURN(const int order, OrderOf(sign, left, right, work));
  if (order == 2) return false;
  return sign == "<" ? order < 0 : sign == ">" ? order > 0 : sign == "<=" ? order <= 0 : order >= 0;
}

absl::StatusOr<int64_t> PyLength(const PyValue& value, JinjaWork& work) {
  switch (value.kind()) {
    case PyValue::Kind::kUndefined:
      return 0;
    case PyValue::Kind::kString:
      return static_cast<int64_t>(value.rep<PyTextRep>().length);
    case PyValue::Kind::kList:
    case PyValue::Kind::kTuple:
    case PyValue::Kind::kView:
      return static_cast<int64_t>(PyListOf(value).size());
    case PyValue::Kind::kDict:
      return static_cast<int64_t>(PyDictOf(value).items().size());
    default:
      return work.Wrong(PyTypeName(value) + " has no length");
  }
}

absl::StatusOr<bool> PyContains(const PyValue& all, const PyValue& one, JinjaWork& work) {
  if (all.undefined()) return false;
  if (all.is(PyValue::Kind::kString) && one.is(PyValue::Kind::kString)) {
    RETURN_IF_ERROR(work.Spend(PyTextOf(all).size() + PyTextOf(one).size()));
    return PyFind(PyTextOf(all), PyTextOf(one)) != std::string::npos;
  }
  if (all.is(PyValue::Kind::kDict)) {
    if (!PyHashable(one)) return work.Wrong(PyTypeName(one) + " as a key");
    RETURN_IF_ERROR(work.Spend(kValueBytes));
    return PyDictOf(all).Find(one) != nullptr;
  }
  if (all.is(PyValue::Kind::kGenerator)) {
    PyGeneratorRep& generator = all.rep<PyGeneratorRep>();
    if (generator.lost) return work.Refused("going on with a generator that a loop has left");
    while (generator.next < generator.items.size()) {
      ASSIGN_OR_RETURN(const bool equal, PyEqual(generator.items[generator.next++], one, work));
      if (equal) return true;
    }
    return false;
  }
  if (!all.listed()) return work.Wrong(absl::StrCat(PyTypeName(one), " in ", PyTypeName(all)));
  for (const PyValue& item : PyListOf(all)) {
    ASSIGN_OR_RETURN(const bool equal, PyEqual(item, one, work));
    if (equal) return true;
  }
  return false;
}

absl::StatusOr<std::string> PyText(const PyValue& value, JinjaWork& work) {
  if (value.undefined()) return std::string();
  if (value.is(PyValue::Kind::kString)) {
    RETURN_IF_ERROR(work.Spend(PyTextOf(value).size()));
    return PyTextOf(value);
  }
  std::string text;
  RETURN_IF_ERROR(AppendRepr(value, work, &text));
  return text;
}

absl::StatusOr<std::vector<PyValue>> PyItems(const PyValue& value, JinjaWork& work) {
  std::vector<PyValue> items;
  if (value.undefined()) return items;
  if (value.is(PyValue::Kind::kDict)) {
    RETURN_IF_ERROR(work.Spend(PyDictOf(value).items().size()));
    for (const auto& item : PyDictOf(value).items()) items.push_back(item.first);
    return items;
  }
  if (value.is(PyValue::Kind::kString)) {
    const std::string& text = PyTextOf(value);
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      TakeCodePoint(text, &at);
      ASSIGN_OR_RETURN(items.emplace_back(), work.Text(text.substr(begin, at - begin)));
    }
    return items;
  }
  if (value.is(PyValue::Kind::kGenerator)) {
    PyGeneratorRep& generator = value.rep<PyGeneratorRep>();
    if (generator.lost) return work.Refused("going on with a generator that a loop has left");
    RETURN_IF_ERROR(work.Spend(generator.items.size()));
    items.assign(generator.items.begin() + static_cast<std::ptrdiff_t>(generator.next),
                 generator.items.end());
    generator.next = generator.items.size();
    return items;
  }
  if (!value.listed()) return work.Wrong(PyTypeName(value) + " can't be gone through");
  RETURN_IF_ERROR(work.Spend(PyListOf(value).size()));
  return PyListOf(value);
}

absl::StatusOr<std::string> PyJson(const PyValue& value, const PyJsonOptions& options,
                                   JinjaWork& work) {
  JsonWriter writer(options, work);
  RETURN_IF_ERROR(writer.Write(value, 0));
  return std::move(writer.out);
}

std::string PyFloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto made =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  const std::string text(buffer, made.ptr);  // "-1.25e+03"
  const size_t e = text.find('e');
  const int exponent = std::atoi(text.c_str() + e + 1);
  if (exponent < -4 || exponent >= 16) return text;
  const bool negative = text[0] == '-';
  std::string digits = text.substr(negative, e - negative);
  if (digits.size() > 1) digits.erase(1, 1);
  std::string out = negative ? "-" : "";
  if (exponent < 0) return absl::StrCat(out, "0.", std::string(-exponent - 1, '0'), digits);
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() < whole) digits.append(whole - digits.size(), '0');
  absl::StrAppend(&out, digits.substr(0, whole), ".",
                  digits.size() > whole ? digits.substr(whole) : "0");
  return out;
}

size_t PyFind(absl::string_view text, absl::string_view pattern, size_t from) {
  if (from > text.size()) return std::string::npos;
  if (pattern.empty()) return from;
  const void* const found =
      memmem(text.data() + from, text.size() - from, pattern.data(), pattern.size());
  return found == nullptr ? std::string::npos
                          : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t PyByteOf(const PyTextRep& text, size_t index) {
  SPILLWAY_CHECK(index <= text.length);
  if (text.ascii()) return index;
  size_t at = 0;
  for (; index > 0; --index) TakeCodePoint(text.text, &at);
  return at;
}

}  // namespace spillway
