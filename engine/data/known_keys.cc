#include "engine/data/known_keys.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/shell_line.h"

namespace spillway {
namespace {

struct Layout {
  std::vector<const char*> keys;  // all must be present
  const char* name;
  const char* filter;  // jq's; "": no conversion
};

// The first match counts, so layouts with more keys come first.
const std::vector<Layout>& Layouts() {
  static const auto& layouts = *new std::vector<Layout>{
      {{"prompt", "chosen", "rejected"},
       "preference data (chosen, rejected), and preference training such as DPO is not supported; "
       "to learn the chosen answers alone",
       "if (.chosen | type) == \"string\" then {prompt, completion: .chosen} else {messages: "
       ".chosen} end"},
      {{"chosen", "rejected"},
       "preference data (chosen, rejected), and preference training such as DPO is not supported; "
       "to learn the chosen answers alone",
       "if (.chosen | type) == \"string\" then {text: .chosen} else {messages: .chosen} end"},
      {{"conversations"},
       "looks like ShareGPT's conversations",
       "{messages: [.conversations[] | {role: ((.from // .role) as $r | {human: \"user\", gpt: "
       "\"assistant\", model: \"assistant\", bot: \"assistant\"}[$r] // $r), content: (.value // "
       ".content)}]}"},
      {{"conversation"}, "looks like conversations", "{messages: .conversation}"},
      {{"dialog"}, "looks like conversations", "{messages: .dialog}"},
      {{"instruction", "output"},
       "looks like alpaca",
       "{prompt: (.instruction + (if (.input // \"\") == \"\" then \"\" else \"\\n\\n\" + .input "
       "end) + \"\\n\\n\"), completion: .output}"},
      {{"instruction", "response"},
       "looks like dolly",
       "{prompt: (.instruction + (if (.context // \"\") == \"\" then \"\" else \"\\n\\n\" + "
       ".context end) + \"\\n\\n\"), completion: .response}"},
      {{"question", "answer"},
       "looks like questions with answers",
       "{prompt: (.question + \"\\n\"), completion: .answer}"},
      {{"prompt", "response"},
       "looks like prompts with responses",
       "{prompt: (.prompt + \"\\n\"), completion: .response}"},
      {{"query", "response"},
       "looks like queries with responses",
       "{prompt: (.query + \"\\n\"), completion: .response}"},
      {{"problem", "solution"},
       "looks like problems with solutions",
       "{prompt: (.problem + \"\\n\"), completion: .solution}"},
      {{"input", "output"},
       "looks like inputs with outputs",
       "{prompt: (.input + \"\\n\"), completion: .output}"},
      {{"source", "target"},
       "looks like sources with targets",
       "{prompt: (.source + \"\\n\"), completion: .target}"},
      {{"content"}, "looks like texts under another key", "{text: .content}"},
      {{"document"}, "looks like texts under another key", "{text: .document}"},
      {{"story"}, "looks like texts under another key", "{text: .story}"},
      {{"body"}, "looks like texts under another key", "{text: .body}"},
      {{"code"}, "looks like texts under another key", "{text: .code}"},
  };
  return layouts;
}

}  // namespace

std::string JqCommand(absl::string_view filter, absl::string_view path) {
  absl::string_view name = path;
  absl::ConsumeSuffix(&name, ".jsonl");
  return absl::StrCat("`", ShellLine({"jq", "-c", std::string(filter), std::string(path)}), " > ",
                      ShellLine({absl::StrCat(name, ".spillway.jsonl")}), "`");
}

std::string KnownKeysAdvice(const nlohmann::json& object, absl::string_view path) {
  for (const Layout& layout : Layouts()) {
    bool fits = true;
    for (const char* key : layout.keys) fits &= object.contains(key);
    if (!fits) continue;
    return absl::StrCat(layout.name, ": ", JqCommand(layout.filter, path));
  }
  return "";
}

}  // namespace spillway
