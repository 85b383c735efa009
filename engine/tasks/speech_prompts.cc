#include "engine/tasks/speech_prompts.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/datasets/speech_dataset.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using nlohmann::ordered_json;

double SecondsOf(int64_t samples) {
  return static_cast<double>(samples) / static_cast<double>(kSpeechRate);
}

// As it is written: 1.66 and not 1.6600000000000001.
double Hundredths(double seconds) { return std::round(seconds * 100) / 100; }

// The code of what a prompt says is spoken; "": it says nothing.
std::string LanguageOf(const TextModel& model, const Prompt& prompt) {
  for (const auto& [code, token] : model.speech_tokens.languages()) {
    if (std::count(prompt.tokens.begin(), prompt.tokens.end(), token) > 0) return code;
  }
  return "";
}

// Adds what is said between one time and the next.
class Segments {
 public:
  Segments(const TextModel& model, ordered_json& rows) : model_(model), rows_(rows) {}

  absl::Status Add(const Prompt& window, const Continuation& made) {
    const double begin = SecondsOf(window.sound.first);
    std::vector<int64_t> words;
    double start = 0;
    const auto close = [&](double end) -> absl::Status {
      if (words.empty()) return absl::OkStatus();
      ASSIGN_OR_RETURN(const std::string text, model_.tokenizer->Decode(words));
      rows_.push_back(
          {{"start", Hundredths(begin + start)}, {"end", Hundredths(begin + end)}, {"text", text}});
      words.clear();
      return absl::OkStatus();
    };
    for (const int64_t token : made.tokens) {
      const int64_t time = token - model_.sampling.first_timestamp;
      if (time < 0) {
        const auto& ends = model_.sampling.ends;
        const bool ends_text = std::count(ends.begin(), ends.end(), token) > 0;
        if (!ends_text && !model_.tokenizer->IsSpecial(token)) words.push_back(token);
        continue;
      }
      const double seconds = static_cast<double>(time) * kSecondsPerTimestamp;
      RETURN_IF_ERROR(close(seconds));
      start = seconds;
    }
    return close(std::max(start, SecondsOf(window.sound.count)));
  }

 private:
  const TextModel& model_;
  ordered_json& rows_;
};

}  // namespace

absl::StatusOr<std::vector<Prompt>> PromptsOfSound(const TextModel& model,
                                                   const std::string& path) {
  const TransformerConfig& transformer = model.config.transformer;
  ASSIGN_OR_RETURN(const std::vector<SoundWindow> windows,
                   CutSound(path, SpeechFramesOf(transformer) * kMelHop));
  std::vector<int64_t> tokens = {transformer.start_token};
  if (!model.finds_languages()) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> prefix, model.speech_tokens.Prefix(model.speech));
    tokens.insert(tokens.end(), prefix.begin(), prefix.end());
  }
  std::vector<Prompt> prompts;
  for (const SoundWindow& window : windows) {
    Prompt& prompt = prompts.emplace_back();
    prompt.tokens = tokens;
    prompt.sound = window;
  }
  return prompts;
}

absl::Status FindLanguages(TextModel& model, int rows, std::vector<Prompt>& prompts) {
  if (!model.finds_languages()) return absl::OkStatus();
  std::map<std::string, std::vector<size_t>> sounds;  // [path] its windows, the first one first
  for (size_t i = 0; i < prompts.size(); ++i) sounds[prompts[i].sound.path].push_back(i);
  std::vector<const std::vector<size_t>*> left;
  for (const auto& [path, windows] : sounds) left.push_back(&windows);
  const auto& languages = model.speech_tokens.languages();
  for (size_t begin = 0; begin < left.size(); begin += static_cast<size_t>(rows)) {
    const size_t end = std::min(left.size(), begin + static_cast<size_t>(rows));
    std::vector<RowTokens> pieces;
    for (size_t i = begin; i < end; ++i) {
      const int row = static_cast<int>(i - begin);
      ASSIGN_OR_RETURN(const torch::Tensor source, model.sources->Get(left[i]->front()));
      model.generator->Restart(row, source);
      pieces.push_back({row, prompts[left[i]->front()].tokens});
    }
    ASSIGN_OR_RETURN(const std::vector<torch::Tensor> logits,
                     model.generator->Append(pieces, /*more=*/true));
    for (size_t i = begin; i < end; ++i) {
      const float* const scores = logits[i - begin].const_data_ptr<float>();
      const auto best = std::max_element(
          languages.begin(), languages.end(),
          [&](const auto& a, const auto& b) { return scores[a.second] < scores[b.second]; });
      SpeechMode task = model.speech;
      task.language = best->first;
      ASSIGN_OR_RETURN(const std::vector<int64_t> prefix, model.speech_tokens.Prefix(task));
      for (const size_t window : *left[i]) {
        std::vector<int64_t>& tokens = prompts[window].tokens;
        tokens.insert(tokens.end(), prefix.begin(), prefix.end());
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ordered_json> RowOfSound(const TextModel& model,
                                        const std::vector<WindowMade>& windows) {
  ordered_json row, segments = ordered_json::array();
  std::string text;
  size_t tokens = 0;
  bool ended = true, stopped = false;
  Segments added(model, segments);
  for (const auto& [window, made] : windows) {
    if (model.speech.timestamps) {
      RETURN_IF_ERROR(added.Add(window, made));
    } else {
      text += made.text;
    }
    tokens += made.tokens.size();
    ended &= made.ended;
    stopped |= made.stopped;
  }
  for (const auto& segment : segments) text += segment["text"].get<std::string>();
  row["completion"] = text;
  if (model.finds_languages()) row["language"] = LanguageOf(model, windows.front().first);
  row["tokens"] = tokens;
  row["stop"] = stopped ? "text" : ended ? "end" : "length";
  if (model.speech.timestamps) row["segments"] = segments;
  return row;
}

}  // namespace spillway
