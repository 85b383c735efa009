#include "engine/data/question_samples.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/shallow_json.h"
#include "engine/base/stop_signal.h"
#include "engine/base/utf8.h"
#include "engine/data/labelled_text.h"
#include "engine/measures/text_words.h"
#include "io/base/check.h"
#include "io/base/log.h"
#include "io/base/status.h"

namespace spillway {
namespace {

using nlohmann::json;

constexpr int kTypeBits = 32;
constexpr size_t kWindowHeader = 3, kNumbersOfToken = 3;

// Python's lstrip, as run_qa.py has it of questions.
absl::string_view WithoutLeadingSpace(absl::string_view text) {
  const absl::string_view inner = WithoutOuterSpace(text);
  return inner.empty() ? inner : text.substr(inner.data() - text.data());
}

// {begin, end} of each window in `count` tokens.
std::vector<std::pair<int64_t, int64_t>> CutWindows(int64_t count, int64_t most, int64_t overlap) {
  if (count <= most) return {{0, count}};
  std::vector<std::pair<int64_t, int64_t>> windows;
  for (int64_t begin = 0; windows.empty() || windows.back().second < count;
       begin += most - overlap) {
    windows.emplace_back(begin, std::min(count, begin + most));
  }
  return windows;
}

// Bytes of the first answer in the context; kInvalidArgument where it does not lie there.
absl::StatusOr<std::pair<int64_t, int64_t>> PlaceOfAnswer(const Question& question) {
  const Question::Answer& answer = question.answers.front();
  const auto characters = static_cast<int64_t>(CodePointsOf(answer.text).size());
  const auto begin = ByteOfCharacter(question.context, answer.start);
  const auto end = ByteOfCharacter(question.context, answer.start + characters);
  if (begin && end) return std::pair(*begin, *end);
  return absl::InvalidArgumentError(absl::StrCat("its answer of ", characters,
                                                 " characters begins at character ", answer.start,
                                                 " and ends behind the context"));
}

void MarkAnswer(std::pair<int64_t, int64_t> answer, QuestionWindow& window) {
  const auto& places = window.places;
  const auto of_context = [](const auto& place) { return place.has_value(); };
  const auto begin = std::find_if(places.begin(), places.end(), of_context) - places.begin();
  auto end = begin;
  while (end < static_cast<int64_t>(places.size()) && places[end]) ++end;
  if (begin == end) return;
  if (places[begin]->first > answer.first || places[end - 1]->second < answer.second) return;
  auto first = begin, last = end - 1;
  while (first < end && places[first]->first <= answer.first) ++first;
  while (last >= begin && places[last]->second >= answer.second) --last;
  window.first = first - 1;
  window.last = last + 1;
}

}  // namespace

std::optional<int64_t> ByteOfCharacter(absl::string_view text, int64_t character) {
  size_t at = 0;
  for (int64_t i = 0; i < character; ++i) {
    if (at >= text.size()) return std::nullopt;
    TakeCodePoint(text, &at);
  }
  return static_cast<int64_t>(at);
}

absl::StatusOr<std::vector<QuestionWindow>> WindowsOf(const Question& question,
                                                      const Tokenizer& tokenizer,
                                                      const TransformerConfig& config,
                                                      const WindowOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> asked,
                   tokenizer.Encode(WithoutLeadingSpace(question.question)));
  ASSIGN_OR_RETURN(const std::vector<TokenSpan> context, tokenizer.EncodeSpans(question.context));
  if (asked.empty() || context.empty()) {
    return absl::InvalidArgumentError("the tokenizer makes no token of the question or the text");
  }
  const auto around = [&](const std::vector<int64_t>& part) {
    return tokenizer.Around(asked, absl::Span<const int64_t>(part));
  };
  const int64_t room = options.seq_len - static_cast<int64_t>(around({}).tokens.size());
  const auto count = static_cast<int64_t>(context.size());
  if (room < std::min(count, options.overlap + 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a question of ", asked.size(), " tokens leaves room for ", std::max<int64_t>(0, room),
        " of its text in --seq-len ", options.seq_len, ", and windows have ", options.overlap,
        " in common: raise --seq-len, or lower --doc-stride"));
  }
  std::optional<std::pair<int64_t, int64_t>> answer;
  if (!question.answers.empty()) {
    ASSIGN_OR_RETURN(answer, PlaceOfAnswer(question));
  }
  std::vector<QuestionWindow> windows;
  for (const auto& [begin, end] : CutWindows(count, room, options.overlap)) {
    std::vector<int64_t> part;
    for (int64_t i = begin; i < end; ++i) part.push_back(context[i].token);
    QuestionWindow& window = windows.emplace_back();
    window.text = around(part);
    RETURN_IF_ERROR(FitToModel(tokenizer, config, window.text));
    int64_t next = begin;
    for (const int8_t source : window.text.sources) {
      auto& place = window.places.emplace_back();
      if (source != 1) continue;
      place = {static_cast<int64_t>(context[next].begin), static_cast<int64_t>(context[next].end)};
      ++next;
    }
    if (answer) MarkAnswer(*answer, window);
  }
  return windows;
}

