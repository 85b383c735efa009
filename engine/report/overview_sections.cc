#include "engine/report/overview_sections.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "engine/base/progress.h"
#include "engine/base/shell_line.h"
#include "engine/numeric/quality.h"
#include "engine/report/report_html.h"
#include "io/base/format_bytes.h"
#include "io/file_system.h"

namespace spillway {
namespace {

constexpr size_t kEvaluationsShown = 12;

// The value of a setting in config.resolved.json; null if it is missing.
nlohmann::json ConfigValue(const ReportInput& input, const std::string& name) {
  if (!input.config.is_object() || !input.config.contains(name)) return nullptr;
  const nlohmann::json& setting = input.config[name];
  return setting.is_object() ? setting.value("value", nlohmann::json()) : nlohmann::json();
}

// Returns "a.txt, b.txt" for a list of paths.
std::string Joined(const nlohmann::json& value) {
  if (!value.is_array()) return value.is_null() ? "" : TextOf(value);
  std::string joined;
  for (const auto& item : value) absl::StrAppend(&joined, joined.empty() ? "" : ", ", TextOf(item));
  return joined;
}

std::string StateBadge(const RunPart& part) {
  const auto badge = [](absl::string_view kind, const std::string& text) {
    return absl::StrCat("<span class=\"state ", kind, "\">", EscapeHtml(text), "</span>");
  };
  if (part.state == "finished") return badge("good", "finished");
  if (part.state == "stopped") return badge("busy", absl::StrCat("stopped by ", part.message));
  if (part.state == "running") return badge("busy", "running");
  return badge("bad", part.state == "failed" ? "failed" : "ended unexpectedly");
}

int64_t LastStep(const ReportInput& input) {
  const nlohmann::json& row = input.rows->steps.last_row();
  return row.is_object() ? row.value("step", int64_t{0}) : 0;
}

// OUTPUT without links and dots; unchanged if it does not exist any more.
std::string PathOf(const ReportInput& input) {
  return input.output.empty() ? "" : FileSystem::Real().Resolve(input.output);
}

// Returns "a.txt: 1,200 windows, 1.23M tokens".
std::string WithSize(const std::string& files, const DatasetSize& size) {
  if (files.empty() || size.samples == 0) return files;
  std::string text = absl::StrCat(files, ": ", FormatCount(size.samples), " ", size.unit);
  if (size.tokens > 0) absl::StrAppend(&text, ", ", FormatParameters(size.tokens), " tokens");
  if (size.labels > 0 && size.labels != size.tokens && size.labels != size.samples) {
    absl::StrAppend(&text, ", ", FormatParameters(size.labels), " labels");
  }
  return text;
}

// Returns "node7, 8 cores of Xeon ..., 31.2 GiB".
std::string MachineText(const RunPart& part) {
  const RunMachine& machine = part.machine;
  std::string text;
  const auto add = [&](absl::string_view piece) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", piece);
  };
  if (!part.host.empty()) add(part.host);
  if (machine.cores > 0) {
    add(absl::StrCat(machine.cores, machine.cores == 1 ? " core" : " cores",
                     machine.cpu.empty() ? "" : " of ", machine.cpu));
  }
  if (machine.memory_bytes > 0) add(FormatBytes(machine.memory_bytes));
  return text;
}

// Extrapolates the time of the steps so far, including pauses. None before two steps.
std::optional<double> SecondsLeft(const ReportInput& input) {
  const ReportSeries& steps = input.rows->steps;
  // In double: the files of a run may have any number.
  const double left = static_cast<double>(input.run.steps) - static_cast<double>(LastStep(input));
  if (steps.rows() < 2 || left <= 0) return std::nullopt;
  return SecondsSoFar(*input.rows) / static_cast<double>(steps.rows()) * left;
}

// Returns "2.5".
std::string EpochText(double epochs) {
  return epochs < 10 ? absl::StrFormat("%.2g", epochs) : absl::StrFormat("%.0f", epochs);
}

// Measures of held-out data except the loss; the one of --metric is first.
std::vector<std::string> MeasuresOf(const RunRows& rows) {
  std::vector<std::string> names;
  for (const MeasureKind& kind : MeasureKinds()) {
    const std::string name = kind.name;
    if (name == "loss" || name == "perplexity") continue;
    if (rows.evaluations.total(name).count > 0) names.push_back(name);
  }
  if (rows.best) {
    std::stable_partition(names.begin(), names.end(),
                          [&](const std::string& name) { return name == rows.best->metric; });
  }
  return names;
}

void AddCard(std::string& html, absl::string_view name, const std::string& value,
             const std::string& more) {
  absl::StrAppend(&html, "<div class=\"card\"><div class=\"name\">", name,
                  "</div><div class=\"value\">", value, "</div><div class=\"more\">", more,
                  "</div></div>\n");
}

// Returns "12.3 MiB of 64 MiB".
std::string OfBudget(double bytes, uint64_t budget) {
  const std::string used = FormatByteNumber(bytes);
  return budget > 0 ? absl::StrCat(used, " of ", FormatBytes(budget)) : used;
}

std::optional<double> NumberIn(const nlohmann::json& row, const std::string& name) {
  const auto found = row.find(name);
  return found != row.end() && found->is_number() ? std::optional(found->get<double>())
                                                  : std::nullopt;
}

// A dozen evaluations, spread evenly, and the best one if it is between them. Columns without data
// are left out. The first, the last and the best are exact; if there are many, the others are means
// of neighbours.
std::string EvaluationTable(const ReportInput& input) {
  const ReportSeries& evaluations = input.rows->evaluations;
  std::vector<std::string> names = {"loss", "perplexity"};
  for (const MeasureKind& kind : MeasureKinds()) {
    if (std::find(names.begin(), names.end(), kind.name) == names.end()) names.push_back(kind.name);
  }
  std::erase_if(names, [&](const auto& name) { return evaluations.total(name).count == 0; });
  std::vector<std::string> head = {"Step"};
  std::vector<size_t> numeric = {0};
  std::vector<std::vector<std::optional<double>>> means;
  for (const std::string& name : names) {
    numeric.push_back(head.size());
    head.push_back(name == "loss" ? "Loss" : name == "perplexity" ? "Perplexity" : name);
    means.push_back(evaluations.Means(name));
  }
  head.emplace_back();
  HtmlTable table(head, numeric);
  const std::optional<RunRows::Best>& best = input.rows->best;
  bool best_shown = false;
  const auto add = [&](int64_t step, const auto& value_of) {
    const bool is_best = best && step == best->step;
    if (!value_of(0) || (is_best && std::exchange(best_shown, true))) return;
    std::vector<std::string> cells = {FormatCount(step)};
    for (size_t i = 0; i < names.size(); ++i) {
      const std::optional<double> value = value_of(i);
      cells.push_back(!value                     ? ""
                      : names[i] == "perplexity" ? FormatNumber(*value)
                                                 : absl::StrFormat("%.4f", *value));
    }
    cells.emplace_back(is_best ? "best" : step == 0 ? "before training" : "");
    table.Row(cells, is_best ? "best" : "");
  };
  const auto of_best = [&](size_t i) -> std::optional<double> {
    if (names[i] == "loss" && !std::isfinite(best->loss)) return std::nullopt;
    if (names[i] == "loss") return best->loss;
    if (names[i] == best->metric) return best->value;
    return names[i] == "perplexity" ? std::optional(std::exp(best->loss)) : std::nullopt;
  };
  const std::vector<int64_t> steps = evaluations.Steps();
  const size_t count = steps.size(), shown = std::min(count, kEvaluationsShown);
  for (size_t i = 0; i < shown; ++i) {
    const size_t at = shown > 1 ? i * (count - 1) / (shown - 1) : 0;
    const bool at_end = at == 0 || at + 1 == count;
    const nlohmann::json& row = at == 0 ? evaluations.first_row() : evaluations.last_row();
    const int64_t step = at_end ? row.value("step", int64_t{0}) : steps[at];
    const bool is_mean = !at_end && evaluations.rows_per_bucket() > 1;
    if (best && (best->step < step || (best->step == step && is_mean))) add(best->step, of_best);
    add(step,
        [&](size_t column) { return at_end ? NumberIn(row, names[column]) : means[column][at]; });
  }
  return table.Html();
}

// Describes the effect of --resume for a run that has not finished.
absl::string_view ResumeSentence(const ReportInput& input) {
  return input.has_commit ? "--resume continues from the last commit."
                          : "No commit was made; --resume starts at step 1.";
}

// Settings that were changed on resume (--allow-change).
std::string ChangesNote(const std::vector<RunChange>& changes) {
  std::string html;
  for (const RunChange& change : changes) {
    absl::StrAppend(&html, "<p class=\"note\">From step ", FormatCount(change.step),
                    " on: ", EscapeHtml(Describe(change)), " (--allow-change).</p>\n");
  }
  return html;
}

}  // namespace

