#include "engine/generation/generator.h"

#include <ATen/Parallel.h>
#include <torch/utils.h>

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "engine/machine/memory_limits.h"
#include "engine/torch/tensor_views.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
absl::StatusOr<std::unique_ptr<Generator>> Generator::Create(const Model& model,
                                                             WeightSource* weights,
                                                             const GeneratorOptions& options) {
  ASSIGN_OR_RETURN(TextUnits units, TextUnits::Of(model));
  auto generator = std::unique_ptr<Generator>(new Generator(std::move(units), options));
  Generator& g = *generator;
  RETURN_IF_ERROR(g.Describe());
  at::set_num_threads(options.threads);
  TorchMemory& memory = *options.place.memory;
  MemoryBudget dry_run("device",
                       memory.DryRunBytes(options.device_memory_bytes, AvailableMemoryBytes()));
  memory.SetBudget(&dry_run);
  const absl::StatusOr<uint64_t> peak = g.MeasurePeakBytes();
  memory.SetBudget(nullptr);
  RETURN_IF_ERROR(peak.status());
  ASSIGN_OR_RETURN(g.memory_, TextMemory::Open(g.units_, g.kept_shape_, g.text_positions_, *peak,
                                               options, weights));
  return generator;
}

absl::Status Generator::Describe() {
  if (options_.prompt_tokens < 1) return absl::InvalidArgumentError("there is no text to continue");
  if (options_.prompt_tokens > options_.positions) {
    return absl::InvalidArgumentError(
        absl::StrCat("the prompt has ", options_.prompt_tokens, " tokens and the model knows ",
                     options_.positions, " positions: give a shorter one"));
  }
  text_positions_ = std::min(options_.positions, options_.prompt_tokens + options_.new_tokens);
  texts_.resize(options_.rows);
  kept_shape_.positions = kept_positions();
  kept_shape_.rows = options_.rows;
  kept_shape_.dtype = options_.dtype;
  for (int unit = 0; unit < units_.last(); ++unit) {
    kept_shape_.per_position.push_back(units_.KeptPerPosition(unit));
  }
  return absl::OkStatus();
}

// The most tokens that are computed at once.
int64_t Generator::LongestInput() const {
  if (!units_.continues()) return text_positions_;
  const int64_t all = options_.prompt_tokens + options_.new_tokens;
  const int64_t change = options_.angles_change_behind;
  const bool outgrows = all > options_.positions, changes = change > 0 && all > change;
  return std::max({options_.prompt_tokens, outgrows ? options_.positions / 2 + 1 : 1,
                   changes ? std::min(change + 1, text_positions_) : 1});
}

