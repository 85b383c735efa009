#include "engine/numeric/quality.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "io/base/check.h"

namespace spillway {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Counts for one label.
struct LabelCounts {
  double predicted = 0, labelled = 0, right = 0;

  double F1() const {
    const double both = predicted + labelled;
    return both > 0 ? 2 * right / both : 0;
  }
};

// Matthews' correlation of many labels: R_k of Gorodkin (2004), as scikit-learn computes it.
double Matthews(const std::map<int64_t, LabelCounts>& counts, double all) {
  double right = 0, chance = 0, predicted = 0, labelled = 0;
  for (const auto& [label, count] : counts) {
    right += count.right;
    chance += count.predicted * count.labelled;
    predicted += count.predicted * count.predicted;
    labelled += count.labelled * count.labelled;
  }
  const double spread = (all * all - predicted) * (all * all - labelled);
  return spread > 0 ? (right * all - chance) / std::sqrt(spread) : 0;
}

double Pearson(const std::vector<double>& x, const std::vector<double>& y) {
  if (x.size() < 2) return kNone;
  const double n = static_cast<double>(x.size());
  const double x_mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
  const double y_mean = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double xx = 0, yy = 0, xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - x_mean) * (x[i] - x_mean);
    yy += (y[i] - y_mean) * (y[i] - y_mean);
    xy += (x[i] - x_mean) * (y[i] - y_mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : kNone;
}

// Ranks from 1; equal values share their mean rank.
std::vector<double> RanksOf(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0, end; begin < order.size(); begin = end) {
    for (end = begin; end < order.size() && values[order[end]] == values[order[begin]];) ++end;
    for (size_t i = begin; i < end; ++i) {
      ranks[order[i]] = static_cast<double>(begin + end + 1) / 2;
    }
  }
  return ranks;
}

// The entity part of a label: "B-PER" starts an entity of kind PER.
struct EntityTag {
  char place = 'O';
  std::string kind;

  explicit EntityTag(const std::string& label) {
    if (label == "O") return;
    place = label[0];
    kind = label.substr(2);
  }
  EntityTag() = default;
};

bool NamesEntities(const std::vector<std::string>& labels) {
  const auto is_place = [](const std::string& label) {
    return label.size() > 2 && label[1] == '-' && absl::StrContains("BIES", label[0]);
  };
  return std::any_of(labels.begin(), labels.end(), is_place) &&
         std::all_of(labels.begin(), labels.end(),
                     [&](const std::string& label) { return label == "O" || is_place(label); });
}

// seqeval's end_of_chunk and start_of_chunk, without the bracket tags, which our labels do not
// have.
bool EndsBetween(const EntityTag& before, const EntityTag& tag) {
  if (before.place == 'O') return false;
  if (before.place == 'E' || before.place == 'S') return true;
  return tag.place == 'B' || tag.place == 'S' || tag.place == 'O' || before.kind != tag.kind;
}
bool BeginsBetween(const EntityTag& before, const EntityTag& tag) {
  if (tag.place == 'O') return false;
  if (tag.place == 'B' || tag.place == 'S') return true;
  return before.place == 'E' || before.place == 'S' || before.place == 'O' ||
         before.kind != tag.kind;
}

// Finds the entities in tags: (first token, last token + 1, kind).
class EntityFinder {
 public:
  using Found = std::set<std::tuple<int64_t, int64_t, std::string>>;

  // Tokens are counted across texts; an end of text has the tag O.
  void Add(const EntityTag& tag) {
    if (EndsBetween(before_, tag)) found_.emplace(begin_, at_, before_.kind);
    if (BeginsBetween(before_, tag)) begin_ = at_;
    before_ = tag;
    ++at_;
  }
  const Found& found() const { return found_; }

 private:
  EntityTag before_;
  int64_t begin_ = 0, at_ = 0;
  Found found_;
};

double ShareOf(double part, double whole) { return whole > 0 ? part / whole : 0; }

}  // namespace