std::string MeasureTitle(const std::string& name) {
  if (name == "bleu" || name == "wer" || name == "cer") return absl::AsciiStrToUpper(name);
  std::string title = name;
  if (!title.empty()) title[0] = absl::ascii_toupper(title[0]);
  return title;
}

std::vector<std::string> PathParts(const ReportInput& input) {
  return absl::StrSplit(PathOf(input), '/', absl::SkipEmpty());
}

std::string ReportTitle(const ReportInput& input) {
  const std::string name = FileName(NormalPath(PathOf(input)));
  return name.empty() || name == "." || name == "/" ? "Training run" : name;
}

std::string ChartFigure(absl::string_view id, absl::string_view title, absl::string_view text,
                        bool wide) {
  return absl::StrCat("<figure class=\"chart", wide ? " wide" : "", "\" data-chart=\"", id,
                      "\"><figcaption><h3>", title, "</h3><p>", text,
                      "</p></figcaption></figure>\n");
}

namespace {

std::string RunningNote(const ReportInput& input) {
  const std::optional<double> left = SecondsLeft(input);
  return absl::StrCat("<p class=\"note\">As of ", FormatTime(input.now),
                      "<span id=\"age\"></span>. ",
                      left ? absl::StrCat("About ", FormatDuration(*left), " left: done around ",
                                          FormatTime(input.now + *left), ". ")
                           : "",
                      "This page reloads by itself while the run goes on.</p>\n");
}

}  // namespace