absl::StatusOr<uint64_t> Generator::MeasurePeakBytes() {
  torch::NoGradGuard no_grad;
  const ComputePlace& place = options_.place;
  TorchMemory& memory = *place.memory;
  const ComputeScope scope(place);
  const auto floats = torch::TensorOptions(place.where).dtype(ScalarTypeOf(options_.dtype));
  uint64_t peak = 0;
  uint64_t others = 0;  // of a row that waits while another is computed
  // The longest input at once, and a last token that sees the whole text.
  std::vector<int64_t> cases = {0};
  if (units_.continues() && text_positions_ > 1) cases.push_back(text_positions_ - 1);
  try {
    for (const int64_t position : cases) {
      const int64_t length = position == 0 ? LongestInput() : 1;
      std::set<std::string> seen;
      TextPiece piece;
      piece.first = position;
      piece.tokens = piece.x = torch::zeros({1, length}, floats.dtype(torch::kInt64));
      piece.source = options_.source_positions;
      torch::Tensor source;
      if (position == 0) {
        source = torch::zeros({1, piece.source, options_.source_width}, floats);
      }
      units_.KeepSource(source, piece);
      for (int unit = units_.first(); unit <= units_.last(); ++unit) {
        const std::string signature = units_.Signature(unit);
        if (!signature.empty() && !seen.insert(signature).second) continue;
        const int64_t kept = units_.KeptPerPosition(unit);
        // Zeroed weights that LibTorch's allocator does not count.
        StepOp op;
        op.unit = unit;
        op.weights = units_.description().units[unit].borrows;
        op.weights.push_back(unit);
        OpBuffers buffers;
        buffers.op = &op;
        std::vector<PlaceMemory> scratch;
        for (const int u : op.weights) {
          const uint64_t n = units_.description().units[u].flat_parameters + kParameterAlignment;
          ASSIGN_OR_RETURN(PlaceMemory weights,
                           PlaceMemory::CreateZeroed(place, n * DTypeBytes(options_.dtype)));
          buffers.weights.push_back(weights.data());
          scratch.push_back(std::move(weights));
        }
        const std::vector<torch::Tensor> parameters =
            Give(ViewsOf(units_.model(), units_.description(), options_.dtype, unit, buffers,
                         place.where))
                .tensors;
        torch::Tensor rows;
        if (kept > 0) rows = torch::zeros({kept_positions(), kept}, floats);
        const uint64_t counted_apart = rows.defined() ? rows.nbytes() : 0;
        const uint64_t before = memory.live_bytes() - counted_apart;
        memory.ResetPeak();
        const torch::Tensor& x = piece.x;
        torch::Tensor out = units_.Run(unit, parameters, rows, options_.fp32_products, piece);
        if (!out.defined()) {
          return absl::InvalidArgumentError("this model has no logits: it cannot generate");
        }
        peak = std::max(peak, memory.peak_live_bytes() - before - counted_apart +
                                  static_cast<uint64_t>(x.nbytes()));
        // The logits in fp32, and their order, sums and chances while one is drawn.
        if (unit == units_.last()) peak = std::max(peak, uint64_t{48} * out.numel());
        others = std::max({others, static_cast<uint64_t>(x.nbytes()),
                           sizeof(float) * static_cast<uint64_t>(out.numel())});
        piece.x = out;
      }
      others += piece.values.bytes();
    }
  } catch (const c10::OutOfMemoryError& error) {
    return DoesNotFitError(absl::StrCat("computing does not fit this machine's memory: ",
                                        memory.RefusalText(error.what_without_backtrace())));
  } catch (const c10::Error& error) {
    return absl::InternalError(
        absl::StrCat("the dry run before the first token: ", error.what_without_backtrace()));
  }
  RETURN_IF_ERROR(Settle(place));
  memory.Trim();
  peak += (options_.rows - 1) * others;
  return peak + peak / 16 + 4 * kMiB + memory.overhead_bytes();
}

void Generator::Restart(int row, const torch::Tensor& source) {
  texts_[row] = Text();
  texts_[row].source = source;
}

absl::Status Generator::Fork(int from, int to) {
  const Text& text = texts_[from];
  const int64_t source = text.source.defined() ? text.source.size(1) : 0;
  const int64_t first = texts_[to].computed > 0 ? source : 0;
  texts_[to] = text;
  if (kept() == nullptr || text.computed == 0) return absl::OkStatus();
  const torch::NoGradGuard no_grad;
  const ComputeScope scope(options_.place);
  return kept()->Copy(from, to, first, source + text.computed);
}

absl::StatusOr<torch::Tensor> Generator::Append(const std::vector<int64_t>& tokens) {
  asked_ += static_cast<int64_t>(tokens.size());
  const bool more = asked_ < options_.prompt_tokens + options_.new_tokens;
  ASSIGN_OR_RETURN(const std::vector<torch::Tensor> logits, Append({{0, tokens}}, more));
  return logits[0];
}

