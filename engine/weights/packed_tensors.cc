#include "engine/weights/packed_tensors.h"

#include <cstring>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/shallow_json.h"
#include "io/base/status.h"
#include "nlohmann/json.hpp"

namespace spillway {
namespace {

constexpr const char* kState = ".quant_state.bitsandbytes__";
constexpr uint64_t kMostStateBytes = 1 << 16;
constexpr int64_t kMostSize = int64_t{1} << 31;

// The members of a quant_state that are needed.
struct QuantState {
  int64_t rows = 0, columns = 0;
  bool nested = false;
  float mean = 0;
};

std::optional<QuantState> ParseState(const std::string& text) {
  const nlohmann::json json = ParseShallowJson(text);
  if (!json.is_object() || json.value("quant_type", nlohmann::json()) != "nf4" ||
      json.value("blocksize", nlohmann::json()) != PackedShape::kBlock) {
    return std::nullopt;
  }
  const nlohmann::json shape = json.value("shape", nlohmann::json());
  if (!shape.is_array() || shape.size() != 2) return std::nullopt;
  for (const nlohmann::json& size : shape) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > kMostSize) return std::nullopt;
  }
  QuantState state{shape[0].get<int64_t>(), shape[1].get<int64_t>()};
  const auto mean = json.find("nested_offset");
  if (mean == json.end()) return state;
  if (!mean->is_number() ||
      json.value("nested_blocksize", nlohmann::json()) != PackedShape::kNestedBlock) {
    return std::nullopt;
  }
  state.nested = true;
  state.mean = static_cast<float>(mean->get<double>());
  return state;
}

}  // namespace

absl::StatusOr<PackedTensors> PackedTensors::Find(const SafetensorsModel* model) {
  PackedTensors packed(model);
  for (const SafetensorsTensor* tensor : model->tensors()) {
    const absl::string_view name = tensor->name;
    const size_t state = name.find(kState);
    if (state != absl::string_view::npos) {
      RETURN_IF_ERROR(packed.AddNf4(std::string(name.substr(0, state))));
    } else if (tensor->dtype == "I8" && absl::EndsWith(name, ".weight")) {
      RETURN_IF_ERROR(packed.AddInt8(*tensor));
    }
  }
  return packed;
}

PackedShape PackedTensors::shape(const std::string& tensor) const {
  const auto found = shapes_.find(tensor);
  return found == shapes_.end() ? PackedShape() : found->second;
}

absl::StatusOr<const SafetensorsTensor*> PackedTensors::Expect(const std::string& name,
                                                               const char* dtype,
                                                               uint64_t elements) {
  const SafetensorsTensor* const tensor = model_->Find(name);
  if (tensor == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", name, " is missing, which tells how others are quantised"));
  }
  if (tensor->dtype != dtype || tensor->elements != elements) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", name, " has ", tensor->elements, " ",
                                                   tensor->dtype, "; expected ", elements, " ",
                                                   dtype));
  }
  return tensor;
}

absl::Status PackedTensors::CheckTable(const std::string& name, const float* expected,
                                       uint64_t count) {
  RETURN_IF_ERROR(Expect(name, "F32", count).status());
  std::vector<float> values(count);
  RETURN_IF_ERROR(model_->ReadBytes(name, 0, count * sizeof(float), values.data()));
  if (std::memcmp(values.data(), expected, count * sizeof(float)) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", name, " is another code than the one that is known here"));
  }
  beside_.insert(name);
  return absl::OkStatus();
}

