#include "engine/torch/step_batches.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/data/window_sampler.h"
#include "engine/torch/guarded.h"
#include "engine/torch/tensor_views.h"
#include "io/base/status.h"

namespace spillway {
namespace {

// Checks a dataset's batch for `samples` samples. Beginnings of texts have no labels.
absl::Status CheckBatch(const Batch& batch, int64_t samples, bool has_labels) {
  absl::Status status;
  const auto check = [&](const std::string& what, const torch::Tensor& tensor, bool flat) {
    if (!tensor.defined()) {
      status.Update(absl::InvalidArgumentError(
          absl::StrCat("the dataset gave no ", what, " (Dataset::Get, Draw, Largest)")));
      return;
    }
    const int64_t rows = tensor.dim() == 0 ? 0 : tensor.size(0);
    if (rows == samples || (flat && tensor.dim() == 1 && rows > 0 && rows % samples == 0)) return;
    status.Update(absl::InvalidArgumentError(
        absl::StrCat("the dataset gave ", what, " of ", rows, " samples where ", samples,
                     " were asked for (Dataset::Get, Draw, Largest)")));
  };
  check("inputs", batch.inputs, false);
  for (const auto& [name, field] : batch.fields) {
    check(absl::StrCat("field \"", name, "\""), field, false);
  }
  if (!has_labels) return status;
  check("labels", batch.labels, true);  // labels may be flattened over samples
  if (!status.ok() || batch.labels.scalar_type() == torch::kInt64 ||
      batch.labels.is_floating_point()) {
    return status;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the dataset gave labels of dtype ", c10::toString(batch.labels.scalar_type()),
      ": they must be int64, or floating where they are numbers (Dataset::Get, Draw, Largest)"));
}

// Size of a moved tensor: its bytes, aligned like LibTorch's.
uint64_t MovedBytes(const torch::Tensor& tensor) { return (tensor.nbytes() + 63) / 64 * 64; }

}  // namespace

void MicroBatch::MoveInput(int unit, const OpBuffers& buffers, const ComputePlace& place,
                           uint64_t* end_bytes) {
  const torch::Tensor input = std::exchange(inputs[unit], torch::Tensor());
  const uint64_t bytes = MovedBytes(input);
  TORCH_CHECK(*end_bytes + bytes <= buffers.inputs_bytes,
              "its inputs are larger than in the dry run before step 1; Dataset::Largest says how "
              "large samples get");
  char* const to = buffers.inputs + *end_bytes;
  if (place.where.is_cpu()) {
    std::memcpy(to, input.data_ptr(), input.nbytes());
  } else {
    // LibTorch may reuse the memory before it has been copied: the new content comes later in the
    // same stream.
    ViewAt(to, input.sizes(), input.strides(), input.scalar_type(), torch::kCPU)
        .copy_(input, /*non_blocking=*/true);
  }
  moved[unit] = {*end_bytes, input.sizes().vec(), input.strides().vec(), input.scalar_type()};
  *end_bytes += bytes;
}

void MicroBatch::TakeInput(int unit, const OpBuffers& buffers, const ComputePlace& place) {
  const MovedInput& from = moved[unit];
  const torch::Tensor kept =
      ViewAt(buffers.inputs + from.offset_bytes, from.sizes, from.strides, from.type, torch::kCPU);
  inputs[unit] = place.where.is_cpu() ? kept
                                      : torch::empty_strided(from.sizes, from.strides,
                                                             kept.options().device(place.where))
                                            .copy_(kept, /*non_blocking=*/true);
}

absl::Status StepBatches::LoadTraining(int64_t step) {
  now_ = {};
  Loaded ahead = std::exchange(ahead_, {});
  if (std::exchange(ahead_step_, 0) == step) {
    now_ = std::move(ahead);
  } else {
    ahead = {};
    ASSIGN_OR_RETURN(now_, Step(step));
  }
  labels_ = now_.labels;
  tokens_ = now_.tokens;
  return Guarded(*place_.memory, "preparing a batch", [&] { data_->Prepare(SamplesOf(step + 1)); });
}

absl::StatusOr<const std::vector<MicroBatch>*> StepBatches::LoadAhead(int64_t step) {
  ahead_ = {};
  ahead_step_ = 0;
  ASSIGN_OR_RETURN(ahead_, Step(step));
  ahead_step_ = step;
  return &ahead_.micro_batches;
}

absl::Status StepBatches::LoadEvaluation(int64_t first, int64_t count) {
  now_ = {};
  const auto from = [&](int64_t begin) {
    std::vector<int64_t> samples;
    for (int64_t i = begin; i < std::min(begin + count, evaluation_->size()); ++i) {
      samples.push_back(i);
    }
    return samples;
  };
  const std::vector<int64_t> samples = from(first);
  ASSIGN_OR_RETURN(now_, Load(samples.size(), 0, [&](int64_t begin, int64_t end, MicroBatch&) {
                     return evaluation_->Get(absl::MakeSpan(samples).subspan(begin, end - begin));
                   }));
  labels_ += now_.labels;
  tokens_ += now_.tokens;
  return Guarded(*place_.memory, "preparing a batch",
                 [&] { evaluation_->Prepare(from(first + count)); });
}