absl::StatusOr<std::vector<torch::Tensor>> Generator::Append(const std::vector<RowTokens>& rows,
                                                             bool more) {
  std::vector<TextPiece> pieces;
  for (const RowTokens& one : rows) {
    Text& text = texts_[one.row];
    text.tokens.insert(text.tokens.end(), one.tokens.begin(), one.tokens.end());
    if (static_cast<int64_t>(text.tokens.size()) > options_.positions) {
      if (!text.outgrown) {
        LogInfo(absl::StrCat("a text has outgrown the model's ", options_.positions,
                             " positions: it goes on with its last ", options_.positions / 2,
                             " tokens each time it does"));
      }
      text.outgrown = true;
      text.tokens.erase(text.tokens.begin(), text.tokens.end() - (options_.positions / 2 + 1));
      text.computed = 0;
    }
    const int64_t change = options_.angles_change_behind;
    if (text.computed <= change && static_cast<int64_t>(text.tokens.size()) > change) {
      text.computed = 0;
    }
    if (!units_.continues()) text.computed = 0;
    const std::vector<int64_t> next(text.tokens.begin() + text.computed, text.tokens.end());
    TextPiece piece;
    piece.row = one.row;
    piece.first = text.computed;
    piece.length = static_cast<int64_t>(next.size());
    piece.x = torch::tensor(next, torch::kInt64).unsqueeze(0);
    if (text.source.defined()) piece.source = text.source.size(1);
    pieces.push_back(std::move(piece));
    text.computed = static_cast<int64_t>(text.tokens.size());
  }
  return Compute(std::move(pieces), more);
}

absl::Status Generator::ComputeUnit(int unit, const OpBuffers& buffers,
                                    std::vector<TextPiece>& pieces) {
  const std::vector<torch::Tensor> parameters =
      Give(ViewsOf(units_.model(), units_.description(), options_.dtype, unit, buffers,
                   options_.place.where))
          .tensors;
  KeptPositions* const caches = memory_->kept();
  for (size_t i = 0; i < pieces.size(); ++i) {
    TextPiece& piece = pieces[i];
    torch::Tensor kept;
    if (caches != nullptr && unit < units_.last()) {
      ASSIGN_OR_RETURN(kept, caches->Load(piece.row, unit, piece.kept()));
      // What comes next: the next row's, or the first's of the unit after this.
      const bool last = i + 1 == pieces.size();
      const TextPiece& next = pieces[last ? 0 : i + 1];
      if (unit + last < units_.last()) caches->Prefetch(next.row, unit + last, next.kept());
    }
    piece.x = units_.Run(unit, parameters, kept, options_.fp32_products, piece);
    if (kept.defined()) {
      const int64_t end = piece.source + piece.first + piece.length;
      RETURN_IF_ERROR(caches->Store(piece.kept(), end - piece.kept()));
    }
    // Weights may be overwritten from here on; the logits must not point into them.
    if (unit == units_.last()) {
      piece.x = piece.x.to(torch::kCPU, torch::kFloat32, /*non_blocking=*/false, /*copy=*/true);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<torch::Tensor>> Generator::Compute(std::vector<TextPiece> pieces,
                                                              bool more) {
  torch::NoGradGuard no_grad;
  const ComputePlace& place = options_.place;
  const ComputeScope scope(place);
  try {
    for (TextPiece& piece : pieces) {
      piece.tokens = piece.x = BringTo(place, piece.x);
      const torch::Tensor& source = texts_[piece.row].source;
      const bool reads = source.defined() && piece.first == 0;
      units_.KeepSource(reads ? BringTo(place, source) : torch::Tensor(), piece);
    }
    if (!enqueued_) memory_->manager().Enqueue(Program::kEvaluate);
    enqueued_ = false;
    for (int unit = units_.first(); unit <= units_.last(); ++unit) {
      ASSIGN_OR_RETURN(const OpBuffers buffers, memory_->manager().BeginOp());
      // Fetches for the next token go on while this one is finished, drawn and printed.
      if (unit == units_.last() && more) {
        memory_->manager().Enqueue(Program::kEvaluate);
        enqueued_ = true;
      }
      RETURN_IF_ERROR(ComputeUnit(unit, buffers, pieces));
      memory_->manager().EndOp();
    }
    std::vector<torch::Tensor> logits;
    for (const TextPiece& piece : pieces) logits.push_back(piece.x.flatten());
    return logits;
  } catch (const c10::OutOfMemoryError& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("generating: ", place.memory->RefusalText(error.what_without_backtrace())));
  } catch (const c10::Error& error) {
    return absl::InternalError(absl::StrCat("generating: ", error.what_without_backtrace()));
  }
}

}  // namespace spillway
