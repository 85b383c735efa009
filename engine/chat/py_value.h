// Values of a running chat template, with the meaning that Python and Jinja give them: what is
// true, equal, smaller, how it is written, which items it has.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/chat/jinja_lexer.h"
#include "nlohmann/json.hpp"

namespace spillway {

// A conversation as data, with the keys of its objects in their order.
using JinjaValue = nlohmann::ordered_json;

struct PyRep;

// None, booleans, integers and floats are held here, everything else is shared and does not change
// but for namespaces, which belong to the renderer, and what has been taken from a generator.
// Large because what a value is, is written and compared by its kind, for all kinds together.
class PyValue {
 public:
  enum class Kind : uint8_t {
    kUndefined,
    kNone,
    kBool,
    kInt,
    kFloat,
    kString,
    kList,
    kTuple,
    kDict,
    kView,       // of items(), keys(), values() and range(): it has a length and no elements
    kGenerator,  // of map, selectattr, items, reverse, ...: it can be gone through once
    kNamespace,
    kMethod,    // of a value, before it is called
    kFunction,  // a macro, or one that every template has
    kLoop,      // "loop" in a for
  };

  PyValue() = default;  // undefined
  static PyValue None() { return PyValue(Kind::kNone); }
  static PyValue Bool(bool value);
  static PyValue Int(int64_t value);
  static PyValue Float(double value);
  PyValue(Kind kind, std::shared_ptr<PyRep> rep) : kind_(kind), rep_(std::move(rep)) {}

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool undefined() const { return is(Kind::kUndefined); }
  bool integral() const { return is(Kind::kInt) || is(Kind::kBool); }  // a boolean is a number
  bool number() const { return integral() || is(Kind::kFloat); }
  // What PyListOf reads: lists, tuples and views.
  bool listed() const { return is(Kind::kList) || is(Kind::kTuple) || is(Kind::kView); }

  // REQUIRES: integral(), number().
  int64_t integer() const { return integer_; }
  double real() const;

  template <typename Rep>
  Rep& rep() const {
    return static_cast<Rep&>(*rep_);
  }
  bool has_rep() const { return rep_ != nullptr; }
  int depth() const;
  // The very same object (`is` in Python).
  bool SameAs(const PyValue& other) const;

 private:
  explicit PyValue(Kind kind) : kind_(kind) {}

  Kind kind_ = Kind::kUndefined;
  union {
    int64_t integer_ = 0;
    double real_;
  };
  std::shared_ptr<PyRep> rep_;
};

// What a value shares. `depth` is the number of levels below it: structures are destroyed and gone
// through by recursion, and JinjaWork keeps them shallow.
struct PyRep {
  virtual ~PyRep() = default;
  int depth = 0;
};

struct PyTextRep : PyRep {
  std::string text;
  size_t length = 0;    // in characters
  bool markup = false;  // what `safe` gives: adding to it escapes
  bool ascii() const { return length == text.size(); }
};

struct PyListRep : PyRep {
  std::vector<PyValue> items;
};

struct PyGeneratorRep : PyListRep {
  size_t next = 0;
  bool lost = false;  // a loop over it was left, and how far Jinja has read is not known
};

class PyDictRep : public PyRep {
 public:
  const std::vector<std::pair<PyValue, PyValue>>& items() const { return items_; }
  // Null for a key that it has not. REQUIRES: PyHashable(key).
  const PyValue* Find(const PyValue& key) const;
  const PyValue* Find(absl::string_view key) const;
  void Set(PyValue key, PyValue value);

