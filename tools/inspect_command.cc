// spillway inspect: what a run's last commit, or a model's files, hold.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "engine/base/print_json.h"
#include "engine/base/progress.h"
#include "engine/inspect/inspect.h"
#include "io/base/clock.h"
#include "io/base/format_bytes.h"
#include "tools/commands.h"

namespace spillway {
namespace {

// Progress of what takes longer than people like to wait without a word.
class SlowProgress {
 public:
  void Update(uint64_t done_bytes, uint64_t total_bytes) {
    if (MonotonicSeconds() - began_ < 1) return;
    if (!progress_) progress_.emplace("reading the state (MiB)", total_bytes / kMiB, began_);
    progress_->Update(static_cast<int64_t>(done_bytes / kMiB));
  }

 private:
  const double began_ = MonotonicSeconds();
  std::optional<Progress> progress_;
};

CommandOutcome RunInspect(const std::string& path, bool as_json, bool digests) {
  SlowProgress progress;
  const auto found = Inspect(
      path, [&](uint64_t done, uint64_t total) { progress.Update(done, total); },
      digests || as_json);
  if (!found.ok()) return {found.status()};
  if (as_json) {
    PrintJson(*found);
  } else {
    std::fputs(InspectText(*found).c_str(), stdout);
  }
  return {};
}

}  // namespace

void AddInspectCommand(CLI::App& app, CommandFunction* run) {
  CLI::App* command =
      app.add_subcommand("inspect", "Show what a run's last commit or a model's files hold");
  auto path = std::make_shared<std::string>();
  auto as_json = std::make_shared<bool>(false), digests = std::make_shared<bool>(false);
  command
      ->add_option("path", *path,
                   "OUTPUT of a run, a copy of a commit, a manifest, a .safetensors file or the "
                   "directory of a model or an adapter")
      ->required();
  command->add_flag("--digests", *digests,
                    "of a run: read all of its state, check it, and show a digest of each plane of "
                    "each parameter");
  command->add_flag("--json", *as_json, "one JSON object on stdout, with the digests");
  command->footer("Example:\n  spillway inspect run");
  command->callback([run, path, as_json, digests] {
    *run = [path, as_json, digests] { return RunInspect(*path, *as_json, *digests); };
  });
}

}  // namespace spillway
