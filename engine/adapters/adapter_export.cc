#include "engine/adapters/adapter_export.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/adapters/adapter_file.h"
#include "engine/adapters/adapter_layout.h"
#include "engine/base/shallow_json.h"
#include "engine/weights/export_weights.h"
#include "engine/weights/named_weights.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// The product scale * left [rows, rank] * right [rank, columns].
struct LowRankProduct {
  int64_t rows = 0, columns = 0, rank = 0;
  std::vector<float> left, right;
  float scale = 1;

  // Adds elements [first, first + count), row-major, to `values`.
  void AddTo(uint64_t first, uint64_t count, float* values) const {
    std::vector<float> sums;
    while (count > 0) {
      const uint64_t row = first / columns, column = first % columns;
      const uint64_t some = std::min<uint64_t>(count, columns - column);
      sums.assign(some, 0);
      for (int64_t k = 0; k < rank; ++k) {
        const float factor = left[row * rank + k];
        const float* const of_right = right.data() + k * columns + column;
        for (uint64_t i = 0; i < some; ++i) sums[i] += factor * of_right[i];
      }
      for (uint64_t i = 0; i < some; ++i) values[i] += scale * sums[i];
      first += some;
      count -= some;
      values += some;
    }
  }
};

std::vector<float> Transposed(const std::vector<float>& matrix, int64_t rows, int64_t columns) {
  std::vector<float> transposed(matrix.size());
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      transposed[column * rows + row] = matrix[row * columns + column];
    }
  }
  return transposed;
}

// Values of parameters by name.
using Values = std::map<std::string, std::vector<float>>;

// Reads all adapters, and stops before the frozen parameters, which come after the trained ones.
absl::StatusOr<Values> ReadAdapters(const StateSource& state) {
  Values values;
  uint64_t missing = 0;
  for (const UnitDescription& unit : state.model.units) {
    for (const ParameterDescription& parameter : unit.parameters) {
      if (!IsAdapterName(parameter.name)) continue;
      values[parameter.name].resize(parameter.elements);
      missing += parameter.elements;
    }
  }
  const absl::Status status = ReadValues(
      state,
      [&](const std::string& name, uint64_t first, std::vector<float>& some) -> absl::Status {
        const auto found = values.find(name);
        if (found == values.end()) return absl::OkStatus();
        std::copy(some.begin(), some.end(), found->second.begin() + static_cast<int64_t>(first));
        missing -= some.size();
        return missing == 0 ? absl::CancelledError("all are there") : absl::OkStatus();
      });
  if (missing > 0) RETURN_IF_ERROR(status);
  return values;
}

// The products by the name of the matrix that each is added to.
absl::StatusOr<std::map<std::string, LowRankProduct>> ReadProducts(const StateSource& state,
                                                                   const LoraConfig& config,
                                                                   bool in_out) {
  std::map<std::string, LowRankProduct> products;
  ASSIGN_OR_RETURN(Values values, ReadAdapters(state));
  for (auto& [name, of_a] : values) {
    absl::string_view module = name;
    if (!absl::ConsumeSuffix(&module, ".lora_A.weight")) continue;
    const auto found = values.find(absl::StrCat(module, ".lora_B.weight"));
    if (found == values.end()) {
      return absl::DataLossError(absl::StrCat("the run has ", name, ", and no lora_B beside it"));
    }
    LowRankProduct product;
    product.rank = config.RankOf(std::string(module));
    product.scale = static_cast<float>(config.ScaleOf(std::string(module)));
    const int64_t in = static_cast<int64_t>(of_a.size()) / product.rank;
    const int64_t out = static_cast<int64_t>(found->second.size()) / product.rank;
    product.rows = in_out ? in : out;
    product.columns = in_out ? out : in;
    product.left = in_out ? Transposed(of_a, product.rank, in) : std::move(found->second);
    product.right = in_out ? Transposed(found->second, out, product.rank) : std::move(of_a);
    products.emplace(absl::StrCat(module, ".weight"), std::move(product));
  }
  return products;
}

absl::StatusOr<LoraConfig> ConfigOf(const nlohmann::json& config) {
  return ParseAdapterConfig(config.dump(), kAdapterConfigName);
}

std::set<std::string> AdaptedModules(const ModelDescription& model) {
  std::set<std::string> adapted;
  for (const UnitDescription& unit : model.units) {
    for (const ParameterDescription& parameter : unit.parameters) {
      absl::string_view module = parameter.name;
      if (absl::ConsumeSuffix(&module, ".lora_A.weight")) adapted.insert(std::string(module));
    }
  }
  return adapted;
}

// A parameter that transformers ties to a module to save (logits, embeddings of other stacks) is a
// module of its own for PEFT, which would not change it: it is saved as well, and stays tied.
void SaveTied(const StateSource& state, const TensorNames& names, LoraConfig& lora,
              nlohmann::json& config) {
  for (const UnitDescription& unit : state.model.units) {
    for (const ParameterDescription& parameter : unit.parameters) {
      if (!IsSaved(lora, parameter.name)) continue;
      const std::vector<std::string> all = NamesOfParameter(names, parameter.name);
      for (size_t i = 1; i < all.size(); ++i) {
        if (IsSaved(lora, all[i])) continue;
        lora.modules_to_save.push_back(ModuleOf(all[i]));
        config["modules_to_save"].push_back(lora.modules_to_save.back());
      }
      // With more than two tied modules PEFT (0.21) makes a model that cannot compute.
      if (all.size() == 2 && parameter.name == names.tied_to) config["ensure_weight_tying"] = true;
    }
  }
}

