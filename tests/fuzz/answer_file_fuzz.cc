// FILE.partial, the answers that an earlier run of `spillway evaluate` and its like left: taken up,
// gone on with and finished.
#include "engine/data/line_reader.h"
#include "engine/run/answer_file.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {

SPILLWAY_FUZZ(answer_file, 300) {
  static const ScratchDirectory directory;
  directory.Empty();
  const std::string path = directory.PathOf("answers.jsonl");
  directory.Write("answers.jsonl.partial", input);
  const nlohmann::ordered_json identity = {{"model", "m"}, {"rows", 3}};
  const auto file = AnswerFile::Open(path, identity);
  if (!file.ok()) {
    return Refuse(file.status(),
                  {absl::StatusCode::kDataLoss, absl::StatusCode::kFailedPrecondition});
  }
  const size_t left = (*file)->size();
  for (int64_t row = 0; row < 3; ++row) {
    if ((*file)->Has(row)) SPILLWAY_CHECK((*file)->Answer(row).is_object());
  }
  const nlohmann::ordered_json answer = {{"text", "a"}};
  const size_t more = (*file)->Has(1) ? left : left + 1;
  SPILLWAY_CHECK((*file)->Add(1, answer).ok());
  // Killed here, another process finds what was there and the answer.
  auto again = AnswerFile::Open(path, identity);
  SPILLWAY_CHECK(again.ok() && (*again)->size() == more && (*again)->Answer(1) == answer);
  SPILLWAY_CHECK((*again)->Finish().ok());
  size_t lines = 0;
  SPILLWAY_CHECK(ReadLines(path, [&](absl::string_view line, int64_t) {
                   ++lines;
                   return absl::OkStatus();
                 }).ok());
  SPILLWAY_CHECK(lines == more);
  return left > 0;
}

}  // namespace spillway