std::string HeaderSection(const ReportInput& input) {
  const RunDescription& run = input.run;
  std::string html = absl::StrCat(
      "<header>\n<div class=\"brand\">SPILLWAY · TRAINING REPORT</div>\n<div class=\"title\"><h1>",
      EscapeHtml(ReportTitle(input)), "</h1>",
      run.parts.empty() ? "" : StateBadge(run.parts.back()), "</div>\n");
  if (!input.output.empty()) {
    absl::StrAppend(&html, "<p class=\"path\">", EscapeHtml(PathOf(input)), "</p>\n");
  }
  if (!run.parts.empty()) {
    const RunPart& part = run.parts.back();
    if (part.state == "failed") {
      absl::StrAppend(&html, "<div class=\"message\">", EscapeHtml(part.message), "<p>",
                      ResumeSentence(input), "</p></div>\n");
    } else if (part.state == "stopped" && !input.has_commit) {
      absl::StrAppend(&html, "<div class=\"message\">", ResumeSentence(input), "</div>\n");
    } else if (part.state == "running") {
      absl::StrAppend(&html, RunningNote(input));
    } else if (part.state == "killed") {
      absl::StrAppend(&html,
                      "<div class=\"message\">The process ended without saying how (killed, "
                      "or the machine went down). ",
                      ResumeSentence(input), "</div>\n");
    }
  }
  if (!run.parts.empty() && !run.parts.back().warning.empty()) {
    absl::StrAppend(&html, "<div class=\"message\">", EscapeHtml(run.parts.back().warning),
                    "</div>\n");
  }
  absl::StrAppend(&html, ChangesNote(run.changes));
  absl::StrAppend(&html, "<dl class=\"facts\">\n");
  const auto fact = [&](absl::string_view name, const std::string& text,
                        absl::string_view kind = "") {
    if (text.empty()) return;
    absl::StrAppend(&html, "<div", kind.empty() ? "" : absl::StrCat(" class=\"", kind, "\""),
                    "><dt>", name, "</dt><dd>", EscapeHtml(text), "</dd></div>\n");
  };
  fact("Model", Joined(ConfigValue(input, "model")), "wide");
  fact("Data", WithSize(Joined(ConfigValue(input, "data")), run.data), "wide");
  fact("Held out", WithSize(Joined(ConfigValue(input, "eval-data")), run.evaluation_data), "wide");
  fact("Parameters",
       absl::StrCat(FormatCount(run.parameters), run.parameters < 10000 ? "" : " (",
                    run.parameters < 10000 ? "" : FormatParameters(run.parameters) + ")"));
  if (run.trainable_parameters > 0 && run.trainable_parameters != run.parameters) {
    fact("Trained", absl::StrCat(FormatCount(run.trainable_parameters), " of them"));
  }
  fact("Precision", run.compute == run.dtype || run.compute.empty()
                        ? run.dtype
                        : absl::StrCat(run.dtype, ", multiplied in ", run.compute));
  fact("Optimizer", run.optimizer);
  std::string batch = absl::StrCat(SamplesPerStep(run), " samples a step");
  if (run.accumulate > 1 || run.ranks > 1) {
    absl::StrAppend(
        &batch, " (", run.accumulate > 1 ? absl::StrCat(run.accumulate, " micro-batches of ") : "",
        run.micro_batch, run.ranks > 1 ? absl::StrCat(" on each of ", run.ranks, " ranks)") : ")");
  }
  fact("Batch", batch);
  fact("Epochs", run.data.samples > 0 ? EpochText(Epochs(run, run.steps)) : "");
  fact("Device",
       absl::StrCat(run.device, ", ", run.threads, run.threads == 1 ? " thread" : " threads",
                    run.ranks > 1 ? " a rank" : ""));
  if (!run.parts.empty()) {
    const RunPart& last = run.parts.back();
    fact("Machine", MachineText(last));
    fact("I/O", run.io_engine);
    fact("Spillway", VersionOf(last));
    fact("Started", FormatTime(run.parts.front().started));
    fact("Ended", last.ended > 0 ? FormatTime(last.ended) : "");
    if (run.parts.size() > 1) {
      const size_t times = run.parts.size() - 1;
      fact("Resumed", times == 1 ? "once" : absl::StrCat(times, " times"));
    }
    fact("Command", ShellLine(last.origin.arguments), "wide command");
  }
  return html + "</dl>\n</header>\n";
}

