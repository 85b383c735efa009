// The public entry point for training: Train takes a model and data (engine/torch/model.h) and
// options.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "engine/options/train_options.h"
#include "engine/torch/model.h"
#include "engine/train/train_result.h"

namespace spillway {

class Device;        // swap/device/device.h
class SampleWriter;  // engine/torch/text_maker.h
class TextMaker;
class WeightSource;   // engine/weights/weight_source.h
struct ComputeGuess;  // engine/train/run_context.h
struct StateSource;   // engine/weights/state_source.h

// Callbacks and optional parts of a training run. All pointers outlive the call of Train.
struct TrainHooks {
  // Called after all checks and planning, before the first step; with several ranks, on the first
  // one. `used` has the resolved options: steps, threads, budgets and device. An error ends the
  // run.
  std::function<absl::Status(const TrainOptions& used)> at_start;
  // Called with the state after the last step, or of the commit if the run had already finished;
  // with several ranks, on the first one. ExportWeights (engine/weights/export_weights.h) writes
  // the state as safetensors.
  std::function<absl::Status(const StateSource& state)> at_end;
  // Generates texts in every evaluation and measures them. Null: none. Requires LossUnit::Logits,
  // otherwise Train returns kInvalidArgument.
  TextMaker* texts = nullptr;
  // Writes sample texts to OUTPUT/samples.jsonl at the end of every evaluation. Null: none.
  // Requires LossUnit::Logits, too.
  SampleWriter* samples = nullptr;
  // For tests: a device in whose memory weights and gradient sums reside while the CPU computes.
  // Null: the device of `options`.
  Device* device = nullptr;
  // Upper bound of the memory for computing these samples. Null: unknown.
  const ComputeGuess* guess = nullptr;
};

// Trains `model` on `data` with `options`. Writes metrics.jsonl, eval.jsonl and, unless no_commit,
// commits for --resume to options.output.
//
// `weights` provides the initial weights; null: each parameter's Init. `evaluation` is the held-out
// data; null: none. A parameter that no gradient reaches has a gradient of zeros, so weight decay
// and moments change it; torch's optimizers would skip it.
//
// Blocks until the run ends. It sets LibTorch's thread count and CPU allocator for the process, and
// handles signals (StopSignal): a stopped run returns TrainResult::End::kStopped.
//
// Errors: kInvalidArgument and similar codes for invalid arguments; a status for which ExitCodeOf
// (engine/machine/memory_limits.h) is 3 if the run does not fit the budgets; kDataLoss for wrong
// bytes; kOutOfRange if a loss or a master is not finite (the last commit is good); kInternal for
// an exception of the caller's code.
absl::StatusOr<TrainResult> Train(const Model& model, Dataset& data, Dataset* evaluation,
                                  WeightSource* weights, const TrainOptions& options,
                                  const TrainHooks& hooks = {});

}  // namespace spillway
