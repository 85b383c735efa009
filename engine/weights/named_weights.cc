#include "engine/weights/named_weights.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "engine/base/stop_signal.h"
#include "engine/model/packed_parameters.h"
#include "engine/weights/packed_cache.h"
#include "engine/weights/packed_tensors.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr uint64_t kCompareElements = 1 << 16;  // 256 KiB

using Shape = std::vector<uint64_t>;

std::string ShapeText(const Shape& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// What TensorFlow called a norm's weight and bias, as files of the first BERTs still have it.
std::string WithoutGamma(absl::string_view name) {
  if (absl::ConsumeSuffix(&name, "LayerNorm.gamma")) return absl::StrCat(name, "LayerNorm.weight");
  if (absl::ConsumeSuffix(&name, "LayerNorm.beta")) return absl::StrCat(name, "LayerNorm.bias");
  return std::string(name);
}

// The name of a file's tensor in a whole model's file.
std::string WholeName(const TensorNames& names, absl::string_view written) {
  if (!names.other_prefix.empty()) absl::ConsumePrefix(&written, names.other_prefix);
  const std::string name = WithoutGamma(written);
  const auto alias = names.aliases.find(name);
  if (alias != names.aliases.end()) return alias->second;
  if (absl::StartsWith(name, names.base_prefix) || names.shapes.count(name) > 0 ||
      name == names.head) {
    return name;
  }
  return names.base_prefix + name;
}

bool BeginsWithAny(const std::string& name, const std::vector<std::string>& beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](const std::string& begin) { return absl::StartsWith(name, begin); });
}

// `name`: in the file.
bool IsOfOtherHead(const TensorNames& names, const std::string& name,
                   const std::string& whole_name) {
  return BeginsWithAny(name, names.other_heads) || BeginsWithAny(whole_name, names.other_heads);
}

bool IsIgnored(const TensorNames& names, const std::string& name, const std::string& whole_name) {
  return IsOfOtherHead(names, name, whole_name) ||
         std::any_of(names.ignored.begin(), names.ignored.end(),
                     [&](const std::string& end) { return absl::EndsWith(whole_name, end); });
}

bool IsOfFloats(const SafetensorsTensor& tensor) {
  return tensor.dtype == "F32" || tensor.dtype == "F16" || tensor.dtype == "BF16";
}

// Whether the tensor has the first rows of a parameter of `shape`, and lacks some.
bool HasFewerRows(const SafetensorsTensor& tensor, const Shape& shape) {
  if (tensor.shape.size() != shape.size() || shape.empty()) return false;
  return tensor.shape[0] > 0 && tensor.shape[0] < shape[0] &&
         std::equal(shape.begin() + 1, shape.end(), tensor.shape.begin() + 1);
}

// Whether the parameter `name` of `shape` is begun anew although the files have this tensor for it.
bool IsLeftForItsSize(const TensorNames& names, const SafetensorsTensor& tensor,
                      const std::string& name, const Shape& shape) {
  if (!names.ignores_sizes || tensor.shape == shape || !IsOfFloats(tensor)) return false;
  return !names.grown.contains(name) || !HasFewerRows(tensor, shape);
}

// Some of them, and how many more there are.
std::string ShownNames(const std::vector<std::string>& names) {
  constexpr size_t kMost = 8;
  const size_t count = std::min(names.size(), kMost);
  return absl::StrCat(
      absl::StrJoin(names.begin(), names.begin() + count, ", "),
      count < names.size() ? absl::StrCat(" and ", names.size() - count, " more") : "");
}

absl::Status CheckTensor(const SafetensorsTensor& tensor, const Shape& expected,
                         bool whole = false) {
  if (tensor.shape != expected) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", tensor.name, " has shape ",
                                                   ShapeText(tensor.shape), "; config.json means ",
                                                   ShapeText(expected)));
  }
  const bool known = whole ? tensor.dtype == "I64" : IsOfFloats(tensor);
  if (!known) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", tensor.name, " has dtype ",
                                                   tensor.dtype, "; expected ",
                                                   whole ? "I64" : "F32, F16 or BF16"));
  }
  return absl::OkStatus();
}

