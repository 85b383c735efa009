#include "tools/compute/classify_texts.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/progress.h"
#include "engine/base/stop_signal.h"
#include "engine/data/labelled_samples.h"
#include "engine/machine/memory_limits.h"
#include "engine/torch/forward_pass.h"
#include "engine/torch/text_batch.h"
#include "io/base/format_bytes.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/checksum.h"
#include "tools/compute/answer_file.h"

namespace spillway {
namespace {

using nlohmann::ordered_json;

struct TextFile {
  std::vector<LabelledText> texts;
  std::vector<EncodedText> encoded;  // [text]
  uint64_t digest = 0;
};

absl::StatusOr<TextFile> ReadTextFile(const PredictTask& task, const TextModel& model) {
  const DecoderConfig& config = model.config.decoder;
  TextFile file;
  TextPairEncoder encoder(model.tokenizer.get(), &config, config.longest_sequence());
  Digest digest;
  RETURN_IF_ERROR(ReadLabelledTexts(
      task.data, task.text_keys, /*needs_label=*/false,
      [&](const LabelledText& text) -> absl::Status {
        ASSIGN_OR_RETURN(EncodedText encoded, encoder.Encode(text));
        const auto count = static_cast<int64_t>(encoded.tokens.size());
        digest.Update(&count, sizeof(count));
        digest.Update(encoded.tokens.data(), encoded.tokens.size() * sizeof(int64_t));
        digest.Update(encoded.types.data(), encoded.types.size() * sizeof(int64_t));
        file.texts.push_back(text);
        file.encoded.push_back(std::move(encoded));
        return absl::OkStatus();
      }));
  file.digest = digest.value();
  if (encoder.cut() > 0) {
    LogWarning(absl::StrCat(task.data, ": ", encoder.cut(), " of ", file.texts.size(),
                            " texts are longer than the model's ", config.longest_sequence(),
                            " positions and lose their end"));
  }
  return file;
}

// What answers depend on.
ordered_json ClassificationIdentity(const PredictTask& task, const TextModel& model,
                                    const TextFile& file) {
  return {{"model", task.model},
          {"weights", model.weights_name},
          {"texts", absl::StrFormat("%016x", file.digest)},
          {"dtype", std::string(DTypeName(task.dtype.value_or(model.dtype)))},
          {"compute", task.compute ? std::string(DTypeName(*task.compute)) : "auto"}};
}

ordered_json LabelledRow(const LabelledText& text, const torch::Tensor& scores,
                         const ClassifierConfig& classifier) {
  ordered_json row = {{"text", text.first}};
  if (text.second) row["text_pair"] = *text.second;
  AddScores(scores, classifier, row);
  return row;
}

class Classification {
 public:
  Classification(const PredictTask& task, const TextModel& model, const TextFile& file,
                 AnswerFile& answers, ForwardPass& pass)
      : task_(task), config_(model.config.decoder), file_(file), answers_(answers), pass_(pass) {}

  // False where a signal came.
  absl::StatusOr<bool> LabelAll() {
    std::vector<int64_t> left;
    int64_t longest = 0;
    for (size_t i = 0; i < file_.texts.size(); ++i) {
      if (answers_.Has(static_cast<int64_t>(i))) continue;
      left.push_back(static_cast<int64_t>(i));
      longest = std::max(longest, static_cast<int64_t>(file_.encoded[i].tokens.size()));
    }
    const auto total = static_cast<int64_t>(file_.texts.size());
    Progress progress("classifying", total, static_cast<int64_t>(answers_.size()));
    const auto hidden = static_cast<uint64_t>(task_.batch * longest * config_.hidden) * 4;
    const int64_t at_once = pass_.batches_at_once(hidden) * task_.batch;
    for (size_t first = 0; first < left.size(); first += at_once) {
      if (StopSignal::received() != 0) return false;
      const size_t count = std::min<size_t>(at_once, left.size() - first);
      RETURN_IF_ERROR(LabelSome({left.begin() + first, left.begin() + first + count}));
      progress.Update(static_cast<int64_t>(answers_.size()));
    }
    return true;
  }

 private:
  absl::Status LabelSome(const std::vector<int64_t>& numbers) {
    std::vector<Batch> batches;
    for (size_t first = 0; first < numbers.size(); first += task_.batch) {
      std::vector<EncodedText> texts;
      int64_t longest = 0;
      for (size_t i = first; i < std::min(numbers.size(), first + task_.batch); ++i) {
        texts.push_back(file_.encoded[numbers[i]]);
        longest = std::max(longest, static_cast<int64_t>(texts.back().tokens.size()));
      }
      batches.push_back(BatchOfTexts(texts, PaddedLength(longest, config_.longest_sequence()),
                                     config_.padding_token.value_or(0)));
    }
    ASSIGN_OR_RETURN(const std::vector<torch::Tensor> scores, pass_.Run(batches));
    const torch::Tensor all = torch::cat(scores);
    for (size_t i = 0; i < numbers.size(); ++i) {
      RETURN_IF_ERROR(answers_.Add(
          numbers[i],
          LabelledRow(file_.texts[numbers[i]], all[static_cast<int64_t>(i)], *config_.classifier)));
    }
    return absl::OkStatus();
  }

  const PredictTask& task_;
  const DecoderConfig& config_;
  const TextFile& file_;
  AnswerFile& answers_;
  ForwardPass& pass_;
};

}  // namespace

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

void PrintClassified(const PredictTask& task, const std::string& what, size_t count,
                     double seconds) {
  if (task.as_json) {
    const ordered_json json = {{"out", task.out},
                               {"rows", count},
                               {"seconds", seconds},
                               {"peak_rss_bytes", PeakResidentBytes()}};
    std::printf("%s\n", json.dump().c_str());
    return;
  }
  LogInfo(absl::StrCat(task.out, ": ", count, " ", what, " classified in ",
                       absl::StrFormat("%.1f s; ", seconds), FormatBytes(PeakResidentBytes()),
                       " resident at the peak"));
}

absl::StatusOr<bool> ClassifyFile(const PredictTask& task, TextModel& model) {
  if (!task.prompt_key.empty() || task.chat) {
    return absl::InvalidArgumentError(
        absl::StrCat("--prompt-key and --chat are for language models, and ", task.model,
                     " classifies texts (--text-keys says where they are)"));
  }
  ASSIGN_OR_RETURN(const TextFile file, ReadTextFile(task, model));
  ASSIGN_OR_RETURN(const ComputeSettings settings, OpenComputeFor(task, model));
  const ForwardOptions options = ForwardOptionsOf(task, settings, model);
  ASSIGN_OR_RETURN(const auto answers,
                   AnswerFile::Open(task.out, ClassificationIdentity(task, model, file)));
  const auto start = std::chrono::steady_clock::now();
  ForwardPass pass(model.model, model.weights.get(), options);
  ASSIGN_OR_RETURN(const bool whole, Classification(task, model, file, *answers, pass).LabelAll());
  if (!whole) {
    LogInfo(absl::StrCat("stopped by ", StopSignal::Name(StopSignal::received()), " after ",
                         answers->size(), " of ", file.texts.size(), " texts, which ", task.out,
                         ".partial keeps: the same command goes on"));
    return false;
  }
  RETURN_IF_ERROR(answers->Finish());
  PrintClassified(task, "texts", file.texts.size(),
                  std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return true;
}

}  // namespace spillway