namespace {

// Returns "of 20,000; epoch 0.6 of 10".
std::string StepsText(const ReportInput& input, int64_t last) {
  const RunDescription& run = input.run;
  const double epochs = Epochs(run, run.steps);
  if (last == run.steps) {
    return epochs > 0 ? absl::StrCat("complete; epochs: ", EpochText(epochs)) : "complete";
  }
  const std::string of = absl::StrCat("of ", FormatCount(run.steps));
  if (epochs == 0) return of;
  return absl::StrCat(of, "; epoch ", EpochText(Epochs(run, last)), " of ", EpochText(epochs));
}

void AddSpeedCard(const ReportInput& input, std::string& html) {
  const ReportSeries& steps = input.rows->steps;
  const std::string& unit = input.run.data.unit;
  const double samples = steps.MedianOfMeans("samples_per_second");
  const double tokens = steps.total("tokens").sum;
  if (tokens <= 0 && samples > 0) {
    AddCard(html, absl::StrCat(MeasureTitle(EscapeHtml(unit)), "/s"), FormatNumber(samples),
            absl::StrCat("median; ", FormatParameters(steps.total("samples").sum), " ",
                         EscapeHtml(unit), " in all"));
    return;
  }
  std::string more = absl::StrCat("median; ", FormatParameters(tokens), " tokens in all");
  if (samples > 0 && (unit == "texts" || unit == "pairs" || unit == "sounds")) {
    absl::StrAppend(&more, "; ", FormatNumber(samples), " ", unit, "/s");
  }
  AddCard(html, "Tokens/s", FormatNumber(steps.MedianOfMeans("tokens_per_second")), more);
}

// Adds the last value of a measure; the best evaluation may be chosen by another one.
void AddMeasureCard(const ReportInput& input, std::string& html) {
  const std::vector<std::string> measures = MeasuresOf(*input.rows);
  const auto& best = input.rows->best;
  if (measures.empty() || (best && best->metric == measures.front())) return;
  const std::string& name = measures.front();
  const nlohmann::json& row = input.rows->evaluations.last_row();
  const std::optional<double> value = NumberIn(row, name);
  if (!value) return;
  AddCard(html, MeasureTitle(name), absl::StrFormat("%.4f", *value),
          absl::StrCat("held out, step ", FormatCount(row.value("step", int64_t{0}))));
}

}  // namespace