absl::Status CheckZeros(const SafetensorsTensor& tensor, SafetensorsModel& model) {
  uint64_t count = 1;
  for (const uint64_t size : tensor.shape) count *= size;
  RETURN_IF_ERROR(CheckTensor(tensor, tensor.shape));
  std::vector<float> values(std::min(count, kCompareElements));
  for (uint64_t first = 0; first < count; first += values.size()) {
    const uint64_t n = std::min<uint64_t>(values.size(), count - first);
    RETURN_IF_ERROR(model.Read(tensor.name, first, n, values.data()));
    const auto other = std::find_if(values.begin(), values.begin() + static_cast<int64_t>(n),
                                    [](float value) { return value != 0; });
    if (other == values.begin() + static_cast<int64_t>(n)) continue;
    return absl::InvalidArgumentError(absl::StrCat("tensor ", tensor.name, " has ", *other, " at ",
                                                   first + (other - values.begin()),
                                                   ", and only zeros are supported there"));
  }
  return absl::OkStatus();
}

// As transformers' Conv1D is declared [in, out] and quantised as [out, in].
absl::Status CheckPacked(const std::string& tensor, const PackedShape& packed, LinearWeight linear,
                         const Shape& expected) {
  Shape shape = {static_cast<uint64_t>(packed.rows), static_cast<uint64_t>(packed.columns)};
  if (linear == LinearWeight::kInOut) std::swap(shape[0], shape[1]);
  if (shape == expected && linear != LinearWeight::kNone) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "tensor ", tensor, " is quantised and has shape ", ShapeText(shape), "; config.json means ",
      ShapeText(expected),
      linear == LinearWeight::kNone ? ", of which no layer's matrix is quantised here" : ""));
}

class NamedWeightSource : public WeightSource {
 public:
  // `tied_head`: the tensor that repeats the parameter `tied_to`; "" where none does. What has no
  // name in the file is `initial`'s.
  NamedWeightSource(SafetensorsModel* model, PackedTensors packed,
                    std::map<std::string, ParameterDescription> packed_parameters,
                    std::map<std::string, std::string> names, std::map<std::string, uint64_t> grown,
                    WeightSource* initial, std::string tied_head, std::string tied_to)
      : model_(model),
        packed_(std::move(packed)),
        packed_parameters_(std::move(packed_parameters)),
        names_(std::move(names)),
        grown_(std::move(grown)),
        initial_(initial),
        tied_head_(std::move(tied_head)),
        tied_to_(std::move(tied_to)) {}

  absl::Status Read(const std::string& name, uint64_t first, uint64_t count, float* out) override {
    const auto found = names_.find(name);
    if (found == names_.end() && initial_ != nullptr) {
      return initial_->Read(name, first, count, out);
    }
    if (found == names_.end()) {
      return absl::NotFoundError(absl::StrCat("the model has no parameter ", name));
    }
    if (const auto parameter = packed_parameters_.find(name);
        parameter != packed_parameters_.end()) {
      return Unpack(parameter->second, found->second, first, count, out);
    }
    const auto grown = grown_.find(name);
    if (grown == grown_.end()) return ReadStored(name, found->second, first, count, out);
    const uint64_t stored = std::min(count, std::max(first, grown->second) - first);
    RETURN_IF_ERROR(ReadStored(name, found->second, first, stored, out));
    if (stored == count) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<float>* const mean, MeanRow(found->second));
    for (uint64_t i = stored; i < count; ++i) out[i] = (*mean)[(first + i) % mean->size()];
    return absl::OkStatus();
  }

  // One that the file repeats is compared when it is read.
  std::optional<StoredTensor> Stored(const std::string& name) const override {
    const auto found = names_.find(name);
    if (found == names_.end() || (name == tied_to_ && !tied_head_.empty())) return std::nullopt;
    if (grown_.contains(name)) return std::nullopt;
    if (packed(name) != PackedFormat::kNone) return std::nullopt;
    return model_->Stored(found->second);
  }

  PackedFormat packed(const std::string& name) const override {
    const auto found = packed_parameters_.find(name);
    return found == packed_parameters_.end() ? PackedFormat::kNone : found->second.packing.format;
  }

  absl::Status ReadPacked(const std::string& name, const PackedShape&, char* out) override {
    return packed_.Read(names_.at(name), out);
  }

 private:
  absl::Status ReadStored(const std::string& name, const std::string& tensor, uint64_t first,
                          uint64_t count, float* out) {
    if (count == 0) return absl::OkStatus();
    RETURN_IF_ERROR(model_->Read(tensor, first, count, out));
    if (name != tied_to_ || tied_head_.empty()) return absl::OkStatus();
    return CompareTied(tensor, first, count, out);
  }

  // Of a tensor's rows, from one pass over them.
  absl::StatusOr<const std::vector<float>*> MeanRow(const std::string& tensor) {
    std::vector<float>& mean = means_[tensor];
    if (!mean.empty()) return &mean;
    const std::vector<uint64_t>& shape = model_->Find(tensor)->shape;
    uint64_t width = 1;
    for (size_t i = 1; i < shape.size(); ++i) width *= shape[i];
    const uint64_t at_once = std::max<uint64_t>(1, kCompareElements / width);
    std::vector<float> rows(width * std::min(at_once, shape[0]));
    std::vector<double> sums(width, 0);
    for (uint64_t row = 0; row < shape[0]; row += at_once) {
      RETURN_IF_ERROR(StopSignal::Check());
      const uint64_t n = std::min(at_once, shape[0] - row);
      RETURN_IF_ERROR(model_->Read(tensor, row * width, n * width, rows.data()));
      for (uint64_t i = 0; i < n * width; ++i) sums[i % width] += rows[i];
    }
    for (const double sum : sums) {
      mean.push_back(static_cast<float>(sum / static_cast<double>(shape[0])));
    }
    return &mean;
  }

  absl::Status Unpack(const ParameterDescription& parameter, const std::string& tensor,
                      uint64_t first, uint64_t count, float* out) {
    ASSIGN_OR_RETURN(const auto bytes, cache_.Get(tensor, [&](PackedCache::Bytes* bytes) {
      bytes->resize(parameter.packed_shape().bytes());
      return packed_.Read(tensor, bytes->data());
    }));
    UnpackElements(parameter, bytes->data(), first, count, out);
    return absl::OkStatus();
  }

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
  const PackedTensors packed_;
  const std::map<std::string, ParameterDescription> packed_parameters_;
  PackedCache cache_;
  std::map<std::string, std::string> names_;         // of the parameter -> in the file
  const std::map<std::string, uint64_t> grown_;      // of the parameter -> elements in the file
  std::map<std::string, std::vector<float>> means_;  // of the file's tensor
  WeightSource* const initial_;                      // null: all are in the file
  const std::string tied_head_, tied_to_;
};

}  // namespace

