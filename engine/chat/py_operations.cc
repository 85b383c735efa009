#include "engine/chat/py_operations.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/utf8.h"
#include "engine/chat/py_methods.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr size_t kElementBytes = 64;              // about what an element takes
constexpr int64_t kFarBeyond = int64_t{1} << 40;  // beyond every slice

std::string EscapedMarkup(const PyValue& value) {
  const PyTextRep& text = value.rep<PyTextRep>();
  return text.markup ? text.text : PyEscaped(text.text);
}

absl::StatusOr<PyValue> WholeArithmetic(const std::string& sign, int64_t a, int64_t b,
                                        JinjaWork& work) {
  int64_t result = 0;
  bool overflow = false;
  if (sign == "+") {
    overflow = __builtin_add_overflow(a, b, &result);
  } else if (sign == "-") {
    overflow = __builtin_sub_overflow(a, b, &result);
  } else if (sign == "*") {
    overflow = __builtin_mul_overflow(a, b, &result);
  } else if (sign == "**") {
    result = 1;
    // 0, 1 and -1 stay small however often they are multiplied.
    if (a >= -1 && a <= 1) b = b % 2 == 0 && b > 0 ? 2 : std::min<int64_t>(b, 1);
    for (; b > 0 && !overflow; --b) overflow = __builtin_mul_overflow(result, a, &result);
  } else {
    overflow = a == INT64_MIN && b == -1;
    if (!overflow) {
      const bool down = a % b != 0 && (a % b < 0) != (b < 0);  // Python rounds down
      result = sign == "//" ? a / b - down : a % b + (down ? b : 0);
    }
  }
  if (overflow) return work.Wrong("a number is too large");
  return PyValue::Int(result);
}

PyValue RealArithmetic(const std::string& sign, double a, double b) {
  if (sign == "+") return PyValue::Float(a + b);
  if (sign == "-") return PyValue::Float(a - b);
  if (sign == "*") return PyValue::Float(a * b);
  if (sign == "/") return PyValue::Float(a / b);
  if (sign == "**") return PyValue::Float(std::pow(a, b));
  double rest = std::fmod(a, b);
  if (rest != 0 && (b < 0) != (rest < 0)) rest += b;
  if (sign == "%") return PyValue::Float(rest == 0 ? std::copysign(0.0, b) : rest);
  const double quotient = (a - rest) / b;
  double whole = std::floor(quotient);
  if (quotient - whole > 0.5) whole += 1;
  return PyValue::Float(whole);
}

// A text or a list several times over.
absl::StatusOr<PyValue> Repeated(const PyValue& all, int64_t times, JinjaWork& work) {
  const auto count = static_cast<size_t>(std::max<int64_t>(times, 0));
  const size_t each =
      all.is(PyValue::Kind::kString) ? PyTextOf(all).size() : PyListOf(all).size() * kElementBytes;
  if (each > 0 && count > JinjaWork::kMostTextBytes / each) {
    return absl::InvalidArgumentError(
        absl::StrCat(work.Wrong("").message(), "the template repeats ", PyTypeName(all), " ", times,
                     " times, which is more than ", JinjaWork::kMostTextBytes, " bytes"));
  }
  RETURN_IF_ERROR(work.Spend(each * count));
  if (all.is(PyValue::Kind::kString)) {
    std::string text;
    text.reserve(each * count);
    for (size_t i = 0; i < count && each > 0; ++i) text += PyTextOf(all);
    return work.Text(std::move(text));
  }
  std::vector<PyValue> items;
  for (size_t i = 0; i < count && each > 0; ++i) {
    items.insert(items.end(), PyListOf(all).begin(), PyListOf(all).end());
  }
  return work.List(std::move(items), all.kind());
}

// The number that an index means, if it lies within.
std::optional<size_t> IndexedPlace(const PyValue& key, size_t length) {
  if (!key.integral()) return std::nullopt;
  const auto most = static_cast<int64_t>(length);
  const int64_t index = key.integer() + (key.integer() < 0 ? most : 0);
  if (index < 0 || index >= most) return std::nullopt;
  return static_cast<size_t>(index);
}

