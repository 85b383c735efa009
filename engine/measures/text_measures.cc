#include "engine/measures/text_measures.h"

#include <limits>

namespace spillway {

TextCounts CompareTexts(absl::string_view answer, absl::string_view target) {
  return {CountForBleu(answer, target), CountForRouge(answer, target),
          CountWordEdits(answer, target), CountCharacterEdits(answer, target)};
}

void TextMeasures::Add(const TextCounts& counts) {
  ++texts_;
  bleu_ += counts.bleu;
  const RougeScores rouge = Rouge(counts.rouge);
  rouge_.one += rouge.one;
  rouge_.two += rouge.two;
  rouge_.longest += rouge.longest;
  words_ += counts.words;
  characters_ += counts.characters;
}

std::vector<QualityMeasure> TextMeasures::Values() const {
  const auto value = [&](double of_some) {
    return texts_ > 0 ? of_some : std::numeric_limits<double>::quiet_NaN();
  };
  const auto texts = static_cast<double>(texts_);
  return {{"bleu", value(Bleu(bleu_))},          {"rouge1", value(rouge_.one / texts)},
          {"rouge2", value(rouge_.two / texts)}, {"rougeL", value(rouge_.longest / texts)},
          {"wer", value(ErrorRate(words_))},     {"cer", value(ErrorRate(characters_))}};
}

}  // namespace spillway