 private:
  std::vector<std::pair<PyValue, PyValue>> items_;
  absl::flat_hash_map<std::string, size_t> places_;  // by DictKeyOf
};

struct PyNamespaceRep : PyRep {
  std::vector<std::pair<std::string, PyValue>> attributes;
  PyValue* Find(absl::string_view name);
};

struct PyMethodRep : PyRep {
  PyValue of;
  std::string name;
};

struct PyFunctionRep : PyRep {
  std::string name;
};

// How far a rendering has come: where it is in the template, and how much work it may still do.
// Everything that takes time or memory is counted here before it is done. One thread.
class JinjaWork {
 public:
  static constexpr int kMostDepth = 120;              // of lists in lists
  static constexpr size_t kMostTextBytes = 32 << 20;  // of one string

  JinjaWork(absl::string_view file, int64_t work) : file_(file), left_(work) {}

  int line = 0;

  // About a byte that is read or made each. kInvalidArgument; kCancelled at a StopSignal.
  absl::Status Spend(size_t work);
  JinjaPlace at() const { return {file_, line}; }
  // kInvalidArgument for what Python refuses, kUnimplemented for what it does and this cannot.
  absl::Status Wrong(absl::string_view why) const { return at().Wrong(why); }
  absl::Status Refused(absl::string_view what) const { return at().Refused(what); }

  absl::StatusOr<PyValue> Text(std::string text, bool markup = false);
  absl::StatusOr<PyValue> List(std::vector<PyValue> items,
                               PyValue::Kind kind = PyValue::Kind::kList);
  absl::StatusOr<PyValue> Generator(std::vector<PyValue> items);
  // Keys must be hashable; the last of equal ones counts.
  absl::StatusOr<PyValue> Dict(std::vector<std::pair<PyValue, PyValue>> items);
  absl::StatusOr<PyValue> FromJson(const JinjaValue& json);

 private:
  absl::Status CheckDepth(PyRep* rep, const PyValue& child) const;

  const absl::string_view file_;
  int64_t left_;
  size_t unchecked_ = 0;  // work since the last look at the signal
};

PyValue PyTextValue(std::string text, bool markup = false);

// REQUIRES: of this kind.
inline const std::string& PyTextOf(const PyValue& value) { return value.rep<PyTextRep>().text; }
inline const std::vector<PyValue>& PyListOf(const PyValue& value) {
  return value.rep<PyListRep>().items;
}
inline const PyDictRep& PyDictOf(const PyValue& value) { return value.rep<PyDictRep>(); }

bool PyTrue(const PyValue& value);
bool PyHashable(const PyValue& value);
// "a string", for messages.
std::string PyTypeName(const PyValue& value);
absl::StatusOr<bool> PyEqual(const PyValue& left, const PyValue& right, JinjaWork& work);
// < > <= >=.
absl::StatusOr<bool> PyCompare(absl::string_view sign, const PyValue& left, const PyValue& right,
                               JinjaWork& work);
absl::StatusOr<int64_t> PyLength(const PyValue& value, JinjaWork& work);
absl::StatusOr<bool> PyContains(const PyValue& all, const PyValue& one, JinjaWork& work);
// str(value), as the template writes it. kUnimplemented for what has an address in it.
absl::StatusOr<std::string> PyText(const PyValue& value, JinjaWork& work);
// What a loop goes through: elements, characters, keys; nothing for what is undefined. Takes all
// that a generator has.
absl::StatusOr<std::vector<PyValue>> PyItems(const PyValue& value, JinjaWork& work);
struct PyJsonOptions {
  bool ascii = false, sorted = false;
  bool indented = false;
  std::string indent;
  std::string item_separator = ", ", key_separator = ": ";
};
// json.dumps.
absl::StatusOr<std::string> PyJson(const PyValue& value, const PyJsonOptions& options,
                                   JinjaWork& work);

std::string PyFloatText(double value);
// Where `pattern` is in `text`, from `from` on; npos for nowhere. Linear in both.
size_t PyFind(absl::string_view text, absl::string_view pattern, size_t from = 0);
// Byte of the character at `index`, which may be the length. REQUIRES: index <= length.
size_t PyByteOf(const PyTextRep& text, size_t index);

}  // namespace spillway
