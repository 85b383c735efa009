#include "tools/compute/classify_texts.h"

#include <vector>

#include "engine/data/labelled_samples.h"
#include "engine/data/labelled_words.h"
#include "io/base/status.h"
#include "tools/compute/encoder_answers.h"

namespace spillway {
namespace {

using nlohmann::ordered_json;

// `scores`: [labels], as the model makes them.
ordered_json LabelledRow(const LabelledText& text, const torch::Tensor& scores,
                         const ClassifierConfig& classifier) {
  ordered_json row = {{"text", text.first}};
  if (text.second) row["text_pair"] = *text.second;
  AddScores(scores, classifier, row);
  return row;
}

// `scores`: [T, labels], of each token.
ordered_json LabelledWordsRow(const LabelledWords& text, const std::vector<int64_t>& first,
                              const torch::Tensor& scores, const ClassifierConfig& classifier) {
  ordered_json labels = ordered_json::array(), probabilities = ordered_json::array();
  for (const int64_t at : first) {
    if (at < 0) {  // cut off, or of no token
      labels.push_back(nullptr);
      probabilities.push_back(nullptr);
      continue;
    }
    const torch::Tensor chances = scores[at].softmax(0);
    const auto likeliest = scores[at].argmax().item<int64_t>();
    labels.push_back(classifier.labels[likeliest]);
    probabilities.push_back(chances[likeliest].item<float>());
  }
  return {{"tokens", text.words}, {"labels", labels}, {"scores", probabilities}};
}

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

absl::StatusOr<bool> ClassifyFile(const PredictTask& task, TextModel& model) {
  const TransformerConfig& config = model.config.transformer;
  EncodedFile file;
  std::vector<LabelledText> texts;
  ASSIGN_OR_RETURN(const int64_t longest, LongestText(task, config));
  TextPairEncoder encoder(model.tokenizer.get(), &config, longest);
  RETURN_IF_ERROR(ReadLabelledTexts(task.data, task.text_keys, /*needs_label=*/false,
                                    [&](const LabelledText& text) -> absl::Status {
                                      ASSIGN_OR_RETURN(EncodedText encoded, encoder.Encode(text));
                                      texts.push_back(text);
                                      file.Add(std::move(encoded));
                                      return absl::OkStatus();
                                    }));
  file.WarnOfCut(task, encoder.cut());
  return AnswerWithEncoder(
      task, model, file, "texts classified",
      [&](ForwardPass&, const std::vector<int64_t>& numbers,
          const std::vector<torch::Tensor>& scores) -> absl::StatusOr<std::vector<ordered_json>> {
        std::vector<ordered_json> rows;
        for (size_t i = 0; i < numbers.size(); ++i) {
          rows.push_back(LabelledRow(texts[numbers[i]], scores[i], *config.classifier));
        }
        return rows;
      });
}

absl::StatusOr<bool> ClassifyWordsOfFile(const PredictTask& task, TextModel& model) {
  const TransformerConfig& config = model.config.transformer;
  EncodedFile file;
  std::vector<LabelledWords> texts;
  std::vector<std::vector<int64_t>> first;
  ASSIGN_OR_RETURN(const int64_t longest, LongestText(task, config));
  WordListEncoder encoder(model.tokenizer.get(), &config, longest);
  RETURN_IF_ERROR(ReadLabelledWords(task.data, task.text_keys, /*needs_label=*/false,
                                    [&](const LabelledWords& text) -> absl::Status {
                                      ASSIGN_OR_RETURN(EncodedWords encoded,
                                                       encoder.Encode(text.words));
                                      texts.push_back(text);
                                      first.push_back(std::move(encoded.first));
                                      file.Add(std::move(encoded.text));
                                      return absl::OkStatus();
                                    }));
  file.WarnOfCut(task, encoder.cut());
  return AnswerWithEncoder(
      task, model, file, "texts with their words classified",
      [&](ForwardPass&, const std::vector<int64_t>& numbers,
          const std::vector<torch::Tensor>& scores) -> absl::StatusOr<std::vector<ordered_json>> {
        std::vector<ordered_json> rows;
        for (size_t i = 0; i < numbers.size(); ++i) {
          const auto number = static_cast<size_t>(numbers[i]);
          rows.push_back(
              LabelledWordsRow(texts[number], first[number], scores[i], *config.classifier));
        }
        return rows;
      });
}

}  // namespace spillway
