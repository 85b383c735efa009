// spillway predict, once its flags are checked: a file answered in batches.
#include "engine/base/stop_signal.h"
#include "engine/data/data_file.h"
#include "engine/run/last_commit.h"
#include "engine/tasks/task.h"
#include "engine/tasks/text_model.h"
#include "io/base/status.h"
#include "tools/compute/compute_commands.h"

namespace spillway {
namespace {

// Where neither a flag nor generation_config.json names one: the likeliest token.
constexpr double kAnswerTemperature = 0;

absl::StatusOr<bool> PredictFile(const PredictRequest& request) {
  ASSIGN_OR_RETURN(const std::unique_ptr<TextModel> model,
                   OpenTextModel(request, kAnswerTemperature));
  return model->task->Predict(request, *model);
}

}  // namespace

CommandOutcome Predict(const PredictRequest& request) {
  const StopSignal signals;
  bool whole = false;
  const absl::Status status = ReadLastCommit(request.model, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(whole, PredictFile(request));
    return absl::OkStatus();
  });
  if (!status.ok()) return {status};
  return {absl::OkStatus(), whole ? 0 : 75};
}

}  // namespace spillway
