// Any bytes as a .jsonl: where a piece ends changes nothing.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "engine/data/jsonl.h"

namespace {

struct Outcome {
  std::vector<std::string> texts;
  std::string error;
  bool operator==(const Outcome&) const = default;
};

Outcome Read(absl::string_view text, size_t cut) {
  using namespace spillway;
  Outcome outcome;
  JsonlReader reader("fuzz.jsonl", [&](const JsonlRecord& record) {
    outcome.texts.push_back(record.prompt + "|" + record.text + "|" + record.messages.dump());
    return absl::OkStatus();
  });
  absl::Status status = reader.Next(text.substr(0, cut));
  if (status.ok()) status = reader.Next(text.substr(cut));
  if (status.ok()) status = reader.Finish();
  outcome.error = std::string(status.message());
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t cut = size == 0 ? 0 : data[size - 1] * size / 256;
  if (!(Read(text, size) == Read(text, cut))) std::abort();
  return 0;
}
