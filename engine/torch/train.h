// The public way to train: a model and data on engine/torch/model.h's terms, and options.
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

struct TrainHooks {
  // Called when everything has been checked and planned, before the first step, with the options
  // as they are used: steps, threads, budgets and device are found out.
  std::function<absl::Status(const TrainOptions& used)> at_start;
  // Called with the state after the last step (or that of the commit, when the run had
  // finished before): ExportWeights (engine/weights/export_weights.h) writes it as safetensors.
  std::function<absl::Status(const StateSource& state)> at_end;
  // Makes texts in every evaluation, whose measures they are; outlives the call. Null: none.
  // kInvalidArgument where the model's loss has no Logits.
  TextMaker* texts = nullptr;
  // Writes samples at the end of every evaluation, into OUTPUT/samples.jsonl; likewise.
  SampleWriter* samples = nullptr;
  // For tests: a device whose memory weights and gradient sums shall be in while the processor
  // computes; outlives the call. Null: as options.device says.
  Device* device = nullptr;
  // What computing takes at most as the samples are; outlives the call. Null: that is not known.
  const ComputeGuess* guess = nullptr;
};

// Trains `model` on `data` as `options` say, into options.output: metrics.jsonl,
// eval.jsonl and, unless no_commit, commits that --resume continues from.
//
// `weights` gives the first weights; null: every parameter's Init. `evaluation` may be
// null. A parameter that no gradient reaches has a gradient of zeros: weight decay and moments
// change it all the same, where torch's optimizers leave it as it is. Sets LibTorch's thread
// count and CPU allocator for the process, and handles signals meanwhile (StopSignal)
// (TrainResult::End::kStopped).
//
// Errors: kInvalidArgument and the like for what the caller can mend; a status for
// which ExitCodeOf gives 3 when the run does not fit the budgets; kDataLoss for wrong
// bytes; kOutOfRange when a loss or a master is not finite (the last commit is good);
// kInternal for what the caller's code throws.
absl::StatusOr<TrainResult> Train(const Model& model, Dataset& data, Dataset* evaluation,
                                  WeightSource* weights, const TrainOptions& options,
                                  const TrainHooks& hooks = {});

}  // namespace spillway
