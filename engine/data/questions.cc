#include "engine/data/questions.h"

#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/stop_signal.h"
#include "engine/data/jsonl.h"
#include "engine/data/line_reader.h"
#include "engine/data/text_rows.h"
#include "io/base/status.h"
#include "nlohmann/json.hpp"

namespace spillway {
namespace {

using nlohmann::json;
using Take = std::function<absl::Status(const Question&)>;

constexpr const char* kExample =
    R"({"question": "...", "context": "...", "answers": {"text": ["..."], "answer_start": [0]}})";
// SQuAD's files have seven.
constexpr int kMostDepth = 32;

absl::Status WrongQuestion(const std::string& why) { return absl::InvalidArgumentError(why); }

absl::StatusOr<Question::Answer> AnswerOf(const json& text, const json& start) {
  if (!text.is_string() || !start.is_number_integer() || start < 0) {
    return WrongQuestion(
        "an answer is a string in \"text\" with a number from 0 in \"answer_start\"");
  }
  return Question::Answer{text.get<std::string>(), start.get<int64_t>()};
}

absl::StatusOr<std::vector<Question::Answer>> AnswersOf(const json& answers) {
  std::vector<Question::Answer> found;
  if (answers.is_object()) {
    const json texts = answers.value("text", json()),
               starts = answers.value("answer_start", json());
    if (!texts.is_array() || !starts.is_array() || texts.size() != starts.size()) {
      return WrongQuestion("\"answers\" has no lists \"text\" and \"answer_start\" of one length");
    }
    for (size_t i = 0; i < texts.size(); ++i) {
      ASSIGN_OR_RETURN(found.emplace_back(), AnswerOf(texts[i], starts[i]));
    }
    return found;
  }
  if (!answers.is_array()) {
    return WrongQuestion(absl::StrCat("\"answers\" is a JSON ", answers.type_name(),
                                      ", and should be an object or a list"));
  }
  for (const json& one : answers) {
    if (!one.is_object()) return WrongQuestion("\"answers\" is a list of what are no objects");
    ASSIGN_OR_RETURN(found.emplace_back(),
                     AnswerOf(one.value("text", json()), one.value("answer_start", json())));
  }
  return found;
}

absl::StatusOr<std::string> StringAt(const json& row, const char* key) {
  const auto found = row.find(key);
  if (found == row.end()) {
    return WrongQuestion(absl::StrCat("it has no \"", key, "\"; its keys: ", ShownKeys(row)));
  }
  return TextOf(*found, key, "ask");
}

// `number`: of the question in its file.
absl::StatusOr<Question> QuestionOf(const json& row, const std::string& context, int64_t number,
                                    bool needs_answers) {
  Question found;
  found.context = context;
  ASSIGN_OR_RETURN(found.question, StringAt(row, "question"));
  const json id = row.value("id", json());
  found.id = id.is_string() ? id.get<std::string>()
             : id.is_null() ? absl::StrCat(number)
                            : id.dump();
  const bool impossible = row.value("is_impossible", json()) == json(true);
  const auto answers = row.find("answers");
  const bool said = answers != row.end() && !answers->is_null();
  if (!said && !impossible && needs_answers) {
    return WrongQuestion(absl::StrCat("it has no \"answers\"; its keys: ", ShownKeys(row)));
  }
  if (said && !impossible) {
    ASSIGN_OR_RETURN(found.answers, AnswersOf(*answers));
  }
  return found;
}

// Takes what a .json has, object by object as they end.
class QuestionParser {
 public:
  QuestionParser(bool needs_answers, const Take& take)
      : needs_answers_(needs_answers), take_(take) {}

  // The parser callback: whether to keep the value that was just parsed.
  bool Keeps(int depth, json::parse_event_t event, json& value) {
    if (!status_.ok() || depth > kMostDepth) return false;
    if (event != json::parse_event_t::object_end || !value.contains("context")) return true;
    status_ = TakeObject(value);
    return false;
  }

  const absl::Status& status() const { return status_; }
  int64_t count() const { return count_; }

 private:
  // A paragraph, or a row.
  absl::Status TakeObject(const json& value) {
    RETURN_IF_ERROR(StopSignal::Check());
    const auto take = [&](const json& row, const std::string& context) -> absl::Status {
      const std::string place = absl::StrCat("question ", count_ + 1);
      auto question = QuestionOf(row, context, count_, needs_answers_);
      if (!question.ok()) return Annotate(question.status(), place);
      ++count_;
      return Annotate(take_(*question), place);
    };
    ASSIGN_OR_RETURN(const std::string context, StringAt(value, "context"));
    const auto questions = value.find("qas");
    if (questions == value.end()) return take(value, context);
    if (!questions->is_array()) return WrongQuestion("\"qas\" is no list");
    for (const json& row : *questions) {
      if (!row.is_object()) return WrongQuestion("\"qas\" is a list of what are no objects");
      RETURN_IF_ERROR(take(row, context));
    }
    return absl::OkStatus();
  }

  const bool needs_answers_;
  const Take& take_;
  absl::Status status_;
  int64_t count_ = 0;
};

absl::StatusOr<int64_t> ReadJsonFile(const std::string& path, bool needs_answers,
                                     const Take& take) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError("it cannot be read");
  QuestionParser parser(needs_answers, take);
  const json whole = json::parse(
      file,
      [&](int depth, json::parse_event_t event, json& value) {
        return parser.Keeps(depth, event, value);
      },
      /*allow_exceptions=*/false);
  RETURN_IF_ERROR(parser.status());
  // A document that is a question itself has been taken, and nothing is left of it.
  if (whole.is_discarded() && parser.count() == 0) return WrongQuestion("it is no JSON");
  if (whole.is_discarded() && !file.eof()) return WrongQuestion("its end is no JSON");
  return parser.count();
}

absl::StatusOr<int64_t> ReadRowFile(const std::string& path, bool needs_answers, const Take& take) {
  int64_t count = 0;
  const auto keeps = [](absl::string_view key) {
    return key == "question" || key == "context" || key == "answers" || key == "id" ||
           key == "is_impossible";
  };
  RETURN_IF_ERROR(
      ReadRows(path, kExample, keeps, [&](const json& row, int64_t line) -> absl::Status {
        RETURN_IF_ERROR(StopSignal::Check());
        ASSIGN_OR_RETURN(const std::string context, StringAt(row, "context"));
        ASSIGN_OR_RETURN(const Question question, QuestionOf(row, context, count, needs_answers));
        ++count;
        return take(question);
      }));
  return count;
}

}  // namespace

bool IsQuestionFile(const std::string& path) {
  return absl::EndsWith(path, ".jsonl") || absl::EndsWith(path, ".json");
}

absl::Status ReadQuestions(const std::string& path, bool needs_answers, const Take& take) {
  if (!IsQuestionFile(path)) {
    return WrongQuestion(absl::StrCat(path, ": questions are in .jsonl, a row like ", kExample,
                                      ", or in .json as SQuAD has them"));
  }
  if (absl::EndsWith(path, ".jsonl")) return ReadRowFile(path, needs_answers, take).status();
  const auto count = ReadJsonFile(path, needs_answers, take);
  RETURN_IF_ERROR(Annotate(count.status(), path));
  if (*count > 0) return absl::OkStatus();
  return WrongQuestion(absl::StrCat(path, ": there are no questions in it"));
}

}  // namespace spillway
