// spillway report: makes a run's report.html again, from the files that the run left, or one page
// that compares several runs.
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/report/compare_report.h"
#include "engine/report/report.h"
#include "engine/run/run_directory.h"
#include "io/base/log.h"
#include "io/base/status.h"
#include "io/base/unique_fd.h"
#include "io/file_system.h"
#include "tools/commands.h"

namespace spillway {
namespace {

struct ReportFlags {
  std::vector<std::string> outputs;
  std::string to;  // empty: OUTPUT/report.html; "-": stdout
};

// Whether no living process holds OUTPUT's lock. Where that cannot be told, as where OUTPUT is
// mounted read-only, one may.
bool IsFree(const std::string& output) {
  return RunDirectory::Open(output, {.create = false, .access = FileAccess::kReadable}).ok();
}

double Now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

absl::StatusOr<ReportInput> ReadRun(const std::string& output, RunRows& rows) {
  if (!IsDirectory(output)) {
    return absl::NotFoundError(
        absl::StrCat(output, " is no directory: give the --output of a run"));
  }
  absl::StatusOr<ReportInput> input = ReadReportInput(output, &rows);
  if (absl::IsNotFound(input.status())) {
    return absl::NotFoundError(absl::StrCat(input.status().message(), ": ", output,
                                            " holds no run, or one that took no step"));
  }
  RETURN_IF_ERROR(input.status());
  RunPart* part = input->run.parts.empty() ? nullptr : &input->run.parts.back();
  const nlohmann::json& last = rows.steps.last_row();
  if (part != nullptr && last.is_object()) part->last_step = last.value("step", part->last_step);
  if (part != nullptr && part->state == "running" && IsFree(output)) {
    part->state = "killed";
  }
  input->now = Now();
  return input;
}

absl::StatusOr<std::string> PageOf(const std::vector<std::string>& outputs) {
  std::vector<std::unique_ptr<RunRows>> rows;
  std::vector<ReportInput> runs;
  for (const std::string& output : outputs) {
    rows.push_back(std::make_unique<RunRows>());
    ASSIGN_OR_RETURN(ReportInput input, ReadRun(output, *rows.back()));
    runs.push_back(std::move(input));
  }
  return runs.size() == 1 ? RenderReport(runs.front()) : RenderComparison(runs, Now());
}

absl::Status MakeReport(const ReportFlags& flags) {
  if (flags.outputs.size() > kMostRunsCompared) {
    return absl::InvalidArgumentError(absl::StrCat(
        flags.outputs.size(), " runs; one page compares ", kMostRunsCompared, " at most"));
  }
  if (flags.outputs.size() > 1 && flags.to.empty()) {
    return absl::InvalidArgumentError(
        "several runs are compared on a page of their own: give --out FILE.html");
  }
  ASSIGN_OR_RETURN(const std::string page, PageOf(flags.outputs));
  if (flags.to == "-") {
    const int error = WriteAll(STDOUT_FILENO, page.data(), page.size());
    return error == 0 ? absl::OkStatus() : ErrnoStatus(error, "write the page to stdout");
  }
  std::string path = flags.outputs.front() + "/report.html";
  if (!flags.to.empty()) {
    ASSIGN_OR_RETURN(path, ResolveForWriting(FileSystem::Real(), flags.to));
  }
  RETURN_IF_ERROR(WriteFileAtomically(path, page, FileAccess::kShared));
  LogResult(absl::StrCat("wrote ", path));
  return absl::OkStatus();
}

}  // namespace

void AddReportCommand(CLI::App& app, CommandFunction* run) {
  CLI::App* command =
      app.add_subcommand("report", "Make a run's report.html again, or compare several runs");
  auto flags = std::make_shared<ReportFlags>();
  command
      ->add_option("output", flags->outputs,
                   "OUTPUT of a run, also of one that was killed; of several: one page that "
                   "compares them")
      ->required();
  command
      ->add_option("--to,--out", flags->to,
                   "the file to write (of one run OUTPUT/report.html); - is stdout")
      ->type_name("FILE");
  command->footer(
      "Examples:\n  spillway report run --to /tmp/report.html\n"
      "  spillway report run1 run2 run3 --out compare.html");
  command->callback(
      [run, flags] { *run = [flags] { return CommandOutcome{MakeReport(*flags)}; }; });
}

}  // namespace spillway