std::map<std::string, std::string> ParametersOfTensors(const TensorNames& names,
                                                       const SafetensorsModel& model) {
  std::map<std::string, std::string> parameters;
  for (const SafetensorsTensor* tensor : model.tensors()) {
    std::string name = WholeName(names, tensor->name);
    if (IsIgnored(names, tensor->name, name)) continue;
    if (!names.tied_to.empty() && name == names.head) name = names.tied_to;
    const auto shape = names.shapes.find(name);
    if (shape == names.shapes.end() || IsLeftForItsSize(names, *tensor, name, shape->second)) {
      continue;
    }
    parameters.emplace(tensor->name, std::move(name));
  }
  return parameters;
}

std::vector<std::string> NamesOfParameter(const TensorNames& names, const std::string& parameter) {
  std::vector<std::string> all = {parameter};
  for (const auto& [alias, name] : names.aliases) {
    if (name != parameter) continue;
    if (!names.repeats.contains(alias)) {
      all[0] = alias;
    } else if (!absl::StartsWith(name, names.base_prefix) ||
               absl::StartsWith(alias, names.base_prefix)) {  // otherwise of a file without a head
      all.push_back(alias);
    }
  }
  if (parameter == names.tied_to && !names.head.empty()) {
    all.push_back(NamesOfParameter(names, names.head)[0]);
  }
  return all;
}

PackedMatrices PackedMatricesOf(const TensorNames& names, const WeightSource& weights) {
  PackedMatrices found;
  for (const auto& [name, linear] : names.linear) {
    found.format = std::max(found.format, weights.packed(name));
  }
  if (found.format == PackedFormat::kNone) return found;
  for (const auto& [name, linear] : names.linear) {
    if (weights.packed(name) == found.format) found.names.insert(name);
  }
  return found;
}

