#include "engine/adapters/adapter_export.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/adapters/adapter_file.h"
#include "engine/adapters/adapter_layout.h"
#include "engine/base/shallow_json.h"
#include "engine/weights/export_weights.h"
#include "engine/weights/safetensors_writer.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// scale * left [rows, rank] * right [rank, columns].
struct LowRankProduct {
  int64_t rows = 0, columns = 0, rank = 0;
  std::vector<float> left, right;
  float scale = 1;

  // Elements [first, first + count), row-major, onto `values`.
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

// The values of some parameters, by name.
using Values = std::map<std::string, std::vector<float>>;

// Of all adapters; stops reading when it has them, which trained ones are before what is frozen.
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

// By the name of the matrix that each is added to.
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

}  // namespace

absl::Status SaveAdapterConfig(const nlohmann::json& config, const std::string& source_directory,
                               FileSystem& files) {
  const std::string path = absl::StrCat(source_directory, "/", kAdapterConfigName);
  if (config.is_null()) return RemoveIfThere(files, path);
  return WriteFileAtomically(files, path, config.dump(2) + "\n");
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

absl::Status ExportAdapter(const StateSource& state, const nlohmann::json& config, DType dtype,
                           const std::string& to, FileSystem& files) {
  std::set<std::string> adapted;
  for (const UnitDescription& unit : state.model.units) {
    for (const ParameterDescription& parameter : unit.parameters) {
      absl::string_view module = parameter.name;
      if (absl::ConsumeSuffix(&module, ".lora_A.weight")) adapted.insert(std::string(module));
    }
  }
  std::set<std::string> exported;
  std::vector<ExportTensor> tensors;
  for (const UnitDescription& unit : state.model.units) {
    for (const ParameterDescription& p : unit.parameters) {
      if (unit.frozen && !IsAdapterName(p.name)) continue;
      absl::string_view module = p.name;
      absl::ConsumeSuffix(&module, ".bias");
      exported.insert(p.name);
      tensors.push_back({PeftName(p.name, adapted.count(std::string(module)) > 0), dtype,
                         std::vector<uint64_t>(p.shape.begin(), p.shape.end())});
    }
  }
  RETURN_IF_ERROR(CreateDirectories(files, to));
  const std::string config_path = absl::StrCat(to, "/", kAdapterConfigName);
  RETURN_IF_ERROR(RemoveIfThere(files, config_path));
  ASSIGN_OR_RETURN(
      auto writer,
      SafetensorsWriter::Create(absl::StrCat(to, "/", kAdapterWeightsName), tensors, {}, files));
  RETURN_IF_ERROR(ReadValues(
      state, [&](const std::string& name, uint64_t, std::vector<float>& values) -> absl::Status {
        if (exported.count(name) == 0) return absl::OkStatus();
        return writer->AppendFp32(values.data(), values.size());
      }));
  RETURN_IF_ERROR(writer->Finish());
  return WriteFileAtomically(files, config_path, config.dump(2) + "\n");
}

absl::StatusOr<DType> ExportMerged(const StateSource& state, const nlohmann::json& config,
                                   const std::string& source_directory, const std::string& to,
                                   const ModelExportOptions& options, FileSystem& files) {
  ASSIGN_OR_RETURN(const LoraConfig lora, ConfigOf(config));
  ASSIGN_OR_RETURN(const auto products,
                   ReadProducts(state, lora, config.value("fan_in_fan_out", false)));
  ModelExportOptions merged = options;
  merged.leave_out = IsAdapterName;
  merged.change = [&](const std::string& name, uint64_t first, std::vector<float>& values) {
    const auto found = products.find(name);
    if (found != products.end()) found->second.AddTo(first, values.size(), values.data());
  };
  return ExportModel(state, source_directory, to, merged, files);
}

}  // namespace spillway
