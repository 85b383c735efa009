// spillway version: which build this is.
#include <cstdio>
#include <memory>

#include "engine/base/print_json.h"
#include "nlohmann/json.hpp"
#include "tools/build_info.h"
#include "tools/commands.h"

namespace spillway {

void AddVersionCommand(CLI::App& app, CommandFunction* run) {
  CLI::App* command = app.add_subcommand("version", "Print the version, its commit and its build");
  auto as_json = std::make_shared<bool>(false);
  command->add_flag("--json", *as_json, "one JSON object on stdout");
  command->footer("Example:\n  spillway version --json");
  command->callback([run, as_json] {
    *run = [as_json]() -> CommandOutcome {
      if (*as_json) {
        const RunOrigin origin = ThisRunOrigin();
        PrintJson(nlohmann::json{
            {"version", origin.version}, {"commit", origin.commit}, {"build", origin.build}});
      } else {
        std::printf("%s\n", VersionText().c_str());
      }
      return {};
    };
  });
}

}  // namespace spillway
