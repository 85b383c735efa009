#include "engine/model/state_buffer.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr uint64_t kMostElements = uint64_t{1} << 40;

}  // namespace

nlohmann::json ToJson(const std::vector<StateBuffer>& buffers) {
  nlohmann::json list = nlohmann::json::array();
  for (const StateBuffer& buffer : buffers) {
    nlohmann::json bits = nlohmann::json::array();
    for (float value : buffer.values) bits.push_back(std::bit_cast<uint32_t>(value));
    list.push_back({{"name", buffer.name}, {"shape", buffer.shape}, {"bits", std::move(bits)}});
    if (buffer.whole) list.back()["whole"] = true;
  }
  return list;
}

absl::StatusOr<std::vector<StateBuffer>> StateBuffersFromJson(const nlohmann::json& json) {
  const auto broken = [](absl::string_view what) {
    return WrongBytesError(absl::StrCat("the commit's list of buffers: ", what));
  };
  if (!json.is_array()) return broken("it is no list");
  std::vector<StateBuffer> buffers;
  try {
    for (const auto& one : json) {
      StateBuffer& buffer = buffers.emplace_back();
      buffer.name = one.at("name").get<std::string>();
      uint64_t elements = 1;
      for (const auto& extent : one.at("shape")) {
        const bool number = extent.is_number_unsigned();
        if (!number || extent.get<uint64_t>() > kMostElements / std::max<uint64_t>(1, elements)) {
          return broken("an impossible shape");
        }
        buffer.shape.push_back(extent.get<int64_t>());
        elements *= extent.get<uint64_t>();
      }
      const auto& bits = one.at("bits");
      if (!bits.is_array() || bits.size() != elements) return broken("values of another shape");
      for (const auto& value : bits) {
        if (!value.is_number_unsigned() || value.get<uint64_t>() > UINT32_MAX) {
          return broken("a value that is none");
        }
        buffer.values.push_back(std::bit_cast<float>(value.get<uint32_t>()));
      }
      buffer.whole = one.value("whole", false);
    }
  } catch (const nlohmann::json::exception& error) {
    return broken(error.what());
  }
  return buffers;
}

}  // namespace spillway
