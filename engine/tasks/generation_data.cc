#include "engine/tasks/generation_data.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/tasks/text_sampling.h"
#include "io/base/status.h"

namespace spillway {

absl::Status ResolveEvaluationTexts(const TransformerConfig& model, RunConfig& config) {
  return ResolveLength("--generation-max-length", model.longest_sequence(),
                       config.pairs.max_target_length + 1, &config.evaluation_texts.max_length);
}

absl::StatusOr<std::unique_ptr<EvaluationTexts>> OpenEvaluationTexts(
    const TaskInputs& inputs, TargetDataset* samples, std::optional<int64_t> unwritten_from) {
  const EvaluationTextsChoice& choice = inputs.config.evaluation_texts;
  if (!choice.made) return nullptr;
  if (samples == nullptr) {
    return absl::InvalidArgumentError("--predict-with-generate needs --eval-data");
  }
  const TransformerConfig& model = inputs.model.transformer;
  SamplingFlags flags = choice.sampling;
  flags.tokens = choice.max_length - 1 - samples->given_tokens();  // behind the first one
  if (*flags.tokens < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--generation-max-length ", choice.max_length, " has no room for a text behind the ",
        samples->given_tokens() + 1, " tokens that all begin with"));
  }
  ASSIGN_OR_RETURN(SamplingOptions sampling, FindSampling({flags, "", inputs.config.model}, model));
  FindEnds(model, *inputs.tokenizer, sampling);
  if (unwritten_from) sampling.unwritten_from = *unwritten_from;
  return std::make_unique<EvaluationTexts>(samples, &model, inputs.tokenizer, std::move(sampling));
}

}  // namespace spillway
