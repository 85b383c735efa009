#include "io/create_io_engine.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/thread_engine.h"
#include "io/uring_engine.h"

namespace spillway {
namespace {

// Linux moves a little less than 2 GiB in one call; a block of a GiB is far
// beyond what any device needs to be busy.
constexpr uint32_t kLargestBlockBytes = 1u << 30;
constexpr uint32_t kSmallestBlockBytes = 512;
// Eight times what fills the fastest drive; the ring has an entry for each.
constexpr uint32_t kDeepest = 4096;
constexpr uint32_t kMostThreads = 256;

// "io_uring (DEFER_TASKRUN, registered files), SHAPE; without registered buffers: ENOMEM, ..."
std::string DescribeEngine(const UringEngine& engine, const std::string& shape) {
  const IoFeatures features = engine.features();
  std::string line =
      absl::StrCat("I/O engine: io_uring (",
                   features.on.empty() ? "plain" : absl::StrJoin(features.on, ", "), "), ", shape);
  for (const IoFeatures::Refused& refused : features.refused) {
    absl::StrAppend(&line, "; without ", refused.feature, ": ", refused.reason);
  }
  return line;
}

std::string Shape(const IoEngineOptions& options) {
  return absl::StrCat(options.depth, " blocks of ", options.block_bytes >> 10, " KiB in flight",
                      options.origin.empty() ? "" : absl::StrCat(" (", options.origin, ")"));
}

}  // namespace

absl::Status CheckIoEngineOptions(const IoEngineOptions& options) {
  if (options.block_bytes < kSmallestBlockBytes || options.block_bytes > kLargestBlockBytes ||
      options.block_bytes % kSmallestBlockBytes != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("I/O block size of ", options.block_bytes, " bytes: use a multiple of ",
                     kSmallestBlockBytes, " up to ", kLargestBlockBytes));
  }
  if (options.depth < 1 || options.depth > kDeepest) {
    return absl::InvalidArgumentError(
        absl::StrCat("I/O queue depth of ", options.depth, ": use 1 to ", kDeepest));
  }
  if (options.threads < 1 || options.threads > kMostThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("I/O threads: ", options.threads, ": use 1 to ", kMostThreads));
  }
  if (options.write_window_bytes < 1) {
    return absl::InvalidArgumentError("I/O write window of 0 bytes: use at least 1");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<IoEngine>> CreateIoEngine(const IoEngineOptions& options) {
  using Kind = IoEngineOptions::Kind;
  RETURN_IF_ERROR(CheckIoEngineOptions(options));
  std::string reason = "as asked for";
  IoFeatures features;
  if (options.kind != Kind::kThreads) {
    absl::StatusOr<std::unique_ptr<UringEngine>> uring = UringEngine::Create(options);
    if (uring.ok()) {
      if (options.announce) {
        LogInfo(DescribeEngine(**uring, Shape(options)));
      }
      return *std::move(uring);
    }
    if (options.kind == Kind::kUring) return uring.status();
    features.refused = {{"io_uring", std::string(uring.status().message())}};
    reason = absl::StrCat("because io_uring is refused: ", features.refused[0].reason);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<ThreadEngine> threads,
                   ThreadEngine::Create(options, std::move(features)));
  if (options.announce) {
    LogInfo(
        absl::StrCat("I/O engine: ", options.threads, " threads, ", Shape(options), ", ", reason));
  }
  return threads;
}

}  // namespace spillway
