#include "engine/config/train_flag_table.h"

#include "absl/strings/str_cat.h"
#include "engine/numeric/optimizer_spec.h"
#include "engine/options/rank_options.h"

namespace spillway {
namespace {

// Bounds of a number.
constexpr double kNoLimit = 1e30;
constexpr TrainFlag::Bounds From(double low, double high = kNoLimit, bool high_included = true) {
  return {low, high, high_included};
}
constexpr TrainFlag::Bounds kAny;

// The tasks that some settings are for.
using Task = ModelTask;
constexpr auto kSpeech = {Task::kTranscribe};
constexpr auto kClassify = {Task::kClassify};
constexpr auto kTextKeys = {Task::kClassify, Task::kTranscribe};
constexpr auto kMasked = {Task::kMaskedLm};
constexpr auto kQuestions = {Task::kQuestionAnswering};
constexpr auto kPictures = {Task::kClassifyImage};
constexpr auto kSources = {Task::kSeq2Seq};
constexpr auto kPairs = {Task::kSeq2Seq, Task::kTranscribe};
constexpr auto kContinued = {Task::kCausalLm, Task::kSeq2Seq};
constexpr auto kOneStack = {Task::kCausalLm, Task::kClassify, Task::kMaskedLm,
                            Task::kQuestionAnswering};
constexpr auto kTokens = {Task::kCausalLm, Task::kSeq2Seq, Task::kTranscribe, Task::kMaskedLm};
constexpr auto kTexts = {Task::kCausalLm, Task::kSeq2Seq,  Task::kTranscribe,
                         Task::kClassify, Task::kMaskedLm, Task::kQuestionAnswering};

}  // namespace

const std::vector<TrainFlagGroup>& TrainFlagGroups() {
  using F = TrainFlags;
  constexpr auto kOther = TrainFlag::Rank::kOther;
  constexpr auto kUsual = TrainFlag::Rank::kUsual;
  constexpr auto kRequired = TrainFlag::Rank::kRequired;
  static const auto& groups = *new std::vector<TrainFlagGroup>{
      {"Model",
       {
           {"--model", "DIR", &F::model,
            "Hugging Face model directory (config.json, safetensors, tokenizer), or ORG/NAME "
            "in the hub's cache",
            "", kAny, kRequired},
           {"--download", "", &F::download,
            "fetch an ORG/NAME that is not in the hub's cache: runs `hf download`"},
           {"--tokenizer", "model|chars|bytes|DIR", &F::tokenizer,
            "how text becomes tokens: the model's tokenizer, characters, bytes, or the "
            "tokenizer in DIR",
            "model, where the directory has one", kAny, kUsual, kTexts},
           {"--eos-token", "TOKEN", &F::eos_token,
            "the tokenizer's token that ends a text, as <|im_end|>", "its eos_token"},
           {"--task",
            "auto|causal-lm|seq2seq|transcribe|translate|classify|question-answering|masked-lm|"
            "classify-image",
            &F::task,
            "what the model is for, where its config.json leaves it open; translate: transcribe "
            "into English",
            "auto"},
           {"--ignore-mismatched-sizes", "[true|false]", &F::ignore_mismatched_sizes,
            "begin anew what the model's files have in another size, as a head for other labels, "
            "which are then the data's",
            "false"},
       }},
      {"Data",
       {
           {"--data", "FILE...", &F::data,
            "training data: .txt, .jsonl, .csv, .tsv, or tokens in .bin or .npy; several files "
            "follow one another (docs/DATA.md says what each kind of model reads)",
            "", kAny, kRequired},
           {"--seq-len", "N", &F::seq_len, "tokens in a sample, at most",
            "the model's positions, at most 1024", From(1), kUsual, kOneStack},
           {"--samples", "auto|windows|padded|packed", &F::samples,
            "what a sample is: a window of the sequence of all tokens, or one line of a "
            ".jsonl, padded or packed together with others; auto: padded for pairs and "
            "conversations, else windows",
            "auto", kAny, kOther, kTexts},
           {"--pad-to-max-length", "[true|false]", &F::pad_to_max_length,
            "pad samples to --seq-len instead of the longest of their micro-batch", "false", kAny,
            kOther, kTexts},
           {"--chat-date", "YYYY-MM-DD", &F::chat_date,
            "the day that a chat template writes, where it writes one", "that of the run's start"},
           {"--order", "shuffle|sequential", &F::order, "the order of samples", "shuffle"},
           {"--seed", "N", &F::seed, "of the order of samples, of dropout and of new weights",
            "42"},
       }},
      {"Training",
       {
           {"--output", "DIR", &F::output,
            "where the run writes its metrics, report, commits and model", "", kAny, kRequired},
           {"--config", "FILE", &F::config,
            "a recipe in YAML with these names, DeepSpeed's JSON, or an earlier run's "
            "config.resolved.json; flags win over it"},
           {"--micro-batch", "N", &F::micro_batch, "samples computed at once", "1", From(1),
            kUsual},
           {"--accumulate", "N", &F::accumulate, "micro-batches in a step", "1", From(1), kUsual},
           {"--steps", "N", &F::steps, "steps of the whole run, also on resume", "", From(1),
            kUsual},
           {"--epochs", "NUMBER", &F::epochs, "passes over the data, in place of --steps", "1",
            From(0, 1e6), kUsual},
           {"--dtype", "bf16|fp16|fp32", &F::dtype,
            "precision of computing; master weights are fp32", "bf16", kAny, kUsual},
           {"--compute", "auto|fp32|bf16|fp16|fp8", &F::compute,
            "precision of matrix products; auto: --dtype where the processor has instructions for "
            "it, else fp32; fp8: the layers' products in 8 bits, for GPUs that have it",
            "auto"},
           {"--device", "auto|cpu|cuda", &F::device,
            "where to compute; auto: on a GPU where there is one", "auto"},
           {"--threads", "N", &F::threads, "compute threads; the same number on resume",
            "the cores", From(1, 4096)},
       }},
      {"Optimizer",
       {
           {"--optimizer", "adamw|adam|lion|lamb|adafactor|sgd", &F::optimizer,
            "Hugging Face Trainer's names of --optim are accepted, too", "adamw"},
           {"--lr", "NUMBER", &F::lr, "learning rate", "5e-5", From(0), kUsual},
           {"--schedule",
            "constant|linear|cosine|cosine_with_restarts|polynomial|inverse_sqrt|cosine_with_min_"
            "lr|cosine_warmup_with_min_lr|warmup_stable_decay|reduce_lr_on_plateau|greedy",
            &F::schedule, "how the learning rate goes on after the warm-up", "constant"},
           {"--schedule-args", "JSON", &F::schedule_args,
            "its parameters, by the names that transformers has for them, as {\"min_lr_rate\": "
            "0.1}"},
           {"--warmup", "N", &F::warmup,
            "steps in which the learning rate rises to --lr; below 1: a fraction of the run's "
            "steps",
            "0", From(0)},
           {"--weight-decay", "NUMBER", &F::weight_decay, "", "0.01", From(0, kMostWeightDecay)},
           {"--decay", "all|matrices|trainer", &F::decay,
            "parameters that decay; matrices: not those of one dimension; trainer: not biases and "
            "norms, as Hugging Face's Trainer has it and --weight_decay means",
            "all"},
           {"--clip", "NUMBER", &F::clip, "largest global gradient norm; 0: no clipping", "1.0",
            From(0)},
           {"--label-smoothing", "NUMBER", &F::label_smoothing,
            "fraction of each label that is spread over all tokens", "0", From(0, 1), kOther,
            kTokens},
           {"--betas", "NUMBER,NUMBER", &F::betas, "", "0.9,0.999; lion: 0.9,0.99",
            From(0, 1, false)},
           {"--eps", "NUMBER", &F::eps, "", "1e-8; adafactor: 1e-30", From(0)},
           {"--moments", "fp32|bf16|8bit|fp8", &F::moments,
            "how the optimizer's moments are kept; 8bit: a quarter of the bytes; fp8: E4M3 and "
            "fp16",
            "fp32"},
           {"--master", "exact|24bit|none", &F::master,
            "master weights: exact (fp32), 24bit (three quarters of the bytes, stochastic "
            "rounding), or none: only the bf16 weights",
            "exact"},
           {"--momentum", "NUMBER", &F::momentum, "sgd: momentum", "0", From(0)},
           {"--trust-ratio", "NUMBER,NUMBER", &F::trust_ratio,
            "lamb: smallest and largest trust ratio", "0.01,10", From(0, kNoLimit, false)},
           {"--decay-rate", "NUMBER", &F::decay_rate,
            "adafactor: second moments keep 1 - step^-NUMBER", "0.8", From(0, 1)},
           {"--clip-threshold", "NUMBER", &F::clip_threshold,
            "adafactor: largest root mean square of a tensor's update", "1.0", From(0)},
           {"--scale-parameter", "[true|false]", &F::scale_parameter,
            "adafactor: --lr is relative to the root mean square of each tensor", "false"},
       }},
      {"LoRA and frozen parts",
       {
           {"--lora-r", "N", &F::lora_r,
            "train LoRA adapters of this rank; the model's own weights stay as they are", "",
            From(1, 1 << 16)},
           {"--lora-alpha", "NUMBER", &F::lora_alpha,
            "adapters are scaled by this number over the rank", "8", From(1e-6, 1e9)},
           {"--lora-dropout", "NUMBER", &F::lora_dropout, "dropout on the adapters' input", "0",
            From(0, 1, false)},
           {"--lora-targets", "LIST", &F::lora_targets,
            "layers that get an adapter, by the ends of their names, or all-linear",
            "PEFT's default for the family"},
           {"--lora-bias", "none|all|lora_only", &F::lora_bias, "biases that are trained as well",
            "none"},
           {"--use-rslora", "[true|false]", &F::use_rslora,
            "scale by alpha over the square root of the rank", "false"},
           {"--modules-to-save", "LIST", &F::modules_to_save,
            "modules that are trained whole beside the adapters"},
           {"--layers-to-transform", "LIST", &F::layers_to_transform,
            "numbers of the layers that get adapters", "all", From(0, 1 << 20)},
           {"--peft-config", "FILE", &F::peft_config,
            "all of these from an adapter_config.json, or the directory that holds one"},
           {"--adapter", "DIR", &F::adapter,
            "continue training this adapter, a directory as PEFT writes it"},
           {"--base-dtype", "auto|bf16|fp16|fp32|int8|nf4", &F::base_dtype,
            "how the matrices of frozen layers are kept: as they are, or quantised as bitsandbytes "
            "does it, int8 or nf4",
            "auto: as they are"},
           {"--freeze", "REGEX", &F::freeze, "do not train parameters whose name matches"},
           {"--train-only", "REGEX", &F::train_only, "train only parameters whose name matches"},
       }},
      {"Memory and disk",
       {
           {"--swap", "PATH[,PATH...]", &F::swap,
            "directories for the state that memory has no room for: on your fastest disks, one "
            "a disk",
            "", kAny, kUsual},
           {"--device-memory", "SIZE", &F::device_memory,
            "hard limit of what computing uses (on a CPU RAM, too), as 1GiB", "what is free", kAny,
            kUsual},
           {"--host-memory", "SIZE", &F::host_memory, "hard limit of all other memory, as 3GiB",
            "what is free", kAny, kUsual},
           {"--offload", "auto|none|cpu|nvme", &F::offload,
            "where weights and optimizer state are kept; none: in device memory; cpu: in host "
            "memory; nvme: on --swap; auto: as the budgets need it",
            "auto"},
           {"--offload-param", "auto|none|cpu|nvme", &F::offload_param,
            "the same for the weights alone"},
           {"--offload-optimizer", "auto|none|cpu|nvme", &F::offload_optimizer,
            "the same for the optimizer state alone"},
           {"--offload-activations", "auto|none|cpu|nvme", &F::offload_activations,
            "where layers' inputs wait for the backward pass; auto: elsewhere only what device "
            "memory has no room for",
            "auto"},
           {"--recompute", "auto|all", &F::recompute,
            "what the backward pass computes again; auto: only what memory has no room to keep",
            "auto"},
           {"--update", "auto|immediate|deferred", &F::update,
            "when the optimizer updates a layer: in the backward pass, or in the next forward pass",
            "auto"},
           {"--update-device", "auto|cpu|gpu", &F::update_device,
            "with a GPU: who updates state that is not kept there", "auto"},
           {"--io-engine", "auto|io_uring|threads", &F::io_engine, "how disks are read", "auto"},
           {"--max-bytes-written", "SIZE", &F::max_bytes_written,
            "stop before the run has written more than this to its drives, as 50TB; --resume "
            "continues"},
           {"--drive-writes-per-day", "SIZE", &F::drive_writes_per_day,
            "what a drive may be written each day, for the forecast of its wear",
            "3.84TB: 7 PB in 5 years"},
       }},
      {"Commits and resume",
       {
           {"--resume", "", &F::resume, "continue from the last commit in --output", "", kAny,
            kUsual},
           {"--commit-every", "auto|N|TIME", &F::commit_every,
            "how often to commit, beside the end and signals: auto (every 15 minutes, or less "
            "often where that would take more than 1% of the time), steps, or a time as 5m; 0: "
            "never",
            "auto", From(0)},
           {"--allow-change", "LIST", &F::allow_change,
            "what --resume may change from the last commit on: lr, schedule, clip, micro-batch, "
            "threads, data"},
           {"--no-commit", "", &F::no_commit,
            "keep one copy of the state: less disk, but nothing to resume from"},
           {"--overwrite", "", &F::overwrite,
            "remove an earlier run in --output: its commit, swap files, results and model"},
           {"--persist", "DIR", &F::persist, "copy each commit to this directory, too"},
           {"--keep", "N", &F::keep, "commits kept in --persist", "1", From(1, 1 << 20)},
       }},
      {"Evaluation",
       {
           {"--eval-data", "FILE...", &F::eval_data, "held-out data to evaluate on", "", kAny,
            kUsual},
           {"--eval-every", "N|epoch", &F::eval_every,
            "steps between evaluations, or epoch: once in each", "only at the end", From(0)},
           {"--metric",
            "loss|accuracy|f1|matthews|pearson|spearman|precision|recall|perplexity|bleu|rouge1|"
            "rouge2|rougeL|wer|cer|exact_match",
            &F::metric, "the number that says which evaluation is the best", "loss"},
           {"--predict-with-generate", "[true|false]", &F::predict_with_generate,
            "models with an encoder: evaluations generate texts, and measure them", "false", kAny,
            kOther, kPairs},
           {"--num-beams", "N", &F::num_beams, "... with beam search of this width", "1",
            From(1, 1000), kOther, kPairs},
           {"--length-penalty", "NUMBER", &F::length_penalty,
            "... with beams: above 0 prefers long texts", "1", From(-100, 100), kOther, kPairs},
           {"--min-tokens", "N", &F::min_tokens, "... with at least this many tokens", "0", From(0),
            kOther, kPairs},
           {"--no-repeat-ngram", "N", &F::no_repeat_ngram,
            "... without the same N tokens in a row twice; 0: no such rule", "0", From(0), kOther,
            kPairs},
           {"--generation-max-length", "N", &F::generation_max_length,
            "... with at most this many tokens, the start token included", "--max-target-length",
            From(2), kOther, kPairs},
       }},
      {"Several ranks",
       {
           {"--ranks", "N", &F::ranks, "start N ranks on this machine, without a launcher", "",
            From(1, kMostRanks)},
           {"--shard", "none|optimizer|gradients|full|hybrid", &F::shard,
            "what ranks divide among them", "full"},
           {"--shard-group-size", "N", &F::shard_group_size,
            "--shard hybrid: ranks that share one state", "those of a machine",
            From(1, kMostRanks)},
           {"--communication-dtype", "fp32|bf16|fp8", &F::communication_dtype,
            "precision in which gradients are exchanged", "fp32"},
           {"--collective-timeout", "TIME", &F::collective_timeout,
            "how long ranks wait for one another, as 90s", "10m"},
           {"--hostfile", "FILE", &F::hostfile,
            "machines as DeepSpeed lists them (HOST slots=N): prints the mpirun command that "
            "starts the ranks"},
           {"--launch", "", &F::launch, "run that command"},
       }},
      {"Classifying texts and masked tokens",
       {
           {"--text-keys", "NAME[,NAME]", &F::text_keys, "where rows have the texts to classify",
            "the usual names: text, sentence, sentence1 and sentence2, ...", kAny, kOther,
            kTextKeys},
           {"--label-key", "NAME", &F::label_key, "where rows have their label", "label", kAny,
            kOther, kClassify},
           {"--mask-probability", "NUMBER", &F::mask_probability,
            "fraction of the tokens that a masked language model has to find", "0.15", From(0, 1),
            kOther, kMasked},
       }},
      {"Answers to questions",
       {
           {"--doc-stride", "N", &F::doc_stride,
            "tokens of a text that a window of it has in common with the next one", "128", From(0),
            kOther, kQuestions},
           {"--max-answer-length", "N", &F::max_answer_length,
            "tokens in an answer to held-out questions, at most", "30", From(1), kOther,
            kQuestions},
           {"--null-score-threshold", "NUMBER", &F::null_score_threshold,
            "held-out questions may have no answer, which is given where its score is above that "
            "of the best answer by more",
            "0 where such questions are among them", From(-1e9, 1e9), kOther, kQuestions},
       }},
      {"Pairs of texts, and speech",
       {
           {"--source-key", "NAME", &F::source_key,
            "where rows have the source: a text (prompt) or a sound's file (audio); "
            "translation.en is en inside translation",
            "", kAny, kOther, kPairs},
           {"--target-key", "NAME", &F::target_key, "where rows have the target text",
            "completion; of sounds: text", kAny, kOther, kPairs},
           {"--source-prefix", "TEXT", &F::source_prefix,
            "put before each source, as \"summarize: \"", "", kAny, kOther, kSources},
           {"--max-source-length", "N", &F::max_source_length,
            "tokens in a source, at most; the end of a longer one is cut", "1024", From(1), kOther,
            kSources},
           {"--max-target-length", "N", &F::max_target_length, "tokens in a target, at most",
            "128; of sounds: the model's", From(1), kOther, kPairs},
           {"--language", "NAME", &F::language, "language spoken in the sounds, as de or german",
            "", kAny, kOther, kSpeech},
           {"--transcribe-task", "transcribe|translate", &F::transcribe_task,
            "the text is in the language spoken, or in English", "transcribe", kAny, kOther,
            kSpeech},
       }},
      {"Pictures",
       {
           {"--augment", "auto|none|crop-flip", &F::augment,
            "random changes of training pictures; auto: crop-flip for CIFAR's, none for others",
            "auto", kAny, kOther, kPictures},
           {"--picture-size", "N", &F::picture_size,
            "side of the square of pixels that the model reads",
            "preprocessor_config.json's; CIFAR's 32", From(1, 4096), kOther, kPictures},
       }},
      {"Output",
       {
           {"--explain", "", &F::explain, "print the whole plan, with a sentence for each line"},
           {"--no-export", "", &F::no_export, "do not write OUTPUT/model at the end"},
           {"--export-dtype", "fp32|bf16|fp16", &F::export_dtype,
            "precision of the exported weights", "the input model's"},
           {"--sample-prompts", "FILE", &F::sample_prompts,
            "prompts that every evaluation continues, for the report: .jsonl, or a text with "
            "one a line",
            "", kAny, kOther, kContinued},
           {"--sample-tokens", "N", &F::sample_tokens, "tokens of such a continuation, at most",
            "32", From(1, 4096), kOther, kContinued},
           {"--tensorboard", "DIR", &F::tensorboard, "write TensorBoard's event files there"},
           {"--trace", "FILE", &F::trace,
            "write a timeline of some steps; open it with ui.perfetto.dev"},
           {"--trace-steps", "N|FIRST-LAST", &F::trace_steps,
            "steps in it: the first N of this process, or those numbers", "10", From(1)},
       }},
  };
  return groups;
}

std::string TrainFlag::FullHelp() const {
  if (*fallback == '\0') return help;
  return absl::StrCat(help, *help == '\0' ? "" : " ", "(", fallback, ")");
}

const TrainFlag* FindTrainFlag(absl::string_view name) {
  for (const TrainFlagGroup& group : TrainFlagGroups()) {
    for (const TrainFlag& flag : group.flags) {
      if (name == flag.name) return &flag;
    }
  }
  return nullptr;
}

}  // namespace spillway