absl::Status StepBatches::LoadBeginnings(absl::Span<const TextBeginning> texts,
                                         TextBatches& maker) {
  now_ = {};
  ASSIGN_OR_RETURN(now_, Load(texts.size(), 0, [&](int64_t begin, int64_t end, MicroBatch& micro) {
                     const absl::Span<const TextBeginning> some = texts.subspan(begin, end - begin);
                     micro.samples.clear();
                     std::vector<int64_t> last;
                     for (const TextBeginning& text : some) {
                       micro.samples.push_back(text.sample);
                       last.push_back(static_cast<int64_t>(text.tokens.size()) - 1);
                     }
                     micro.last_positions = BringTo(place_, torch::tensor(last, torch::kInt64));
                     return maker.BatchOf(some);
                   }));
  return absl::OkStatus();
}

absl::Status StepBatches::LoadLargest() {
  now_ = {};
  const int64_t size = options_.micro_batch;
  const int64_t number = options_.rank * options_.accumulate;  // among the micro-batches of step 1
  const std::vector<int64_t> samples =
      SamplesFrom(options_.order, options_.seed, data_->size(), number * size, size);
  ASSIGN_OR_RETURN(now_, Load(size, number * size, [&](int64_t begin, int64_t, MicroBatch&) {
                     return data_->Draw(samples, number * size + begin);
                   }));
  labels_ = now_.labels;
  return Guarded(*place_.memory, "reading the largest batch", [&]() -> absl::Status {
    ASSIGN_OR_RETURN(std::optional<Batch> largest, data_->Largest(size));
    return largest ? Put(*std::move(largest), now_.micro_batches[0]) : absl::OkStatus();
  });
}

std::vector<int64_t> StepBatches::SamplesOf(int64_t step) const {
  const int64_t own = options_.micro_batch * options_.accumulate;
  return SamplesFrom(options_.order, options_.seed, data_->size(),
                     options_.SamplesBefore(step) + options_.rank * own, own);
}

absl::StatusOr<StepBatches::Loaded> StepBatches::Step(int64_t step) const {
  const std::vector<int64_t> samples = SamplesOf(step);
  const int64_t own = samples.size();
  const int64_t first_draw = options_.SamplesBefore(step) + options_.rank * own;
  return Load(own, options_.rank * own, [&](int64_t begin, int64_t end, MicroBatch&) {
    return data_->Draw(absl::MakeSpan(samples).subspan(begin, end - begin), first_draw + begin);
  });
}

template <typename BatchOf>
absl::StatusOr<StepBatches::Loaded> StepBatches::Load(int64_t count, int64_t first_sample,
                                                      BatchOf batch_of) const {
  const ComputeScope scope(place_);
  Loaded loaded;
  for (int64_t begin = 0; begin < count; begin += options_.micro_batch) {
    const int64_t end = std::min(count, begin + options_.micro_batch);
    MicroBatch micro;
    for (int64_t i = begin; i < end; ++i) micro.samples.push_back(first_sample + i);
    RETURN_IF_ERROR(Guarded(*place_.memory, "reading a batch", [&]() -> absl::Status {
      ASSIGN_OR_RETURN(Batch batch, batch_of(begin, end, micro));
      return Put(std::move(batch), micro);
    }));
    loaded.labels += micro.labels;
    loaded.tokens += micro.batch.tokens;
    loaded.micro_batches.push_back(std::move(micro));
  }
  return loaded;
}

absl::Status StepBatches::Put(Batch batch, MicroBatch& micro) const {
  RETURN_IF_ERROR(CheckBatch(batch, static_cast<int64_t>(micro.samples.size()),
                             /*has_labels=*/!micro.last_positions.defined()));
  micro.batch = std::move(batch);
  const torch::Tensor& labels = micro.batch.labels;
  micro.labels = !labels.defined()            ? 0
                 : labels.is_floating_point() ? labels.numel()
                                              : labels.ne(kIgnoredLabel).sum().item<int64_t>();
  micro.batch.inputs = BringTo(place_, micro.batch.inputs);
  micro.batch.labels = BringTo(place_, micro.batch.labels);
  for (auto& [name, field] : micro.batch.fields) field = BringTo(place_, field);
  micro.inputs.resize(num_units_);
  micro.graphs.resize(num_units_);
  micro.moved.resize(num_units_);
  micro.buffers.resize(num_units_);
  micro.Give(0, flow_, micro.batch.inputs);
  return absl::OkStatus();
}

}  // namespace spillway
