// What was decided and what happened, as HTML: the plan, the run's history, its configuration.
// Each is empty where the run has nothing to say to it.
#pragma once

#include <string>

#include "engine/report/report_input.h"

namespace spillway {

std::string PlanSection(const ReportInput& input);
std::string HistorySection(const ReportInput& input);
std::string ConfigurationSection(const ReportInput& input);

// A value of config.resolved.json, budgets with their unit. Not escaped.
std::string SettingText(const std::string& name, const nlohmann::json& value);

}  // namespace spillway
