#include "engine/data/labelled_samples.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/stop_signal.h"
#include "io/base/check.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr int kTypeShift = 32;

// What is left of two texts of so many tokens where there is room for `room`: tokenizers'
// LongestFirst.
std::pair<int64_t, int64_t> LongestFirst(int64_t first, int64_t second, int64_t room) {
  if (first + second <= room) return {first, second};
  const bool swap = first > second;
  int64_t shorter = std::min(first, second);
  int64_t longer = shorter > room ? shorter : std::max(shorter, room - shorter);
  if (shorter + longer > room) {
    shorter = room / 2;
    longer = shorter + room % 2;
  }
  return swap ? std::pair(longer, shorter) : std::pair(shorter, longer);
}

}  // namespace

absl::StatusOr<EncodedText> TextPairEncoder::Encode(const LabelledText& text) {
  ASSIGN_OR_RETURN(Tokenizer::Beginning begins,
                   tokenizer_.EncodeBeginning(text.first, most_tokens_));
  std::vector<int64_t> first = std::move(begins.tokens);
  const int64_t size = begins.all;
  std::optional<std::vector<int64_t>> second;
  int64_t second_size = 0;
  if (text.second) {
    ASSIGN_OR_RETURN(begins, tokenizer_.EncodeBeginning(*text.second, most_tokens_));
    second = std::move(begins.tokens);
    second_size = begins.all;
  }
  const auto around = [&](const std::vector<int64_t>& one, const auto& other) {
    return tokenizer_.Around(
        one, other ? std::optional<absl::Span<const int64_t>>(*other) : std::nullopt);
  };
  if (first.empty() || (second && second->empty())) {
    return absl::InvalidArgumentError("the tokenizer makes no token of the text");
  }
  const std::vector<int64_t> none;
  const std::optional<std::vector<int64_t>> no_second = second ? std::optional(none) : std::nullopt;
  const int64_t room = most_tokens_ - static_cast<int64_t>(around(none, no_second).tokens.size());
  if (room < (second ? 2 : 1)) return NoRoomError(most_tokens_);
  if (size + second_size > room) {
    ++cut_;
    const auto kept = second ? LongestFirst(size, second_size, room) : std::pair(room, int64_t{0});
    first.resize(kept.first);
    if (second) second->resize(kept.second);
  }
  EncodedText encoded = around(first, second);
  RETURN_IF_ERROR(FitToModel(tokenizer_, config_, encoded));
  return encoded;
}

absl::StatusOr<std::unique_ptr<LabelledSamples>> LabelledSamples::ReadTexts(
    const std::vector<std::string>& files, const TransformerConfig& config,
    const LabelledSamplesOptions& options) {
  SPILLWAY_CHECK(config.classifier && config.classifier->problem);
  const ClassifierConfig& classifier = *config.classifier;
  const int64_t labels = *classifier.problem == ClassifierProblem::kSingleLabel
                             ? 1
                             : static_cast<int64_t>(classifier.labels.size());
  return Read(files, labels, &LabelledSamples::AddTexts, config, options);
}

absl::StatusOr<std::unique_ptr<LabelledSamples>> LabelledSamples::ReadWords(
    const std::vector<std::string>& files, const TransformerConfig& config,
    const LabelledSamplesOptions& options) {
  SPILLWAY_CHECK(config.classifier && config.classifier->problem);
  return Read(files, /*labels=*/0, &LabelledSamples::AddWords, config, options);
}

absl::StatusOr<std::unique_ptr<LabelledSamples>> LabelledSamples::Read(
    const std::vector<std::string>& files, int64_t labels, AddFile add,
    const TransformerConfig& config, const LabelledSamplesOptions& options) {
  ASSIGN_OR_RETURN(ScratchRows rows, ScratchRows::Create(options.scratch_directory));
  std::unique_ptr<LabelledSamples> samples(new LabelledSamples(std::move(rows), labels));
  int64_t cut = 0;
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(const int64_t cut_here, (samples.get()->*add)(file, config, options));
    cut += cut_here;
  }
  RETURN_IF_ERROR(samples->rows_.Flush());
  WarnOfCut(absl::StrJoin(files, ", "), cut, samples->size(), "texts", "--seq-len",
            options.seq_len);
  return samples;
}

absl::StatusOr<int64_t> LabelledSamples::AddTexts(const std::string& file,
                                                  const TransformerConfig& config,
                                                  const LabelledSamplesOptions& options) {
  const ClassifierConfig& classifier = *config.classifier;
  TextPairEncoder encoder(options.tokenizer, &config, options.seq_len);
  RETURN_IF_ERROR(ReadLabelledTexts(
      file, options.keys, /*needs_label=*/true, [&](const LabelledText& text) -> absl::Status {
        Sample sample;
        ASSIGN_OR_RETURN(sample.labels, ReadLabel(text.label, classifier));
        ASSIGN_OR_RETURN(sample.text, encoder.Encode(text));
        return Add(sample);
      }));
  return encoder.cut();
}

absl::StatusOr<int64_t> LabelledSamples::AddWords(const std::string& file,
                                                  const TransformerConfig& config,
                                                  const LabelledSamplesOptions& options) {
  const ClassifierConfig& classifier = *config.classifier;
  WordListEncoder encoder(options.tokenizer, &config, options.seq_len);
  RETURN_IF_ERROR(ReadLabelledWords(
      file, options.keys, /*needs_label=*/true, [&](const LabelledWords& text) -> absl::Status {
        ASSIGN_OR_RETURN(EncodedWords encoded, encoder.Encode(text.words));
        Sample sample;
        sample.labels.assign(encoded.text.tokens.size(), kWithoutLabel);
        for (size_t word = 0; word < text.words.size(); ++word) {
          ASSIGN_OR_RETURN(const std::vector<float> label,
                           ReadLabel(text.labels[word], classifier));
          const int64_t at = encoded.first[word];
          if (at >= 0) sample.labels[static_cast<size_t>(at)] = label.front();
        }
        sample.text = std::move(encoded.text);
        return Add(sample);
      }));
  return encoder.cut();
}

absl::Status LabelledSamples::Add(const Sample& sample) {
  RETURN_IF_ERROR(StopSignal::Check());
  std::vector<int64_t> row;
  for (const float label : sample.labels) row.push_back(std::bit_cast<uint32_t>(label));
  const EncodedText& text = sample.text;
  for (size_t i = 0; i < text.tokens.size(); ++i) {
    row.push_back(text.tokens[i] | text.types[i] << kTypeShift);
  }
  longest_ = std::max(longest_, static_cast<int64_t>(text.tokens.size()));
  tokens_ += static_cast<int64_t>(text.tokens.size());
  return rows_.Append(row);
}

absl::StatusOr<LabelledSamples::Sample> LabelledSamples::Get(int64_t sample) const {
  ASSIGN_OR_RETURN(const std::vector<int64_t> row, rows_.Read(sample));
  Sample found;
  const size_t labels = labels_ == 0 ? row.size() / 2 : static_cast<size_t>(labels_);
  for (size_t i = 0; i < row.size(); ++i) {
    if (i < labels) {
      found.labels.push_back(std::bit_cast<float>(static_cast<uint32_t>(row[i])));
      continue;
    }
    found.text.tokens.push_back(row[i] & 0xffffffff);
    found.text.types.push_back(row[i] >> kTypeShift);
  }
  return found;
}

std::string LabelledSamples::fingerprint() const {
  return absl::StrCat("texts-", size(), "-", rows_.digest());
}

}  // namespace spillway
