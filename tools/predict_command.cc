// spillway predict: its flags; tools/compute/predict.cc answers the file.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/flag_value.h"
#include "io/base/status.h"
#include "io/file_system.h"
#include "tools/commands.h"
#include "tools/compute_library.h"
#include "tools/text_flags.h"

namespace spillway {
namespace {

constexpr int kMostRows = 4096;
constexpr int64_t kMostLength = int64_t{1} << 31;

struct PredictFlags {
  PredictRequest request;
  std::optional<std::string> text_keys, batch, max_length;
  std::optional<std::string> doc_stride, max_answer_length, null_score_threshold;
  TextFlags text;
};

// Refuses an output that would overwrite its own input.
absl::Status RefuseOwnData(const PredictRequest& request) {
  for (const std::string& file : request.files) {
    if (file != request.out && !SameFile(file, request.out)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--out ", request.out, " is --data ", file, ": give it another name"));
  }
  return absl::OkStatus();
}

absl::StatusOr<PredictRequest> ReadPredictRequest(const PredictFlags& flags) {
  PredictRequest request = flags.request;
  if (flags.batch) {
    ASSIGN_OR_RETURN(const int64_t batch, IntegerFlag("--batch", *flags.batch, 1, kMostRows));
    request.batch = static_cast<int>(batch);
  }
  if (flags.max_length) {
    ASSIGN_OR_RETURN(request.max_length,
                     IntegerFlag("--seq-len", *flags.max_length, 1, kMostLength));
  }
  if (flags.doc_stride) {
    ASSIGN_OR_RETURN(request.questions.doc_stride,
                     IntegerFlag("--doc-stride", *flags.doc_stride, 0, kMostLength));
  }
  if (flags.max_answer_length) {
    ASSIGN_OR_RETURN(request.questions.most_answer_tokens,
                     IntegerFlag("--max-answer-length", *flags.max_answer_length, 1, kMostLength));
  }
  if (flags.null_score_threshold) {
    ASSIGN_OR_RETURN(request.questions.null_threshold,
                     NumberFlag("--null-score-threshold", *flags.null_score_threshold, -1e9, 1e9));
  }
  if (!absl::EndsWith(request.out, ".jsonl")) {
    return absl::InvalidArgumentError(absl::StrCat("--out ", request.out, " is not a .jsonl file"));
  }
  if (flags.text_keys) {
    ASSIGN_OR_RETURN(request.text_keys.texts, ParseTextKeys("--text-keys", *flags.text_keys));
  }
  request.data = request.files.front();
  RETURN_IF_ERROR(RefuseOwnData(request));
  RETURN_IF_ERROR(ReadTextFlags(flags.text, request));
  return request;
}

CommandOutcome Predict(const PredictFlags& flags) {
  const absl::StatusOr<PredictRequest> request = ReadPredictRequest(flags);
  if (!request.ok()) return {request.status()};
  const absl::StatusOr<ComputeLibrary*> compute = OpenComputeLibrary();
  if (!compute.ok()) return {compute.status()};
  return (*compute)->Predict(*request);
}

}  // namespace

void AddPredictCommand(CLI::App& app, CommandFunction* run) {
  CLI::App* command =
      app.add_subcommand("predict", "Answer a file of prompts, label texts, or fill masks");
  auto flags = std::make_shared<PredictFlags>();
  PredictRequest& request = flags->request;
  command
      ->add_option(
          "--data", request.files,
          "prompts: .txt, one a line; .jsonl with \"prompt\" or \"messages\"; texts to be "
          "classified or with masks in them: .jsonl, .csv, .tsv; pictures: .jpg, .png, folders of "
          "them, CIFAR's .bin; sounds: .jsonl with \"audio\"")
      ->type_name("FILE...")
      ->required();
  command->add_option("--out", request.out, "FILE.jsonl: a row for each prompt, in their order")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--prompt-key,--source-key", request.prompt_key,
                   "where rows have their prompt: text (prompt) or a sound's file (audio)")
      ->type_name("NAME");
  command
      ->add_option(
          "--target-key", request.target_key,
          "where rows have the right answer, which answers are measured against (completion)")
      ->type_name("NAME");
  command
      ->add_option("--text-keys,--text-key", flags->text_keys,
                   "encoders: where rows have the texts, or words, to read (the usual names)")
      ->type_name("NAME[,NAME]");
  command
      ->add_option("--label-key", request.text_keys.label,
                   "encoders: where rows have their label, which is passed over")
      ->type_name("NAME");
  command
      ->add_option("--seq-len,--max-length,--max_seq_length", flags->max_length,
                   "encoders: tokens in a text, at most; the end of a longer one is cut (the "
                   "model's positions)")
      ->type_name("N");
  command
      ->add_option("--doc-stride,--doc_stride", flags->doc_stride,
                   "questions: tokens of a text that a window has in common with the next (128)")
      ->type_name("N");
  command
      ->add_option("--max-answer-length,--max_answer_length", flags->max_answer_length,
                   "questions: tokens in an answer, at most (30)")
      ->type_name("N");
  command
      ->add_option("--null-score-threshold,--null_score_diff_threshold",
                   flags->null_score_threshold,
                   "questions may have no answer, which is given where its score is above that of "
                   "the best answer by more (every question has one)")
      ->type_name("NUMBER");
  command
      ->add_option("--batch,--per_device_eval_batch_size", flags->batch,
                   "texts at a time: weights are read once for all of them (8)")
      ->type_name("N");
  command->add_flag("--chat", request.chat,
                    "a prompt is a user's message, put into the model's chat template");
  AddTextFlags(*command, "randomness of the choice; 0: the likeliest token (0)", request,
               flags->text);
  command->add_flag("--json", request.as_json, "one JSON object on stdout, of the whole run");
  command->footer(
      "An answer does not depend on --batch, nor on where weights and caches lie.\n"
      "Answers are kept in FILE.jsonl.partial until all are there: the same command\n"
      "goes on where it stopped.\n"
      "Example:\n  spillway predict --model run/model --data prompts.txt --out answers.jsonl");
  command->callback([run, flags] { *run = [flags] { return Predict(*flags); }; });
}

}  // namespace spillway
