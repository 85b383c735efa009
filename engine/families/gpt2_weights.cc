#include "engine/families/gpt2_weights.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/weights/safetensors_model.h"

namespace spillway {
namespace {

constexpr char kEmbedding[] = "transformer.wte.weight";
constexpr char kHead[] = "lm_head.weight";
constexpr uint64_t kCompareElements = 1 << 16;  // 256 KiB

using Shape = std::vector<uint64_t>;

std::string ShapeText(const Shape& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// The name under which transformers' GPT2LMHeadModel knows a tensor of a file.
std::string FullName(const std::string& name) {
  if (absl::StartsWith(name, "transformer.") || absl::StartsWith(name, "lm_head.")) return name;
  return "transformer." + name;
}

// Causal masks that old transformers versions saved with the weights.
bool IsMaskBuffer(absl::string_view full_name) {
  return absl::StartsWith(full_name, "transformer.h.") &&
         (absl::EndsWith(full_name, ".attn.bias") ||
          absl::EndsWith(full_name, ".attn.masked_bias"));
}

std::map<std::string, Shape> ExpectedShapes(const Gpt2Config& config) {
  std::map<std::string, Shape> shapes;
  for (const UnitDescription& unit : config.Shape().model.units) {
    for (const ParameterDescription& parameter : unit.parameters) {
      shapes[parameter.name] = Shape(parameter.shape.begin(), parameter.shape.end());
    }
  }
  return shapes;
}

absl::Status CheckTensor(const SafetensorsTensor& tensor, const Shape& expected) {
  if (tensor.shape != expected) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", tensor.name, " has shape ",
                                                   ShapeText(tensor.shape), "; config.json means ",
                                                   ShapeText(expected)));
  }
  if (tensor.dtype != "F32" && tensor.dtype != "F16" && tensor.dtype != "BF16") {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", tensor.name, " has dtype ",
                                                   tensor.dtype, "; expected F32, F16 or BF16"));
  }
  return absl::OkStatus();
}

class Gpt2WeightSource : public WeightSource {
 public:
  // `tied_head`: the tensor that repeats the embedding; "" where none does.
  Gpt2WeightSource(SafetensorsModel* model, std::map<std::string, std::string> names,
                   std::string tied_head)
      : model_(model), names_(std::move(names)), tied_head_(std::move(tied_head)) {}

  absl::Status Read(const std::string& name, uint64_t first, uint64_t count, float* out) override {
    const auto found = names_.find(name);
    if (found == names_.end()) {
      return absl::NotFoundError(absl::StrCat("the model has no parameter ", name));
    }
    auto status = model_->Read(found->second, first, count, out);
    if (!status.ok() || name != kEmbedding || tied_head_.empty()) return status;
    return CompareTied(found->second, first, count, out);
  }

 private:
  // A tied head that the file repeats must repeat it exactly. Whoever reads a part compares it, so
  // that nobody has to read all of both.
  absl::Status CompareTied(const std::string& embedding, uint64_t first, uint64_t count,
                           const float* values) {
    std::vector<float> head(std::min(kCompareElements, count));
    for (uint64_t done = 0; done < count; done += head.size()) {
      const uint64_t n = std::min<uint64_t>(head.size(), count - done);
      auto status = model_->Read(tied_head_, first + done, n, head.data());
      if (!status.ok()) return status;
      if (std::memcmp(values + done, head.data(), n * sizeof(float)) == 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", tied_head_, " differs from ", embedding,
                       ", but config.json ties them: set \"tie_word_embeddings\": false to train "
                       "both, or remove ",
                       tied_head_, " from the file"));
    }
    return absl::OkStatus();
  }

  SafetensorsModel* model_;
  std::map<std::string, std::string> names_;  // of the parameter -> in the file
  const std::string tied_head_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WeightSource>> OpenGpt2Weights(const Gpt2Config& config,
                                                              SafetensorsModel* model) {
  const std::map<std::string, Shape> expected = ExpectedShapes(config);

  std::map<std::string, std::string> names;
  std::string tied_head;
  for (const SafetensorsTensor* tensor : model->tensors()) {
    const std::string name = FullName(tensor->name);
    if (IsMaskBuffer(name)) continue;
    const bool is_tied_head = config.tie_word_embeddings && name == kHead;
    const auto wanted = expected.find(is_tied_head ? kEmbedding : name);
    if (wanted == expected.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", tensor->name, " ", ShapeText(tensor->shape),
                       " does not belong to the model that config.json describes"));
    }
    if (auto status = CheckTensor(*tensor, wanted->second); !status.ok()) return status;
    if (is_tied_head) {
      tied_head = tensor->name;
    } else if (!names.emplace(name, tensor->name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensors ", names[name], " and ", tensor->name, " are the same parameter"));
    }
  }
  if (!tied_head.empty()) {
    if (names.emplace(kEmbedding, tied_head).second) tied_head.clear();  // it stands in
  }
  for (const auto& [name, shape] : expected) {
    if (names.count(name) > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("tensor ", name, " ", ShapeText(shape),
                                                   " is missing (", expected.size() - names.size(),
                                                   " of ", expected.size(), " are)"));
  }
  return std::make_unique<Gpt2WeightSource>(model, std::move(names), std::move(tied_head));
}

}  // namespace spillway