absl::Status PackedTensors::AddNf4(const std::string& name) {
  const std::string state_name = absl::StrCat(name, kState, "nf4");
  const SafetensorsTensor* const described = model_->Find(state_name);
  if (described == nullptr || described->dtype != "U8" || described->size_bytes > kMostStateBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", name,
                     " is quantised in a way that is not read here: of "
                     "bitsandbytes' there are nf4 and int8"));
  }
  std::string text(described->size_bytes, '\0');
  RETURN_IF_ERROR(model_->ReadBytes(state_name, 0, text.size(), text.data()));
  const auto state = ParseState(text);
  if (!state) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor ", state_name,
        " describes no matrix in nf4 with blocks of 64 (and of 256 scales), which are those that "
        "are read here"));
  }
  const PackedShape shape{state->nested ? PackedFormat::kNf4Nested : PackedFormat::kNf4,
                          state->rows, state->columns};
  RETURN_IF_ERROR(Expect(name, "U8", shape.codes_bytes()).status());
  const std::string absmax = absl::StrCat(name, ".absmax");
  RETURN_IF_ERROR(Expect(absmax, state->nested ? "U8" : "F32", shape.blocks()).status());
  RETURN_IF_ERROR(CheckTable(absl::StrCat(name, ".quant_map"), Nf4Values(), 16));
  beside_.insert({state_name, absmax});
  if (state->nested) {
    const std::string nested = absl::StrCat(name, ".nested_absmax");
    RETURN_IF_ERROR(Expect(nested, "F32", shape.scales()).status());
    RETURN_IF_ERROR(CheckTable(absl::StrCat(name, ".nested_quant_map"), DynamicMap(), 256));
    beside_.insert(nested);
    means_[name] = state->mean;
  }
  shapes_[name] = shape;
  return absl::OkStatus();
}

absl::Status PackedTensors::AddInt8(const SafetensorsTensor& tensor) {
  const std::string module(absl::StripSuffix(tensor.name, "weight"));  // including the dot
  if (tensor.shape.size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", tensor.name, " is no matrix"));
  }
  const PackedShape shape{PackedFormat::kInt8, static_cast<int64_t>(tensor.shape[0]),
                          static_cast<int64_t>(tensor.shape[1])};
  const std::string scales = absl::StrCat(module, "SCB");
  if (model_->Find(scales) == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor ", tensor.name, " has dtype I8 and no scales ", scales,
        " beside it: of int8 weights bitsandbytes' are read, others must be saved unquantised"));
  }
  RETURN_IF_ERROR(Expect(scales, "F32", shape.scales()).status());
  const std::string format = absl::StrCat(module, "weight_format");
  if (model_->Find(format) != nullptr) {
    RETURN_IF_ERROR(Expect(format, "U8", 1).status());
    char row_major = 0;
    RETURN_IF_ERROR(model_->ReadBytes(format, 0, 1, &row_major));
    if (row_major != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", format,
                       " says that rows do not follow one another: save the "
                       "model with bitsandbytes 0.45 or newer"));
    }
    beside_.insert(format);
  }
  beside_.insert(scales);
  shapes_[tensor.name] = shape;
  return absl::OkStatus();
}

absl::Status PackedTensors::Read(const std::string& tensor, char* out) const {
  const PackedShape packed = shape(tensor);
  std::memset(out, 0, packed.bytes());
  RETURN_IF_ERROR(model_->ReadBytes(tensor, 0, packed.codes_bytes(), out + packed.codes_offset()));
  const uint64_t scales_bytes = packed.scales() * sizeof(float);
  if (packed.format == PackedFormat::kInt8) {
    const std::string module(absl::StripSuffix(tensor, "weight"));
    return model_->ReadBytes(absl::StrCat(module, "SCB"), 0, scales_bytes, out);
  }
  const std::string absmax = absl::StrCat(tensor, ".absmax");
  if (packed.format == PackedFormat::kNf4) return model_->ReadBytes(absmax, 0, scales_bytes, out);
  const float mean = means_.at(tensor);
  std::memcpy(out + packed.mean_offset(), &mean, sizeof(mean));
  RETURN_IF_ERROR(model_->ReadBytes(absmax, 0, packed.blocks(), out + packed.block_codes_offset()));
  return model_->ReadBytes(absl::StrCat(tensor, ".nested_absmax"), 0, scales_bytes, out);
}

}  // namespace spillway
