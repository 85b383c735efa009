#include "engine/generation/beam_search.h"

#include <algorithm>
#include <cmath>

#include "engine/generation/sampling.h"
#include "io/base/check.h"

namespace spillway {
namespace {

// transformers' minus infinity: what has it loses against all else, and has an order still.
constexpr float kHopeless = -1e9F;

}  // namespace

BeamSearch::BeamSearch(const std::vector<int64_t>& prompt, const SamplingOptions& options,
                       const std::vector<int64_t>& source)
    : options_(options),
      source_(source),
      prompt_tokens_(static_cast<int64_t>(prompt.size())),
      running_({prompt}),
      scores_({0}),
      finished_(options.beams, {prompt, kHopeless, /*is_text=*/false}) {
  SPILLWAY_CHECK(options.beams > 1 && options.max_tokens > 0 && options.temperature <= 0);
}

bool BeamSearch::Ends(int64_t token) const {
  return std::count(options_.ends.begin(), options_.ends.end(), token) > 0;
}

float BeamSearch::Penalised(float score, int64_t length) const {
  return score / static_cast<float>(std::pow(static_cast<double>(length), options_.length_penalty));
}

bool BeamSearch::AllFinished() const {
  return std::all_of(finished_.begin(), finished_.end(),
                     [](const Finished& one) { return one.is_text; });
}

std::vector<int> BeamSearch::Step(const std::vector<torch::Tensor>& chances) {
  SPILLWAY_CHECK(!done_ && chances.size() == running_.size());
  const int64_t beams = options_.beams, classes = chances[0].numel();
  std::vector<torch::Tensor> all;
  for (size_t i = 0; i < chances.size(); ++i) {
    all.push_back(ScoresOf(chances[i], running_[i], prompt_tokens_, options_, source_) +
                  scores_[i]);
  }
  // At first all beams are the prompt, and but one of them hopeless.
  while (static_cast<int64_t>(all.size()) < beams) all.push_back(all[0] + kHopeless);
  const int64_t ends = static_cast<int64_t>(options_.ends.size());
  const int64_t count = std::min(std::max<int64_t>(2, 1 + ends) * beams, beams * classes);
  const auto [best, places] = torch::cat(all).topk(count);

  const int64_t length = static_cast<int64_t>(running_[0].size()) + 1 - prompt_tokens_;
  const bool longest = length >= options_.max_tokens;
  const bool full = AllFinished() && options_.early_stopping == EarlyStopping::kYes;
  std::vector<Finished> merged = finished_;
  std::vector<float> left;  // [candidate] of those that go on
  for (int64_t i = 0; i < count; ++i) {
    const float score = best[i].item<float>();
    const int64_t place = places[i].item<int64_t>();
    const bool ended = longest || Ends(place % classes);
    left.push_back(ended ? score + kHopeless : score);
    if (!ended || i >= beams || full || !improves_) continue;
    std::vector<int64_t> tokens = running_[std::min<size_t>(place / classes, running_.size() - 1)];
    tokens.push_back(place % classes);
    merged.push_back({std::move(tokens), Penalised(score, length), true});
  }
  std::stable_sort(merged.begin(), merged.end(),
                   [](const Finished& a, const Finished& b) { return a.score > b.score; });
  merged.resize(beams);
  finished_ = std::move(merged);

  const auto [kept, order] = torch::tensor(left).topk(beams);
  std::vector<int> parents;
  std::vector<std::vector<int64_t>> next;
  for (int64_t i = 0; i < beams; ++i) {
    const int64_t place = places[order[i].item<int64_t>()].item<int64_t>();
    parents.push_back(static_cast<int>(std::min<int64_t>(place / classes, running_.size() - 1)));
    next.push_back(running_[parents.back()]);
    next.back().push_back(place % classes);
  }
  scores_.assign(kept.const_data_ptr<float>(), kept.const_data_ptr<float>() + beams);
  running_ = std::move(next);

  const bool looks_ahead =
      options_.early_stopping == EarlyStopping::kNever && options_.length_penalty > 0;
  const float hoped = Penalised(scores_[0], looks_ahead ? options_.max_tokens : length);
  improves_ = improves_ && (!AllFinished() || hoped > finished_.back().score);
  const bool enough = AllFinished() && options_.early_stopping == EarlyStopping::kYes;
  done_ = !improves_ || enough || longest;
  return parents;
}

}  // namespace spillway
