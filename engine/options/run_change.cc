#include "engine/options/run_change.h"

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace spillway {
namespace {

struct Changeable {
  std::string name;
  std::vector<std::string> values;  // names of values in the identity
};

const std::vector<Changeable>& AllChangeable() {
  static const std::vector<Changeable>& all = *new std::vector<Changeable>{
      {"lr", {"lr"}},
      {"schedule",
       {"schedule", "warmup", "schedule details", "schedule arguments", "range test", "cycle"}},
      {"clip", {"clip"}},
      {"micro-batch", {"micro-batch", "accumulate"}},
      {"threads", {"threads"}},
      {"data", {"data", "chat-date"}},
  };
  return all;
}

}  // namespace

std::string Describe(const RunChange& change) {
  return absl::StrCat(change.name, " ", change.to, " instead of ", change.from);
}

nlohmann::json ToJson(const std::vector<RunChange>& changes) {
  nlohmann::json json = nlohmann::json::array();
  for (const RunChange& change : changes) {
    json.push_back(
        {{"step", change.step}, {"name", change.name}, {"from", change.from}, {"to", change.to}});
  }
  return json;
}

const std::vector<std::string>& ChangeableNames() {
  static const std::vector<std::string>& names = *[] {
    auto* const names = new std::vector<std::string>;
    for (const Changeable& one : AllChangeable()) names->push_back(one.name);
    return names;
  }();
  return names;
}

absl::string_view ChangeableBy(absl::string_view name) {
  for (const Changeable& one : AllChangeable()) {
    for (const std::string& value : one.values) {
      if (value == name) return one.name;
    }
  }
  return "";
}

std::string NotFiniteRemedy(DType dtype) {
  return absl::StrCat(
      "lower --lr or raise --warmup, from a commit on with --resume --allow-change lr,schedule",
      dtype == DType::kFloat32
          ? ""
          : ", or use --dtype fp32, for which a new run begins with an export (spillway export)");
}

}  // namespace spillway
