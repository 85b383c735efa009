#include "engine/tasks/encoder_answers.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/print_json.h"
#include "engine/base/progress.h"
#include "engine/base/stop_signal.h"
#include "engine/machine/memory_limits.h"
#include "engine/run/answer_file.h"
#include "engine/tasks/bounded_pass.h"
#include "engine/torch/text_batch.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using nlohmann::ordered_json;

// What answers depend on.
ordered_json IdentityOfRows(const PredictRequest& request, const TextModel& model,
                            const BatchedRows& rows) {
  return {{"model", request.model},
          {"weights", model.weights_name},
          {rows.kind, rows.fingerprint},
          {"dtype", std::string(DTypeName(request.dtype.value_or(model.dtype)))},
          {"compute", request.compute ? std::string(DTypeName(*request.compute)) : "auto"}};
}

// The rows that have no answer yet.
class RowsLeft {
 public:
  RowsLeft(const PredictRequest& request, const BatchedRows& rows, const MakeAnswers& make,
           AnswerFile& answers)
      : batch_(static_cast<size_t>(request.batch)), rows_(rows), make_(make), answers_(answers) {
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

void PrintDone(const PredictRequest& request, int64_t rows, const char* done, double seconds) {
  if (request.as_json) {
    PrintJson(ordered_json{{"out", request.out},
                           {"rows", rows},
                           {"seconds", seconds},
                           {"peak_rss_bytes", PeakResidentBytes()}});
    return;
  }
  LogResult(absl::StrCat(request.out, ": ", rows, " ", done,
                         absl::StrFormat(" in %.1f s; ", seconds), FormatBytes(PeakResidentBytes()),
                         " resident at the peak"));
}

}  // namespace

absl::StatusOr<bool> AnswerInBatches(const PredictRequest& request, TextModel& model,
                                     const BatchedRows& rows, const char* done,
                                     const MakeAnswers& make) {
  ASSIGN_OR_RETURN(const ComputeSettings settings, OpenComputeFor(request, model));
  const ForwardOptions options = ForwardOptionsOf(request, settings, model);
  ASSIGN_OR_RETURN(const auto answers,
                   AnswerFile::Open(request.out, IdentityOfRows(request, model, rows)));
  const auto start = std::chrono::steady_clock::now();
  RowsLeft left(request, rows, make, *answers);
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
  PrintDone(request, rows.count, done,
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return true;
}

void AddScores(const torch::Tensor& scores, const ClassifierConfig& classifier, ordered_json& row) {
  const auto named = [&](const torch::Tensor& values) {
    ordered_json all = ordered_json::object();
    for (size_t i = 0; i < classifier.labels.size(); ++i) {
      all[classifier.labels[i]] = values[static_cast<int64_t>(i)].item<float>();
    }
    return all;
  };
  switch (classifier.problem.value_or(ClassifierProblem::kSingleLabel)) {
    case ClassifierProblem::kSingleLabel:
      row["label"] = classifier.labels[scores.argmax().item<int64_t>()];
      row["scores"] = named(scores.softmax(0));
      break;
    case ClassifierProblem::kMultiLabel:
      row["labels"] = ordered_json::array();
      for (size_t i = 0; i < classifier.labels.size(); ++i) {
        if (scores[static_cast<int64_t>(i)].item<float>() > 0) {
          row["labels"].push_back(classifier.labels[i]);
        }
      }
      row["scores"] = named(scores.sigmoid());
      break;
    case ClassifierProblem::kRegression:
      row["scores"] = named(scores);
      break;
  }
}

absl::Status CheckEncoderRequest(const PredictRequest& request, DataUse use) {
  for (const std::string& path : request.files) {
    RETURN_IF_ERROR(CheckDataFile("--data", path, use));
  }
  RETURN_IF_ERROR(CheckOneFile(request));
  if (request.target_key.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--target-key is for models that make texts, and ",
                                                 request.model, " makes none"));
}

void EncodedFile::Add(EncodedText text) {
  const auto count = static_cast<int64_t>(text.tokens.size());
  digest_.Update(&count, sizeof(count));
  digest_.Update(text.tokens.data(), text.tokens.size() * sizeof(int64_t));
  digest_.Update(text.types.data(), text.types.size() * sizeof(int64_t));
  texts_.push_back(std::move(text));
}

void EncodedFile::WarnOfCut(const PredictRequest& request, int64_t cut) const {
  if (cut == 0) return;
  LogWarning(absl::StrCat(request.data, ": ", cut, " of ", texts_.size(), " texts are longer than ",
                          request.max_length ? absl::StrCat("--seq-len ", *request.max_length)
                                             : "the model's positions",
                          " and lose their end"));
}

absl::StatusOr<int64_t> LongestText(const PredictRequest& request, const TransformerConfig& model) {
  const int64_t positions = model.longest_sequence();
  if (request.max_length.value_or(0) <= positions) return request.max_length.value_or(positions);
  return absl::InvalidArgumentError(absl::StrCat("--seq-len ", *request.max_length,
                                                 " is more than the ", positions,
                                                 " positions of the model"));
}

absl::StatusOr<bool> AnswerWithEncoder(const PredictRequest& request, TextModel& model,
                                       const EncodedFile& file, const char* done,
                                       const MakeAnswers& make) {
  if (!request.prompt_key.empty() || request.chat) {
    return absl::InvalidArgumentError(
        absl::StrCat("--prompt-key and --chat are for language models, and ", request.model,
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
  return AnswerInBatches(request, model, rows, done, make);
}

}  // namespace spillway
