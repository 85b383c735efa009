// HTML sections about decisions and events: the plan, the run's history, its configuration. A
// section is empty if the run has no data for it.
#pragma once

#include <string>

#include "engine/report/report_input.h"

namespace spillway {

std::string PlanSection(const ReportInput& input);
std::string HistorySection(const ReportInput& input);
std::string ConfigurationSection(const ReportInput& input);

// A value of config.resolved.json, with a unit for budgets. Not escaped.
std::string SettingText(const std::string& name, const nlohmann::json& value);

}  // namespace spillway
