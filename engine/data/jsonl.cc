#include "engine/data/jsonl.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "engine/base/stop_signal.h"
#include "engine/base/strict_json.h"
#include "engine/data/known_keys.h"
#include "io/base/status.h"
#include "io/file.h"

namespace spillway {
namespace {

constexpr int kMaxDepth = 64;
constexpr size_t kShownKeys = 8;
constexpr size_t kMessageBytes = 256;  // of a message beside its text
constexpr uint64_t kMostPromptBytes = uint64_t{1} << 30;
constexpr absl::string_view kRecordKeys[] = {"text", "prompt", "completion", "messages", "tools"};
constexpr absl::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool"};

// The text of a content: a string, or parts of text, which follow one another; "" or what is wrong
// with it.
std::string TakeContent(const nlohmann::json& content, std::string* text) {
  if (content.is_string()) {
    *text = content.get<std::string>();
    return "";
  }
  if (content.is_null()) return "\"content\" is null: the message has no text; take it out";
  if (!content.is_array()) {
    return absl::StrCat("\"content\" is a JSON ", content.type_name(), ", not a string");
  }
  for (const nlohmann::json& part : content) {
    const nlohmann::json type = part.is_object() ? part.value("type", nlohmann::json()) : part;
    const bool is_text = type == "text" && part.contains("text") && part["text"].is_string();
    if (is_text) {
      absl::StrAppend(text, part["text"].get_ref<const std::string&>());
      continue;
    }
    return absl::StrCat("\"content\" is a JSON array with ",
                        part.is_object() && type.is_string()
                            ? absl::StrCat("a part of the type \"",
                                           type.get_ref<const std::string&>().substr(0, 40), "\"")
                            : absl::StrCat("a JSON ", part.type_name()),
                        " in it; parts that are read are {\"type\": \"text\", \"text\": \"...\"}");
  }
  return "";
}

// Appends the messages of an array, called `name` in messages; "" or what is wrong with them.
// `answers`: how many of them are the assistant's.
std::string TakeMessages(const nlohmann::json& given, absl::string_view name, JinjaValue* messages,
                         int64_t* answers, size_t* bytes) {
  if (!given.is_array())
    return absl::StrCat("\"", name, "\" is a JSON ", given.type_name(), ", not an array");
  int64_t number = 0;
  for (const nlohmann::json& message : given) {
    const std::string place = absl::StrCat(name, "[", number++, "]");
    if (!message.is_object())
      return absl::StrCat(place, " is a JSON ", message.type_name(), ", not an object");
    if (message.contains("tool_calls") && !message["tool_calls"].is_null()) {
      return absl::StrCat(place,
                          ": \"tool_calls\" is not supported: leave conversations with "
                          "calls of tools out");
    }
    for (const char* key : {"role", "content"}) {
      if (message.contains(key)) continue;
      const bool shared = message.contains("from") && message.contains("value");
      return absl::StrCat(place, " has no \"", key, "\"",
                          shared ? ", but \"from\" and \"value\", as ShareGPT has them" : "");
    }
    if (!message["role"].is_string()) {
      return absl::StrCat(place, ": \"role\" is a JSON ", message["role"].type_name(),
                          ", not a string");
    }
    std::string text;
    const std::string wrong = TakeContent(message["content"], &text);
    if (!wrong.empty()) return absl::StrCat(place, ": ", wrong);
    for (const auto& item : message.items()) {
      if (item.key() == "role" || item.key() == "content" || item.value().is_null()) continue;
      return absl::StrCat(place, ": \"", item.key().substr(0, 40),
                          "\" is not supported; role and content are");
    }
    const std::string& role = message["role"].get_ref<const std::string&>();
    if (std::find(std::begin(kRoles), std::end(kRoles), role) == std::end(kRoles)) {
      return absl::StrCat(place, ": the role \"", role.substr(0, 40), "\" is none of ",
                          absl::StrJoin(kRoles, ", "));
    }
    *answers += role == "assistant";
    *bytes += text.size() + kMessageBytes;
    if (*bytes > kMostConversationBytes) {
      return absl::StrCat("a conversation of more than ", kMostConversationBytes >> 20,
                          " MiB (a message counts its text and ", kMessageBytes,
                          " bytes): cut it into several");
    }
    messages->push_back({{"role", role}, {"content", std::move(text)}});
  }
  return "";
}

// Refuses rows with "tools", the functions that a model may call: no chat template receives them.
std::string RefuseTools(const nlohmann::json& object, absl::string_view file) {
  if (!object.contains("tools") || object["tools"].is_null()) return "";
  return absl::StrCat(
      "\"tools\" is not supported: leave conversations with tools out, or the "
      "list of tools: ",
      JqCommand("del(.tools)", file));
}

// {"messages": [...]}, as one conversation.
std::string TakeConversation(const nlohmann::json& object, absl::string_view file,
                             JinjaValue* messages, int64_t* answers) {
  *messages = JinjaValue::array();
  if (std::string why = RefuseTools(object, file); !why.empty()) return why;
  size_t bytes = 0;
  return TakeMessages(object["messages"], "messages", messages, answers, &bytes);
}

// {"prompt": [...], "completion": [...]}: a conversation of which the completion is learnt.
std::string TakeTurns(const nlohmann::json& object, absl::string_view file, JsonlRecord* record) {
  if (std::string why = RefuseTools(object, file); !why.empty()) return why;
  record->messages = JinjaValue::array();
  size_t bytes = 0;
  std::string why =
      TakeMessages(object["prompt"], "prompt", &record->messages, &record->prompt_answers, &bytes);
  if (!why.empty()) return why;
  int64_t answers = 0;
  why = TakeMessages(object["completion"], "completion", &record->messages, &answers, &bytes);
  if (why.empty() && answers == 0) {
    why = "no message of \"completion\" is the assistant's: there is nothing to learn";
  }
  return why;
}

// Without `file:line`, which the caller puts before what is wrong.
absl::StatusOr<PromptRecord> PromptOf(nlohmann::json& object, absl::string_view file,
                                      const std::string& key, const std::string& target_key) {
  PromptRecord record;
  const auto wrong = [](const std::string& why) { return absl::InvalidArgumentError(why); };
  if (key.empty() && object.contains("messages")) {
    if (object.contains("prompt")) {
      return wrong("it has \"messages\" and \"prompt\": which of them is meant? --prompt-key says");
    }
    int64_t answers = 0;
    const std::string why = TakeConversation(object, file, &record.messages, &answers);
    if (!why.empty()) return wrong(why);
    if (!record.messages.empty() && record.messages.back()["role"] == "assistant") {
      record.messages.erase(record.messages.size() - 1);
    }
    if (record.messages.empty()) return wrong("\"messages\" has nothing to answer");
    return record;
  }
  const std::string name = key.empty() ? "prompt" : key;
  if (!object.contains(name)) {
    return wrong(
        absl::StrCat("it has no \"", name, "\"", key.empty() ? " and no \"messages\"" : "",
                     " (--prompt-key NAME says where prompts are); its keys: ", ShownKeys(object)));
  }
  if (object[name].is_array()) {
    record.messages = JinjaValue::array();
    int64_t answers = 0;
    size_t bytes = 0;
    const std::string why = TakeMessages(object[name], name, &record.messages, &answers, &bytes);
    if (!why.empty()) return wrong(why);
    if (record.messages.empty()) return wrong(absl::StrCat("\"", name, "\" has no messages"));
    return record;
  }
  if (!object[name].is_string()) {
    return wrong(
        absl::StrCat("\"", name, "\" is a JSON ", object[name].type_name(), ", not a string"));
  }
  const auto target = object.find(target_key);
  if (target != object.end() && target->is_string()) record.target = target->get<std::string>();
  record.prompt = std::move(object[name].get_ref<std::string&>());
  return record;
}

}  // namespace

absl::StatusOr<JsonDocument> ParseJsonlObject(absl::string_view line, absl::string_view file,
                                              int64_t line_number, const char* example,
                                              const KeepKey& keep) {
  ASSIGN_OR_RETURN(JsonDocument document,
                   ParseStrictJson(line, file,
                                   {.max_bytes = kMaxLineBytes,
                                    .max_depth = kMaxDepth,
                                    .first_line = static_cast<int>(line_number),
                                    .max_memory_bytes = kMostValueBytes,
                                    .remembers_lines = false,
                                    .keep = keep}));
  if (!document.value.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(
        file, ":", line_number, ": a line is an object like ", example, ", and this is a JSON ",
        document.value.type_name(),
        document.value.is_array()
            ? absl::StrCat("; a line of each of its elements: ", JqCommand(".[]", file))
            : ""));
  }
  return document;
}

