// spillway estimate, after its flags are checked: estimates the needs of a run.
#include <ATen/Parallel.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/adapters/adapter_file.h"
#include "engine/adapters/tied_logits.h"
#include "engine/config/run_config.h"
#include "engine/data/load_tokenizer.h"
#include "engine/data/token_masking.h"
#include "engine/estimate/estimate.h"
#include "engine/estimate/rank_probe.h"
#include "engine/estimate/run_forecast.h"
#include "engine/families/model_config.h"
#include "engine/layers/build_model.h"
#include "engine/machine/compute_precision.h"
#include "engine/machine/core_limits.h"
#include "engine/machine/memory_limits.h"
#include "engine/machine/process_limits.h"
#include "engine/model/packed_parameters.h"
#include "engine/ranks/shard_plan.h"
#include "engine/tasks/evaluation_metric.h"
#include "engine/tasks/task.h"
#include "engine/tasks/text_sampling.h"
#include "engine/torch/adapted_model.h"
#include "engine/torch/compute_rate.h"
#include "engine/torch/describe_model.h"
#include "engine/torch/init_source.h"
#include "engine/torch/model_compute.h"
#include "engine/torch/open_compute.h"
#include "engine/torch/precision_probe.h"
#include "engine/torch/text_maker.h"
#include "engine/weights/frozen_in_place.h"
#include "engine/weights/named_weights.h"
#include "engine/weights/safetensors_model.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/file_system.h"
#include "tools/compute/compute_commands.h"

namespace spillway {
namespace {

// A longer dry run is only made on request; one that takes a while is announced.
constexpr double kAutoSeconds = 40;
constexpr double kQuietSeconds = 4;
constexpr uint64_t kAutoBytes = uint64_t{2} << 30;

// Replaces the generator of an evaluation's texts, with the same memory.
class ZeroTexts : public TextMaker {
 public:
  ZeroTexts(int64_t beams, int64_t classes) : beams_(beams), classes_(classes) {}
  absl::StatusOr<Batch> BatchOf(absl::Span<const TextBeginning> /*texts*/) override {
    return absl::UnimplementedError("an estimate makes no texts");
  }
  int64_t together() const override { return beams_; }
  int64_t classes() const override { return classes_; }
  absl::StatusOr<std::vector<TextCounts>> Make(int64_t /*begin*/, int64_t /*end*/,
                                               NextTokens& /*next*/) override {
    return absl::UnimplementedError("an estimate makes no texts");
  }

