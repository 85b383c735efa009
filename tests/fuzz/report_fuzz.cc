// The files of OUTPUT that a report is made of: run.json, rows, the configuration and the last
// step's timeline. One input has all of them.
#include "engine/report/report.h"
#include "engine/report/report_input.h"
#include "tests/fuzz/fuzzing.h"

namespace spillway {

SPILLWAY_FUZZ(report, 300) {
  static const ScratchDirectory output;
  output.Empty();
  const auto files = FilesOf(input);
  for (const char* name :
       {"run.json", "metrics.jsonl", "eval.jsonl", "config.resolved.json", "timeline.json"}) {
    const auto found = files.find(name);
    if (found != files.end()) output.Write(name, found->second);
  }
  RunRows rows;
  const auto read = ReadReportInput(output.path(), &rows);
  if (!read.ok()) {
    return Refuse(read.status(), {absl::StatusCode::kInvalidArgument, absl::StatusCode::kNotFound});
  }
  const nlohmann::json json = ToJson(read->run);
  const auto again = RunDescriptionFromJson(json);
  SPILLWAY_CHECK(again.ok() && ToJson(*again) == json);
  // Scripts are the page's own: what comes from files begins none and ends none.
  const std::string page = RenderReport(*read);
  static const size_t scripts = [] {
    RunRows none;
    const std::string empty = RenderReport({.output = "", .rows = &none});
    size_t count = 0;
    for (size_t at = 0; (at = empty.find("<script", at)) != std::string::npos; ++at) ++count;
    return count;
  }();
  size_t begun = 0, ended = 0;
  for (size_t at = 0; (at = page.find("<script", at)) != std::string::npos; ++at) ++begun;
  for (size_t at = 0; (at = page.find("</script", at)) != std::string::npos; ++at) ++ended;
  SPILLWAY_CHECK(begun == ended && begun == scripts);
  return true;
}

}  // namespace spillway