absl::Status NothingInUndefined(const PyValue& of, absl::string_view name, JinjaWork& work) {
  const std::string what = of.has_rep() ? absl::StrCat("\"", PyTextOf(of), "\"") : "what";
  return work.Wrong(absl::StrCat(what, " is undefined, and has no ", name));
}

}  // namespace

absl::StatusOr<PyValue> PyArithmetic(const std::string& sign, const PyValue& left,
                                     const PyValue& right, JinjaWork& work) {
  if (sign == "+" && left.is(PyValue::Kind::kString) && right.is(PyValue::Kind::kString)) {
    const bool markup = left.rep<PyTextRep>().markup || right.rep<PyTextRep>().markup;
    RETURN_IF_ERROR(work.Spend(PyTextOf(left).size() + PyTextOf(right).size()));
    return work.Text(
        markup ? EscapedMarkup(left) + EscapedMarkup(right) : PyTextOf(left) + PyTextOf(right),
        markup);
  }
  if (sign == "+" && left.kind() == right.kind() &&
      (left.is(PyValue::Kind::kList) || left.is(PyValue::Kind::kTuple))) {
    RETURN_IF_ERROR(work.Spend(kElementBytes * (PyListOf(left).size() + PyListOf(right).size())));
    std::vector<PyValue> items = PyListOf(left);
    items.insert(items.end(), PyListOf(right).begin(), PyListOf(right).end());
    return work.List(std::move(items), left.kind());
  }
  const auto repeats = [](const PyValue& value) {
    return value.is(PyValue::Kind::kString) || value.is(PyValue::Kind::kList) ||
           value.is(PyValue::Kind::kTuple);
  };
  if (sign == "*" && repeats(left) && right.integral()) {
    return Repeated(left, right.integer(), work);
  }
  if (sign == "*" && repeats(right) && left.integral()) {
    return Repeated(right, left.integer(), work);
  }
  if (sign == "%" && left.is(PyValue::Kind::kString)) return PyPercent(PyTextOf(left), right, work);
  if (!left.number() || !right.number()) {
    return work.Wrong(absl::StrCat(PyTypeName(left), " ", sign, " ", PyTypeName(right)));
  }
  const bool divides = sign == "/" || sign == "//" || sign == "%";
  const bool inverts = sign == "**" && right.real() < 0;
  if ((divides && right.real() == 0) || (inverts && left.real() == 0)) {
    return work.Wrong("a division by zero");
  }
  if (left.integral() && right.integral() && sign != "/" && !inverts) {
    return WholeArithmetic(sign, left.integer(), right.integer(), work);
  }
  if (sign == "**" && left.real() < 0 && std::floor(right.real()) != right.real()) {
    return work.Refused("a complex number");
  }
  const PyValue result = RealArithmetic(sign, left.real(), right.real());
  if (sign == "**" && std::isinf(result.real()) && std::isfinite(left.real())) {
    return work.Wrong("a number is too large");
  }
  return result;
}

absl::StatusOr<PyValue> PyItem(const PyValue& of, const PyValue& key, JinjaWork& work) {
  if (of.undefined()) {
    ASSIGN_OR_RETURN(const std::string name, PyJson(key, {}, work));
    return NothingInUndefined(of, name, work);
  }
  RETURN_IF_ERROR(work.Spend(1));
  if (of.is(PyValue::Kind::kDict) && PyHashable(key)) {
    if (const PyValue* found = PyDictOf(of).Find(key)) return *found;
  } else if (of.is(PyValue::Kind::kList) || of.is(PyValue::Kind::kTuple)) {
    if (const auto place = IndexedPlace(key, PyListOf(of).size())) return PyListOf(of)[*place];
  } else if (of.is(PyValue::Kind::kString)) {
    const PyTextRep& text = of.rep<PyTextRep>();
    if (const auto place = IndexedPlace(key, text.length)) {
      RETURN_IF_ERROR(work.Spend(text.ascii() ? 1 : text.text.size()));
      const size_t begin = PyByteOf(text, *place);
      size_t end = begin;
      TakeCodePoint(text.text, &end);
      return work.Text(text.text.substr(begin, end - begin));
    }
  }
  if (!key.is(PyValue::Kind::kString)) return PyValue();
  if (of.is(PyValue::Kind::kNamespace)) {
    const PyValue* found = of.rep<PyNamespaceRep>().Find(PyTextOf(key));
    return found == nullptr ? PyValue() : *found;
  }
  return PyHasMethod(of, PyTextOf(key)) ? PyMethodOf(of, PyTextOf(key), work) : PyValue();
}

