#include "engine/report/run_description.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/base/strict_json.h"
#include "io/base/status.h"

namespace spillway {
namespace {

constexpr int kVersion = 1;

// Reads a whole number that T can represent; get() would convert any number.
template <typename T>
T WholeNumber(const nlohmann::json& json) {
  const bool fits = json.is_number_unsigned()
                        ? std::in_range<T>(json.get<uint64_t>())
                        : json.is_number_integer() && std::in_range<T>(json.get<int64_t>());
  if (fits) return json.get<T>();
  throw nlohmann::json::type_error::create(302, "a number is not whole, or far too large", &json);
}

nlohmann::json ToJson(const PlannedState& state) {
  return {{"bytes", state.bytes}, {"tier", state.tier}};
}

PlannedState StateFromJson(const nlohmann::json& json) {
  return {WholeNumber<uint64_t>(json.at("bytes")), json.at("tier").get<std::string>()};
}

PlannedUnit UnitFromJson(const nlohmann::json& json) {
  return {json.at("name").get<std::string>(), WholeNumber<uint64_t>(json.at("parameters")),
          StateFromJson(json.at("weights")), StateFromJson(json.at("optimizer")),
          StateFromJson(json.at("gradients"))};
}

nlohmann::json ToJson(const DatasetSize& size) {
  return {{"unit", size.unit},
          {"samples", size.samples},
          {"tokens", size.tokens},
          {"labels", size.labels}};
}

// Earlier versions do not write it.
DatasetSize SizeFromJson(const nlohmann::json& run, const char* name) {
  const auto found = run.find(name);
  if (found == run.end()) return {};
  return {found->at("unit").get<std::string>(), WholeNumber<int64_t>(found->at("samples")),
          WholeNumber<int64_t>(found->at("tokens")), WholeNumber<int64_t>(found->at("labels"))};
}

nlohmann::json ToJson(const RunPart& part) {
  nlohmann::json json = {{"started", part.started},
                         {"ended", part.ended},
                         {"first_step", part.first_step},
                         {"last_step", part.last_step},
                         {"state", part.state},
                         {"message", part.message},
                         {"host", part.host},
                         {"version", part.origin.version},
                         {"commit", part.origin.commit},
                         {"build", part.origin.build},
                         {"command", part.origin.arguments},
                         {"cpu", part.machine.cpu},
                         {"cores", part.machine.cores},
                         {"memory_bytes", part.machine.memory_bytes}};
  if (!part.warning.empty()) json["warning"] = part.warning;
  return json;
}

RunPart PartFromJson(const nlohmann::json& json) {
  RunPart part;
  part.started = json.at("started").get<double>();
  part.ended = json.at("ended").get<double>();
  part.first_step = WholeNumber<int64_t>(json.at("first_step"));
  part.last_step = WholeNumber<int64_t>(json.at("last_step"));
  part.state = json.at("state").get<std::string>();
  part.message = json.at("message").get<std::string>();
  part.host = json.at("host").get<std::string>();
  part.warning = json.value("warning", "");
  // Earlier versions of the program do not write it.
  part.origin.version = json.value("version", "");
  part.origin.commit = json.value("commit", "");
  part.origin.build = json.value("build", "");
  part.origin.arguments = json.value("command", std::vector<std::string>());
  part.machine.cpu = json.value("cpu", "");
  part.machine.cores = WholeNumber<int>(json.value("cores", nlohmann::json(0)));
  part.machine.memory_bytes = WholeNumber<uint64_t>(json.value("memory_bytes", nlohmann::json(0u)));
  return part;
}

}  // namespace

int64_t SamplesPerStep(const RunDescription& run) {
  return run.micro_batch * run.accumulate * run.ranks;
}

double Epochs(const RunDescription& run, int64_t steps) {
  if (run.data.samples <= 0) return 0;
  return static_cast<double>(steps) * static_cast<double>(SamplesPerStep(run)) /
         static_cast<double>(run.data.samples);
}

std::string VersionOf(const RunPart& part) {
  const RunOrigin& origin = part.origin;
  return origin.commit.empty() ? origin.version
                               : absl::StrCat(origin.version, " (", origin.commit, ")");
}

std::string OfRank(const RunDescription& run) {
  return run.ranks > 1 ? absl::StrCat(" of rank ", run.rank) : "";
}

void AddCommit(RunDescription& run, const RunCommit& commit) {
  ++run.commit_count;
  if (run.commits.size() == kMostCommits) {
    // Drops every second one of the older half; the newest all stay.
    std::vector<RunCommit> kept;
    for (size_t i = 0; i < run.commits.size(); ++i) {
      if (i >= kMostCommits / 2 || i % 2 == 0) kept.push_back(run.commits[i]);
    }
    run.commits = std::move(kept);
  }
  run.commits.push_back(commit);
}

RunDescription DescribeRun(const TrainOptions& options, const ModelDescription& model,
                           const SwapPlan& plan) {
  RunDescription run;
  run.parameters = model.parameter_count();
  run.trainable_parameters = model.trained_parameter_count();
  run.steps = options.steps;
  run.micro_batch = options.micro_batch;
  run.accumulate = options.accumulate;
  run.rank = options.rank;
  run.ranks = options.ranks;
  run.threads = options.threads;
  run.dtype = std::string(DTypeName(options.dtype));
  run.compute = options.compute_name();
  run.optimizer = OptimizerName(options.optimizer.kind);
  if (options.optimizer.moments != MomentFormat::kFloat32) {
    absl::StrAppend(&run.optimizer, ", moments in ", MomentFormatName(options.optimizer.moments));
  }
  if (options.optimizer.masters == OptimizerSpec::Masters::kNone) {
    run.optimizer.append(", no masters");
  } else if (options.optimizer.masters == OptimizerSpec::Masters::k24Bit) {
    run.optimizer.append(", masters of 24 bits");
  }
  run.device = options.device;
  run.deferred = plan.schedule.update == UpdateMode::kDeferred;
  run.device_budget_bytes = options.device_memory_bytes;
  run.host_budget_bytes = options.host_memory_bytes;
  run.plan_summary = plan.Summary();
  run.clip = options.clip;
  run.data = options.data_size;
  run.evaluation_data = options.evaluation_size;
  run.parts.emplace_back().origin = options.origin;
  run.drive_bytes_per_day = options.drive_bytes_per_day;
  const StateLayout& layout = plan.layout;
  for (const PlaneSpec& plane : layout.planes()) {
    run.planes.emplace_back(PlaneName(plane.plane), static_cast<int>(plane.bytes));
  }
  for (int unit = 0; unit < layout.num_units(); ++unit) {
    const UnitPlacement& placement = plan.placements[unit];
    const auto state = [](uint64_t bytes, Tier tier) {
      return PlannedState{bytes, std::string(TierName(tier))};
    };
    PlannedUnit planned;
    planned.name = layout.units()[unit].name;
    for (const ParameterDescription& parameter : model.units[unit].parameters) {
      planned.parameters += parameter.elements;
    }
    planned.weights = state(layout.UnitPlanesBytes(unit, 0, 1), placement.weight);
    planned.optimizer =
        state(layout.UnitPlanesBytes(unit, 1, layout.NumPlanes(unit)), placement.optimizer);
    planned.gradients =
        state(run.deferred && !layout.frozen(unit)
                  ? layout.PaddedParameters(unit) * layout.gradient_bytes_per_parameter()
                  : 0,
              placement.gradient);
    run.units.push_back(std::move(planned));
  }
  return run;
}

nlohmann::json ToJson(const RunDescription& run) {
  nlohmann::json json;
  json["version"] = kVersion;
  json["parameters"] = run.parameters;
  json["trainable_parameters"] = run.trainable_parameters;
  json["steps"] = run.steps;
  json["micro_batch"] = run.micro_batch;
  json["accumulate"] = run.accumulate;
  json["rank"] = run.rank;
  json["ranks"] = run.ranks;
  json["threads"] = run.threads;
  json["dtype"] = run.dtype;
  json["compute"] = run.compute;
  json["optimizer"] = run.optimizer;
  json["device"] = run.device;
  json["io_engine"] = run.io_engine;
  json["deferred"] = run.deferred;
  json["budget_bytes"] = {{"device", run.device_budget_bytes}, {"host", run.host_budget_bytes}};
  json["computing_bytes"] = run.computing_bytes;
  json["plan_summary"] = run.plan_summary;
  json["clip"] = run.clip;
  json["data"] = ToJson(run.data);
  json["evaluation_data"] = ToJson(run.evaluation_data);
  json["drive_bytes_per_day"] = run.drive_bytes_per_day;
  json["written_bytes"] = run.written_bytes;
  const auto& predicted = run.predicted_at_observed_rates_seconds;
  json["predicted_at_observed_rates_seconds"] =
      predicted ? nlohmann::json(*predicted) : nlohmann::json(nullptr);
  json["planes"] = run.planes;
  json["units"] = nlohmann::json::array();
  for (const PlannedUnit& unit : run.units) {
    json["units"].push_back({{"name", unit.name},
                             {"parameters", unit.parameters},
                             {"weights", ToJson(unit.weights)},
                             {"optimizer", ToJson(unit.optimizer)},
                             {"gradients", ToJson(unit.gradients)}});
  }
  json["parts"] = nlohmann::json::array();
  for (const RunPart& part : run.parts) json["parts"].push_back(ToJson(part));
  json["commits"] = nlohmann::json::array();
  for (const RunCommit& commit : run.commits) {
    json["commits"].push_back({commit.step, commit.time});
  }
  json["commit_count"] = run.commit_count;
  json["changes"] = ToJson(run.changes);
  return json;
}

absl::StatusOr<RunDescription> RunDescriptionFromJson(const nlohmann::json& json) {
  RunDescription run;
  try {
    if (json.at("version") != kVersion) {
      return absl::InvalidArgumentError(
          absl::StrCat("version ", json.at("version").dump(), "; this program reads ", kVersion));
    }
    run.parameters = WholeNumber<uint64_t>(json.at("parameters"));
    run.trainable_parameters =
        WholeNumber<uint64_t>(json.value("trainable_parameters", nlohmann::json(run.parameters)));
    run.steps = WholeNumber<int64_t>(json.at("steps"));
    run.micro_batch = WholeNumber<int64_t>(json.at("micro_batch"));
    run.accumulate = WholeNumber<int64_t>(json.at("accumulate"));
    // Earlier versions do not write them.
    run.rank = WholeNumber<int>(json.value("rank", nlohmann::json(0)));
    run.ranks = WholeNumber<int>(json.value("ranks", nlohmann::json(1)));
    run.threads = WholeNumber<int>(json.at("threads"));
    run.dtype = json.at("dtype").get<std::string>();
    run.compute = json.value("compute", run.dtype);  // earlier versions do not write it
    run.optimizer = json.at("optimizer").get<std::string>();
    run.device = json.at("device").get<std::string>();
    run.io_engine = json.at("io_engine").get<std::string>();
    run.deferred = json.at("deferred").get<bool>();
    run.device_budget_bytes = WholeNumber<uint64_t>(json.at("budget_bytes").at("device"));
    run.host_budget_bytes = WholeNumber<uint64_t>(json.at("budget_bytes").at("host"));
    run.computing_bytes = WholeNumber<uint64_t>(json.at("computing_bytes"));
    run.plan_summary = json.at("plan_summary").get<std::string>();
    // Earlier versions of the program do not write it.
    run.clip = json.value("clip", run.clip);
    run.data = SizeFromJson(json, "data");
    run.evaluation_data = SizeFromJson(json, "evaluation_data");
    run.drive_bytes_per_day = json.value("drive_bytes_per_day", run.drive_bytes_per_day);
    run.written_bytes = WholeNumber<uint64_t>(json.value("written_bytes", nlohmann::json(0u)));
    const auto predicted = json.find("predicted_at_observed_rates_seconds");
    if (predicted != json.end() && !predicted->is_null()) {
      run.predicted_at_observed_rates_seconds = predicted->get<double>();
    }
    for (const auto& plane : json.at("planes")) {
      run.planes.emplace_back(plane.at(0).get<std::string>(), WholeNumber<int>(plane.at(1)));
    }
    for (const auto& unit : json.at("units")) run.units.push_back(UnitFromJson(unit));
    for (const auto& part : json.at("parts")) run.parts.push_back(PartFromJson(part));
    for (const auto& commit : json.at("commits")) {
      run.commits.push_back({WholeNumber<int64_t>(commit.at(0)), commit.at(1).get<double>()});
    }
    run.commit_count = WholeNumber<int64_t>(json.at("commit_count"));
    // Earlier versions of the program do not write it.
    for (const auto& change : json.value("changes", nlohmann::json::array())) {
      run.changes.push_back(
          {WholeNumber<int64_t>(change.at("step")), change.at("name").get<std::string>(),
           change.at("from").get<std::string>(), change.at("to").get<std::string>()});
    }
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(error.what());
  }
  if (run.rank < 0 || run.rank >= run.ranks) {
    return absl::InvalidArgumentError("a rank that no run has");
  }
  const int64_t most = std::numeric_limits<int64_t>::max() / run.ranks;
  if (run.micro_batch < 0 || run.accumulate < 0 ||
      (run.micro_batch > 0 && run.accumulate > most / run.micro_batch)) {
    return absl::InvalidArgumentError("a batch that no step has");
  }
  return run;
}

std::string RunDescriptionPath(const std::string& output) { return output + "/run.json"; }

absl::StatusOr<RunDescription> ReadRunDescription(const std::string& output) {
  const std::string path = RunDescriptionPath(output);
  ASSIGN_OR_RETURN(const JsonDocument document, ReadStrictJson(path));
  absl::StatusOr<RunDescription> run = RunDescriptionFromJson(document.value);
  if (!run.ok()) return Annotate(run.status(), absl::StrCat(path, " describes no run"));
  return run;
}

}  // namespace spillway