 private:
  const int64_t beams_, classes_;
};

// The model as train would build it, without adapters.
struct Trainable {
  const Task* task;
  ModelConfig config;
  Model model;
};

// Resolves settings that follow from the model, as train does; those that follow from the data stay
// open. None if this build cannot train the model; kInvalidArgument for flags that train refuses
// with it.
absl::StatusOr<std::optional<Trainable>> BuildTrainable(const JsonDocument& document,
                                                        RunConfig& config) {
  absl::StatusOr<ModelConfig> model_config = ParseModelConfig(document, "", config.task);
  if (!model_config.ok() || !model_config->unsupported.empty()) return std::nullopt;
  const Task& task = TaskOf(*model_config);
  RETURN_IF_ERROR(CheckSettingsFitTask(config, task.kind(), task.model_does()));
  if (const std::string& adapter = config.adapter.directory; !adapter.empty()) {
    RETURN_IF_ERROR(
        AnnotateAdapter(UntieForAdapter(adapter, config.model, &*model_config), adapter));
  }
  // If the data defines the labels, it also determines the measures of evaluations.
  const bool is_open = task.AssumeLabels(*model_config);
  RETURN_IF_ERROR(task.Resolve(config, *model_config));
  absl::StatusOr<Model> model = BuildModel(*model_config);
  if (!model.ok()) return std::nullopt;
  if (!is_open) RETURN_IF_ERROR(ResolveMetric(task, *model, config));
  return Trainable{&task, *std::move(model_config), *std::move(model)};
}

// The dry run that train makes before step 1.
absl::StatusOr<DryRun> RunDry(const Model& model, const ModelDescription& description,
                              const TrainOptions& options, Dataset& data, TextMaker* texts,
                              const ComputePlace& place) {
  MemoryBudget budget(
      "device", place.memory->DryRunBytes(options.device_memory_bytes, AvailableMemoryBytes()));
  place.memory->SetBudget(&budget);
  absl::StatusOr<DryRun> found;
  {
    ModelCompute compute(model, description, &data, nullptr, options, place);
    compute.MakeTextsBy(texts);
    found = compute.MeasureNeeds();
  }
  place.memory->SetBudget(nullptr);
  return found;
}

// The model with the adapters that are trained, if any.
absl::StatusOr<Model> TrainedModel(const EstimateRequest& request, const Trainable& trainable,
                                   const ModelShape& shape) {
  if (request.config.adapter.none()) return trainable.model;
  ASSIGN_OR_RETURN(const LoraConfig lora, ResolveLora(request.config.adapter, shape));
  ASSIGN_OR_RETURN(AdaptedModel adapted, AdaptModel(trainable.model, lora, /*training=*/true));
  return std::move(adapted.model);
}

// Scales the memory to other dtypes, which are shown beside the run's, by the bytes of a number:
// for models whose shape does not determine it.
void ScaleToOtherDTypes(const DryRun& times, EstimateInput& input) {
  const uint64_t own = DTypeBytes(input.options.dtype);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const auto scale = [&](uint64_t& bytes) { bytes = bytes * DTypeBytes(dtype) / own; };
    ComputeMemory& memory = input.memory[static_cast<int>(dtype)] = times.memory;
    GraphCosts& graphs = input.graphs[static_cast<int>(dtype)] = times.graphs;
    scale(memory.working_bytes);
    scale(memory.in_flight_bytes);
    for (uint64_t& bytes : memory.input_bytes) scale(bytes);
    for (uint64_t& bytes : graphs.bytes) scale(bytes);
  }
}

bool WantsDryRun(const EstimateInput& input, EstimateRequest::DryRun choice) {
  if (choice == EstimateRequest::DryRun::kNo || !input.trainable) return false;
  const DryRunCost cost = DryRunCostOf(input.shape, input.model, input.options.dtype, input.step,
                                       input.options.products());
  const bool small = cost.bytes < std::min(kAutoBytes, AvailableMemoryBytes() / 4);
  if (choice == EstimateRequest::DryRun::kAuto && (cost.seconds > kAutoSeconds || !small))
    return false;
  if (cost.seconds > kQuietSeconds) {
    LogInfo("computing one layer of each kind to measure it; --dry-run no does without");
  }
  return true;
}

// The trained part of the unit's parameters in the model itself.
double TrainedShare(const EstimateInput& input, int unit) {
  const uint64_t all = input.shape.model.TrainedElements(unit);
  return all > 0 ? std::min(1.0, static_cast<double>(input.model.TrainedElements(unit)) /
                                     static_cast<double>(all))
                 : 0;
}

// Compute times without a dry run: arithmetic divided by the rate of a matrix product.
absl::StatusOr<DryRun> TimesFromShape(const EstimateInput& input, const ComputePlace& place) {
  ASSIGN_OR_RETURN(const double rate, MeasureMatrixFlops(*input.options.compute, place));
  const StepFlops flops = FlopsOf(input.shape, input.step);
  DryRun times;
  times.graphs = GraphCostsOf(input.shape, input.options.dtype, input.step, rate);
  times.forward_seconds = times.graphs.seconds_saved;
  // A third of a layer's backward recomputes it, a third computes its input's gradient, and a third
  // those of its matrices, as far as they are trained; the rest belongs to the head, likewise.
  const size_t units = times.forward_seconds.size();
  times.backward_seconds.assign(units, 0);
  const int first = input.model.first_backward();
  for (int i = first; i < static_cast<int>(units); ++i) {
    times.backward_seconds[i] = (2 + TrainedShare(input, i)) * times.forward_seconds[i];
  }
  const double of_head = (flops.backward - 3 * flops.forward) / rate / 3;
  times.backward_seconds.back() +=
      (2 + (input.shape.tied ? TrainedShare(input, 0)
                             : TrainedShare(input, static_cast<int>(units) - 1))) *
      of_head;
  return times;
}

// Missing paths mean a plan for another machine, which cannot be measured here.
bool PathsExist(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (IsDirectory(path)) continue;
    LogInfo(absl::StrCat("--swap ", path, " is no folder here: no forecast of a step's time"));
    return false;
  }
  return true;
}

