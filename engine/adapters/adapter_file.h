// The directory in which PEFT keeps an adapter: adapter_config.json and adapter_model.safetensors.
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
// What PEFT wrote before its version 0.6, with torch.save.
inline constexpr const char* kFormerAdapterWeightsName = "adapter_model.bin";

// What PEFT calls a parameter of a model with adapters. `adapted`: a module's that has one.
std::string PeftName(const std::string& parameter, bool adapted);
// The parameter that a tensor of PEFT's is; as it is where it is no such name. Of a module to save
// PEFT's copy is the parameter; "" for what that replaces, which bias "all" writes as well.
std::string ParameterOfPeftName(absl::string_view tensor);

// Whether two values may have been one before they were rounded to bf16 or fp16, or one was.
bool IsRounded(float a, float b);

// Whether a parameter or buffer is in one of the modules to save.
bool IsSaved(const LoraConfig& config, const std::string& name);

// The config of such a directory. kInvalidArgument for one without an adapter, or with one that is
// not for here.
absl::StatusOr<LoraConfig> ReadAdapterConfig(const std::string& directory);

// An error of applying the adapter in a directory, with the flag, and the model that the adapter
// was made for.
absl::Status AnnotateAdapter(const absl::Status& status, const std::string& directory);

// An adapter's weights, under the names of the model's parameters. Any thread.
class AdapterFile final : public WeightSource {
 public:
  // kInvalidArgument as ReadAdapterConfig, and where there are no weights.
  static absl::StatusOr<std::unique_ptr<AdapterFile>> Open(const std::string& directory);

  const LoraConfig& config() const { return config_; }

  // Before the first Read. kInvalidArgument where the file is not exactly the adapters of `layout`
  // and the parameters of `model` that are trained besides: an adapter of another model. `names`
  // are what transformers calls them; of a module to save buffers may be there, and a matrix of
  // logits that the model ties, which AdaptedWeights compares.
  absl::Status Match(const ModelDescription& model, const AdapterLayout& layout,
                     const TensorNames& names);

  // By the names that PEFT wrote, without its prefix; before Match, too. Whether a tensor of so
  // many elements is there, its first dimension (0: it is not there, or has none), and a part of
  // it. REQUIRES of ReadWritten: HasWritten.
  bool HasWritten(const std::string& name, uint64_t elements) const;
  uint64_t RowsWritten(const std::string& name) const;
  absl::Status ReadWritten(const std::string& name, uint64_t first, uint64_t count,
                           float* out) const;

  bool Has(const std::string& parameter) const { return names_.count(parameter) > 0; }
  std::set<std::string> parameters() const;  // all that it has
  absl::Status Read(const std::string& name, uint64_t first, uint64_t count, float* out) override;

  // Whether it has the matrix of logits that is tied to that parameter.
  bool Ties(const std::string& parameter) const {
    return !tied_head_.empty() && parameter == tied_to_;
  }
  // kInvalidArgument where the tied matrix is not `values`, but for their rounding. REQUIRES: Ties.
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
  std::map<std::string, std::string> written_;  // without PEFT's prefix -> in the file
  std::map<std::string, std::string> names_;    // of the parameter -> in the file
  std::string tied_head_, tied_to_;             // in the file ("": it has none); the parameter
};

// A model's weights with those of an adapter before them. Both outlive it.
class AdaptedWeights final : public WeightSource {
 public:
  // `adapter` null: it begins as `initial` makes it, which a model without files starts from.
  AdaptedWeights(WeightSource* base, AdapterFile* adapter, WeightSource* initial)
      : base_(base), adapter_(adapter), initial_(initial) {}

  absl::Status Read(const std::string& name, uint64_t first, uint64_t count, float* out) override;
  bool reads_files() const override { return base_ != nullptr; }
  std::optional<StoredTensor> Stored(const std::string& name) const override;
  PackedFormat packed(const std::string& name) const override;
  absl::Status ReadPacked(const std::string& name, const PackedShape& shape, char* out) override;

 private:
  // Whether the model's own files have it.
  bool OfBase(const std::string& name) const;

  WeightSource* const base_;  // null: there are no files of it
  AdapterFile* const adapter_;
  WeightSource* const initial_;
};

}  // namespace spillway
