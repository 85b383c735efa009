// spillway generate: its flags; tools/compute/generate.cc continues the text.
#include <memory>
#include <string>
#include <vector>

#include "io/base/status.h"
#include "tools/commands.h"
#include "tools/compute_library.h"
#include "tools/text_flags.h"

namespace spillway {
namespace {

struct GenerateFlags {
  GenerateRequest request;
  TextFlags text;
};

absl::Status Generate(const GenerateFlags& flags) {
  GenerateRequest request = flags.request;
  if (request.prompt.empty() == request.audio.empty()) {
    return absl::InvalidArgumentError(
        request.prompt.empty()
            ? "--prompt TEXT is missing or empty (or, of a model that hears, --audio "
              "FILE)"
            : "--prompt and --audio contradict each other: give one");
  }
  RETURN_IF_ERROR(ReadTextFlags(flags.text, request));
  ASSIGN_OR_RETURN(ComputeLibrary* const compute, OpenComputeLibrary());
  return compute->Generate(request);
}

}  // namespace

void AddGenerateCommand(CLI::App& app, CommandFunction* run) {
  CLI::App* command = app.add_subcommand("generate", "Continue a text with a model or a run");
  auto flags = std::make_shared<GenerateFlags>();
  command->add_option("--prompt", flags->request.prompt, "text to continue")->type_name("TEXT");
  command
      ->add_option("--audio", flags->request.audio,
                   "speech models: a sound to transcribe (wav, flac, ogg, mp3)")
      ->type_name("FILE");
  command->add_flag("--chat", flags->request.chat,
                    "the prompt is a user's message, put into the model's chat template; only the "
                    "answer is printed");
  AddTextFlags(*command, "randomness of the choice; 0: the likeliest token (0.8)", flags->request,
               flags->text);
  command->add_flag("--json", flags->request.as_json, "one JSON object on stdout");
  command->footer(
      "The text goes to stdout, all else to stderr. `spillway predict` answers a file of prompts.\n"
      "Example:\n  spillway generate --model run/model --prompt 'And God said' --tokens 200");
  command->callback(
      [run, flags] { *run = [flags]() -> CommandOutcome { return {Generate(*flags)}; }; });
}

}  // namespace spillway