// Weights that train would read in place in the model's files: none if they contain no weights, or
// weights that it refuses.
InPlaceUnits FindInPlace(const EstimateRequest& request, const Trainable& trainable,
                         const EstimateInput& input) {
  const auto files = SafetensorsModel::Open(request.config.model);
  if (!files.ok()) return {};
  InitSource new_head(trainable.model, /*seed=*/0);
  TensorNames names = TensorNamesOf(trainable.config);
  names.ignores_sizes = request.config.ignore_mismatched_sizes;
  const auto weights = OpenNamedWeights(names, files->get(), &new_head);
  if (!weights.ok()) return {};
  const DType dtype = input.options.dtype;
  return FindFrozenInPlace(WithWordsOf(DTypeBytes(dtype), input.model), GridOf(input.options),
                           dtype, **weights, input.options.output)
      .in_place;
}

// The plan and its forecast, once memory is known; times if they were measured.
absl::StatusOr<Estimate> FinishEstimate(const EstimateRequest& request,
                                        const std::optional<Trainable>& trainable,
                                        const OpenedPlace& opened, DryRun times,
                                        EstimateInput& input) {
  const auto& units = input.model.units;
  const bool freezes = std::any_of(units.begin(), units.end(),
                                   [](const UnitDescription& unit) { return unit.frozen; });
  if (freezes && trainable) {
    input.in_place = FindInPlace(request, *trainable, input);
  }
  ASSIGN_OR_RETURN(Estimate estimate, MakeEstimate(input));
  if (!PathsExist(input.options.swap_paths)) return estimate;
  if (!input.measured) {
    ASSIGN_OR_RETURN(times, TimesFromShape(input, opened.place));
  }
  const int workers = UpdateWorkers(input.options, UsableCores(), opened.place.device != nullptr);
  input.clock = MeasureClock(*estimate.plan.swaps, input.options,
                             WithoutRecompute(times, estimate.plan.graphs), workers, input.in_place,
                             opened.place.device);
  if (!input.clock) return estimate;
  if (estimate.plan.shards) {
    const auto kept =
        KeptCollectiveRates(estimate.plan.shards->sums, request.device.gpu.has_value());
    input.collective = kept.value_or(kAssumedRates);
    input.collective_assumed = !kept;
  }
  TimeOperations(estimate.plan, times, input.collective, *input.clock);
  ASSIGN_OR_RETURN(estimate, MakeEstimate(input));
  TimeOperations(estimate.plan, times, input.collective, *input.clock);
  estimate.forecast = ForecastRun(*estimate.plan.swaps, *input.clock);
  return estimate;
}

// Determines quantised weights like train, if the files exist; otherwise from config.json.
void TakeQuantised(const EstimateRequest& request, const std::optional<Trainable>& trainable,
                   FreezeRule& freeze) {
  freeze.packing.format = QuantisedAs(request.document.value);
  if (!freeze.packing.any() || !trainable) return;
  const auto files = SafetensorsModel::Open(request.config.model);
  if (!files.ok()) return;
  InitSource new_head(trainable->model, /*seed=*/0);
  TensorNames names = TensorNamesOf(trainable->config);
  names.ignores_sizes = request.config.ignore_mismatched_sizes;
  const auto weights = OpenNamedWeights(names, files->get(), &new_head);
  if (!weights.ok()) return;
  PackedMatrices packed = PackedMatricesOf(names, **weights);
  if (packed.format == PackedFormat::kNone) return;
  freeze.packing.format = packed.format;
  freeze.packed = std::move(packed.names);
}

