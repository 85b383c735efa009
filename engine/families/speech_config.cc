#include "engine/families/speech_config.h"

#include "absl/strings/str_cat.h"
#include "engine/base/model_file.h"
#include "engine/base/strict_json.h"
#include "io/base/status.h"

namespace spillway {

absl::Status CheckSpeechPreprocessor(const std::string& model_directory,
                                     const SpeechConfig& config) {
  const auto document = ReadModelJson(model_directory, "preprocessor_config.json");
  if (absl::IsNotFound(document.status())) return absl::OkStatus();
  RETURN_IF_ERROR(document.status());
  const struct {
    const char* key;
    nlohmann::json value;
    const char* why;
  } expected[] = {
      {"feature_size", config.bands, "num_mel_bins of config.json"},
      {"sampling_rate", 16000, "the samples a second that are heard here"},
      {"hop_length", 160, "the samples from one frame to the next"},
      {"n_fft", 400, "the samples of a frame"},
      {"do_normalize", false, "sounds are heard as loud as they are"},
  };
  for (const auto& one : expected) {
    const auto found = document->value.find(one.key);
    if (found == document->value.end() || found->is_null() || *found == one.value) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(document->Where(JsonPointerTo("", one.key)), ": ", one.key, " is ",
                     found->dump().substr(0, 40), "; expected ", one.value.dump(), ", ", one.why));
  }
  return absl::OkStatus();
}

}  // namespace spillway
