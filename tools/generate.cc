// spillway generate: its flags; tools/compute/generate.cc continues the text.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/shell_line.h"
#include "io/base/status.h"
#include "tools/commands.h"
#include "tools/compute_library.h"
#include "tools/text_flags.h"

namespace spillway {
namespace {

struct GenerateFlags {
  GenerateTask task;
  std::vector<std::string> words;  // without a flag
  TextFlags text;
};

absl::Status Generate(const GenerateFlags& flags) {
  GenerateTask task = flags.task;
  if (!flags.words.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a prompt goes to --prompt: ", ShellLine({"--prompt", absl::StrJoin(flags.words, " ")})));
  }
  if (task.prompt.empty() == task.audio.empty()) {
    return absl::InvalidArgumentError(
        task.prompt.empty()
            ? "--prompt TEXT is missing or empty (or, of a model that hears, --audio "
              "FILE)"
            : "--prompt and --audio contradict each other: give one");
  }
  RETURN_IF_ERROR(ReadTextFlags(flags.text, task));
  ASSIGN_OR_RETURN(ComputeLibrary* const compute, OpenComputeLibrary());
  return compute->Generate(task);
}

}  // namespace

void AddGenerateCommand(CLI::App& app, CommandFunction* run) {
  CLI::App* command = app.add_subcommand("generate", "Continue a text with a model or a run");
  auto flags = std::make_shared<GenerateFlags>();
  command->add_option("--prompt", flags->task.prompt, "text to continue");
  command->add_option("words", flags->words)->group("");  // to say where they belong
  command->add_option("--audio", flags->task.audio,
                      "of a model that hears: a sound to write down (wav, flac, ogg, mp3)");
  command->add_flag("--chat", flags->task.chat,
                    "the prompt is a user's message, written as the model's chat template does it; "
                    "only the answer is printed");
  AddTextFlags(*command, "0.8; 0: the likeliest token", flags->task, flags->text);
  command->add_flag("--json", flags->task.as_json, "one JSON object on stdout");
  command->footer(
      "The text goes to stdout, all else to stderr. `spillway predict` answers a file of prompts.\n"
      "Example:\n  spillway generate --model run/model --prompt 'And God said' --tokens 200");
  command->callback(
      [run, flags] { *run = [flags]() -> CommandOutcome { return {Generate(*flags)}; }; });
}

}  // namespace spillway
