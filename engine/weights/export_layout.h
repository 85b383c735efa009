// How an export is laid out: as the files that the model came in, tensor by tensor.
//
// A run keeps it beside its config.json, since the files may be gone when it is exported.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/model/tensor_names.h"
#include "engine/weights/safetensors_model_writer.h"
#include "io/file_system.h"

namespace spillway {

inline constexpr const char* kExportLayoutName = "weight_places.json";

// A tensor that a parameter is written as.
struct TensorPlace {
  std::string name;
  std::string file = {};            // "": by size
  std::optional<DType> dtype = {};  // none: the export's
};

struct ExportLayout {
  // By parameter or buffer; what is not there is one tensor of its own name. Several tensors have
  // the same values (a tied head that is in the file too).
  std::map<std::string, std::vector<TensorPlace>> places;
  std::vector<ExportTensor> zeros;  // that the files have beside parameters (TensorNames::zeros)
  SafetensorsMetadata metadata;
  std::optional<DType> dtype;  // that was asked for, in place of the files'

  // What the first tensor has, where the files say it.
  std::optional<DType> FirstDType() const;
};

// Writes into the directory `to` how the safetensors of `model_directory` are laid out, and `dtype`
// where another is asked for. Where they have every parameter of `names` (null: unknown) an export
// calls them as they do; otherwise, as of a model that got a new head, by the parameters' names,
// with the files' dtypes. What is quantised there gets the export's dtype.
absl::Status SaveExportLayout(const std::string& model_directory, const TensorNames* names,
                              std::optional<DType> dtype, const std::string& to, FileSystem& files);

// What SaveExportLayout wrote; empty where there is none. Only names of files that an export may
// have are taken.
ExportLayout ReadExportLayout(const std::string& directory, FileSystem& files);

// What transformers calls it ("bfloat16"), and the dtype of such a name.
const char* TorchName(DType dtype);
std::optional<DType> DTypeOfTorchName(const nlohmann::json& name);

}  // namespace spillway
