#include "engine/data/jinja_arguments.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace spillway {
namespace {

// How many arguments a filter or a method takes here, and by which names.
struct Taken {
  size_t values = 0;
  std::vector<std::string> names = {};
};
using TakenByName = std::map<std::string, Taken>;

const TakenByName& TakenByFilters() {
  static const auto* const taken = [] {
    auto* all = new TakenByName{{"default", {2, {"default_value", "boolean"}}},
                                {"d", {2, {"default_value", "boolean"}}},
                                {"tojson", {0, {"indent", "ensure_ascii"}}},
                                {"join", {1, {"d"}}},
                                {"replace", {2}},
                                {"map", {0, {"attribute"}}}};
    for (const char* none : {"trim", "length", "count", "string", "safe", "int", "items", "upper",
                             "lower", "title", "capitalize", "first", "last", "reverse", "list"}) {
      (*all)[none] = {};
    }
    return all;
  }();
  return *taken;
}

const TakenByName& TakenByMethods() {
  static const auto* const taken = new TakenByName{
      {"strip", {1}},   {"lstrip", {1}},    {"rstrip", {1}}, {"startswith", {1}}, {"endswith", {1}},
      {"replace", {2}}, {"split", {1}},     {"get", {2}},    {"upper", {}},       {"lower", {}},
      {"title", {}},    {"capitalize", {}}, {"items", {}},   {"keys", {}},        {"values", {}}};
  return *taken;
}

absl::Status CheckArguments(const TakenByName& all, const std::string& name,
                            const JinjaArguments& arguments, const JinjaPlace& at) {
  const auto entry = all.find(name);
  if (entry == all.end()) return absl::OkStatus();  // it takes any, or is not there
  const Taken& taken = entry->second;
  for (const auto& [named, value] : arguments.named) {
    if (std::count(taken.names.begin(), taken.names.end(), named) == 0) {
      return at.Refused(absl::StrCat("the argument ", named, " of ", name));
    }
  }
  if (arguments.values.size() <= taken.values) return absl::OkStatus();
  return at.Refused(absl::StrCat("argument ", taken.values + 1, " of ", name));
}

}  // namespace

JinjaValue JinjaArguments::Get(size_t place, const std::string& name) const {
  if (place < values.size()) return values[place];
  const auto found = named.find(name);
  return found == named.end() ? JinjaUndefined() : found->second;
}

absl::Status CheckFilterArguments(const std::string& name, const JinjaArguments& arguments,
                                  const JinjaPlace& at) {
  return CheckArguments(TakenByFilters(), name, arguments, at);
}

absl::Status CheckMethodArguments(const std::string& name, const JinjaArguments& arguments,
                                  const JinjaPlace& at) {
  return CheckArguments(TakenByMethods(), name, arguments, at);
}

}  // namespace spillway
