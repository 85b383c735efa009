#include "engine/adapters/adapter_file.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "engine/base/model_file.h"
#include "io/base/status.h"
#include "io/file_system.h"

namespace spillway {
namespace {

constexpr absl::string_view kPrefix = "base_model.model.";
// What PEFT puts between a module to save and its copy, and what that stands for.
constexpr absl::string_view kCopy = ".modules_to_save.", kOriginal = ".original_module.";

constexpr uint64_t kMostConfigBytes = 4 << 20;
constexpr uint64_t kComparedAtOnce = 1 << 16;  // 256 KiB

std::string ShapeText(const std::vector<uint64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// The module whose adapter or adapted weight a tensor is by its name, if it is one of the model
// that is no linear layer, or its logits; "": none. `written`: the name without PEFT's prefix.
std::string ModuleBeside(absl::string_view written, const TensorNames& names) {
  bool adapts = false;
  for (const absl::string_view end : {".lora_A.weight", ".lora_B.weight", ".lora_embedding_A",
                                      ".lora_embedding_B", ".base_layer.weight"}) {
    adapts = adapts || absl::ConsumeSuffix(&written, end);
  }
  if (!adapts) return "";
  const std::string weight = absl::StrCat(written, ".weight");
  const bool there =
      names.shapes.contains(weight) || names.aliases.contains(weight) || weight == names.head;
  return there && !names.linear.contains(weight) ? std::string(written) : "";
}

// As files of older versions of PEFT have them with bias "all".
bool IsNoParameter(const TensorNames& names, const std::string& name) {
  return names.zeros.contains(name) ||
         std::any_of(names.ignored.begin(), names.ignored.end(),
                     [&](const std::string& end) { return absl::EndsWith(name, end); });
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

bool IsRounded(float a, float b) { return std::abs(a - b) <= std::abs(a) * 0x1p-7f + 0x1p-24f; }

bool IsSaved(const LoraConfig& config, const std::string& name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos) return false;
  const std::vector<std::string>& saved = config.modules_to_save;
  return std::any_of(saved.begin(), saved.end(), [&](const std::string& module) {
    return IsInModule(name.substr(0, dot), module);
  });
}

absl::StatusOr<LoraConfig> ReadAdapterConfig(const std::string& directory) {
  const std::string config = absl::StrCat(directory, "/", kAdapterConfigName);
  const auto text = ReadModelFile(directory, kAdapterConfigName, kMostConfigBytes);
  if (absl::IsNotFound(text.status())) {
    return absl::InvalidArgumentError(
        absl::StrCat(directory, " has no ", kAdapterConfigName,
                     ": an adapter is a directory as PEFT's save_pretrained writes it"));
  }
  RETURN_IF_ERROR(text.status());
  return ParseAdapterConfig(*text, config);
}

absl::Status AnnotateAdapter(const absl::Status& status, const std::string& directory) {
  const std::string base = BaseModelOfAdapter(directory);
  return Annotate(status, absl::StrCat("--adapter ", directory,
                                       base.empty() ? "" : absl::StrCat(" (made for ", base, ")")));
}

absl::StatusOr<std::unique_ptr<AdapterFile>> AdapterFile::Open(const std::string& directory) {
  std::unique_ptr<AdapterFile> adapter(new AdapterFile);
  ASSIGN_OR_RETURN(adapter->config_, ReadAdapterConfig(directory));
  const char* name = kAdapterWeightsName;
  if (absl::IsNotFound(CheckModelFile(directory, name))) name = kFormerAdapterWeightsName;
  const absl::Status checked = CheckModelFile(directory, name);
  if (absl::IsNotFound(checked)) {
    return absl::InvalidArgumentError(
        absl::StrCat(directory, "/", kAdapterWeightsName, " is missing, and so is ", name,
                     ": an adapter is a directory as PEFT's save_pretrained writes it"));
  }
  RETURN_IF_ERROR(checked);
  auto file = SafetensorsFile::Open(absl::StrCat(directory, "/", name));
  RETURN_IF_ERROR(file.status());
  adapter->file_ = *std::move(file);
  for (const SafetensorsTensor& tensor : adapter->file_->tensors()) {
    std::string& written = adapter->written_[ParameterOfPeftName(tensor.name)];
    // Of a module to save PEFT's copy comes before what it replaces.
    if (written.empty() || absl::StrContains(tensor.name, kCopy)) written = tensor.name;
  }
  return adapter;
}

absl::Status AdapterFile::Match(const ModelDescription& model, const AdapterLayout& layout,
                                const TensorNames& names) {
  names_.clear();
  tied_head_.clear();
  tied_to_ = names.tied_to;
  Shapes expected;
  for (const UnitDescription& unit : WithAdapters(layout, model).units) {
    for (const ParameterDescription& p : unit.parameters) {
      if (!IsAdapterName(p.name) && layout.trained.count(p.name) == 0) continue;
      expected[p.name] = {p.shape.begin(), p.shape.end()};
    }
  }
  Shapes shapes = expected;
  for (const auto& [name, shape] : names.shapes) {  // buffers, which older adapters lack
    if (IsSaved(config_, name)) shapes.emplace(name, shape);
  }
  for (const auto& [alias, name] : names.aliases) {  // a bias that is in a tied module, too
    const auto found = names.shapes.find(name);
    if (IsSaved(config_, alias) && found != names.shapes.end()) shapes.emplace(*found);
  }
  for (const SafetensorsTensor& tensor : file_->tensors()) {
    RETURN_IF_ERROR(MatchTensor(tensor, shapes, names));
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

absl::Status AdapterFile::MatchTensor(const SafetensorsTensor& tensor, const Shapes& shapes,
                                      const TensorNames& names) {
  const std::string written = ParameterOfPeftName(tensor.name);
  if (written.empty() || IsNoParameter(names, written)) return absl::OkStatus();
  const auto alias = names.aliases.find(written);
  const std::string name = alias == names.aliases.end() ? written : alias->second;
  // With ensure_weight_tying PEFT writes what it ties to a module to save, and does not name it.
  const bool is_tied_head = !names.tied_to.empty() && name == names.head &&
                            (IsSaved(config_, written) || IsSaved(config_, names.tied_to));
  const Shapes& known_shapes = is_tied_head ? names.shapes : shapes;
  const auto found = known_shapes.find(is_tied_head ? names.tied_to : name);
  if (found == known_shapes.end()) {
    const std::string module = ModuleBeside(written, names);
    // A layer's own matrix is none of these: the config says other layers than the file has.
    const bool is_layers = names.linear.contains(absl::StrCat(module, ".weight"));
    if (!module.empty() && !is_layers) {
      return absl::InvalidArgumentError(absl::StrCat(
          file_->path(), ": tensor ", tensor.name, " is of an adapter beside ", module,
          ", and adapters go beside the layers' matrices alone: not beside embeddings and the "
          "matrix of logits. Let PEFT merge it, or train ",
          module, " whole there (modules_to_save)"));
    }
    return absl::InvalidArgumentError(
        absl::StrCat(file_->path(), ": tensor ", tensor.name, " ", ShapeText(tensor.shape),
                     " belongs to no layer that ", kAdapterConfigName,
                     " adapts in this model: is it an adapter of another one?"));
  }
  if (tensor.shape != found->second) {
    return absl::InvalidArgumentError(absl::StrCat(
        file_->path(), ": tensor ", tensor.name, " has shape ", ShapeText(tensor.shape),
        ", but this model's is ", ShapeText(found->second), ": is it an adapter of another one?"));
  }
  if (is_tied_head) {
    tied_head_ = tensor.name;
    return absl::OkStatus();
  }
  const auto [known, is_new] = names_.emplace(name, tensor.name);
  // Of names that are tied the parameter's own counts.
  if (is_new || names.repeats.contains(written)) return absl::OkStatus();
  const bool replaces = absl::StrContains(tensor.name, kCopy) ||
                        names.repeats.contains(ParameterOfPeftName(known->second));
  if (!replaces && !absl::StrContains(known->second, kCopy)) {
    return absl::InvalidArgumentError(absl::StrCat(file_->path(), ": tensors ", known->second,
                                                   " and ", tensor.name,
                                                   " are the same parameter"));
  }
  if (replaces) known->second = tensor.name;
  return absl::OkStatus();
}

bool AdapterFile::HasWritten(const std::string& name, uint64_t elements) const {
  const auto found = written_.find(name);
  return found != written_.end() && file_->Find(found->second)->elements == elements;
}

uint64_t AdapterFile::RowsWritten(const std::string& name) const {
  const auto found = written_.find(name);
  if (found == written_.end()) return 0;
  const std::vector<uint64_t>& shape = file_->Find(found->second)->shape;
  return shape.empty() ? 0 : shape[0];
}

absl::Status AdapterFile::ReadWritten(const std::string& name, uint64_t first, uint64_t count,
                                      float* out) const {
  return file_->ReadFp32(written_.at(name), first, count, out);
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

absl::Status AdapterFile::CompareTied(uint64_t first, uint64_t count, const float* values) const {
  std::vector<float> head(std::min(kComparedAtOnce, count));
  for (uint64_t done = 0; done < count; done += head.size()) {
    head.resize(std::min(kComparedAtOnce, count - done));
    RETURN_IF_ERROR(file_->ReadFp32(tied_head_, first + done, head.size(), head.data()));
    if (std::equal(head.begin(), head.end(), values + done, IsRounded)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(file_->path(), ": tensor ", tied_head_, " differs from ", tied_to_,
                     ", which the model ties to it: PEFT has trained a copy. Let PEFT merge it, or "
                     "train with \"tie_word_embeddings\": false in the model's config.json"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> AdapterFile::Fingerprint() const {
  ASSIGN_OR_RETURN(const uint64_t digest, file_->Fingerprint());
  return absl::StrFormat("%016x", digest);
}

absl::Status AdaptedWeights::Read(const std::string& name, uint64_t first, uint64_t count,
                                  float* out) {
  if (adapter_ != nullptr && adapter_->Has(name)) {
    RETURN_IF_ERROR(adapter_->Read(name, first, count, out));
  } else {
    const bool from_base = base_ != nullptr && !IsAdapterName(name);
    RETURN_IF_ERROR((from_base ? base_ : initial_)->Read(name, first, count, out));
  }
  const bool tied = adapter_ != nullptr && adapter_->Ties(name);
  return tied ? adapter_->CompareTied(first, count, out) : absl::OkStatus();
}

bool AdaptedWeights::OfBase(const std::string& name) const {
  return base_ != nullptr && !IsAdapterName(name) && (adapter_ == nullptr || !adapter_->Has(name));
}

std::optional<StoredTensor> AdaptedWeights::Stored(const std::string& name) const {
  const bool compared = adapter_ != nullptr && adapter_->Ties(name);
  return OfBase(name) && !compared ? base_->Stored(name) : std::nullopt;
}

PackedFormat AdaptedWeights::packed(const std::string& name) const {
  return OfBase(name) ? base_->packed(name) : PackedFormat::kNone;
}

absl::Status AdaptedWeights::ReadPacked(const std::string& name, const PackedShape& shape,
                                        char* out) {
  return base_->ReadPacked(name, shape, out);
}

}  // namespace spillway