// The layout of an adapter's file that PEFT expects, with trained and frozen parameters.
ExportLayout LayoutOf(const StateSource& state, const LoraConfig& lora, const TensorNames& names) {
  const std::set<std::string> adapted = AdaptedModules(state.model);
  const auto belongs = [&](const std::string& name) {
    if (IsAdapterName(name) || IsSaved(lora, name)) return true;
    if (!absl::EndsWith(name, ".bias")) return false;
    return lora.bias == LoraConfig::Bias::kAll ||
           (lora.bias == LoraConfig::Bias::kLoraOnly && adapted.contains(ModuleOf(name)));
  };
  ExportLayout layout;
  const auto add = [&](const std::string& name) {
    const std::vector<std::string> all = NamesOfParameter(names, name);
    for (const std::string& called : all) {
      if (!belongs(called == all[0] ? name : called)) continue;
      layout.places[name].push_back({PeftName(called, adapted.contains(ModuleOf(called)))});
    }
  };
  for (const UnitDescription& unit : state.model.units) {
    for (const ParameterDescription& parameter : unit.parameters) add(parameter.name);
  }
  for (const StateBuffer& buffer : state.buffers) add(buffer.name);
  return layout;
}

// Renames the modules to save to the names in transformers' model.
nlohmann::json WithNamesOf(const TensorNames& names, nlohmann::json config) {
  for (const auto& [alias, parameter] : names.aliases) {
    if (names.repeats.contains(alias)) continue;
    for (nlohmann::json& module : config["modules_to_save"]) {
      if (module == ModuleOf(parameter)) module = ModuleOf(alias);
    }
  }
  return config;
}

}  // namespace

absl::Status SaveAdapterConfig(const nlohmann::json& config, const std::string& source_directory,
                               FileSystem& files) {
  const std::string path = absl::StrCat(source_directory, "/", kAdapterConfigName);
  if (config.is_null()) return RemoveIfThere(files, path);
  return WriteFileAtomically(files, path, config.dump(2) + "\n", FileAccess::kShared);
}

absl::StatusOr<std::optional<nlohmann::json>> SavedAdapterConfig(
    const std::string& source_directory, FileSystem& files) {
  const std::string path = absl::StrCat(source_directory, "/", kAdapterConfigName);
  const auto text = files.ReadSmallFile(path);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  RETURN_IF_ERROR(text.status());
  nlohmann::json config = ParseShallowJson(*text);
  if (!config.is_object()) return absl::DataLossError(absl::StrCat(path, " is not a JSON object"));
  return config;
}

absl::Status ExportAdapter(const StateSource& state, const nlohmann::json& saved_config,
                           DType dtype, const std::string& to, const TensorNames& names,
                           FileSystem& files) {
  nlohmann::json config = saved_config;
  ASSIGN_OR_RETURN(LoraConfig lora, ConfigOf(config));
  SaveTied(state, names, lora, config);
  ExportOptions options;
  options.dtype = dtype;
  options.layout = LayoutOf(state, lora, names);
  options.leave_out = [&](const std::string& name) {
    return !options.layout.places.contains(name);
  };
  RETURN_IF_ERROR(CreateDirectories(files, to, FileAccess::kShared));
  const std::string config_path = absl::StrCat(to, "/", kAdapterConfigName);
  RETURN_IF_ERROR(RemoveIfThere(files, config_path));
  RETURN_IF_ERROR(
      ExportWeightsFile(state, options, absl::StrCat(to, "/", kAdapterWeightsName), files));
  return WriteFileAtomically(files, config_path, WithNamesOf(names, config).dump(2) + "\n",
                             FileAccess::kShared);
}

absl::StatusOr<DType> ExportMerged(const StateSource& state, const nlohmann::json& config,
                                   const std::string& source_directory, const std::string& to,
                                   const ModelExportOptions& options, FileSystem& files) {
  ASSIGN_OR_RETURN(const LoraConfig lora, ConfigOf(config));
  ASSIGN_OR_RETURN(const auto products,
                   ReadProducts(state, lora, config.value("fan_in_fan_out", false)));
  ModelExportOptions merged = options;
  merged.leave_out = IsAdapterName;
  merged.change = [&](const std::string& name, uint64_t first,
                      std::vector<float>& values) -> absl::Status {
    const auto found = products.find(name);
    if (found != products.end()) found->second.AddTo(first, values.size(), values.data());
    return absl::OkStatus();
  };
  // An adapter was trained beside the quantised matrix, so the quantised values are exported.
  for (const UnitDescription& unit : state.model.units) {
    for (const ParameterDescription& parameter : unit.parameters) {
      const bool adapted = products.contains(parameter.name);
      if (adapted && parameter.packing.any()) merged.as_held.insert(parameter.name);
    }
  }
  return ExportModel(state, source_directory, to, merged, files);
}

}  // namespace spillway
