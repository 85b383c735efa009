// Audio with transcripts as samples. Locations of audio files and tokens of texts are kept in
// temporary files, so memory is bounded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/data/scratch_file.h"
#include "engine/data/text_pairs.h"
#include "engine/tokenizers/speech_tokens.h"
#include "engine/tokenizers/tokenizer.h"
#include "io/file_system.h"

namespace spillway {

// The path of `name` in a row of `file`: relative to that file's folder.
std::string AudioPath(const std::string& file, const std::string& name);

// Default keys of the audio file and the text.
inline constexpr const char* kAudioKey = "audio";
inline constexpr const char* kAudioTextKey = "text";

struct SpeechSamplesOptions {
  const Tokenizer* tokenizer = nullptr;
  PairKeys keys;  // of the audio file and the text
  SpeechMode task;
  double max_seconds = 30;        // longer audio is skipped
  int64_t max_target_length = 0;  // in tokens, including added ones
  int64_t vocabulary = 0;
  int64_t end_token = -1;  // -1: none
  std::string scratch_directory;
};

struct SpeechSample {
  std::string row;              // "FILE:LINE"
  std::string path;             // of the audio file
  FileInfo info;                // the audio file's size and time at Read
  std::vector<int64_t> target;  // the decoder's output after its start token
};

// Immutable once read: any thread.
class SpeechSamples {
 public:
  // Reads all `files` and opens each audio file. Warns of samples that are too long.
  // kInvalidArgument, "FILE:LINE: ...", as in ReadTextPairs, AudioFile and SpeechTokens::Prefix,
  // and if no sample is left.
  static absl::StatusOr<std::unique_ptr<SpeechSamples>> Read(const std::vector<std::string>& files,
                                                             const SpeechSamplesOptions& options);

  // At least 1.
  int64_t size() const { return rows_.size(); }
  // REQUIRES: 0 <= sample < size().
  absl::StatusOr<SpeechSample> Get(int64_t sample) const;

  int64_t longest_target() const { return longest_target_; }  // tokens
  int64_t target_tokens() const { return target_tokens_; }    // of all samples
  int64_t prefix_tokens() const { return prefix_tokens_; }    // of every target, before the text
  double longest_seconds() const { return longest_seconds_; }
  // Digest of all texts, and of names and lengths of audio files.
  std::string fingerprint() const;

 private:
  SpeechSamples(ScratchRows rows, ScratchRows places, std::vector<std::string> files)
      : rows_(std::move(rows)), places_(std::move(places)), files_(std::move(files)) {}

  // [sample] The length of its path, the path, its file's size, and its target.
  ScratchRows rows_;
  ScratchRows places_;  // [sample] its file's index and line, and the audio file's time
  std::vector<std::string> files_;
  int64_t longest_target_ = 0, prefix_tokens_ = 0, target_tokens_ = 0;
  double longest_seconds_ = 0;
};

}  // namespace spillway
