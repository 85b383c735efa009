#include "engine/adapters/adapter_file.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "io/base/status.h"
#include "io/file_system.h"

namespace spillway {
namespace {

constexpr absl::string_view kPrefix = "base_model.model.";
// What PEFT puts between a module to save and its copy, and what that stands for.
constexpr absl::string_view kCopy = ".modules_to_save.", kOriginal = ".original_module.";

std::string ShapeText(const std::vector<uint64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

}  // namespace

std::string PeftName(const std::string& parameter, bool adapted) {
  absl::string_view module = parameter;
  if (adapted && absl::ConsumeSuffix(&module, ".bias")) {
    return absl::StrCat(kPrefix, module, ".base_layer.bias");
  }
  return absl::StrCat(kPrefix, parameter);
}

std::string ParameterOfPeftName(absl::string_view tensor) {
  absl::ConsumePrefix(&tensor, kPrefix);
  if (absl::StrContains(tensor, kOriginal)) return "";
  if (absl::StrContains(tensor, kCopy)) return absl::StrReplaceAll(tensor, {{kCopy, "."}});
  absl::string_view module = tensor;
  if (absl::ConsumeSuffix(&module, ".base_layer.bias")) return absl::StrCat(module, ".bias");
  return std::string(tensor);
}

absl::StatusOr<LoraConfig> ReadAdapterConfig(const std::string& directory) {
  const std::string config = absl::StrCat(directory, "/", kAdapterConfigName);
  const auto text = FileSystem::Real().ReadSmallFile(config);
  if (absl::IsNotFound(text.status())) {
    return absl::InvalidArgumentError(
        absl::StrCat(directory, " has no ", kAdapterConfigName,
                     ": an adapter is a directory as PEFT's save_pretrained writes it"));
  }
  RETURN_IF_ERROR(text.status());
  return ParseAdapterConfig(*text, config);
}

absl::StatusOr<std::unique_ptr<AdapterFile>> AdapterFile::Open(const std::string& directory) {
  std::unique_ptr<AdapterFile> adapter(new AdapterFile);
  ASSIGN_OR_RETURN(adapter->config_, ReadAdapterConfig(directory));
  const std::string weights = absl::StrCat(directory, "/", kAdapterWeightsName);
  auto file = SafetensorsFile::Open(weights);
  if (absl::IsNotFound(file.status())) {
    return absl::InvalidArgumentError(
        absl::StrCat(weights, " is missing: save the adapter with safe_serialization=True"));
  }
  RETURN_IF_ERROR(file.status());
  adapter->file_ = *std::move(file);
  return adapter;
}

absl::Status AdapterFile::Match(const ModelDescription& model, const AdapterLayout& layout) {
  names_.clear();
  std::map<std::string, std::vector<uint64_t>> expected;
  for (const UnitDescription& unit : WithAdapters(layout, model).units) {
    for (const ParameterDescription& p : unit.parameters) {
      if (!IsAdapterName(p.name) && layout.trained.count(p.name) == 0) continue;
      expected[p.name] = {p.shape.begin(), p.shape.end()};
    }
  }
  for (const SafetensorsTensor& tensor : file_->tensors()) {
    const std::string name = ParameterOfPeftName(tensor.name);
    if (name.empty()) continue;
    const auto found = expected.find(name);
    if (found == expected.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(file_->path(), ": tensor ", tensor.name, " ", ShapeText(tensor.shape),
                       " belongs to no layer that ", kAdapterConfigName,
                       " adapts in this model: is it an adapter of another one?"));
    }
    if (tensor.shape != found->second) {
      return absl::InvalidArgumentError(
          absl::StrCat(file_->path(), ": tensor ", tensor.name, " has shape ",
                       ShapeText(tensor.shape), ", but this model's is ", ShapeText(found->second),
                       ": is it an adapter of another one?"));
    }
    const auto [known, is_new] = names_.emplace(name, tensor.name);
    if (is_new) continue;
    const bool is_copy = absl::StrContains(tensor.name, kCopy);
    if (!is_copy && !absl::StrContains(known->second, kCopy)) {
      return absl::InvalidArgumentError(absl::StrCat(file_->path(), ": tensors ", names_[name],
                                                     " and ", tensor.name,
                                                     " are the same parameter"));
    }
    if (is_copy) known->second = tensor.name;
  }
  for (const auto& [name, shape] : expected) {
    // PEFT leaves biases of adapted layers out of its files with bias "lora_only".
    if (names_.count(name) > 0 || absl::EndsWith(name, ".bias")) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(file_->path(), ": tensor ", PeftName(name, false), " ", ShapeText(shape),
                     " is missing: is it an adapter of another model, or of other layers?"));
  }
  return absl::OkStatus();
}

std::set<std::string> AdapterFile::parameters() const {
  std::set<std::string> parameters;
  for (const auto& [parameter, tensor] : names_) parameters.insert(parameter);
  return parameters;
}

absl::Status AdapterFile::Read(const std::string& name, uint64_t first, uint64_t count,
                               float* out) {
  const auto found = names_.find(name);
  if (found == names_.end()) {
    return absl::NotFoundError(absl::StrCat("the adapter has no parameter ", name));
  }
  return file_->ReadFp32(found->second, first, count, out);
}

absl::StatusOr<std::string> AdapterFile::Fingerprint() const {
  ASSIGN_OR_RETURN(const uint64_t digest, file_->Fingerprint());
  return absl::StrFormat("%016x", digest);
}

absl::Status AdaptedWeights::Read(const std::string& name, uint64_t first, uint64_t count,
                                  float* out) {
  if (adapter_ != nullptr && adapter_->Has(name)) return adapter_->Read(name, first, count, out);
  const bool from_base = base_ != nullptr && !IsAdapterName(name);
  return (from_base ? base_ : initial_)->Read(name, first, count, out);
}

bool AdaptedWeights::OfBase(const std::string& name) const {
  return base_ != nullptr && !IsAdapterName(name) && (adapter_ == nullptr || !adapter_->Has(name));
}

std::optional<StoredTensor> AdaptedWeights::Stored(const std::string& name) const {
  return OfBase(name) ? base_->Stored(name) : std::nullopt;
}

PackedFormat AdaptedWeights::packed(const std::string& name) const {
  return OfBase(name) ? base_->packed(name) : PackedFormat::kNone;
}

absl::Status AdaptedWeights::ReadPacked(const std::string& name, const PackedShape& shape,
                                        char* out) {
  return base_->ReadPacked(name, shape, out);
}

}  // namespace spillway
