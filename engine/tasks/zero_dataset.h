// A dataset of a run's size whose every batch is the largest one, without any data.
#pragma once

#include <functional>
#include <memory>

#include "engine/config/run_config.h"
#include "engine/torch/model.h"

namespace spillway {

// `make`: a batch of so many samples.
std::unique_ptr<Dataset> NewZeroDataset(const RunConfig& config,
                                        std::function<Batch(int64_t count)> make);

}  // namespace spillway