std::vector<QualityMeasure> TokenQuality(absl::Span<const Judgement> judgements,
                                         const std::vector<std::string>& labels) {
  const std::vector<EntityTag> tags = NamesEntities(labels)
                                          ? std::vector<EntityTag>(labels.begin(), labels.end())
                                          : std::vector<EntityTag>(labels.size());
  EntityFinder predicted, labelled;
  double right = 0, all = 0;
  for (const Judgement& judgement : judgements) {
    const bool ends = judgement.label == kBetweenTexts;
    predicted.Add(ends ? EntityTag() : tags[static_cast<size_t>(judgement.prediction)]);
    labelled.Add(ends ? EntityTag() : tags[static_cast<size_t>(judgement.label)]);
    if (ends) continue;
    all += 1;
    right += judgement.prediction == judgement.label;
  }
  std::vector<QualityMeasure> found = {{"accuracy", all > 0 ? right / all : kNone}};
  if (!NamesEntities(labels)) return found;
  LabelCounts counts;
  counts.predicted = static_cast<double>(predicted.found().size());
  counts.labelled = static_cast<double>(labelled.found().size());
  for (const auto& entity : predicted.found()) {
    counts.right += static_cast<double>(labelled.found().count(entity));
  }
  found.push_back({"precision", ShareOf(counts.right, counts.predicted)});
  found.push_back({"recall", ShareOf(counts.right, counts.labelled)});
  found.push_back({"f1", counts.F1()});
  return found;
}

std::vector<QualityMeasure> CountedQuality(absl::Span<const Judgement> judgements, double loss) {
  double right = 0, all = 0;
  for (const Judgement& judgement : judgements) {
    right += judgement.prediction;
    all += judgement.label;
  }
  return {{"accuracy", all > 0 ? right / all : kNone}, {"perplexity", std::exp(loss)}};
}

const std::vector<MeasureKind>& MeasureKinds() {
  static const auto& kinds = *new std::vector<MeasureKind>{
      {"loss", true},       {"accuracy", false}, {"f1", false},        {"matthews", false},
      {"pearson", false},   {"spearman", false}, {"precision", false}, {"recall", false},
      {"perplexity", true}, {"bleu", false},     {"rouge1", false},    {"rouge2", false},
      {"rougeL", false},    {"wer", true},       {"cer", true},        {"exact_match", false}};
  return kinds;
}

bool IsBetter(absl::string_view measure, double value, double than) {
  const auto& kinds = MeasureKinds();
  const auto kind = std::find_if(kinds.begin(), kinds.end(),
                                 [&](const MeasureKind& one) { return one.name == measure; });
  SPILLWAY_CHECK(kind != kinds.end());
  return kind->less_is_better ? value < than : value > than;
}

double ValueOf(const std::vector<QualityMeasure>& measures, absl::string_view name) {
  for (const QualityMeasure& measure : measures) {
    if (measure.name == name) return measure.value;
  }
  return kNone;
}

std::vector<QualityMeasure> SingleLabelQuality(absl::Span<const Judgement> judgements,
                                               int64_t labels) {
  std::map<int64_t, LabelCounts> counts;
  double right = 0;
  for (const Judgement& judgement : judgements) {
    const auto prediction = static_cast<int64_t>(judgement.prediction);
    const auto label = static_cast<int64_t>(judgement.label);
    counts[prediction].predicted += 1;
    counts[label].labelled += 1;
    if (prediction != label) continue;
    counts[label].right += 1;
    right += 1;
  }
  const auto all = static_cast<double>(judgements.size());
  double f1 = labels == 2 ? counts[1].F1() : 0;
  if (labels != 2) {
    for (const auto& [label, count] : counts) f1 += count.F1() / static_cast<double>(counts.size());
  }
  return {
      {"accuracy", all > 0 ? right / all : kNone}, {"f1", f1}, {"matthews", Matthews(counts, all)}};
}

std::vector<QualityMeasure> MultiLabelQuality(absl::Span<const Judgement> judgements,
                                              int64_t labels) {
  LabelCounts counts;
  double right = 0;
  const auto texts = static_cast<int64_t>(judgements.size()) / labels;
  for (int64_t text = 0; text < texts; ++text) {
    bool all = true;
    for (const Judgement& one : judgements.subspan(text * labels, labels)) {
      counts.predicted += one.prediction;
      counts.labelled += one.label;
      counts.right += one.prediction * one.label;
      all &= one.prediction == one.label;
    }
    right += all;
  }
  return {{"accuracy", texts > 0 ? right / static_cast<double>(texts) : kNone},
          {"f1", counts.F1()}};
}

std::vector<QualityMeasure> RegressionQuality(absl::Span<const Judgement> judgements) {
  std::vector<double> predictions, labels;
  for (const Judgement& judgement : judgements) {
    predictions.push_back(judgement.prediction);
    labels.push_back(judgement.label);
  }
  return {{"pearson", Pearson(predictions, labels)},
          {"spearman", Pearson(RanksOf(predictions), RanksOf(labels))}};
}

std::string QualityText(const std::vector<QualityMeasure>& measures) {
  return absl::StrJoin(measures, ", ", [](std::string* out, const QualityMeasure& measure) {
    absl::StrAppendFormat(out, "%s %.4f", measure.name, measure.value);
  });
}

}  // namespace spillway
