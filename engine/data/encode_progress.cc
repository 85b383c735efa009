#include "engine/data/encode_progress.h"

#include <utility>

#include "absl/strings/str_format.h"

namespace spillway {
namespace {

constexpr double kQuietSeconds = 2;
constexpr uint64_t kMegabyte = 1'000'000;

}  // namespace

EncodeProgress::EncodeProgress(std::string label, uint64_t total_bytes)
    : label_(std::move(label)), total_bytes_(total_bytes) {}

void EncodeProgress::Update(uint64_t done_bytes) {
  const double elapsed = MonotonicSeconds() - began_;
  if (!progress_ && elapsed < kQuietSeconds) return;
  if (!progress_) progress_.emplace(label_, static_cast<int64_t>(total_bytes_ / kMegabyte), began_);
  const uint64_t megabytes = done_bytes / kMegabyte;
  if (megabytes == shown_megabytes_) return;
  shown_megabytes_ = megabytes;
  progress_->Update(
      static_cast<int64_t>(megabytes),
      {{absl::StrFormat("%.1f MB/s", static_cast<double>(done_bytes) / elapsed / kMegabyte)}});
}

}  // namespace spillway