absl::StatusOr<std::unique_ptr<WeightSource>> OpenNamedWeights(
    const TensorNames& expected, SafetensorsModel* model, WeightSource* initial,
    const std::set<std::string>& elsewhere) {
  ASSIGN_OR_RETURN(PackedTensors packed, PackedTensors::Find(model));
  std::map<std::string, ParameterDescription> packed_parameters;
  std::map<std::string, std::string> names;
  std::map<std::string, uint64_t> grown;
  std::set<std::string> replaced;
  std::vector<std::string> of_other_heads, of_other_sizes;
  std::string tied_head;
  for (const SafetensorsTensor* tensor : model->tensors()) {
    const std::string name = WholeName(expected, tensor->name);
    if (IsOfOtherHead(expected, tensor->name, name)) of_other_heads.push_back(tensor->name);
    if (packed.IsBeside(tensor->name) || IsIgnored(expected, tensor->name, name)) continue;
    if (expected.zeros.contains(tensor->name)) {
      RETURN_IF_ERROR(CheckZeros(*tensor, *model));
      continue;
    }
    const bool is_tied_head = !expected.tied_to.empty() && name == expected.head;
    const auto wanted = expected.shapes.find(is_tied_head ? expected.tied_to : name);
    if (wanted == expected.shapes.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", tensor->name, " ", ShapeText(tensor->shape),
                       " does not belong to the model that config.json describes"));
    }
    const PackedShape quantised = packed.shape(tensor->name);
    if (quantised.format == PackedFormat::kNone) {
      // A head that an adapter has whole may be for another number of labels.
      if (elsewhere.contains(wanted->first) && tensor->shape != wanted->second) continue;
      if (initial != nullptr &&
          IsLeftForItsSize(expected, *tensor, wanted->first, wanted->second)) {
        replaced.insert(wanted->first);
        of_other_sizes.push_back(absl::StrCat(tensor->name, " ", ShapeText(tensor->shape),
                                              ", here ", ShapeText(wanted->second)));
        continue;
      }
      const bool grows =
          expected.grown.contains(wanted->first) && HasFewerRows(*tensor, wanted->second);
      const absl::Status fits = CheckTensor(*tensor, grows ? tensor->shape : wanted->second,
                                            expected.whole.contains(name));
      if (!fits.ok() && initial != nullptr && tensor->shape != wanted->second) {
        return absl::InvalidArgumentError(
            absl::StrCat(fits.message(), "; --ignore-mismatched-sizes begins it anew"));
      }
      RETURN_IF_ERROR(fits);
      if (grows) {
        uint64_t stored = 1;
        for (const uint64_t size : tensor->shape) stored *= size;
        grown[is_tied_head ? expected.head : name] = stored;
      }
    } else {
      const auto linear = expected.linear.find(name);
      ParameterDescription parameter{name, {wanted->second.begin(), wanted->second.end()}};
      if (linear != expected.linear.end()) parameter.linear = linear->second;
      parameter.packing.format = quantised.format;
      RETURN_IF_ERROR(CheckPacked(tensor->name, quantised, parameter.linear, wanted->second));
      packed_parameters.emplace(name, std::move(parameter));
    }
    if (is_tied_head) {
      tied_head = tensor->name;
      continue;
    }
    // Of a matrix that files have under several names the parameter's own counts.
    const auto [known, is_new] = names.emplace(name, tensor->name);
    if (is_new) continue;
    if (!expected.repeats.contains(known->second) && !expected.repeats.contains(tensor->name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensors ", names[name], " and ", tensor->name, " are the same parameter"));
    }
    if (tensor->name == name) known->second = name;
  }
  if (!tied_head.empty()) {
    if (names.emplace(expected.tied_to, tied_head).second) {  // it stands in
      if (grown.contains(expected.head)) grown[expected.tied_to] = grown[expected.head];
      tied_head.clear();
    }
  }
  if (const auto tokens = names.find(expected.untied_from); tokens != names.end()) {
    names.emplace(expected.head, tokens->second);
    if (grown.contains(expected.untied_from)) grown[expected.head] = grown[expected.untied_from];
  }
  std::vector<std::string> made;
  for (const auto& [name, shape] : expected.shapes) {
    if (names.count(name) > 0 || elsewhere.count(name) > 0) continue;
    if (replaced.contains(name)) continue;
    if (initial != nullptr && BeginsWithAny(name, expected.new_head)) {
      made.push_back(name);
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor ", name, " ", ShapeText(shape), " is missing (",
        expected.shapes.size() - names.size(), " of ", expected.shapes.size(), " are)"));
  }
  if (!of_other_heads.empty()) {
    LogInfo(absl::StrCat("left aside, as tensors of another head: ", ShownNames(of_other_heads)));
  }
  if (!of_other_sizes.empty()) {
    LogWarning(absl::StrCat("begun anew, for the files have them in another size: ",
                            ShownNames(of_other_sizes)));
  }
  if (!made.empty()) {
    LogInfo(absl::StrCat("not in the files, and so begun anew: ", absl::StrJoin(made, ", ")));
  }
  const bool begins_some = !made.empty() || !replaced.empty();
  return std::make_unique<NamedWeightSource>(
      model, std::move(packed), std::move(packed_parameters), std::move(names), std::move(grown),
      begins_some ? initial : nullptr, std::move(tied_head), expected.tied_to);
}

}  // namespace spillway
