#include "engine/data/speech_samples.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/stop_signal.h"
#include "engine/media/audio_file.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/file_system.h"

namespace spillway {

std::string AudioPath(const std::string& file, const std::string& name) {
  const size_t slash = file.rfind('/');
  if (absl::StartsWith(name, "/") || slash == std::string::npos) return name;
  return absl::StrCat(file.substr(0, slash + 1), name);
}

absl::StatusOr<std::unique_ptr<SpeechSamples>> SpeechSamples::Read(
    const std::vector<std::string>& files, const SpeechSamplesOptions& options) {
  ASSIGN_OR_RETURN(ScratchRows rows, ScratchRows::Create(options.scratch_directory));
  ASSIGN_OR_RETURN(ScratchRows places, ScratchRows::Create(options.scratch_directory));
  std::unique_ptr<SpeechSamples> samples(
      new SpeechSamples(std::move(rows), std::move(places), files));
  const Tokenizer& tokenizer = *options.tokenizer;
  ASSIGN_OR_RETURN(const std::vector<int64_t> prefix,
                   SpeechTokens::Of(tokenizer).Prefix(options.task));
  samples->prefix_tokens_ = static_cast<int64_t>(prefix.size());
  const int64_t around = samples->prefix_tokens_ + (options.end_token >= 0 ? 1 : 0);
  if (options.max_target_length <= around) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max-target-length ", options.max_target_length,
                     " has no room for a text beside the tokens around it, ", around));
  }
  int64_t long_sounds = 0, cut_texts = 0;
  const auto add = [&](size_t file, const TextPairRow& pair) -> absl::Status {
    RETURN_IF_ERROR(StopSignal::Check());
    const std::string path = AudioPath(files[file], pair.source);
    ASSIGN_OR_RETURN(const auto sound, AudioFile::Open(path));
    if (sound->seconds() <= 0) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": there is no sound in it"));
    }
    if (sound->seconds() > options.max_seconds) {
      ++long_sounds;
      return absl::OkStatus();
    }
    samples->longest_seconds_ = std::max(samples->longest_seconds_, sound->seconds());
    ASSIGN_OR_RETURN(const FileInfo info, FileSystem::Real().Stat(path, SymbolicLink::kFollow));
    ASSIGN_OR_RETURN(std::vector<int64_t> text, tokenizer.Encode(*pair.target));
    RETURN_IF_ERROR(CheckKnown(tokenizer, text, options.vocabulary));
    const auto most = static_cast<size_t>(options.max_target_length - around);
    cut_texts += text.size() > most ? 1 : 0;
    text.resize(std::min(text.size(), most));
    std::vector<int64_t> row = {static_cast<int64_t>(path.size())};
    row.insert(row.end(), path.begin(), path.end());
    row.push_back(static_cast<int64_t>(info.size_bytes));
    row.insert(row.end(), prefix.begin(), prefix.end());
    row.insert(row.end(), text.begin(), text.end());
    if (options.end_token >= 0) row.push_back(options.end_token);
    samples->longest_target_ =
        std::max<int64_t>(samples->longest_target_, static_cast<int64_t>(text.size()) + around);
    samples->target_tokens_ += static_cast<int64_t>(text.size()) + around;
    RETURN_IF_ERROR(
        samples->places_.Append({static_cast<int64_t>(file), pair.line, info.modified_ns}));
    return samples->rows_.Append(row);
  };
  for (size_t file = 0; file < files.size(); ++file) {
    RETURN_IF_ERROR(ReadTextPairs(files[file], options.keys, /*needs_target=*/true,
                                  [&](const TextPairRow& pair) { return add(file, pair); }));
  }
  RETURN_IF_ERROR(samples->rows_.Flush());
  RETURN_IF_ERROR(samples->places_.Flush());
  const std::string names = absl::StrJoin(files, ", ");
  if (samples->size() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(names, ": all sounds are longer than the ",
                                                   options.max_seconds,
                                                   " s that the model hears: cut them"));
  }
  if (long_sounds > 0) {
    LogWarning(absl::StrCat(names, ": ", long_sounds, " of ", samples->size() + long_sounds,
                            " sounds are longer than the ", options.max_seconds,
                            " s that the model hears, and are left out"));
  }
  WarnOfCut(names, cut_texts, samples->size(), "texts", "--max-target-length",
            options.max_target_length);
  return samples;
}

absl::StatusOr<SpeechSample> SpeechSamples::Get(int64_t sample) const {
  ASSIGN_OR_RETURN(const std::vector<int64_t> row, rows_.Read(sample));
  const auto path_end = row.begin() + 1 + row.front();
  ASSIGN_OR_RETURN(const std::vector<int64_t> place, places_.Read(sample));
  SpeechSample found;
  found.row = absl::StrCat(files_[place[0]], ":", place[1]);
  found.path.assign(row.begin() + 1, path_end);
  found.info.size_bytes = static_cast<uint64_t>(*path_end);
  found.info.modified_ns = place[2];
  found.target.assign(path_end + 1, row.end());
  return found;
}

std::string SpeechSamples::fingerprint() const {
  return absl::StrCat("speech-", size(), "-", rows_.digest());
}

}  // namespace spillway
