// What a commit says of a run beside its tiles: how far it is, what it is, and what a
// resumed run must agree with. JSON inside the manifest.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/loss_scale.h"
#include "engine/model_description.h"
#include "engine/train_options.h"

namespace spillway {

struct RunState {
  int64_t step = 0;           // steps behind it; the data cursor follows from it
  int64_t applied_steps = 0;  // of these, not skipped: what bias corrections count
  bool finished = false;
  LossScaleState loss_scale;
  DType dtype = DType::kBFloat16;
  int threads = 0;
  // (name, value) pairs that must be the same on resume.
  std::vector<std::pair<std::string, std::string>> identity;
  ModelDescription model;
  // Where the store is: the parents, and how often the run has moved.
  std::vector<std::string> parents;
  int store_number = 0;
};

// The manifest of the commit in `directory`: an OUTPUT, or a copy of a commit.
std::string CommitManifestPath(const std::string& directory);

std::string EncodeRunState(const RunState& state);
// kDataLoss for what EncodeRunState would not have written, kInvalidArgument for another
// version. Pure.
absl::StatusOr<RunState> DecodeRunState(const std::string& text);

// The values of `options` that decide a run's bits, by the flags' names, with
// options.identity in front.
std::vector<std::pair<std::string, std::string>> RunIdentity(const TrainOptions& options);

// kInvalidArgument that names every difference.
absl::Status CompareIdentity(const RunState& committed,
                             const std::vector<std::pair<std::string, std::string>>& now);

}  // namespace spillway