std::string ShownKeys(const nlohmann::json& object) {
  std::vector<std::string> keys;
  for (const auto& item : object.items()) {
    if (keys.size() == kShownKeys) {
      keys.push_back("...");
      break;
    }
    keys.push_back(item.key().substr(0, 40));
  }
  return keys.empty() ? "none" : absl::StrJoin(keys, ", ");
}

absl::StatusOr<JsonlRecord> ParseJsonlRecord(absl::string_view line, absl::string_view file,
                                             int64_t line_number) {
  const auto wrong = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(file, ":", line_number, ": ", why));
  };
  ASSIGN_OR_RETURN(
      JsonDocument document,
      ParseJsonlObject(line, file, line_number, "{\"text\": \"...\"}", [](absl::string_view key) {
        return std::find(std::begin(kRecordKeys), std::end(kRecordKeys), key) !=
               std::end(kRecordKeys);
      }));
  nlohmann::json& object = document.value;
  const auto take = [&](const char* key, std::string* out) -> absl::Status {
    nlohmann::json& value = object[key];
    if (!value.is_string()) {
      return wrong(absl::StrCat("\"", key, "\" is a JSON ", value.type_name(), ", not a string"));
    }
    *out = std::move(value.get_ref<std::string&>());
    return absl::OkStatus();
  };
  const bool text = object.contains("text");
  const bool prompt = object.contains("prompt"), completion = object.contains("completion");
  if (text && (prompt || completion)) {
    return wrong("it has \"text\" and \"prompt\" or \"completion\": which of them is meant?");
  }
  JsonlRecord record;
  if (object.contains("messages")) {
    if (text || prompt || completion) {
      return wrong(
          "it has \"messages\" and \"text\", \"prompt\" or \"completion\": which of them is "
          "meant?");
    }
    int64_t answers = 0;
    std::string why = TakeConversation(object, file, &record.messages, &answers);
    if (why.empty() && answers == 0) {
      why = "no message of \"messages\" is the assistant's: there is nothing to learn";
    }
    return why.empty() ? absl::StatusOr<JsonlRecord>(std::move(record)) : wrong(why);
  }
  if (!text && !(prompt && completion)) {
    const std::string advice = KnownKeysAdvice(object, file);
    std::string why = prompt       ? "it has \"prompt\" but no \"completion\""
                      : completion ? "it has \"completion\" but no \"prompt\""
                                   : "it has neither \"text\" nor \"prompt\" and \"completion\" "
                                     "nor \"messages\"";
    absl::StrAppend(&why, "; its keys: ", ShownKeys(object));
    if (!advice.empty()) absl::StrAppend(&why, ". It ", advice);
    return wrong(why);
  }
  if (prompt && object["prompt"].is_array() && object["completion"].is_array()) {
    std::string why = TakeTurns(object, file, &record);
    return why.empty() ? absl::StatusOr<JsonlRecord>(std::move(record)) : wrong(why);
  }
  record.has_prompt = prompt;
  if (prompt) RETURN_IF_ERROR(take("prompt", &record.prompt));
  RETURN_IF_ERROR(take(prompt ? "completion" : "text", &record.text));
  return record;
}

