#include "engine/tasks/zero_dataset.h"

#include <utility>

namespace spillway {
namespace {

class ZeroDataset : public Dataset {
 public:
  ZeroDataset(int64_t size, std::function<Batch(int64_t count)> make)
      : size_(size), make_(std::move(make)) {}

  int64_t size() const override { return size_; }
  absl::StatusOr<Batch> Get(absl::Span<const int64_t> samples) override {
    return make_(static_cast<int64_t>(samples.size()));
  }
  std::string fingerprint() const override { return "zeros"; }

 private:
  const int64_t size_;
  const std::function<Batch(int64_t count)> make_;
};

}  // namespace

std::unique_ptr<Dataset> NewZeroDataset(const RunConfig& config,
                                        std::function<Batch(int64_t count)> make) {
  return std::make_unique<ZeroDataset>(config.train.micro_batch * config.train.accumulate,
                                       std::move(make));
}

}  // namespace spillway
