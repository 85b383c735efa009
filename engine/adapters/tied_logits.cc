#include "engine/adapters/tied_logits.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/adapters/adapter_file.h"
#include "engine/weights/named_weights.h"
#include "engine/weights/safetensors_model.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr uint64_t kComparedElements = 1 << 16;  // 256 KiB

// Whether the adapter's copy of `name` (a name in transformers) has the values that `read` returns.
template <typename Read>
absl::StatusOr<bool> IsEqual(const AdapterFile& adapter, const std::string& name, uint64_t elements,
                             const Read& read) {
  std::vector<float> copy(std::min(elements, kComparedElements)), other(copy.size());
  for (uint64_t first = 0; first < elements; first += copy.size()) {
    const uint64_t count = std::min<uint64_t>(copy.size(), elements - first);
    RETURN_IF_ERROR(adapter.ReadWritten(name, first, count, copy.data()));
    RETURN_IF_ERROR(read(first, count, other.data()));
    if (!std::equal(copy.begin(), copy.begin() + static_cast<int64_t>(count), other.begin(),
                    IsRounded)) {
      return false;
    }
  }
  return true;
}

// Whether the model with the adapter applied is still tied.
absl::StatusOr<bool> StaysTied(const AdapterFile& adapter, const std::string& model_directory,
                               const TensorNames& names, const std::string& tokens) {
  const LoraConfig& lora = adapter.config();
  const std::vector<std::string> all = NamesOfParameter(names, tokens);
  const bool saves_tokens = IsSaved(lora, tokens);
  bool saves_any = saves_tokens;
  for (const std::string& name : all) saves_any = saves_any || IsSaved(lora, name);
  if (!saves_any) return true;
  uint64_t elements = 1;
  for (const uint64_t size : names.shapes.at(tokens)) elements *= size;
  // A missing copy is reported by AdapterFile::Match.
  if (saves_tokens && !adapter.HasWritten(all[0], elements)) return true;

  std::unique_ptr<SafetensorsModel> files;
  std::unique_ptr<WeightSource> base;
  if (!saves_tokens) {
    auto opened = SafetensorsModel::Open(model_directory);
    if (absl::IsNotFound(opened.status())) return true;  // its values are drawn randomly
    RETURN_IF_ERROR(opened.status());
    files = *std::move(opened);
    ASSIGN_OR_RETURN(base, OpenNamedWeights(names, files.get(), nullptr, adapter.parameters()));
  }
  for (size_t i = 1; i < all.size(); ++i) {
    // The file tells whether ensure_weight_tying had an effect: PEFT supports few kinds of
    // embeddings.
    if (!adapter.HasWritten(all[i], elements)) {
      if (saves_tokens) return false;
      continue;
    }
    ASSIGN_OR_RETURN(
        const bool equal,
        IsEqual(adapter, all[i], elements, [&](uint64_t first, uint64_t count, float* out) {
          if (base) return base->Read(tokens, first, count, out);
          return adapter.ReadWritten(all[0], first, count, out);
        }));
    if (!equal) return false;
  }
  return true;
}

}  // namespace

absl::Status UntieForAdapter(const std::string& adapter_directory,
                             const std::string& model_directory, ModelConfig* config) {
  const TensorNames names = TensorNamesOf(*config);
  const std::string tokens = config->shape.tied_to;
  if (tokens.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto adapter, AdapterFile::Open(adapter_directory));
  ASSIGN_OR_RETURN(const bool tied, StaysTied(*adapter, model_directory, names, tokens));
  if (tied) return absl::OkStatus();
  auto untied = WithUntiedLogits(*config);
  if (!untied.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("PEFT has trained ", tokens,
                     " apart from what the model ties to it: ", untied.status().message(),
                     ". Let PEFT merge it, or train the embedding here (--modules-to-save ",
                     ModuleOf(tokens), ")"));
  }
  LogInfo(absl::StrCat(names.head, " is apart from ", tokens,
                       ", which the model's files tie: PEFT trained a copy of one of them"));
  *config = *std::move(untied);
  return absl::OkStatus();
}

}  // namespace spillway