std::string CardsSection(const ReportInput& input) {
  const RunDescription& run = input.run;
  const ReportSeries& steps = input.rows->steps;
  std::string html = "<div class=\"cards\">\n";
  const int64_t last = LastStep(input);
  AddCard(html, "Steps", FormatCount(last), StepsText(input, last));
  const auto losses = steps.Means("loss");
  if (steps.total("loss").count > 0) {
    const nlohmann::json& row = steps.last_row();
    const bool number = row.contains("loss") && row["loss"].is_number();
    AddCard(html, "Loss",
            number ? absl::StrFormat("%.4f", row["loss"].get<double>()) : "not finite",
            losses.front() ? absl::StrFormat("%.4f at the start", *losses.front()) : "");
  }
  if (input.rows->best) {
    const auto& best = *input.rows->best;
    const bool by_loss = best.metric == "loss";
    AddCard(html, absl::StrCat("Best held-out ", best.metric), absl::StrFormat("%.4f", best.value),
            absl::StrCat(!by_loss ? absl::StrFormat("loss %.4f, ", best.loss)
                         : input.rows->evaluations.total("perplexity").count > 0
                             ? absl::StrCat("perplexity ", FormatNumber(std::exp(best.loss)), ", ")
                             : "",
                         "step ", FormatCount(best.step)));
  }
  AddMeasureCard(input, html);
  if (steps.rows() > 0) {
    AddSpeedCard(input, html);
    const bool runs = !run.parts.empty() && run.parts.back().state == "running";
    const std::optional<double> left = runs ? SecondsLeft(input) : std::nullopt;
    AddCard(html, "Time", FormatSeconds(SecondsSoFar(*input.rows)),
            absl::StrCat(FormatSeconds(steps.MedianOfMeans("seconds")), " a step, median",
                         left ? absl::StrCat("; ", FormatDuration(*left), " left") : ""));
    const double read = steps.total("nvme_read").sum, written = steps.total("nvme_written").sum;
    const std::string of_rank = OfRank(run);
    AddCard(html, "Read from NVMe", FormatByteNumber(read),
            absl::StrCat(FormatByteNumber(read / steps.rows()), " each step", of_rank));
    AddCard(html, "Written to NVMe", FormatByteNumber(written),
            absl::StrCat(FormatByteNumber(written / steps.rows()), " each step", of_rank));
    AddCard(
        html, "Peak memory", FormatByteNumber(steps.total("peak_rss").high),
        absl::StrCat("device ", OfBudget(steps.total("peak_device").high, run.device_budget_bytes),
                     "; host ", OfBudget(steps.total("peak_host").high, run.host_budget_bytes),
                     of_rank.empty() ? "" : ";", of_rank));
  }
  return html + "</div>\n";
}

