#include "engine/ranks/exchange_stream.h"

#include <cstring>

#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {

absl::Status ExchangeStream::Copy(void* to, const void* from, uint64_t bytes) const {
  if (device_ == nullptr) {
    std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
  device_->Copy(StreamId::kExchange, to, from, bytes);
  return Await();
}

absl::Status ExchangeStream::Read(void* to, const void* from, uint64_t bytes) const {
  SPILLWAY_CHECK(bytes <= kPageBytes);
  if (device_ == nullptr) return Copy(to, from, bytes);
  RETURN_IF_ERROR(Copy(page_, from, bytes));
  std::memcpy(to, page_, bytes);
  return absl::OkStatus();
}

}  // namespace spillway
