#include "engine/data/chat_format.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/strict_json.h"
#include "engine/data/chat_turns.h"
#include "engine/data/utf8_repair.h"
#include "io/base/status.h"
#include "io/file.h"

namespace spillway {
namespace {

constexpr size_t kMaxTemplateBytes = 1 << 20;

bool HaveGenerations(const std::vector<JinjaNode>& nodes) {
  return std::any_of(nodes.begin(), nodes.end(), [](const JinjaNode& node) {
    return node.kind == JinjaNode::Kind::kGeneration || HaveGenerations(node.body) ||
           HaveGenerations(node.otherwise);
  });
}

// The text of "bos_token": "<s>" or {"content": "<s>", ...}.
void AddSpecialTokens(const nlohmann::json& object, JinjaValue* variables) {
  if (!object.is_object()) return;
  for (const auto& item : object.items()) {
    const nlohmann::json& value = item.value();
    const bool wrapped =
        value.is_object() && value.contains("content") && value["content"].is_string();
    if (!absl::EndsWith(item.key(), "_token") || variables->contains(item.key())) continue;
    if (value.is_string() || wrapped)
      (*variables)[item.key()] = (wrapped ? value["content"] : value).get<std::string>();
  }
}

}  // namespace

absl::StatusOr<ChatFormat> ChatFormat::Load(absl::string_view directory) {
  JinjaValue variables = JinjaValue::object();
  std::string source, file;
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const auto document = ReadStrictJson(absl::StrCat(directory, "/", name));
    if (absl::IsNotFound(document.status())) continue;
    RETURN_IF_ERROR(document.status());
    AddSpecialTokens(document->value, &variables);
    if (!document->value.is_object() || !document->value.contains("chat_template")) continue;
    nlohmann::json given = document->value["chat_template"];
    for (const nlohmann::json& one : given.is_array() ? given : nlohmann::json::array()) {
      if (one.is_object() && one.contains("template") &&
          one.value("name", nlohmann::json()) == "default") {
        given = nlohmann::json(one["template"]);
        break;
      }
    }
    file = document->Where("/chat_template");
    if (given.is_null()) continue;
    if (!given.is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat(file, ": chat_template is no string, nor a list with one named default"));
    }
    source = given.get<std::string>();
    file += ": chat_template";
  }
  const std::string own = absl::StrCat(directory, "/chat_template.jinja");
  const auto text = ReadSmallFile(own, kMaxTemplateBytes);
  if (text.ok()) {
    source = *text;
    file = own;
  } else if (!absl::IsNotFound(text.status())) {
    return text.status();
  }
  if (source.empty()) {
    return absl::NotFoundError(
        absl::StrCat(directory, " has no chat template (chat_template.jinja, or chat_template in ",
                     "tokenizer_config.json), which says how conversations are written: copy the "
                     "chat_template.jinja of the family's instruct model there, or give prompts "
                     "with completions in place of messages"));
  }
  return Parse(source, file, std::move(variables));
}

absl::StatusOr<ChatFormat> ChatFormat::Parse(absl::string_view source, absl::string_view file,
                                             JinjaValue variables) {
  if (source.size() > kMaxTemplateBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": more than ", kMaxTemplateBytes, " bytes"));
  }
  if (ValidUtf8Prefix(source) != source.size()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": not UTF-8"));
  }
  ChatFormat out;
  out.file_ = std::string(file);
  out.variables_ = std::move(variables);
  ASSIGN_OR_RETURN(out.nodes_, ParseJinja(source, file));
  out.generations_ = HaveGenerations(out.nodes_);
  return out;
}

absl::StatusOr<JinjaText> ChatFormat::RenderText(JinjaValue messages,
                                                 bool add_generation_prompt) const {
  JinjaValue variables = variables_;
  variables["messages"] = std::move(messages);
  variables["add_generation_prompt"] = add_generation_prompt;
  variables["tools"] = variables["documents"] = nullptr;
  return RenderJinja(nodes_, variables, file_);
}

absl::StatusOr<std::string> ChatFormat::Text(const JinjaValue& messages,
                                             bool add_generation_prompt) const {
  ASSIGN_OR_RETURN(JinjaText text, RenderText(messages, add_generation_prompt));
  return std::move(text.text);
}

absl::StatusOr<ChatText> ChatFormat::Render(const JinjaValue& messages) const {
  if (generations_) {
    ASSIGN_OR_RETURN(JinjaText text, RenderText(messages, false));
    return ChatText{std::move(text.text), std::move(text.generated)};
  }
  const auto render = [this](const JinjaValue& some, bool prompt) { return Text(some, prompt); };
  ChatText out;
  ASSIGN_OR_RETURN(out.text, Text(messages, false));
  ASSIGN_OR_RETURN(out.learnt, FindTurns(render, messages, out.text, file_));
  return out;
}

}  // namespace spillway
