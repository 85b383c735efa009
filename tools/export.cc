// spillway export: the last commit of a run as a Hugging Face directory.
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/export_weights.h"
#include "engine/state_source.h"
#include "io/log.h"
#include "io/status.h"
#include "tools/commands.h"

namespace spillway {
namespace {

absl::Status Export(const std::string& from, const std::string& to, const std::string& dtype_name) {
  const auto dtype = DTypeFromName(dtype_name);
  if (!dtype) {
    return absl::InvalidArgumentError(
        absl::StrCat("--dtype ", dtype_name, " is unknown: fp32, bf16 or fp16"));
  }
  ASSIGN_OR_RETURN(const CommittedRun run, OpenCommittedRun(from));
  RETURN_IF_ERROR(ExportWeights(run.source(), *dtype, to));
  // The model's own files, where the run has kept them.
  std::error_code error;
  for (const char* name : {"config.json", "chars.json", "bytes.json", "tokenizer.json"}) {
    for (const std::string& folder : {from + "/source", from + "/model"}) {
      if (!std::filesystem::exists(folder + "/" + name, error)) continue;
      std::filesystem::copy_file(folder + "/" + name, to + "/" + name,
                                 std::filesystem::copy_options::overwrite_existing, error);
      if (error) return ErrnoStatus(error.value(), absl::StrCat("copy ", name, " to ", to));
      break;
    }
  }
  LogInfo(absl::StrCat("exported step ", run.state.step, " of ", from, " to ", to));
  return absl::OkStatus();
}

}  // namespace

void AddExportCommand(CLI::App& app, CommandFunction* run) {
  CLI::App* command =
      app.add_subcommand("export", "Write a run's last commit as a Hugging Face directory");
  struct Flags {
    std::string from, to, dtype = "fp32";
  };
  auto flags = std::make_shared<Flags>();
  command->add_option("--from", flags->from, "OUTPUT of a run")->required();
  command->add_option("--to", flags->to, "directory to write")->required();
  command->add_option("--dtype", flags->dtype, "fp32, bf16 or fp16");
  command->footer("Example:\n  spillway export --from run --to model --dtype bf16");
  command->callback([run, flags] {
    *run = [flags]() -> CommandOutcome { return {Export(flags->from, flags->to, flags->dtype)}; };
  });
}

}  // namespace spillway
