#include "tools/compute/encoder_answers.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/progress.h"
#include "engine/base/stop_signal.h"
#include "engine/machine/memory_limits.h"
#include "engine/torch/text_batch.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "tools/compute/answer_file.h"
#include "tools/compute/bounded_pass.h"
#include "tools/print_json.h"

namespace spillway {
namespace {

using nlohmann::ordered_json;

// What answers depend on.
ordered_json IdentityOfRows(const PredictTask& task, const TextModel& model,
                            const BatchedRows& rows) {
  return {{"model", task.model},
          {"weights", model.weights_name},
          {rows.kind, rows.fingerprint},
          {"dtype", std::string(DTypeName(task.dtype.value_or(model.dtype)))},
          {"compute", task.compute ? std::string(DTypeName(*task.compute)) : "auto"}};
}

// The rows that have no answer yet.
class RowsLeft {
 public:
  RowsLeft(const PredictTask& task, const BatchedRows& rows, const MakeAnswers& make,
           AnswerFile& answers)
      : batch_(static_cast<size_t>(task.batch)), rows_(rows), make_(make), answers_(answers) {
    for (int64_t row = 0; row < rows.count; ++row) {
      if (!answers.Has(row)) left_.push_back(row);
    }
    for (size_t first = 0; first < left_.size(); first += batch_) {
      const absl::Span<const int64_t> numbers = absl::MakeConstSpan(left_).subspan(first, batch_);
      uint64_t bytes = 0;
      for (const int64_t number : numbers) bytes = std::max(bytes, rows.hidden_bytes(number));
      bytes *= numbers.size();
      if (bytes <= largest_bytes_) continue;
      largest_bytes_ = bytes;
      largest_.assign(numbers.begin(), numbers.end());
    }
  }

  PassWork Work() {
    return {absl::StrCat("answering ", largest_.size(), " ", rows_.kind, " at a time (--batch)"),
            [this](ForwardPass& pass) { return Answer(pass); },
            [this](ForwardPass& pass) { return Make(pass, largest_).status(); },
            left_.size() > largest_.size()};
  }

