// spillway report: makes a run's report.html again, from the files that the run left.
#include "engine/report/report.h"

#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/run/run_directory.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/file_system.h"
#include "tools/commands.h"

namespace spillway {
namespace {

struct ReportFlags {
  std::string output;
  std::string to;  // empty: OUTPUT/report.html
};

// Whether no living process holds OUTPUT's lock. Where that cannot be told, as where OUTPUT is
// mounted read-only, one may.
bool IsFree(const std::string& output) { return RunDirectory::Open(output).ok(); }

absl::Status MakeReport(const ReportFlags& flags) {
  if (!IsDirectory(flags.output)) {
    return absl::NotFoundError(
        absl::StrCat(flags.output, " is no directory: give the --output of a run"));
  }
  RunRows rows;
  absl::StatusOr<ReportInput> input = ReadReportInput(flags.output, &rows);
  if (absl::IsNotFound(input.status())) {
    return absl::NotFoundError(absl::StrCat(input.status().message(), ": ", flags.output,
                                            " holds no run, or one that took no step"));
  }
  RETURN_IF_ERROR(input.status());
  RunPart* part = input->run.parts.empty() ? nullptr : &input->run.parts.back();
  const nlohmann::json& last = rows.steps.last_row();
  if (part != nullptr && last.is_object()) part->last_step = last.value("step", part->last_step);
  if (part != nullptr && part->state == "running" && IsFree(flags.output)) {
    part->state = "killed";
  }
  input->now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::string path = flags.output + "/report.html";
  if (!flags.to.empty()) {
    ASSIGN_OR_RETURN(path, ResolveForWriting(FileSystem::Real(), flags.to));
  }
  RETURN_IF_ERROR(WriteReport(*input, path));
  LogResult(absl::StrCat("wrote ", path));
  return absl::OkStatus();
}

}  // namespace

void AddReportCommand(CLI::App& app, CommandFunction* run) {
  CLI::App* command = app.add_subcommand("report", "Make a run's report.html again");
  auto flags = std::make_shared<ReportFlags>();
  command->add_option("output", flags->output, "OUTPUT of a run, also of one that was killed")
      ->required();
  command->add_option("--to", flags->to, "the file to write (OUTPUT/report.html)");
  command->footer("Example:\n  spillway report run --to /tmp/report.html");
  command->callback(
      [run, flags] { *run = [flags] { return CommandOutcome{MakeReport(*flags)}; }; });
}

}  // namespace spillway
