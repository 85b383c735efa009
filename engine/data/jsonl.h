// Reads .jsonl: one JSON object per line, with a text, a prompt and its completion, or a
// conversation.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/base/strict_json.h"
#include "engine/chat/conversation.h"
#include "engine/data/line_reader.h"

namespace spillway {

struct JsonlRecord {
  bool has_prompt = false;
  std::string prompt;
  std::string text;   // the completion if there is a prompt
  Conversation chat;  // set if there is neither
  bool is_chat() const { return !chat.messages.is_null(); }
};

// Selects the keys of a line's object to read. Values of other keys cost no memory.
using KeepKey = std::function<bool(absl::string_view key)>;

// Parses any object. `example` is an object for the message; kInvalidArgument, "FILE:LINE: ...",
// for anything else (lone surrogates and duplicate keys included), and for values that take more
// memory than kMostValueBytes. Keys that are not kept have null.
inline constexpr size_t kMostValueBytes = 64u << 20;
absl::StatusOr<JsonDocument> ParseJsonlObject(absl::string_view line, absl::string_view file,
                                              int64_t line_number, const char* example,
                                              const KeepKey& keep);

// The keys of an object for messages: "a, b, ...".
std::string ShownKeys(const nlohmann::json& object);

// Parses {"text": ...}, {"prompt": ..., "completion": ...}, {"messages": [{"role": ..., "content":
// ...}, ...]}, or a prompt and a completion that are lists of messages, of which the completion's
// have loss. Other keys are ignored, except in conversations: "system" is a message before the
// others; "tools", "documents" and the values of "chat_template_kwargs" go to the template. A
// content is a string, a list of {"type": "text", "text": ...}, or null in a message with tool
// calls. Messages keep their other keys in order, except null ones and "train" and "weight", which
// select answers with loss. kInvalidArgument, "FILE:LINE: ...", for anything but a JSON object
// (lone surrogates and duplicate keys included), missing keys, values of other types, unknown
// roles, a conversation without loss, and one of more than kMostConversationBytes: rendering it
// takes many times its memory.
inline constexpr size_t kMostConversationBytes = 4u << 20;
absl::StatusOr<JsonlRecord> ParseJsonlRecord(absl::string_view line, absl::string_view file,
                                             int64_t line_number);

// The input of generation: a text, or a conversation whose last message is not the assistant's.
struct PromptRecord {
  std::string prompt;
  Conversation chat;  // without messages for a text
  bool is_chat() const { return !chat.messages.is_null(); }
  int64_t line = 0;  // in its file
  // The expected answer, if the file has it.
  std::optional<std::string> target = {};
};

// Reads a file of prompts in order, at least one. In a .jsonl, `key` ("": "prompt", or "messages")
// holds the prompt and `target_key` its expected answer, and other keys are ignored; any other file
// has one prompt per line. An answer at the end of "messages" is dropped. kInvalidArgument,
// "FILE:LINE: ...", for empty prompts, and as in ParseJsonlRecord.
absl::StatusOr<std::vector<PromptRecord>> ReadPrompts(const std::string& path,
                                                      const std::string& key,
                                                      const std::string& target_key);

// Makes records of a LineReader's lines, ignoring blank ones. The first error, of a line or of
// `take`, ends the reading; errors of `take` get file and line. kCancelled at a StopSignal.
using TakeRecord = std::function<absl::Status(const JsonlRecord&)>;
LineReader::Take TakeRecords(const std::string& file, TakeRecord take);

// Reads a whole file. `after_piece` is called with the number of bytes read, and may be null.
absl::Status ReadJsonl(const std::string& path, TakeRecord take,
                       const std::function<absl::Status(uint64_t)>& after_piece = nullptr);

}  // namespace spillway