absl::StatusOr<std::unique_ptr<QuestionSamples>> QuestionSamples::Read(
    const std::vector<std::string>& files, const TransformerConfig& config,
    const QuestionSamplesOptions& options) {
  ASSIGN_OR_RETURN(ScratchRows windows, ScratchRows::Create(options.scratch_directory));
  ASSIGN_OR_RETURN(ScratchRows texts, ScratchRows::Create(options.scratch_directory));
  std::unique_ptr<QuestionSamples> samples(
      new QuestionSamples(std::move(windows), std::move(texts)));
  int64_t displaced = 0;
  for (const std::string& file : files) {
    const auto take = [&](const Question& question) -> absl::Status {
      ASSIGN_OR_RETURN(const std::vector<QuestionWindow> made,
                       WindowsOf(question, *options.tokenizer, config, options.windows));
      if (!question.answers.empty()) {
        ASSIGN_OR_RETURN(const auto place, PlaceOfAnswer(question));
        const absl::string_view context = question.context;
        if (context.substr(place.first, place.second - place.first) !=
            question.answers.front().text) {
          ++displaced;
        }
      }
      return samples->Add(question, made, options.keeps_questions);
    };
    RETURN_IF_ERROR(ReadQuestions(file, /*needs_answers=*/true, take));
  }
  RETURN_IF_ERROR(samples->windows_.Flush());
  RETURN_IF_ERROR(samples->texts_.Flush());
  if (displaced > 0) {
    LogWarning(absl::StrCat(absl::StrJoin(files, ", "), ": ", displaced, " of ",
                            samples->questions(),
                            " answers are not what the context has at answer_start; what it has "
                            "there is learnt"));
  }
  return samples;
}

absl::Status QuestionSamples::Add(const Question& question,
                                  const std::vector<QuestionWindow>& windows, bool keeps_question) {
  RETURN_IF_ERROR(StopSignal::Check());
  for (const QuestionWindow& window : windows) {
    std::vector<int64_t> row = {questions_, window.first, window.last};
    const EncodedText& text = window.text;
    for (size_t i = 0; i < text.tokens.size(); ++i) {
      row.push_back(text.tokens[i] | text.types[i] << kTypeBits);
      const auto place = window.places[i].value_or(std::pair<int64_t, int64_t>(-1, -1));
      row.push_back(place.first);
      row.push_back(place.second);
    }
    longest_ = std::max(longest_, static_cast<int64_t>(text.tokens.size()));
    tokens_ += static_cast<int64_t>(text.tokens.size());
    RETURN_IF_ERROR(windows_.Append(row));
  }
  ++questions_;
  if (question.answers.empty()) ++impossible_;
  if (!keeps_question) return absl::OkStatus();
  json kept = {question.id, question.question, question.context, json::array()};
  for (const Question::Answer& answer : question.answers) {
    kept[3].push_back({answer.text, answer.start});
  }
  const std::string bytes = kept.dump();
  std::vector<int64_t> row(1 + (bytes.size() + sizeof(int64_t) - 1) / sizeof(int64_t));
  row[0] = static_cast<int64_t>(bytes.size());
  std::memcpy(row.data() + 1, bytes.data(), bytes.size());
  return texts_.Append(row);
}

absl::StatusOr<QuestionSamples::Sample> QuestionSamples::Get(int64_t window) const {
  ASSIGN_OR_RETURN(const std::vector<int64_t> row, windows_.Read(window));
  Sample sample;
  sample.question = row[0];
  sample.window.first = row[1];
  sample.window.last = row[2];
  for (size_t i = kWindowHeader; i < row.size(); i += kNumbersOfToken) {
    sample.window.text.tokens.push_back(row[i] & 0xffffffff);
    sample.window.text.types.push_back(row[i] >> kTypeBits);
    auto& place = sample.window.places.emplace_back();
    if (row[i + 1] >= 0) place = {row[i + 1], row[i + 2]};
  }
  return sample;
}

absl::StatusOr<Question> QuestionSamples::QuestionOf(int64_t question) const {
  ASSIGN_OR_RETURN(const std::vector<int64_t> row, texts_.Read(question));
  const std::string bytes(reinterpret_cast<const char*>(row.data() + 1), row[0]);
  const json kept = ParseShallowJson(bytes);
  SPILLWAY_CHECK(kept.is_array());
  Question found{kept[0], kept[1], kept[2], {}};
  for (const json& answer : kept[3]) found.answers.push_back({answer[0], answer[1]});
  return found;
}

std::string QuestionSamples::fingerprint() const {
  return absl::StrCat("questions-", size(), "-", windows_.digest());
}

}  // namespace spillway
