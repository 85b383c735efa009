// Any bytes as a .jsonl: where a piece ends changes nothing.
#include <string>
#include <vector>

#include "engine/data/jsonl.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {
namespace {

struct Outcome {
  std::vector<std::string> texts;
  absl::Status status;
  bool operator==(const Outcome&) const = default;
};

Outcome ReadCut(absl::string_view text, size_t cut) {
  Outcome outcome;
  LineReader reader("fuzz.jsonl", TakeRecords("fuzz.jsonl", [&](const JsonlRecord& record) {
                      outcome.texts.push_back(record.prompt + "|" + record.text + "|" +
                                              record.chat.messages.dump() +
                                              record.chat.variables.dump());
                      return absl::OkStatus();
                    }));
  outcome.status = reader.Next(text.substr(0, cut));
  if (outcome.status.ok()) outcome.status = reader.Next(text.substr(cut));
  if (outcome.status.ok()) outcome.status = reader.Finish();
  return outcome;
}

}  // namespace

SPILLWAY_FUZZ(jsonl, 4000) {
  const Outcome whole = ReadCut(input, input.size());
  SPILLWAY_CHECK(whole == ReadCut(input, SomewhereIn(input)));
  return whole.status.ok() || Refuse(whole.status, {absl::StatusCode::kInvalidArgument});
}

}  // namespace spillway
