// How an export is laid out: as the files that the model came in, tensor by tensor.
//
// A run stores it beside its config.json, since the files may be gone when it is exported.
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

// A tensor as which a parameter is written.
struct TensorPlace {
  std::string name;
  std::string file = {};            // "": chosen by size
  std::optional<DType> dtype = {};  // none: the export's
};

struct ExportLayout {
  // By parameter or buffer; one that is missing is a single tensor of its own name. Several tensors
  // have equal values (a tied head that the file repeats).
  std::map<std::string, std::vector<TensorPlace>> places;
  std::vector<ExportTensor> zeros;  // tensors that are no parameters (TensorNames::zeros)
  SafetensorsMetadata metadata;
  std::optional<DType> dtype;  // replaces the files' dtype, if given

  // Dtype of the first tensor, if the files specify it.
  std::optional<DType> FirstDType() const;
};

// Writes to the directory `to` how the safetensors of `model_directory` are laid out, and `dtype`
// if given. If they have every parameter of `names` (null: unknown), an export uses their names;
// otherwise, as for a model with a new head, the parameters' names with the files' dtypes.
// Quantised tensors get the export's dtype.
absl::Status SaveExportLayout(const std::string& model_directory, const TensorNames* names,
                              std::optional<DType> dtype, const std::string& to, FileSystem& files);

// Reads the file of SaveExportLayout; empty if there is none. Names of files that an export must
// not have are ignored.
ExportLayout ReadExportLayout(const std::string& directory, FileSystem& files);

// transformers' name of a dtype ("bfloat16"), and the dtype of such a name.
const char* TorchName(DType dtype);
std::optional<DType> DTypeOfTorchName(const nlohmann::json& name);

}  // namespace spillway
