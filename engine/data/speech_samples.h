// Sounds with what is said in them, each a sample by itself. What is kept in temporary files is
// where the sounds are and the tokens of the texts, so memory stays bounded however many there are.
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

// `name` as a row of `file` has it: relative to that file's folder.
std::string AudioPath(const std::string& file, const std::string& name);

// Where rows have the sound's file and the text where nothing else is said.
inline constexpr const char* kAudioKey = "audio";
inline constexpr const char* kAudioTextKey = "text";

struct SpeechSamplesOptions {
  const Tokenizer* tokenizer = nullptr;
  PairKeys keys;  // of the sound's file and of the text
  SpeechMode task;
  double max_seconds = 30;        // of a sound; longer ones are left out
  int64_t max_target_length = 0;  // tokens, with those around the text
  int64_t vocabulary = 0;
  int64_t end_token = -1;  // -1: none
  std::string scratch_directory;
};

struct SpeechSample {
  std::string row;              // "FILE:LINE"
  std::string path;             // the sound's
  FileInfo info;                // its file's size and time when the samples were read
  std::vector<int64_t> target;  // what the decoder makes behind its start token
};

// Immutable once made: any thread.
class SpeechSamples {
 public:
  // Reads all `files` and opens each sound. Warns of what is too long. kInvalidArgument,
  // "FILE:LINE: ...", as of ReadTextPairs, AudioFile and SpeechTokens::Prefix, and where nothing is
  // left.
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
  // Changes with any text, and with the name or length of any sound's file.
  std::string fingerprint() const;

 private:
  SpeechSamples(ScratchRows rows, ScratchRows places, std::vector<std::string> files)
      : rows_(std::move(rows)), places_(std::move(places)), files_(std::move(files)) {}

  // Of each sample how many characters its path has, those, its file's bytes, and its target.
  ScratchRows rows_;
  ScratchRows
      places_;  // of each sample its file's number and line, and the time of the sound's file
  std::vector<std::string> files_;
  int64_t longest_target_ = 0, prefix_tokens_ = 0, target_tokens_ = 0;
  double longest_seconds_ = 0;
};

}  // namespace spillway
