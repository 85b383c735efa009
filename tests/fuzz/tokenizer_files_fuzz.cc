// What lies beside a tokenizer: chars.json alone, or tokenizer_config.json and its like beside a
// tokenizer.json.
#include <fstream>
#include <numeric>

#include "engine/data/char_tokenizer.h"
#include "engine/data/load_tokenizer.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {

SPILLWAY_FUZZ(chars_json, 1000) {
  // A plain file in a folder: a tokenizer's link out of its folder is refused.
  static const ScratchDirectory given;
  const std::string path = given.path() + "/chars.json";
  std::ofstream(path, std::ios::binary) << input;
  const auto tokenizer = LoadCharTokenizer(path);
  if (!tokenizer.ok()) return Refuse(tokenizer.status(), {absl::StatusCode::kInvalidArgument});
  std::vector<int64_t> all((*tokenizer)->vocabulary_size());
  SPILLWAY_CHECK(!all.empty());
  std::iota(all.begin(), all.end(), 0);
  const auto text = (*tokenizer)->Decode(all);
  SPILLWAY_CHECK(text.ok() && (*tokenizer)->Encode(*text).value() == all);
  static const ScratchDirectory saved;
  SPILLWAY_CHECK((*tokenizer)->Save(saved.path()).ok());
  const auto again = LoadTokenizer(saved.path());
  SPILLWAY_CHECK(again.ok() && (*again)->fingerprint() == (*tokenizer)->fingerprint());
  return true;
}

SPILLWAY_FUZZ(tokenizer_files, 200) {
  static const ScratchDirectory directory;
  directory.Empty();
  directory.Write("tokenizer.json",
                  R"({"model": {"vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
    "added_tokens": [{"id": 3, "content": "</s>"}, {"id": 4, "content": "<mask>"}]})");
  const auto files = FilesOf(input);
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                           "config.json", "generation_config.json", "chat_template.jinja"}) {
    const auto found = files.find(name);
    if (found != files.end()) directory.Write(name, found->second);
  }
  const auto tokenizer = LoadTokenizer(directory.path());
  if (!tokenizer.ok()) return Refuse(tokenizer.status(), {absl::StatusCode::kInvalidArgument});
  const int64_t vocabulary = (*tokenizer)->vocabulary_size();
  SPILLWAY_CHECK((*tokenizer)->end_of_text().value_or(0) < vocabulary);
  SPILLWAY_CHECK((*tokenizer)->mask_token().value_or(0) < vocabulary);
  SPILLWAY_CHECK((*tokenizer)->Encode("abb").ok());
  const auto chat = (*tokenizer)->chat();
  if (!chat.ok()) {
    Refuse(chat.status(), {absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnimplemented});
    return true;
  }
  Conversation conversation;
  conversation.messages = JinjaValue::array({JinjaValue{{"role", "user"}, {"content", "Hi"}}});
  const auto text = (*chat)->RenderText(conversation, true, absl::CivilSecond(2026, 2, 3));
  if (!text.ok()) {
    Refuse(text.status(), {absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnimplemented});
  }
  return true;
}

}  // namespace spillway
