#include "engine/data/paired_samples.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/stop_signal.h"
#include "io/base/status.h"

namespace spillway {

absl::StatusOr<std::vector<int64_t>> EncodeWithin(const Tokenizer& tokenizer,
                                                  const std::string& text, int64_t most,
                                                  int64_t vocabulary, const char* flag,
                                                  int64_t* cut) {
  ASSIGN_OR_RETURN(Tokenizer::Beginning beginning, tokenizer.EncodeBeginning(text, most));
  std::vector<int64_t> tokens = std::move(beginning.tokens);
  if (beginning.all == 0) {
    return absl::InvalidArgumentError("the tokenizer makes no token of the text");
  }
  const auto around = static_cast<int64_t>(tokenizer.Around({}, std::nullopt).tokens.size());
  if (most <= around) {
    return absl::InvalidArgumentError(absl::StrCat(
        flag, " ", most, " has no room for the text beside the tokens around it, ", around));
  }
  if (beginning.all > most - around) {
    ++*cut;
    tokens.resize(most - around);
  }
  tokens = tokenizer.Around(tokens, std::nullopt).tokens;
  RETURN_IF_ERROR(CheckKnown(tokenizer, tokens, vocabulary));
  return tokens;
}

absl::StatusOr<std::unique_ptr<PairedSamples>> PairedSamples::Read(
    const std::vector<std::string>& files, const PairedSamplesOptions& options) {
  ASSIGN_OR_RETURN(ScratchRows rows, ScratchRows::Create(options.scratch_directory));
  std::unique_ptr<PairedSamples> samples(new PairedSamples(std::move(rows)));
  int64_t cut_sources = 0, cut_targets = 0;
  const Tokenizer& tokenizer = *options.tokenizer;
  const bool adds_end = options.end_token >= 0 && tokenizer.Around({}, std::nullopt).tokens.empty();
  const int64_t max_target_length = options.max_target_length - (adds_end ? 1 : 0);
  const auto add = [&](const TextPairRow& pair) -> absl::Status {
    RETURN_IF_ERROR(StopSignal::Check());
    ASSIGN_OR_RETURN(const std::vector<int64_t> source,
                     EncodeWithin(tokenizer, pair.source, options.max_source_length,
                                  options.vocabulary, "--max-source-length", &cut_sources));
    ASSIGN_OR_RETURN(std::vector<int64_t> target,
                     EncodeWithin(tokenizer, *pair.target, max_target_length, options.vocabulary,
                                  "--max-target-length", &cut_targets));
    if (adds_end) target.push_back(options.end_token);
    std::vector<int64_t> row = {static_cast<int64_t>(source.size())};
    row.insert(row.end(), source.begin(), source.end());
    row.insert(row.end(), target.begin(), target.end());
    samples->longest_source_ = std::max<int64_t>(samples->longest_source_, source.size());
    samples->longest_target_ = std::max<int64_t>(samples->longest_target_, target.size());
    samples->source_tokens_ += static_cast<int64_t>(source.size());
    samples->target_tokens_ += static_cast<int64_t>(target.size());
    return samples->rows_.Append(row);
  };
  for (const std::string& file : files) {
    RETURN_IF_ERROR(ReadTextPairs(file, options.keys, /*needs_target=*/true, add));
  }
  RETURN_IF_ERROR(samples->rows_.Flush());
  const std::string names = absl::StrJoin(files, ", ");
  WarnOfCut(names, cut_sources, samples->size(), "sources", "--max-source-length",
            options.max_source_length);
  WarnOfCut(names, cut_targets, samples->size(), "targets", "--max-target-length",
            options.max_target_length);
  return samples;
}

absl::StatusOr<TextPair> PairedSamples::Get(int64_t sample) const {
  ASSIGN_OR_RETURN(const std::vector<int64_t> row, rows_.Read(sample));
  const auto target = row.begin() + 1 + row.front();
  return TextPair{{row.begin() + 1, target}, {target, row.end()}};
}

std::string PairedSamples::fingerprint() const {
  return absl::StrCat("pairs-", size(), "-", rows_.digest());
}

}  // namespace spillway
