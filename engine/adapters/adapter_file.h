// The directory of an adapter in PEFT's format: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/adapters/adapter_layout.h"
#include "engine/adapters/lora_config.h"
#include "engine/model/tensor_names.h"
#include "engine/weights/model_files.h"
#include "engine/weights/safetensors.h"
#include "engine/weights/weight_source.h"

namespace spillway {

inline constexpr const char* kAdapterWeightsName = "adapter_model.safetensors";
// File of weights by PEFT before version 0.6, written with torch.save.
inline constexpr const char* kFormerAdapterWeightsName = "adapter_model.bin";

// PEFT's name of a parameter of a model with adapters. `adapted`: its module has an adapter.
std::string PeftName(const std::string& parameter, bool adapted);
// The parameter of a tensor of PEFT's; the name itself if PEFT's prefix is missing. For a module to
// save this is PEFT's copy; "" for the original, which bias "all" writes as well.
std::string ParameterOfPeftName(absl::string_view tensor);

// Whether two values may be one value, of which at least one was rounded to bf16 or fp16.
bool IsRounded(float a, float b);

// Whether a parameter or buffer is in one of the modules to save.
bool IsSaved(const LoraConfig& config, const std::string& name);

// Reads the config of such a directory. kInvalidArgument if it has no adapter, or an unsupported
// one.
absl::StatusOr<LoraConfig> ReadAdapterConfig(const std::string& directory);

// An error of applying the adapter in a directory, extended by the flag and the adapter's base
// model.
absl::Status AnnotateAdapter(const absl::Status& status, const std::string& directory);

// An adapter's weights, under the names of the model's parameters. Any thread.
class AdapterFile final : public WeightSource {
 public:
  // kInvalidArgument as for ReadAdapterConfig, and if there are no weights.
  static absl::StatusOr<std::unique_ptr<AdapterFile>> Open(const std::string& directory);

  const LoraConfig& config() const { return config_; }

  // Call before the first Read. kInvalidArgument unless the file has exactly the adapters of
  // `layout` and the other trained parameters of `model`: it is for another model. `names`: those
  // of transformers. For modules to save the file may also have buffers, and logits that the model
  // ties, which AdaptedWeights compares.
  absl::Status Match(const ModelDescription& model, const AdapterLayout& layout,
                     const TensorNames& names);

  // Whether the file has a tensor of that size under the name that PEFT wrote, without its prefix;
  // the size of its first dimension (0: there is no such tensor, or it has no dimension); and a
  // read of a part of it. Also before Match. ReadWritten REQUIRES HasWritten.
  bool HasWritten(const std::string& name, uint64_t elements) const;
  uint64_t RowsWritten(const std::string& name) const;
  absl::Status ReadWritten(const std::string& name, uint64_t first, uint64_t count,
                           float* out) const;

  bool Has(const std::string& parameter) const { return names_.count(parameter) > 0; }
  std::set<std::string> parameters() const;  // all parameters in the file
  absl::Status Read(const std::string& name, uint64_t first, uint64_t count, float* out) override;

  // Whether the file has the logits that the model ties to that parameter.
  bool Ties(const std::string& parameter) const {
    return !tied_head_.empty() && parameter == tied_to_;
  }
  // kInvalidArgument if the tied logits differ from `values` by more than rounding. REQUIRES: Ties.
  absl::Status CompareTied(uint64_t first, uint64_t count, const float* values) const;

  // 16 hex digits, for a run's identity.
  absl::StatusOr<std::string> Fingerprint() const;

 private:
  using Shapes = std::map<std::string, std::vector<uint64_t>>;  // by parameter

  AdapterFile() = default;
  absl::Status MatchTensor(const SafetensorsTensor& tensor, const Shapes& shapes,
                           const TensorNames& names);

  LoraConfig config_;
  std::unique_ptr<SafetensorsFile> file_;
  std::map<std::string, std::string> written_;  // name without PEFT's prefix -> in the file
  std::map<std::string, std::string> names_;    // parameter -> name in the file
  std::string tied_head_, tied_to_;             // name in the file ("": missing); the parameter
};

// A model's weights, of which an adapter replaces some. Both outlive the object.
class AdaptedWeights final : public WeightSource {
 public:
  // `adapter` null: a new adapter with the values of `initial`, for a model with or without files.
  AdaptedWeights(WeightSource* base, AdapterFile* adapter, WeightSource* initial)
      : base_(base), adapter_(adapter), initial_(initial) {}

  absl::Status Read(const std::string& name, uint64_t first, uint64_t count, float* out) override;
  bool reads_files() const override { return base_ != nullptr; }
  std::optional<StoredTensor> Stored(const std::string& name) const override;
  PackedFormat packed(const std::string& name) const override;
  absl::Status ReadPacked(const std::string& name, const PackedShape& shape, char* out) override;

 private:
  // Whether the model's own files have the parameter.
  bool OfBase(const std::string& name) const;

  WeightSource* const base_;  // null: the model has no files
  AdapterFile* const adapter_;
  WeightSource* const initial_;
};

}  // namespace spillway
