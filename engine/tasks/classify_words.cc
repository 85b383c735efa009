// classify, of words: a label for each word of a text, as for names in it.
#include <utility>

#include "engine/data/data_file.h"
#include "engine/data/labelled_words.h"
#include "engine/tasks/all_tasks.h"
#include "engine/tasks/classify_task.h"
#include "engine/tasks/encoder_answers.h"
#include "engine/tasks/text_model.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using nlohmann::ordered_json;

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

class ClassifyWordsTask : public ClassifyTask {
 public:
  const char* model_does() const override { return "classifies words"; }
  bool Fits(const ModelConfig& model) const override {
    return model.transformer.classifier && model.transformer.classifier->of_tokens;
  }
  absl::Status CheckFile(absl::string_view flag, const std::string& path,
                         const std::string& /*model*/) const override {
    return CheckDataFile(flag, path, DataUse::kWords);
  }
  absl::StatusOr<std::unique_ptr<LabelledSamples>> ReadSamples(
      const std::vector<std::string>& files, const TransformerConfig& model,
      const LabelledSamplesOptions& options) const override {
    return LabelledSamples::ReadWords(files, model, options);
  }
  std::string Problem(const ClassifierConfig& /*classifier*/) const override {
    return "token_classification";
  }
  bool labels_tokens() const override { return true; }
  absl::StatusOr<bool> Predict(const PredictRequest& request, TextModel& model) const override;
};

absl::StatusOr<bool> ClassifyWordsTask::Predict(const PredictRequest& request,
                                                TextModel& model) const {
  RETURN_IF_ERROR(CheckEncoderRequest(request, DataUse::kWords));
  const TransformerConfig& config = model.config.transformer;
  EncodedFile file;
  std::vector<LabelledWords> texts;
  std::vector<std::vector<int64_t>> first;
  ASSIGN_OR_RETURN(const int64_t longest, LongestText(request, config));
  WordListEncoder encoder(model.tokenizer.get(), &config, longest);
  RETURN_IF_ERROR(ReadLabelledWords(request.data, request.text_keys, /*needs_label=*/false,
                                    [&](const LabelledWords& text) -> absl::Status {
                                      ASSIGN_OR_RETURN(EncodedWords encoded,
                                                       encoder.Encode(text.words));
                                      texts.push_back(text);
                                      first.push_back(std::move(encoded.first));
                                      file.Add(std::move(encoded.text));
                                      return absl::OkStatus();
                                    }));
  file.WarnOfCut(request, encoder.cut());
  return AnswerWithEncoder(
      request, model, file, "texts with their words classified",
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

}  // namespace

const Task* ClassifyWords() {
  static const auto& task = *new ClassifyWordsTask;
  return &task;
}

}  // namespace spillway
