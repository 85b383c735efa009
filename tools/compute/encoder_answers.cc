#include "tools/compute/encoder_answers.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

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

namespace spillway {
namespace {

using nlohmann::ordered_json;

// What answers depend on.
ordered_json EncoderIdentity(const PredictTask& task, const TextModel& model,
                             const EncodedFile& file) {
  return {{"model", task.model},
          {"weights", model.weights_name},
          {"texts", absl::StrFormat("%016x", file.digest())},
          {"dtype", std::string(DTypeName(task.dtype.value_or(model.dtype)))},
          {"compute", task.compute ? std::string(DTypeName(*task.compute)) : "auto"}};
}

class EncoderRun {
 public:
  EncoderRun(const PredictTask& task, const TextModel& model, const EncodedFile& file,
             const MakeAnswers& make, AnswerFile& answers, ForwardPass& pass)
      : task_(task),
        config_(model.config.decoder),
        file_(file),
        make_(make),
        answers_(answers),
        pass_(pass) {}

  // False where a signal came.
  absl::StatusOr<bool> AnswerAll() {
    std::vector<int64_t> left;
    int64_t longest = 0;
    for (size_t i = 0; i < file_.texts().size(); ++i) {
      if (answers_.Has(static_cast<int64_t>(i))) continue;
      left.push_back(static_cast<int64_t>(i));
      longest = std::max(longest, static_cast<int64_t>(file_.texts()[i].tokens.size()));
    }
    const auto total = static_cast<int64_t>(file_.texts().size());
    Progress progress("answering", total, static_cast<int64_t>(answers_.size()));
    const auto hidden = static_cast<uint64_t>(task_.batch * longest * config_.hidden) * 4;
    const int64_t at_once = pass_.batches_at_once(hidden) * task_.batch;
    for (size_t first = 0; first < left.size(); first += at_once) {
      if (StopSignal::received() != 0) return false;
      const size_t count = std::min<size_t>(at_once, left.size() - first);
      RETURN_IF_ERROR(AnswerSome({left.begin() + first, left.begin() + first + count}));
      progress.Update(static_cast<int64_t>(answers_.size()));
    }
    return true;
  }

 private:
  absl::Status AnswerSome(const std::vector<int64_t>& numbers) {
    std::vector<Batch> batches;
    for (size_t first = 0; first < numbers.size(); first += task_.batch) {
      std::vector<EncodedText> texts;
      int64_t longest = 0;
      for (size_t i = first; i < std::min(numbers.size(), first + task_.batch); ++i) {
        texts.push_back(file_.texts()[numbers[i]]);
        longest = std::max(longest, static_cast<int64_t>(texts.back().tokens.size()));
      }
      batches.push_back(BatchOfTexts(texts, PaddedLength(longest, config_.longest_sequence()),
                                     config_.padding_token.value_or(0)));
    }
    ASSIGN_OR_RETURN(const std::vector<torch::Tensor> made, pass_.Run(batches));
    std::vector<torch::Tensor> outputs;
    for (const torch::Tensor& batch : made) {
      for (int64_t i = 0; i < batch.size(0); ++i) outputs.push_back(batch[i]);
    }
    ASSIGN_OR_RETURN(const std::vector<ordered_json> rows, make_(pass_, numbers, outputs));
    for (size_t i = 0; i < numbers.size(); ++i) {
      RETURN_IF_ERROR(answers_.Add(numbers[i], rows[i]));
    }
    return absl::OkStatus();
  }

  const PredictTask& task_;
  const DecoderConfig& config_;
  const EncodedFile& file_;
  const MakeAnswers& make_;
  AnswerFile& answers_;
  ForwardPass& pass_;
};

}  // namespace

void PrintDone(const PredictTask& task, size_t texts, const char* done, double seconds) {
  if (task.as_json) {
    const ordered_json json = {{"out", task.out},
                               {"rows", texts},
                               {"seconds", seconds},
                               {"peak_rss_bytes", PeakResidentBytes()}};
    std::printf("%s\n", json.dump().c_str());
    return;
  }
  LogInfo(absl::StrCat(task.out, ": ", texts, " ", done, absl::StrFormat(" in %.1f s; ", seconds),
                       FormatBytes(PeakResidentBytes()), " resident at the peak"));
}

void EncodedFile::Add(EncodedText text) {
  const auto count = static_cast<int64_t>(text.tokens.size());
  digest_.Update(&count, sizeof(count));
  digest_.Update(text.tokens.data(), text.tokens.size() * sizeof(int64_t));
  digest_.Update(text.types.data(), text.types.size() * sizeof(int64_t));
  texts_.push_back(std::move(text));
}

void EncodedFile::WarnOfCut(const PredictTask& task, int64_t cut, int64_t positions) const {
  if (cut == 0) return;
  LogWarning(absl::StrCat(task.data, ": ", cut, " of ", texts_.size(),
                          " texts are longer than the model's ", positions,
                          " positions and lose their end"));
}

absl::StatusOr<bool> AnswerWithEncoder(const PredictTask& task, TextModel& model,
                                       const EncodedFile& file, const char* done,
                                       const MakeAnswers& make) {
  if (!task.prompt_key.empty() || task.chat) {
    return absl::InvalidArgumentError(
        absl::StrCat("--prompt-key and --chat are for language models, and ", task.model,
                     " is an encoder (--text-keys says where texts are)"));
  }
  ASSIGN_OR_RETURN(const ComputeSettings settings, OpenComputeFor(task, model));
  const ForwardOptions options = ForwardOptionsOf(task, settings, model);
  ASSIGN_OR_RETURN(const auto answers,
                   AnswerFile::Open(task.out, EncoderIdentity(task, model, file)));
  const auto start = std::chrono::steady_clock::now();
  ForwardPass pass(model.model, model.weights.get(), options);
  EncoderRun run(task, model, file, make, *answers, pass);
  ASSIGN_OR_RETURN(const bool whole, run.AnswerAll());
  if (!whole) {
    LogInfo(absl::StrCat("stopped by ", StopSignal::Name(StopSignal::received()), " after ",
                         answers->size(), " of ", file.texts().size(), " texts, which ", task.out,
                         ".partial keeps: the same command goes on"));
    return false;
  }
  RETURN_IF_ERROR(answers->Finish());
  PrintDone(task, file.texts().size(), done,
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return true;
}

}  // namespace spillway
