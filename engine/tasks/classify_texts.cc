// classify, of texts: labels or a number for each text or pair of texts.
#include <algorithm>
#include <utility>

#include "engine/data/data_file.h"
#include "engine/data/labelled_text.h"
#include "engine/tasks/all_tasks.h"
#include "engine/tasks/classify_task.h"
#include "engine/tasks/encoder_answers.h"
#include "engine/tasks/text_model.h"
#include "io/base/status.h"

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

class ClassifyTextsTask : public ClassifyTask {
 public:
  const char* model_does() const override { return "classifies texts"; }
  bool Fits(const ModelConfig& model) const override {
    return model.transformer.classifier && !model.transformer.classifier->of_tokens;
  }
  absl::Status CheckFile(absl::string_view flag, const std::string& path,
                         const std::string& /*model*/) const override {
    return CheckDataFile(flag, path, DataUse::kRows);
  }
  absl::StatusOr<std::unique_ptr<LabelledSamples>> ReadSamples(
      const std::vector<std::string>& files, const TransformerConfig& model,
      const LabelledSamplesOptions& options) const override {
    return LabelledSamples::ReadTexts(files, model, options);
  }
  std::string Problem(const ClassifierConfig& classifier) const override {
    return ProblemName(*classifier.problem);
  }
  bool labels_tokens() const override { return false; }
  absl::StatusOr<bool> Predict(const PredictRequest& request, TextModel& model) const override;
};

absl::StatusOr<bool> ClassifyTextsTask::Predict(const PredictRequest& request,
                                                TextModel& model) const {
  RETURN_IF_ERROR(CheckEncoderRequest(request, DataUse::kRows));
  const TransformerConfig& config = model.config.transformer;
  EncodedFile file;
  std::vector<LabelledText> texts;
  ASSIGN_OR_RETURN(const int64_t longest, LongestText(request, config));
  TextPairEncoder encoder(model.tokenizer.get(), &config, longest);
  RETURN_IF_ERROR(ReadLabelledTexts(request.data, request.text_keys, /*needs_label=*/false,
                                    [&](const LabelledText& text) -> absl::Status {
                                      ASSIGN_OR_RETURN(EncodedText encoded, encoder.Encode(text));
                                      texts.push_back(text);
                                      file.Add(std::move(encoded));
                                      return absl::OkStatus();
                                    }));
  file.WarnOfCut(request, encoder.cut());
  return AnswerWithEncoder(
      request, model, file, "texts classified",
      [&](ForwardPass&, const std::vector<int64_t>& numbers,
          const std::vector<torch::Tensor>& scores) -> absl::StatusOr<std::vector<ordered_json>> {
        std::vector<ordered_json> rows;
        for (size_t i = 0; i < numbers.size(); ++i) {
          rows.push_back(LabelledRow(texts[numbers[i]], scores[i], *config.classifier));
        }
        return rows;
      });
}

}  // namespace

const Task* ClassifyTexts() {
  static const auto& task = *new ClassifyTextsTask;
  return &task;
}

}  // namespace spillway
