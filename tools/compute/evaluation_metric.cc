#include "tools/compute/evaluation_metric.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/measures/text_measures.h"
#include "engine/numeric/quality.h"

namespace spillway {

absl::Status CheckMetric(const RunConfig& config, const ModelConfig& model_config,
                         const Model& model) {
  const bool makes = config.evaluation_texts.made;
  std::vector<std::string> names = {"loss"};
  const auto measures = makes ? TextMeasures().Values() : model.loss->Quality({}, 0);
  for (const QualityMeasure& one : measures) names.push_back(one.name);
  if (makes || measures.empty()) names.emplace_back("perplexity");  // the loss is one of tokens
  const std::string& metric = config.train.metric;
  if (std::find(names.begin(), names.end(), metric) != names.end()) return absl::OkStatus();
  const bool could_make = model_config.transformer.encoder != nullptr && !makes;
  return absl::InvalidArgumentError(absl::StrCat(
      "--metric ", metric, ": evaluations of this run have ", absl::StrJoin(names, ", "),
      could_make ? "; with --predict-with-generate they have BLEU, ROUGE and error rates, too"
                 : ""));
}

}  // namespace spillway