std::string LearningSection(const ReportInput& input) {
  const ReportSeries& steps = input.rows->steps;
  const ReportSeries& evaluations = input.rows->evaluations;
  std::string html =
      "<h2>Learning</h2>\n<div class=\"toolbar\" id=\"toolbar\"></div>\n<div class=\"grid "
      "lead\">\n";
  const bool evaluated = evaluations.total("loss").count > 0;
  std::string text = "Mean over a step's labels, before its update.";
  if (steps.rows_per_bucket() > 1) {
    absl::StrAppend(&text, " A point is the mean of ", steps.rows_per_bucket(),
                    " steps; the band reaches from the lowest to the highest of them.");
  }
  if (steps.total("loss").count > 0 || evaluated) {
    absl::StrAppend(&html, ChartFigure("loss", "Loss", text, true));
  }
  if (evaluations.total("perplexity").count > 0) {
    absl::StrAppend(
        &html, ChartFigure("perplexity", "Perplexity", "On the held-out data: e to the loss."));
  }
  for (const std::string& name : MeasuresOf(*input.rows)) {
    absl::StrAppend(&html, ChartFigure("measure-" + name, MeasureTitle(name),
                                       input.rows->best && input.rows->best->metric == name
                                           ? "On the held-out data; the best is chosen by it."
                                           : "On the held-out data."));
  }
  if (steps.total("lr").count > 0) {
    absl::StrAppend(&html, ChartFigure("lr", "Learning rate", "As applied in each step."));
  }
  if (steps.total("grad_norm").count > 0) {
    absl::StrAppend(
        &html, ChartFigure("grad_norm", "Gradient norm",
                           input.run.clip > 0
                               ? absl::StrCat("Of all gradients together, before it is cut to ",
                                              FormatNumber(input.run.clip), ".")
                               : "Of all gradients together."));
  }
  if (steps.total("loss_scale").count > 0) {
    const int64_t skipped = std::llround(steps.total("skipped").sum);
    absl::StrAppend(
        &html, ChartFigure("loss_scale", "Loss scale",
                           absl::StrCat("fp16. Steps skipped, most because a gradient overflowed: ",
                                        FormatCount(skipped), ".")));
  }
  absl::StrAppend(&html, "</div>\n");
  if (evaluated) {
    std::string note;
    if (evaluations.rows_per_bucket() > 1) {
      note = absl::StrCat(
          "<p class=\"note\">But for the first, the last and the best, means over the ",
          evaluations.rows_per_bucket(),
          " evaluations up to the step named; eval.jsonl has each.</p>");
    } else if (evaluations.buckets() > kEvaluationsShown) {
      note = "<p class=\"note\">A selection; eval.jsonl has all.</p>";
    }
    absl::StrAppend(&html, "<div class=\"panel\"><h3>Evaluations</h3>\n", EvaluationTable(input),
                    note, "</div>\n");
  }
  return html;
}

// The newest text of each prompt, and below it the earlier ones.
std::string SamplesSection(const ReportInput& input) {
  const std::vector<SampleLog::Evaluation>& all = input.rows->samples.evaluations();
  if (all.empty()) return "";
  std::string html = "<h2>Sample texts</h2>\n";
  const auto cell = [](const SampleText& sample) {
    return absl::StrCat("<div class=\"written\">", EscapeHtml(sample.text),
                        sample.ended ? "" : "<span class=\"note\"> …</span>", "</div>");
  };
  for (size_t prompt = 0; prompt < all.back().texts.size(); ++prompt) {
    const SampleText& newest = all.back().texts[prompt];
    HtmlTable shown({"Step", "Text"}, {0}), earlier({"Step", "Text"}, {0});
    for (size_t i = all.size(); i-- > 0;) {
      if (prompt >= all[i].texts.size()) continue;
      const SampleText& sample = all[i].texts[prompt];
      // Shows the newest text, and the first one that the model wrote.
      HtmlTable& table = i + 1 == all.size() || i == 0 ? shown : earlier;
      table.Row({FormatCount(all[i].step), cell(sample)});
    }
    absl::StrAppend(&html, "<div class=\"panel sample\"><div class=\"prompt\">",
                    EscapeHtml(newest.prompt), "</div>\n", shown.Html());
    if (!earlier.empty()) {
      absl::StrAppend(&html, "<details><summary>Evaluations between</summary>\n", earlier.Html(),
                      "</details>\n");
    }
    absl::StrAppend(&html, "</div>\n");
  }
  return html;
}

}  // namespace spillway