// Lengths for a model that this build cannot train, from its shape.
absl::StatusOr<SampleLengths> LengthsOfShape(const RunConfig& config, const ModelShape& shape) {
  const int64_t positions = shape.positions;
  const auto length_of = [&](const char* flag, int64_t given,
                             int64_t usual) -> absl::StatusOr<int64_t> {
    if (given == 0) return positions > 0 ? std::min(positions, usual) : usual;
    if (positions == 0 || given <= positions) return given;
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " ", given, " is more than the ", positions, " positions of the model"));
  };
  SampleLengths lengths;
  if (!shape.has_encoder) {
    ASSIGN_OR_RETURN(lengths.source, length_of("--seq-len", config.seq_len, 1024));
    return lengths;
  }
  if (config.seq_len > 0) {
    return absl::InvalidArgumentError(
        "--seq-len is for models with one stack of layers: give --max-source-length and "
        "--max-target-length");
  }
  lengths.source = shape.heard_positions;
  const bool hears = shape.heard_positions > 0;
  if (!hears) {
    ASSIGN_OR_RETURN(lengths.source,
                     length_of("--max-source-length", config.pairs.max_source_length, 1024));
  }
  ASSIGN_OR_RETURN(lengths.target, length_of("--max-target-length", config.pairs.max_target_length,
                                             hears ? positions : 128));
  return lengths;
}

// Positions of a sample, and of the texts that evaluations generate.
absl::StatusOr<SampleLengths> LengthsOf(const RunConfig& config, const ModelShape& shape,
                                        bool resolved) {
  if (!resolved) return LengthsOfShape(config, shape);
  SampleLengths lengths;
  lengths.source = shape.heard_positions > 0 ? shape.heard_positions : config.seq_len;
  const EvaluationTextsChoice& texts = config.evaluation_texts;
  lengths.target = std::max(config.pairs.max_target_length, texts.made ? texts.max_length - 1 : 0);
  return lengths;
}

// None if evaluations generate no texts.
absl::StatusOr<std::optional<ZeroTexts>> TextsOf(const RunConfig& config,
                                                 const std::optional<Trainable>& trainable) {
  const bool writes = config.evaluation_texts.made || !config.sample_prompts.file.empty();
  if (!writes || !trainable) return std::nullopt;
  const TransformerConfig& model = trainable->config.transformer;
  ASSIGN_OR_RETURN(const SamplingOptions sampling,
                   FindSampling({config.evaluation_texts.sampling, "", config.model}, model));
  return ZeroTexts(sampling.beams, model.vocabulary);
}

// The memory of a step in every dtype, by a formula.
void ReckonCompute(const EstimateRequest& request, EstimateInput& input) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const int i = static_cast<int>(dtype);
    TrainOptions other = request.config.train;  // the settings of a run in that dtype
    if (dtype != std::exchange(other.dtype, dtype)) {
      other.compute = ChooseCompute(std::nullopt, dtype, request.device.gpu.has_value());
    }
    input.memory[i] =
        ComputeMemoryOf(input.shape, input.model, dtype, input.step, other.products());
    input.graphs[i] = GraphCostsOf(input.shape, dtype, input.step, kGuessedFlops);
  }
}

}  // namespace

