#include "engine/tasks/evaluation_metric.h"

#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/measures/text_measures.h"
#include "engine/numeric/quality.h"

namespace spillway {

absl::Status ResolveMetric(const Task& task, const Model& model, RunConfig& config) {
  const bool makes = config.evaluation_texts.made;
  std::vector<std::string> names = {"loss"};
  const auto measures = makes ? TextMeasures().Values() : model.loss->Quality({}, 0);
  for (const QualityMeasure& one : measures) names.push_back(one.name);
  std::string& metric = config.train.metric;
  const bool measured = absl::c_linear_search(names, metric);
  if (makes || measures.empty()) names.emplace_back("perplexity");  // the loss is one of tokens
  if (!absl::c_linear_search(names, metric)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--metric ", metric, ": evaluations of this run have ", absl::StrJoin(names, ", "),
        task.compares_texts() && !makes
            ? "; with --predict-with-generate they have BLEU, ROUGE and error rates, too"
            : ""));
  }
  if (metric == "perplexity" && !measured) metric = "loss";
  return absl::OkStatus();
}

}  // namespace spillway