absl::StatusOr<std::vector<PromptRecord>> ReadPrompts(const std::string& path,
                                                      const std::string& key,
                                                      const std::string& target_key) {
  const bool objects = absl::EndsWith(path, ".jsonl");
  if (!objects && !key.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--prompt-key is for .jsonl, and ", path, " has a prompt a line"));
  }
  ASSIGN_OR_RETURN(const std::string content, ReadSmallFile(path, kMostPromptBytes));
  absl::string_view text = content;
  absl::ConsumePrefix(&text, "\xef\xbb\xbf");
  std::vector<PromptRecord> prompts;
  for (int64_t number = 1; !text.empty(); ++number) {
    const absl::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const bool blank = absl::StripAsciiWhitespace(line).empty();
    if (objects && blank) continue;
    const std::string where = absl::StrCat(path, ":", number);
    PromptRecord record;
    if (objects) {
      ASSIGN_OR_RETURN(JsonDocument document,
                       ParseJsonlObject(line, path, number, "{\"prompt\": \"...\"}",
                                        [&](absl::string_view name) {
                                          return name == key || name == target_key ||
                                                 name == "prompt" || name == "messages" ||
                                                 name == "tools";
                                        }));
      auto found = PromptOf(document.value, path, key, target_key);
      if (!found.ok()) return Annotate(found.status(), where);
      record = *std::move(found);
    } else {
      record.prompt = std::string(absl::StripSuffix(line, "\r"));
    }
    if (record.messages.is_null() && absl::StripAsciiWhitespace(record.prompt).empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": the prompt is empty: there is nothing to continue; take it out"));
    }
    record.line = number;
    prompts.push_back(std::move(record));
  }
  if (prompts.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " has no prompts: a .txt has one a line, a .jsonl {\"prompt\": \"...\"} a line"));
  }
  return prompts;
}

LineReader::Take TakeRecords(const std::string& file, TakeRecord take) {
  return [file, take = std::move(take)](absl::string_view line, int64_t number) -> absl::Status {
    RETURN_IF_ERROR(StopSignal::Check());
    if (absl::StripAsciiWhitespace(line).empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const JsonlRecord record, ParseJsonlRecord(line, file, number));
    return Annotate(take(record), absl::StrCat(file, ":", number));
  };
}

absl::Status ReadJsonl(const std::string& path, TakeRecord take,
                       const std::function<absl::Status(uint64_t)>& after_piece) {
  return ReadLines(path, TakeRecords(path, std::move(take)), after_piece);
}

}  // namespace spillway
