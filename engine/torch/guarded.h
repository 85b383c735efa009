// Converts LibTorch's exceptions to a status.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/torch/torch_memory.h"

namespace spillway {

// Calls function() and returns its status, if it returns one. kResourceExhausted if memory is
// refused, kInternal for other exceptions; both begin with `what`.
template <typename Function>
absl::Status Guarded(const TorchMemory& memory, const std::string& what, Function function) {
  try {
    if constexpr (std::is_void_v<decltype(function())>) {
      function();
      return absl::OkStatus();
    } else {
      return function();
    }
  } catch (const c10::OutOfMemoryError& error) {
    // Cached memory was freed before, and the allocation tried again.
    return absl::ResourceExhaustedError(
        absl::StrCat(what, ": ", memory.RefusalText(error.what_without_backtrace())));
  } catch (const c10::Error& error) {
    return absl::InternalError(absl::StrCat(what, ": ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(what, ": ", error.what()));
  } catch (...) {
    return absl::InternalError(absl::StrCat(
        what,
        ": something was thrown that is no std::exception: throw std::runtime_error instead"));
  }
}

}  // namespace spillway