absl::StatusOr<PyValue> PyAttribute(const PyValue& of, const std::string& name, JinjaWork& work) {
  if (of.undefined()) return NothingInUndefined(of, absl::StrCat("\"", name, "\""), work);
  RETURN_IF_ERROR(work.Spend(1));
  if (PyHasMethod(of, name)) return PyMethodOf(of, name, work);
  if (of.is(PyValue::Kind::kDict)) {
    const PyValue* found = PyDictOf(of).Find(absl::string_view(name));
    if (found != nullptr) return *found;
  } else if (of.is(PyValue::Kind::kNamespace)) {
    const PyValue* found = of.rep<PyNamespaceRep>().Find(name);
    if (found != nullptr) return *found;
  }
  if (absl::StartsWith(name, "__")) return work.Refused("the attribute " + name);
  return PyValue();
}

absl::StatusOr<PyValue> PySlice(const PyValue& of, const PyValue (&bounds)[3], JinjaWork& work) {
  if (!of.is(PyValue::Kind::kList) && !of.is(PyValue::Kind::kTuple) &&
      !of.is(PyValue::Kind::kString)) {
    return of.is(PyValue::Kind::kView) ? work.Refused("a slice of " + PyTypeName(of))
                                       : work.Wrong(PyTypeName(of) + " can't be sliced");
  }
  std::optional<int64_t> given[3];
  for (size_t i = 0; i < 3; ++i) {
    if (bounds[i].is(PyValue::Kind::kNone)) continue;
    if (!bounds[i].integral()) return work.Wrong("a slice by " + PyTypeName(bounds[i]));
    given[i] = std::clamp(bounds[i].integer(), -kFarBeyond, kFarBeyond);
  }
  ASSIGN_OR_RETURN(const int64_t length, PyLength(of, work));
  const int64_t step = given[2].value_or(1);
  if (step == 0) return work.Wrong("a slice of step 0");
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? length : length - 1;
  const auto place = [&](const std::optional<int64_t>& bound, int64_t otherwise) {
    return !bound ? otherwise : std::clamp(*bound < 0 ? *bound + length : *bound, low, high);
  };
  const int64_t begin = place(given[0], step > 0 ? low : high);
  const int64_t stop = place(given[1], step > 0 ? high : low);
  if (!of.is(PyValue::Kind::kString)) {
    std::vector<PyValue> items;
    RETURN_IF_ERROR(work.Spend(static_cast<size_t>(std::abs(stop - begin))));
    for (int64_t i = begin; step > 0 ? i < stop : i > stop; i += step) {
      items.push_back(PyListOf(of)[static_cast<size_t>(i)]);
    }
    return work.List(std::move(items), of.kind());
  }
  const PyTextRep& text = of.rep<PyTextRep>();
  RETURN_IF_ERROR(work.Spend(text.text.size()));
  if (step == 1) {
    if (begin >= stop) return work.Text("");
    const size_t first = PyByteOf(text, static_cast<size_t>(begin));
    return work.Text(text.text.substr(first, PyByteOf(text, static_cast<size_t>(stop)) - first));
  }
  std::vector<size_t> begins;
  for (size_t at = 0; at < text.text.size(); TakeCodePoint(text.text, &at)) begins.push_back(at);
  begins.push_back(text.text.size());
  std::string out;
  for (int64_t i = begin; step > 0 ? i < stop : i > stop; i += step) {
    const auto at = static_cast<size_t>(i);
    out.append(text.text, begins[at], begins[at + 1] - begins[at]);
  }
  return work.Text(std::move(out));
}

}  // namespace spillway