 private:
  // kCancelled where a signal came.
  absl::Status Answer(ForwardPass& pass) {
    Progress progress("answering", rows_.count);
    const size_t at_once = static_cast<size_t>(pass.batches_at_once(largest_bytes_)) * batch_;
    for (size_t first = 0; first < left_.size(); first += at_once) {
      if (StopSignal::received() != 0) return absl::CancelledError("");
      const size_t end = std::min(left_.size(), first + at_once);
      const std::vector<int64_t> numbers(left_.begin() + first, left_.begin() + end);
      ASSIGN_OR_RETURN(std::vector<ordered_json> made, Make(pass, numbers));
      std::vector<std::pair<int64_t, ordered_json>> answers;
      for (size_t i = 0; i < numbers.size(); ++i) {
        answers.emplace_back(numbers[i], std::move(made[i]));
      }
      RETURN_IF_ERROR(answers_.AddAll(answers));
      progress.Update(static_cast<int64_t>(answers_.size()));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<ordered_json>> Make(ForwardPass& pass,
                                                 const std::vector<int64_t>& numbers) const {
    std::vector<Batch> batches;
    for (size_t first = 0; first < numbers.size(); first += batch_) {
      ASSIGN_OR_RETURN(Batch batch,
                       rows_.batch(absl::MakeConstSpan(numbers).subspan(first, batch_)));
      batches.push_back(std::move(batch));
    }
    ASSIGN_OR_RETURN(const std::vector<torch::Tensor> made, pass.Run(batches));
    std::vector<torch::Tensor> outputs;
    for (const torch::Tensor& batch : made) {
      for (int64_t i = 0; i < batch.size(0); ++i) outputs.push_back(batch[i]);
    }
    return make_(pass, numbers, outputs);
  }

  const size_t batch_;
  const BatchedRows& rows_;
  const MakeAnswers& make_;
  AnswerFile& answers_;
  std::vector<int64_t> left_, largest_;
  uint64_t largest_bytes_ = 0;
};

void PrintDone(const PredictTask& task, int64_t rows, const char* done, double seconds) {
  if (task.as_json) {
    PrintJson(ordered_json{{"out", task.out},
                           {"rows", rows},
                           {"seconds", seconds},
                           {"peak_rss_bytes", PeakResidentBytes()}});
    return;
  }
  LogResult(absl::StrCat(task.out, ": ", rows, " ", done, absl::StrFormat(" in %.1f s; ", seconds),
                         FormatBytes(PeakResidentBytes()), " resident at the peak"));
}

}  // namespace

absl::StatusOr<bool> AnswerInBatches(const PredictTask& task, TextModel& model,
                                     const BatchedRows& rows, const char* done,
                                     const MakeAnswers& make) {
  ASSIGN_OR_RETURN(const ComputeSettings settings, OpenComputeFor(task, model));
  const ForwardOptions options = ForwardOptionsOf(task, settings, model);
  ASSIGN_OR_RETURN(const auto answers,
                   AnswerFile::Open(task.out, IdentityOfRows(task, model, rows)));
  const auto start = std::chrono::steady_clock::now();
  RowsLeft left(task, rows, make, *answers);
  const absl::Status status =
      RunWithinBudget(left.Work(), model.model, model.weights.get(), options);
  if (absl::IsCancelled(status)) {
    LogResult(absl::StrCat("stopped by ", StopSignal::Name(StopSignal::received()), " after ",
                           answers->size(), " of ", rows.count, " ", rows.kind, ", which ",
                           answers->partial_path(), " keeps: the same command goes on"));
    return false;
  }
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(answers->Finish());
  PrintDone(task, rows.count, done,
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return true;
}

void EncodedFile::Add(EncodedText text) {
  const auto count = static_cast<int64_t>(text.tokens.size());
  digest_.Update(&count, sizeof(count));
  digest_.Update(text.tokens.data(), text.tokens.size() * sizeof(int64_t));
  digest_.Update(text.types.data(), text.types.size() * sizeof(int64_t));
  texts_.push_back(std::move(text));
}

void EncodedFile::WarnOfCut(const PredictTask& task, int64_t cut) const {
  if (cut == 0) return;
  LogWarning(absl::StrCat(
      task.data, ": ", cut, " of ", texts_.size(), " texts are longer than ",
      task.max_length ? absl::StrCat("--seq-len ", *task.max_length) : "the model's positions",
      " and lose their end"));
}

absl::StatusOr<int64_t> LongestText(const PredictTask& task, const TransformerConfig& model) {
  const int64_t positions = model.longest_sequence();
  if (task.max_length.value_or(0) <= positions) return task.max_length.value_or(positions);
  return absl::InvalidArgumentError(absl::StrCat(
      "--seq-len ", *task.max_length, " is more than the ", positions, " positions of the model"));
}

absl::StatusOr<bool> AnswerWithEncoder(const PredictTask& task, TextModel& model,
                                       const EncodedFile& file, const char* done,
                                       const MakeAnswers& make) {
  if (!task.prompt_key.empty() || task.chat) {
    return absl::InvalidArgumentError(
        absl::StrCat("--prompt-key and --chat are for language models, and ", task.model,
                     " is an encoder (--text-keys says where texts are)"));
  }
  const TransformerConfig& config = model.config.transformer;
  const auto length_of = [&](int64_t number) {
    return static_cast<int64_t>(file.texts()[number].tokens.size());
  };
  BatchedRows rows;
  rows.kind = "texts";
  rows.count = static_cast<int64_t>(file.texts().size());
  rows.fingerprint = absl::StrFormat("%016x", file.digest());
  rows.hidden_bytes = [&](int64_t number) {
    return static_cast<uint64_t>(length_of(number) * config.hidden) * sizeof(float);
  };
  rows.batch = [&](absl::Span<const int64_t> numbers) -> absl::StatusOr<Batch> {
    std::vector<EncodedText> texts;
    int64_t longest = 0;
    for (const int64_t number : numbers) {
      texts.push_back(file.texts()[number]);
      longest = std::max(longest, length_of(number));
    }
    return BatchOfTexts(texts, PaddedLength(longest, config.longest_sequence()),
                        config.padding_token.value_or(0));
  };
  return AnswerInBatches(task, model, rows, done, make);
}

}  // namespace spillway
