// Pictures and sounds, and the preprocessor_config.json that says what becomes of them. Of the
// libraries that decode them only our side is watched for wrong accesses.
#include <cmath>

#include "engine/base/work_count.h"
#include "engine/families/speech_config.h"
#include "engine/media/audio_file.h"
#include "engine/media/picture.h"
#include "engine/media/picture_processor.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {

SPILLWAY_FUZZ(picture, 2000) {
  const MemoryFile file(input);
  const auto size = ReadPictureSize(file.path());
  if (!size.ok()) return Refuse(size.status(), {absl::StatusCode::kInvalidArgument});
  SPILLWAY_CHECK(size->width > 0 && size->height > 0);
  // A few bytes may be many points of one colour: they are allowed, and take long.
  if (size->width * size->height > 1 << 18) return false;
  // Each scan, and each pass of a PNG, goes over the picture once, and there is a most of scans.
  const uint64_t began = WorkCount::now();
  const auto picture = ReadPicture(file.path());
  const auto rows = static_cast<uint64_t>(101 * (size->height / 8 + 2) + 8 * size->height);
  SPILLWAY_CHECK(WorkCount::now() - began <=
                 static_cast<uint64_t>(size->width) * rows + 8 * input.size() + 1000);
  if (!picture.ok()) return Refuse(picture.status(), {absl::StatusCode::kInvalidArgument});
  SPILLWAY_CHECK(picture->width == size->width && picture->height == size->height);
  SPILLWAY_CHECK(picture->points.size() ==
                 static_cast<size_t>(picture->width * picture->height * picture->channels));
  const Picture fitted = Fit(MiddleProcessing(8), *picture);
  SPILLWAY_CHECK(fitted.width == 8 && fitted.height == 8);
  return true;
}

SPILLWAY_FUZZ(audio_file, 500) {
  if (input.empty()) return false;
  const MemoryFile file(input);
  const uint64_t began = WorkCount::now();
  const auto audio = AudioFile::Open(file.path());
  if (!audio.ok()) return Refuse(audio.status(), {absl::StatusCode::kInvalidArgument});
  // What it says of its end and its tables may be looked for again and again, and not without end.
  SPILLWAY_CHECK(WorkCount::now() - began <= (uint64_t{1} << 20) + 256 * input.size());
  std::vector<float> samples;
  for (int piece = 0; piece < 16 && !(*audio)->ended(); ++piece) {
    const size_t before = samples.size();
    const absl::Status read = (*audio)->Read(1000, &samples);
    if (!read.ok()) return Refuse(read, {absl::StatusCode::kInvalidArgument});
    SPILLWAY_CHECK(samples.size() == before + 1000 || (*audio)->ended());
  }
  for (const float sample : samples) SPILLWAY_CHECK(std::isfinite(sample));
  return true;
}

SPILLWAY_FUZZ(preprocessor_config, 3000) {
  const auto document = ParseStrictJson(input, "preprocessor_config.json");
  if (!document.ok()) return Refuse(document.status(), {absl::StatusCode::kInvalidArgument});
  const auto processing = ParsePictureProcessing(*document, 0);
  if (!processing.ok()) return Refuse(processing.status(), {absl::StatusCode::kInvalidArgument});
  SPILLWAY_CHECK(processing->size.width > 0 && processing->size.height > 0);
  SPILLWAY_CHECK(processing->shorter_side <= 4096);
  const nlohmann::json json = ToJson(*processing, 3);
  const auto document_again = ParseStrictJson(json.dump(), "again");
  SPILLWAY_CHECK(document_again.ok());
  const auto again = ParsePictureProcessing(*document_again, 0);
  SPILLWAY_CHECK(again.ok() && again->size.width == processing->size.width &&
                 again->size.height == processing->size.height &&
                 again->shorter_side == processing->shorter_side &&
                 again->mean == processing->mean);
  if (processing->size.width > 64 || processing->size.height > 64 ||
      processing->shorter_side > 96) {
    return true;
  }
  const Picture fitted = Fit(*processing, {3, 2, 3, std::vector<uint8_t>(18, 200)});
  SPILLWAY_CHECK(fitted.width == processing->size.width &&
                 fitted.height == processing->size.height);
  return true;
}

SPILLWAY_FUZZ(speech_preprocessor, 1000) {
  static const ScratchDirectory directory;
  directory.Write("preprocessor_config.json", input);
  const absl::Status heard = CheckSpeechPreprocessor(directory.path(), {});
  return heard.ok() || Refuse(heard, {absl::StatusCode::kInvalidArgument});
}

}  // namespace spillway