absl::StatusOr<Estimate> EstimateRun(const EstimateRequest& given) {
  EstimateRequest request = given;
  const RunConfig& config = request.config;
  ASSIGN_OR_RETURN(const std::optional<Trainable> trainable,
                   BuildTrainable(request.document, request.config));
  ASSIGN_OR_RETURN(std::optional<ZeroTexts> texts, TextsOf(config, trainable));
  EstimateInput input;
  input.trainable = trainable.has_value();
  input.drive_bytes_per_day = config.train.drive_bytes_per_day;
  input.shape = request.shape;
  if (trainable && trainable->config.untied) {
    input.shape.model = trainable->config.shape.model;
    input.shape.tied = false;
    input.shape.tied_names.clear();
    input.shape.tied_to.clear();
  }
  FreezeRule freeze = config.train.freeze;
  const bool freezes =
      !config.adapter.none() || !freeze.freeze.empty() || !freeze.train_only.empty();
  if (freezes && !freeze.packing.any()) TakeQuantised(request, trainable, freeze);
  ASSIGN_OR_RETURN(input.model, DescribeTrained(input.shape, config.adapter, freeze));
  input.options = config.train;
  // Like train --ranks: all ranks are on this machine.
  input.options.ranks_here = config.train.ranks;
  if (input.options.threads == 0) {
    input.options.threads = std::max(1, UsableCores() / input.options.ranks_here);
  }
  RETURN_IF_ERROR(CheckLimitsForCompute(input.options.threads, 0));
  // The error of train if the data is text.
  const absl::Status tokenizer = CheckTokenizerMemory(
      TokenizerDirectory(config.tokenizer, config.model),
      MemoryForReading(config.train.device_memory_bytes, config.train.host_memory_bytes));
  if (!tokenizer.ok()) LogWarning(absl::StrCat("of data that is text: ", tokenizer.message()));
  at::set_num_threads(input.options.threads);
  ASSIGN_OR_RETURN(const std::unique_ptr<OpenedPlace> opened, OpenCompute(request.device));
  RETURN_IF_ERROR(CheckGivenBudgets(request.device, input.options.device_memory_bytes,
                                    input.options.host_memory_bytes, input.options.ranks_here));
  ChooseBudgets(request.device, &input.options.device_memory_bytes,
                &input.options.host_memory_bytes, input.options.ranks_here);
  DryRun times;
  const bool shape_tells = !trainable || trainable->task->shape_tells_costs();
  SampleLengths lengths;
  input.step = {config.train.micro_batch, config.train.accumulate, /*seq_len=*/1};
  if (shape_tells) {
    ASSIGN_OR_RETURN(lengths, LengthsOf(config, input.shape, input.trainable));
    input.step.seq_len = lengths.source;
    input.step.mask_probability = config.mask_probability.value_or(kMaskProbability);
    ReckonCompute(request, input);
  } else if (request.dry_run == EstimateRequest::DryRun::kNo) {
    return absl::InvalidArgumentError(
        absl::StrCat("--dry-run no: ", config.model, " ", trainable->task->model_does(),
                     ", and what that takes is not known without one; leave it out"));
  }
  if (request.dry_run == EstimateRequest::DryRun::kYes && !input.trainable) {
    return absl::InvalidArgumentError(
        "--dry-run yes: this build can't compute this model; leave it out for the formula");
  }
  if (!shape_tells || WantsDryRun(input, request.dry_run)) {
    ASSIGN_OR_RETURN(const Model trained, TrainedModel(request, *trainable, input.shape));
    ASSIGN_OR_RETURN(input.model, DescribeModel(trained, freeze));
    ASSIGN_OR_RETURN(const auto data,
                     trainable->task->LargestData(config, trainable->config, lengths));
    RETURN_IF_ERROR(ChooseComputeByMeasuring(input.model, *data, request.device.gpu.has_value(),
                                             /*identity=*/nullptr, /*world=*/nullptr,
                                             &input.options));
    ASSIGN_OR_RETURN(times, RunDry(trained, input.model, input.options, *data,
                                   texts ? &*texts : nullptr, opened->place));
    const int i = static_cast<int>(input.options.dtype);
    if (!shape_tells) ScaleToOtherDTypes(times, input);
    input.memory[i] = times.memory;
    input.graphs[i] = times.graphs;
    input.measured = true;
  }
  return FinishEstimate(request, trainable, *opened, times, input);
}

}  // namespace spillway
