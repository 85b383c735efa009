#include "engine/config/other_flags.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "engine/base/nearest.h"
#include "engine/base/shell_line.h"
#include "engine/config/deepspeed_values.h"
#include "engine/config/train_flag_table.h"
#include "io/base/check.h"

namespace spillway {
namespace {

using F = TrainFlags;
using Kind = OtherFlag::Kind;
using Values = OtherFlag::Values;
constexpr Kind kAlias = Kind::kAlias, kSetting = Kind::kSetting, kPassed = Kind::kNoEffect,
               kHint = Kind::kHint, kWrong = Kind::kRefused;
constexpr Values kSwitch = Values::kSwitch, kOne = Values::kOne, kSeveral = Values::kSeveral;

constexpr char kEveryStep[] = "OUTPUT/metrics.jsonl has every step";
constexpr char kReadAhead[] = "data is read ahead without workers";
constexpr char kPlanRecomputes[] = "the plan decides what is recomputed";
constexpr char kPlanMoves[] = "the plan decides where state is kept and what moves";
constexpr char kNoHub[] = "nothing is sent to a hub";
constexpr char kNoTracker[] = "OUTPUT/metrics.jsonl and report.html have it";
constexpr char kMeasures[] = "evaluation measures what the task has";
constexpr char kOwnKernels[] = "the engine computes by its own kernels";
constexpr char kEvaluationDtype[] = "evaluation computes in --dtype";
constexpr char kLocalFiles[] = "the model is read from its directory, where it lies";
constexpr char kNoCache[] = "encoded data is not cached";
constexpr char kFewerRows[] = "make a smaller file, as with head -n N FILE";
constexpr char kHeldOut[] = "give held-out rows in a file of their own: --eval-data FILE";
constexpr char kStops[] = "a run does not stop early: give --steps, and see eval.jsonl";
constexpr char kPreference[] =
    "preference and reinforcement learning are not there: train on the preferred answers, as "
    "prompt and completion";
constexpr char kAdapterKind[] =
    "of PEFT's adapters there is LoRA (--lora-r N, --use-rslora), and nothing else";
constexpr char kRanks[] = "use --ranks N for N ranks on this machine, or a launcher";
constexpr char kShard[] = "use --shard full (hybrid, gradients, none), and --offload";
constexpr char kBatch[] =
    "use --micro-batch N (samples computed at once) and --accumulate N (micro-batches in a step)";
constexpr char kToFile[] =
    "data comes from files: python3 -c \"from datasets import load_dataset; load_dataset('NAME', "
    "split='train').to_json('train.jsonl')\", then --data train.jsonl";

constexpr OtherFlag kTrainFlags[] = {
    // Trainer and its example scripts: the same thing by another name.
    {"--model_name_or_path", kAlias, kOne, "--model"},
    {"--tokenizer_name", kAlias, kOne, "--tokenizer"},
    {"--tokenizer_name_or_path", kAlias, kOne, "--tokenizer"},
    {"--train_file", kAlias, kSeveral, "--data"},
    {"--train_dir", kAlias, kOne, "--data"},
    {"--validation_file", kAlias, kSeveral, "--eval-data"},
    {"--validation_dir", kAlias, kOne, "--eval-data"},
    {"--text_column_name", kAlias, kOne, "--text-keys"},
    {"--text_column_names", kAlias, kOne, "--text-keys"},
    {"--text_key", kAlias, kOne, "--text-keys"},
    {"--label_column_name", kAlias, kOne, "--label-key"},
    {"--output_dir", kAlias, kOne, "--output"},
    {"--deepspeed", kAlias, kOne, "--config"},
    {"--block_size", kAlias, kOne, "--seq-len"},
    {"--max_length", kAlias, kOne, "--seq-len"},
    {"--max_seq_length", kAlias, kOne, "--seq-len"},
    {"--seq_length", kAlias, kOne, "--seq-len"},
    {"--mlm_probability", kAlias, kOne, "--mask-probability"},
    {"--null_score_diff_threshold", kAlias, kOne, "--null-score-threshold"},
    {"--audio_column_name", kAlias, kOne, "--source-key"},
    {"--text_column", kAlias, kOne, "--source-key"},
    {"--summary_column", kAlias, kOne, "--target-key"},
    {"--num_train_epochs", kAlias, kOne, "--epochs"},
    {"--per_device_train_batch_size", kAlias, kOne, "--micro-batch"},
    {"--per_gpu_train_batch_size", kAlias, kOne, "--micro-batch"},
    {"--gradient_accumulation_steps", kAlias, kOne, "--accumulate"},
    {"--learning_rate", kAlias, kOne, "--lr"},
    {"--max_grad_norm", kAlias, kOne, "--clip"},
    {"--label_smoothing_factor", kAlias, kOne, "--label-smoothing"},
    {"--warmup_steps", kAlias, kOne, "--warmup"},
    {"--lr_scheduler_kwargs", kAlias, kOne, "--schedule-args"},
    {"--optim", kAlias, kOne, "--optimizer"},
    {"--torch_dtype", kAlias, kOne, "--dtype"},
    {"--save_steps", kAlias, kOne, "--commit-every"},
    {"--eval_steps", kAlias, kOne, "--eval-every"},
    {"--metric_for_best_model", kAlias, kOne, "--metric"},
    {"--generation_num_beams", kAlias, kOne, "--num-beams"},
    {"--ddp_timeout", kAlias, kOne, "--collective-timeout"},
    {"--adafactor", kAlias, kSwitch, "--optimizer adafactor"},
    {"--use_cpu", kAlias, kSwitch, "--device cpu"},
    {"--no_cuda", kAlias, kSwitch, "--device cpu"},
    {"--fp32", kAlias, kSwitch, "--dtype fp32"},
    // TRL, PEFT, LLaMA-Factory, axolotl.
    {"--lora_target_modules", kAlias, kSeveral, "--lora-targets"},
    {"--lora_target", kAlias, kSeveral, "--lora-targets"},
    {"--lora_rank", kAlias, kOne, "--lora-r"},
    {"--lora_modules_to_save", kAlias, kSeveral, "--modules-to-save"},
    {"--additional_target", kAlias, kSeveral, "--modules-to-save"},
    {"--load_in_4bit", kAlias, kSwitch, "--base-dtype nf4"},
    {"--load_in_8bit", kAlias, kSwitch, "--base-dtype int8"},
    {"--base_model", kAlias, kOne, "--model"},
    {"--sequence_len", kAlias, kOne, "--seq-len"},
    {"--cutoff_len", kAlias, kOne, "--seq-len"},
    {"--micro_batch_size", kAlias, kOne, "--micro-batch"},
    {"--num_epochs", kAlias, kOne, "--epochs"},
    {"--peft_use_rslora", kAlias, kSwitch, "--use-rslora true"},
    {"--pad_to_sequence_len", kAlias, kSwitch, "--pad-to-max-length true"},

    // Said in several flags there, or with other values.
    {"--weight_decay", kSetting, kOne,
     "--weight-decay, with --decay trainer: not of biases and norms; where --config has an "
     "optimizer "
     "of all",
     "", &F::trainer_weight_decay},
    {"--lr_scheduler_type", kSetting, kOne,
     "--schedule; constant has no warm-up; a scheduler in --config takes its place", "",
     &F::lr_scheduler_type},
    {"--lr_scheduler", kSetting, kOne, "as --lr_scheduler_type", "", &F::lr_scheduler_type},
    {"--train_sampling_strategy", kSetting, kOne,
     "random, sequential: --order; group_by_length is refused: --packing takes its place", "",
     &F::train_sampling_strategy},
    {"--optim_args", kSetting, kOne, "of sgd --momentum, dampening and nesterov", "",
     &F::optim_args},
    {"--bf16", kSetting, kSwitch, "--dtype bf16; False: fp32", "", &F::bf16},
    {"--fp16", kSetting, kSwitch, "--dtype fp16; False: fp32", "", &F::fp16},
    {"--adam_beta1", kSetting, kOne, "the first of --betas", "", &F::adam_beta1},
    {"--adam_beta2", kSetting, kOne, "the second of --betas", "", &F::adam_beta2},
    {"--adam_epsilon", kSetting, kOne, "--eps, except with Adafactor", "", &F::adam_epsilon},
    {"--max_steps", kSetting, kOne, "--steps; below 1 it says nothing", "", &F::max_steps},
    {"--warmup_ratio", kSetting, kOne, "--warmup, as a fraction of the steps", "",
     &F::warmup_ratio},
    {"--overwrite_output_dir", kSetting, kSwitch, "--overwrite", "", &F::overwrite_output_dir},
    {"--packing", kSetting, kSwitch, "--samples packed; False: padded", "", &F::packing},
    {"--sample_packing", kSetting, kSwitch, "--samples packed; False: padded", "", &F::packing},
    {"--use_peft", kSetting, kSwitch,
     "TRL's LoRA: --lora-r 16 --lora-alpha 32 --lora-dropout 0.05, where these are not given; "
     "False: no LoRA",
     "", &F::use_peft},
    {"--do_eval", kSetting, kSwitch, "needs --eval-data FILE, on which every run is evaluated", "",
     &F::do_eval},
    {"--eval_strategy", kSetting, kOne,
     "steps: --eval-every, by default --logging_steps; epoch: --eval-every epoch; no: only at the "
     "end",
     "", &F::eval_strategy},
    {"--evaluation_strategy", kSetting, kOne, "as --eval_strategy", "", &F::eval_strategy},
    {"--logging_steps", kSetting, kOne, kEveryStep, "", &F::logging_steps},
    {"--save_strategy", kSetting, kOne,
     "no: --commit-every 0; steps, epoch: commits go by --commit-every", "", &F::save_strategy},
    {"--save_total_limit", kSetting, kOne,
     "--keep, where there is --persist; without it there is one commit", "", &F::save_total_limit},
    {"--report_to", kSetting, kSeveral,
     "tensorboard, all: --tensorboard OUTPUT/runs (or --logging_dir); others have no effect", "",
     &F::report_to},
    {"--logging_dir", kSetting, kOne, "the directory of --report_to tensorboard", "",
     &F::logging_dir},
    {"--validation_split_percentage", kSetting, kOne,
     "no effect beside --eval-data; alone it is refused", "", &F::validation_split},
    {"--val_size", kSetting, kOne, "as --validation_split_percentage", "", &F::validation_split},
    {"--val_set_size", kSetting, kOne, "as --validation_split_percentage", "",
     &F::validation_split},
    {"--data_seed", kSetting, kOne, "no effect where it is --seed; another one is refused", "",
     &F::data_seed},
    {"--resume_from_checkpoint", kSetting, kOne,
     "true: --resume; a Trainer's checkpoint is refused", "", &F::resume_from_checkpoint},
    {"--source_lang", kSetting, kOne, "--source-key translation.LANGUAGE", "", &F::source_lang},
    {"--target_lang", kSetting, kOne, "--target-key translation.LANGUAGE", "", &F::target_lang},

    // Flags that change nothing here.
    {"--do_train", kPassed, kSwitch, "train always trains"},
    {"--do_predict", kHint, kSwitch, "spillway predict answers a file"},
    {"--test_file", kHint, kOne, "spillway predict answers it"},
    {"--max_predict_samples", kPassed, kOne, "spillway predict answers a file"},
    {"--logging_strategy", kPassed, kOne, kEveryStep},
    {"--logging_first_step", kPassed, kSwitch, kEveryStep},
    {"--logging_nan_inf_filter", kPassed, kSwitch, kEveryStep},
    {"--log_on_each_node", kPassed, kSwitch, kEveryStep},
    {"--log_level", kPassed, kOne, kEveryStep},
    {"--log_level_replica", kPassed, kOne, kEveryStep},
    {"--disable_tqdm", kPassed, kSwitch, "progress is drawn on a terminal only"},
    {"--include_num_input_tokens_seen", kPassed, kOne, kEveryStep},
    {"--include_tokens_per_second", kPassed, kSwitch, kEveryStep},
    {"--run_name", kPassed, kOne, "--output DIR names the run"},
    {"--project", kPassed, kOne, kNoTracker},
    {"--trackio_space_id", kPassed, kOne, kNoTracker},
    {"--wandb_project", kPassed, kOne, kNoTracker},
    {"--wandb_entity", kPassed, kOne, kNoTracker},
    {"--wandb_name", kPassed, kOne, kNoTracker},
    {"--wandb_watch", kPassed, kOne, kNoTracker},
    {"--wandb_log_model", kPassed, kOne, kNoTracker},
    {"--plot_loss", kPassed, kSwitch, kNoTracker},
    {"--push_to_hub", kHint, kSwitch, "upload OUTPUT/model yourself: hf upload NAME OUTPUT/model"},
    {"--hub_model_id", kPassed, kOne, kNoHub},
    {"--hub_token", kPassed, kOne, kNoHub},
    {"--hub_strategy", kPassed, kOne, kNoHub},
    {"--hub_private_repo", kPassed, kSwitch, kNoHub},
    {"--hub_always_push", kPassed, kSwitch, kNoHub},
    {"--hub_revision", kPassed, kOne, kNoHub},
    {"--cache_dir", kPassed, kOne, kLocalFiles},
    {"--low_cpu_mem_usage", kPassed, kSwitch, kLocalFiles},
    {"--token", kPassed, kOne, kLocalFiles},
    {"--use_auth_token", kPassed, kSwitch, kLocalFiles},
    {"--trust_remote_code", kPassed, kSwitch, "no code of the model's is run"},
    {"--use_fast_tokenizer", kPassed, kSwitch, "tokenizer.json is read"},
    {"--attn_implementation", kPassed, kOne, kOwnKernels},
    {"--use_flash_attn", kPassed, kSwitch, kOwnKernels},
    {"--flash_attention", kPassed, kSwitch, kOwnKernels},
    {"--flash_attn", kPassed, kOne, kOwnKernels},
    {"--use_liger_kernel", kPassed, kSwitch, kOwnKernels},
    {"--torch_compile", kPassed, kSwitch, kOwnKernels},
    {"--torch_compile_backend", kPassed, kOne, kOwnKernels},
    {"--torch_compile_mode", kPassed, kOne, kOwnKernels},
    {"--tf32", kPassed, kSwitch, "--compute says in which precision products are computed"},
    {"--use_cache", kPassed, kSwitch, "training keeps no key-value cache"},
    {"--gradient_checkpointing", kPassed, kSwitch, kPlanRecomputes},
    {"--gradient_checkpointing_kwargs", kPassed, kOne, kPlanRecomputes},
    {"--activation_checkpointing", kPassed, kSwitch, kPlanRecomputes},
    {"--activation_offloading", kPassed, kSwitch, kPlanMoves},
    {"--torch_empty_cache_steps", kPassed, kOne, kPlanMoves},
    {"--bf16_full_eval", kPassed, kSwitch, kEvaluationDtype},
    {"--fp16_full_eval", kPassed, kSwitch, kEvaluationDtype},
    {"--per_device_eval_batch_size", kPassed, kOne, "evaluation takes --micro-batch at once"},
    {"--per_gpu_eval_batch_size", kPassed, kOne, "evaluation takes --micro-batch at once"},
    {"--eval_accumulation_steps", kPassed, kOne, kMeasures},
    {"--eval_on_start", kPassed, kSwitch, "the first evaluation is before step 1"},
    {"--eval_packing", kPassed, kSwitch, "held-out samples are packed as those of --data are"},
    {"--eval_do_concat_batches", kPassed, kSwitch, kMeasures},
    {"--eval_use_gather_object", kPassed, kSwitch, kMeasures},
    {"--batch_eval_metrics", kPassed, kSwitch, kMeasures},
    {"--prediction_loss_only", kPassed, kSwitch, kMeasures},
    {"--include_for_metrics", kPassed, kSeveral, kMeasures},
    {"--include_inputs_for_metrics", kPassed, kSwitch, kMeasures},
    {"--greater_is_better", kPassed, kSwitch, "--metric knows it"},
    {"--label_names", kPassed, kSeveral, "the task knows what the labels are"},
    {"--remove_unused_columns", kPassed, kSwitch, "keys that are not needed are passed over"},
    {"--overwrite_cache", kPassed, kSwitch, kNoCache},
    {"--preprocessing_num_workers", kPassed, kOne, kNoCache},
    {"--dataset_num_proc", kPassed, kOne, kNoCache},
    {"--streaming", kPassed, kSwitch, "only a piece of the data is in memory at a time"},
    {"--dataset_streaming", kPassed, kSwitch, "only a piece of the data is in memory at a time"},
    {"--dataloader_num_workers", kPassed, kOne, kReadAhead},
    {"--dataloader_persistent_workers", kPassed, kSwitch, kReadAhead},
    {"--dataloader_prefetch_factor", kPassed, kOne, kReadAhead},
    {"--dataloader_pin_memory", kPassed, kSwitch, "the plan decides what is pinned"},
    {"--dataloader_drop_last", kPassed, kSwitch, "samples follow each other without an end"},
    {"--length_column_name", kPassed, kOne, "lengths are counted"},
    {"--shuffle_dataset", kPassed, kSwitch, "--order shuffle is the default"},
    {"--pad_to_multiple_of", kPassed, kOne, "padding carries no loss, whatever its length"},
    {"--padding_free", kPassed, kSwitch, "--packing leaves no padding between samples"},
    {"--skip_memory_metrics", kPassed, kSwitch, "memory is always measured"},
    {"--full_determinism", kPassed, kSwitch, "runs are deterministic"},
    {"--auto_find_batch_size", kHint, kSwitch,
     "a --micro-batch that does not fit ends with exit 3"},
    {"--save_on_each_node", kPassed, kSwitch, "each rank keeps its own part"},
    {"--save_only_model", kHint, kSwitch, "--no-commit keeps nothing to resume from"},
    {"--enable_jit_checkpoint", kPassed, kSwitch, "a signal commits before the run ends"},
    {"--restore_callback_states_from_checkpoint", kPassed, kSwitch, "--resume continues with all"},
    {"--local_rank", kPassed, kOne, "the launcher's environment says it"},
    {"--ddp_backend", kPassed, kOne, "the device decides how ranks communicate"},
    {"--ddp_find_unused_parameters", kPassed, kSwitch, "the engine knows which are used"},
    {"--ddp_bucket_cap_mb", kPassed, kOne, kPlanMoves},
    {"--ddp_broadcast_buffers", kPassed, kSwitch, "buffers are the same on all ranks"},
    {"--ddp_static_graph", kPassed, kSwitch, kPlanMoves},
    {"--ignore_bias_buffers", kPassed, kSwitch, "the engine knows which are used"},
    {"--bnb_4bit_quant_storage", kPassed, kOne, "4-bit weights are kept as bytes"},
    {"--use_bnb_nested_quant", kPassed, kSwitch, "nf4's scales are quantised, too"},
    {"--strict", kPassed, kSwitch, "unknown flags are errors"},

    // Flags that would change the result and are not supported.
    {"--save_safetensors", kWrong, kSwitch, "models are written as safetensors: leave it out",
     "true"},
    {"--load_best_model_at_end", kWrong, kSwitch,
     "the last step is exported, not the best; eval.jsonl and the report say which was the best: "
     "leave it out"},
    {"--early_stopping_patience", kWrong, kOne, kStops},
    {"--early_stopping_threshold", kWrong, kOne, kStops},
    {"--early_stopping", kWrong, kSwitch, kStops},
    {"--dataset_name", kWrong, kOne, kToFile, "none"},
    {"--dataset", kWrong, kOne, kToFile},
    {"--datasets", kWrong, kSeveral, "use --data FILE..."},
    {"--dataset_config_name", kWrong, kOne,
     "the second argument of load_dataset, which --dataset_name tells to call", "none"},
    {"--dataset_config", kWrong, kOne,
     "the second argument of load_dataset, which --dataset_name tells to call", "none"},
    {"--dataset_train_split", kWrong, kOne, "--data FILE... has the rows to train on", "train"},
    {"--dataset_test_split", kWrong, kOne, kHeldOut, "test"},
    {"--dataset_text_field", kWrong, kOne, "rows have it as \"text\": rename the key",
     "text|messages|prompt"},
    {"--dataset_kwargs", kWrong, kOne, "leave it out", "none|{}"},
    {"--task_name", kWrong, kOne,
     "--data FILE... has the rows, and --task classify says what they are for", "none"},
    {"--max_train_samples", kWrong, kOne, kFewerRows, "none"},
    {"--max_eval_samples", kWrong, kOne, kFewerRows, "none"},
    {"--max_samples", kWrong, kOne, kFewerRows, "none"},
    {"--keep_linebreaks", kWrong, kSwitch, "text is read with its line breaks", "true"},
    {"--line_by_line", kWrong, kSwitch, "use --samples padded, with one text a line of a .jsonl"},
    {"--group_by_length", kWrong, kSwitch, "--packing fills rows with samples of any length"},
    {"--ignore_data_skip", kWrong, kSwitch, "--resume goes on where the data stopped"},
    {"--train_on_inputs", kWrong, kSwitch,
     "loss is counted on completions; rows of \"text\" are learnt whole"},
    {"--train_on_prompt", kWrong, kSwitch,
     "loss is counted on completions; rows of \"text\" are learnt whole"},
    {"--completion_only_loss", kWrong, kSwitch,
     "loss is counted on completions; rows of \"text\" are learnt whole", "true"},
    {"--assistant_only_loss", kWrong, kSwitch,
     "loss is counted on the assistant's turns; rows of \"text\" are learnt whole", "true"},
    {"--chat_template_path", kWrong, kOne, "copy it to MODEL/chat_template.jinja", "none"},
    {"--chat_template", kWrong, kOne, "put it into MODEL/chat_template.jinja", "tokenizer_default"},
    {"--template", kWrong, kOne, "put the template into MODEL/chat_template.jinja", "default"},
    {"--pad_token", kWrong, kOne, "padding carries no loss: leave it out", "none"},
    {"--truncation_mode", kWrong, kOne, "samples that are too long lose their end", "keep_start"},
    {"--packing_strategy", kWrong, kOne,
     "samples are packed whole, where they fit best; --samples windows cuts them", "bfd"},
    {"--loss_type", kWrong, kOne, "the loss is the cross-entropy of the labels", "nll"},
    {"--neftune_noise_alpha", kWrong, kOne, "there is no noise on embeddings: leave it out",
     "none|0"},
    {"--average_tokens_across_devices", kWrong, kSwitch,
     "the loss is the mean over the labels of all ranks", "true"},
    {"--ignore_pad_token_for_loss", kWrong, kSwitch, "padding carries no loss", "true"},
    {"--router_aux_loss_coef", kWrong, kOne, "leave it out", "none|0"},
    {"--forced_bos_token", kWrong, kOne, "set forced_bos_token_id in generation_config.json",
     "none"},
    {"--val_max_target_length", kWrong, kOne, "use --generation-max-length", "none"},
    {"--min_length", kWrong, kOne, "use --min-tokens, which counts what is generated"},
    {"--num_labels", kWrong, kOne, "id2label in config.json names the labels"},
    {"--config_name", kWrong, kOne, "--model DIR has the config.json", "none"},
    {"--config_overrides", kWrong, kOne, "change the config.json in --model DIR", "none"},
    {"--model_type", kWrong, kOne, "--model DIR has a config.json, which says it", "none"},
    {"--model_revision", kWrong, kOne, "download that revision, and give its directory", "main"},
    {"--model_init_kwargs", kWrong, kOne, "change the config.json in --model DIR", "none|{}"},
    {"--optim_target_modules", kWrong, kSeveral, "leave it out: there is no GaLore", "none"},
    {"--eval_delay", kWrong, kOne, "leave it out: evaluations begin before step 1", "0"},
    {"--evals_per_epoch", kWrong, kOne, "use --eval-every N, in steps, or --eval-every epoch"},
    {"--saves_per_epoch", kWrong, kOne, "use --commit-every N, in steps"},
    {"--fp16_opt_level", kWrong, kOne, "use --dtype fp16"},
    {"--mixed_precision", kWrong, kOne, "use --dtype bf16, fp16 or fp32"},
    {"--precision", kWrong, kOne, "use --dtype bf16, fp16 or fp32"},
    {"--quantization", kWrong, kOne, "use --base-dtype nf4 or int8, with --lora-r"},
    {"--quantization_bit", kWrong, kOne, "use --base-dtype nf4 (4) or int8 (8), with --lora-r"},
    {"--bnb_4bit_quant_type", kWrong, kOne, "4-bit weights are nf4", "nf4"},
    {"--qlora", kWrong, kSwitch, "use --lora-r 16 --base-dtype nf4"},
    {"--lora", kWrong, kSwitch, "use --lora-r 16"},
    {"--peft_type", kWrong, kOne, kAdapterKind, "lora"},
    {"--use_dora", kWrong, kSwitch, kAdapterKind},
    {"--lora_task_type", kWrong, kOne, "the model says what it is for: leave it out",
     "causal_lm|seq_cls|seq_2_seq_lm"},
    {"--lora_target_parameters", kWrong, kSeveral, "use --lora-targets, which names layers",
     "none"},
    {"--lora_target_linear", kWrong, kSwitch, "use --lora-targets all-linear"},
    {"--finetuning_type", kWrong, kOne,
     "use --lora-r N, or --train-only REGEX to train a part of the model", "full"},
    {"--stage", kWrong, kOne, kPreference, "sft|pt"},
    {"--dpo", kWrong, kSwitch, kPreference},
    {"--rl", kWrong, kOne, kPreference},
    {"--beta", kWrong, kOne, kPreference},
    {"--batch_size", kWrong, kOne, kBatch},
    {"--train_batch_size", kWrong, kOne, kBatch},
    {"--global_batch_size", kWrong, kOne, kBatch},
    {"--gpus", kWrong, kOne, kRanks},
    {"--num_gpus", kWrong, kOne, kRanks},
    {"--devices", kWrong, kOne, kRanks},
    {"--num_processes", kWrong, kOne, kRanks},
    {"--nproc_per_node", kWrong, kOne, kRanks},
    {"--fsdp", kWrong, kSeveral, kShard, "none"},
    {"--fsdp_config", kWrong, kOne, kShard, "none"},
    {"--zero_stage", kWrong, kOne, kShard},
    {"--parallelism_config", kWrong, kOne, kShard, "none"},
    {"--accelerator_config", kWrong, kOne, "leave it out", "none"},
    {"--dry_run", kWrong, kSwitch, "use spillway estimate, with the same flags"},
    {"--json", kWrong, kSwitch, "OUTPUT/metrics.jsonl has a JSON object a step"},
};

constexpr OtherFlag kTextFlags[] = {
    {"--model_name_or_path", kAlias, kOne, "--model"},
    {"--max_length", kWrong, kOne,
     "use --tokens N, which counts the tokens that are added to the prompt"},
    {"--min_length", kWrong, kOne, "use --min-tokens, which counts what is generated"},
    {"--min_new_tokens", kAlias, kOne, "--min-tokens"},
    {"--do_sample", kWrong, kSwitch,
     "--temperature above 0 samples, and --temperature 0 takes the likeliest token"},
    {"--greedy", kAlias, kSwitch, "--temperature 0"},
    {"--num_return_sequences", kWrong, kOne, "one text is made: run it again with another --seed",
     "1"},
    {"--batch_size", kWrong, kOne, "spillway predict has --batch N"},
    {"--system", kWrong, kOne, "spillway predict takes whole conversations: rows of messages"},
    {"--file", kWrong, kOne, "spillway predict answers a file of prompts"},
    {"--load_in_4bit", kWrong, kSwitch, "weights are read in their own precision: leave it out"},
    {"--load_in_8bit", kWrong, kSwitch, "weights are read in their own precision: leave it out"},
    {"--torch_dtype", kAlias, kOne, "--dtype"},
    {"--trust_remote_code", kPassed, kSwitch, "no code of the model's is run"},
    {"--use_cache", kPassed, kSwitch, "keys and values are always cached"},
};

constexpr int kAnyNumber = 1 << 20;  // of words after a flag

std::string WithUnderscores(absl::string_view name) {
  std::string spelled(name);
  std::replace(spelled.begin() + std::min<size_t>(2, spelled.size()), spelled.end(), '-', '_');
  return spelled;
}

bool IsFlag(absl::string_view word) {
  return word.size() > 1 && word[0] == '-' && !absl::ascii_isdigit(word[1]) && word[1] != '.';
}

bool IsOneOf(absl::string_view value, absl::string_view words) {
  for (const absl::string_view word : absl::StrSplit(words, '|', absl::SkipEmpty())) {
    if (absl::EqualsIgnoreCase(value, word)) return true;
  }
  return false;
}

// The words of a command line one after another.
class Translation {
 public:
  Translation(const std::vector<std::string>& words, const OwnFlags& own,
              absl::Span<const OtherFlag> table)
      : words_(words), own_(own), table_(table) {}

  // Instead of the words: one flag with its values.
  TranslatedWords DoOne(const std::string& name, const std::vector<std::string>& values) {
    typed_ = name;
    values_ = values;
    TakeTyped();
    return std::move(out_);
  }

  TranslatedWords Do() {
    while (at_ < words_.size()) {
      const std::string& word = words_[at_++];
      if (word == "--") {
        out_.words.insert(out_.words.end(), words_.begin() + at_ - 1, words_.end());
        break;
      }
      if (IsFlag(word)) {
        TakeFlag(word);
      } else if (own_.takes_words) {
        out_.words.push_back(word);
      } else {
        stray_.push_back(ShellLine({word}));
      }
    }
    if (!stray_.empty()) {
      out_.refused.push_back(
          absl::StrCat("unknown argument ", absl::StrJoin(stray_, ", "), ": ",
                       absl::StrReplaceAll(own_.word_advice, {{"@", absl::StrJoin(stray_, " ")}})));
    }
    return std::move(out_);
  }

 private:
  void TakeFlag(const std::string& word) {
    const size_t equals = absl::StartsWith(word, "--") ? word.find('=') : std::string::npos;
    typed_ = word.substr(0, equals);
    values_.reset();
    if (equals != std::string::npos) values_ = {word.substr(equals + 1)};
    TakeTyped();
  }

  void TakeTyped() {
    const OwnFlag* const own = FindOwn(typed_);
    const OtherFlag* const other = FindOtherFlag(table_, typed_);
    // --weight_decay is the Trainer's, and --weight-decay train's own.
    const bool is_theirs = other != nullptr && other->name == typed_;
    if (own != nullptr && (own->name == typed_ || !is_theirs)) return TakeOwn(*own);
    if (other != nullptr) return TakeOther(*other);
    if (TakeNegated()) return;
    TakeUnknown();
  }

  const OwnFlag* FindOwn(absl::string_view name) const {
    const OwnFlag* found = nullptr;
    for (const OwnFlag& flag : own_.flags) {
      if (flag.name == name) return &flag;
      const bool same =
          absl::StartsWith(name, "--") && WithUnderscores(flag.name) == WithUnderscores(name);
      if (same && found == nullptr) found = &flag;
    }
    return found;
  }

  // The words after a flag: those that it needs, whatever they look like unless they are flags
  // themselves, and up to `most` that look like values.
  std::vector<std::string> WordsAfter(int least, int most) {
    std::vector<std::string> values;
    if (values_) return *values_;
    while (at_ < words_.size() && static_cast<int>(values.size()) < most) {
      const std::string& word = words_[at_];
      const bool needed = static_cast<int>(values.size()) < least;
      if (needed ? IsKnown(word) : IsFlag(word)) break;
      values.push_back(words_[at_++]);
    }
    return values;
  }

  bool IsKnown(const std::string& word) const {
    if (!absl::StartsWith(word, "--")) return false;
    const std::string name = word.substr(0, word.find('='));
    return FindOwn(name) != nullptr || FindOtherFlag(table_, name) != nullptr;
  }

  void TakeOwn(const OwnFlag& flag) {
    // The word after a switch is its value only if it is a boolean.
    const bool is_switch = flag.least == 0 && flag.most <= 1;
    std::vector<std::string> values =
        is_switch ? Boolean() : WordsAfter(flag.least, flag.list ? kAnyNumber : flag.most);
    if (static_cast<int>(values.size()) < flag.least) return NeedsValue();
    if (flag.list && values.size() > 1) values = {absl::StrJoin(values, ",")};
    Emit(flag, values);
  }

  void NeedsValue() { out_.refused.push_back(absl::StrCat(typed_, " needs a value")); }

  void Emit(const OwnFlag& flag, const std::vector<std::string>& values) {
    if (flag.most <= 1 && values.size() == 1 && !values[0].empty()) {
      out_.words.push_back(absl::StrCat(flag.name, "=", values[0]));
      return;
    }
    out_.words.push_back(flag.name);
    out_.words.insert(out_.words.end(), values.begin(), values.end());
  }

  // The value of a switch, or nothing.
  std::vector<std::string> Boolean() {
    if (values_) return *values_;
    if (own_.takes_words || at_ == words_.size() || !AsBoolean(words_[at_])) return {};
    return {words_[at_++]};
  }

  void TakeOther(const OtherFlag& flag) {
    if (flag.values == Values::kSwitch) return Apply(flag, Boolean());
    const std::vector<std::string> values =
        WordsAfter(0, flag.values == Values::kOne ? 1 : kAnyNumber);
    if (values.empty() && (flag.kind == Kind::kAlias || flag.kind == Kind::kSetting)) {
      return NeedsValue();
    }
    Apply(flag, values);
  }

  void Apply(const OtherFlag& flag, const std::vector<std::string>& values) {
    std::string value = absl::StrJoin(values, ",");
    const bool is_switch = flag.values == Values::kSwitch;
    const bool off = is_switch && AsBoolean(value) == false;
    if (is_switch && (value.empty() || AsBoolean(value))) value = off ? "false" : "true";
    switch (flag.kind) {
      case Kind::kSetting:
        out_.words.insert(out_.words.end(), {flag.name, value});
        return;
      case Kind::kAlias: {
        const std::vector<std::string> to = absl::StrSplit(flag.text, ' ');
        if (off) return WithoutEffect(values);
        const OwnFlag* const own = FindOwn(to[0]);
        SPILLWAY_CHECK(own != nullptr);
        if (to.size() > 1) return Emit(*own, {to[1]});
        return Emit(*own, own->most <= 1 ? std::vector<std::string>{value} : values);
      }
      case Kind::kNoEffect:
        return WithoutEffect(values);
      case Kind::kHint:
        return WithoutEffect(values, off ? "" : flag.text);
      case Kind::kRefused: {
        const bool harmless = *flag.harmless == '\0' ? off : IsOneOf(value, flag.harmless);
        if (harmless) return WithoutEffect(values);
        out_.refused.push_back(absl::StrCat(AsTyped(values), ": ", flag.text));
      }
    }
  }

  // --no_x is x's False.
  bool TakeNegated() {
    const std::string name = WithUnderscores(typed_);
    if (!absl::StartsWith(name, "--no_")) return false;
    const std::string positive = absl::StrCat("--", name.substr(5));
    const OwnFlag* const own = FindOwn(positive);
    if (own != nullptr && own->least == 0 && own->most == 1) {
      Emit(*own, {"false"});
      return true;
    }
    const OtherFlag* const flag = FindOtherFlag(table_, positive);
    if (flag == nullptr || flag->values != Values::kSwitch) return false;
    negated_ = true;
    Apply(*flag, {"false"});
    negated_ = false;
    return true;
  }

  void TakeUnknown() {
    WordsAfter(0, own_.takes_words ? 0 : kAnyNumber);
    std::vector<std::string> known;
    for (const OwnFlag& flag : own_.flags) {
      if (absl::StartsWith(flag.name, "--")) known.push_back(flag.name);
    }
    for (const OtherFlag& flag : table_) {
      if (flag.kind != Kind::kRefused) known.push_back(flag.name);
    }
    std::string nearest = NearestName(typed_, known);
    // Of two that differ by dashes alone, such as --weight-decay and --weight_decay, the one that
    // is written as the typed one.
    if (absl::StrContains(typed_, '_') && nearest.size() > 2) {
      const std::string twin =
          absl::StrCat("--", absl::StrReplaceAll(nearest.substr(2), {{"-", "_"}}));
      if (absl::c_linear_search(known, twin)) nearest = twin;
    }
    out_.refused.push_back(absl::StrCat("unknown argument ", typed_,
                                        nearest.empty()
                                            ? absl::StrCat(" (", own_.help, " lists the flags)")
                                            : absl::StrCat("; did you mean ", nearest, "?")));
  }

  std::string AsTyped(const std::vector<std::string>& values) const {
    std::string typed = typed_;
    if (negated_) return typed;
    if (!values.empty()) absl::StrAppend(&typed, " ", ShellLine(values));
    return typed;
  }

  void WithoutEffect(const std::vector<std::string>& values, absl::string_view hint = "") {
    // A token is a secret.
    std::string said = absl::EndsWith(typed_, "token") ? typed_ : AsTyped(values);
    if (!hint.empty()) absl::StrAppend(&said, " (", hint, ")");
    out_.without_effect.push_back(std::move(said));
  }

  const std::vector<std::string>& words_;
  const OwnFlags& own_;
  const absl::Span<const OtherFlag> table_;
  size_t at_ = 0;
  std::string typed_;                               // the flag at hand, as given
  std::optional<std::vector<std::string>> values_;  // what followed its '='
  bool negated_ = false;                            // it is --no_x
  std::vector<std::string> stray_;
  TranslatedWords out_;
};

}  // namespace

absl::Span<const OtherFlag> OtherTrainFlags() { return kTrainFlags; }
absl::Span<const OtherFlag> OtherTextFlags() { return kTextFlags; }

const OtherFlag* FindOtherFlag(absl::Span<const OtherFlag> table, absl::string_view name) {
  const std::string spelled = WithUnderscores(name);
  for (const OtherFlag& flag : table) {
    if (flag.name == spelled) return &flag;
  }
  return nullptr;
}

bool IsListType(absl::string_view type) { return type == "LIST" || absl::StrContains(type, ','); }

OwnFlags OwnTrainFlags() {
  OwnFlags own;
  own.help = "spillway train --help-all";
  for (const TrainFlagGroup& group : TrainFlagGroups()) {
    for (const TrainFlag& flag : group.flags) {
      const absl::string_view type = flag.type;
      const bool optional = absl::StartsWith(type, "[");
      own.flags.push_back({flag.name, type.empty() || optional ? 0 : 1,
                           type.empty()                  ? 0
                           : absl::EndsWith(type, "...") ? kAnyNumber
                                                         : 1,
                           IsListType(type)});
    }
  }
  return own;
}

TranslatedWords TranslateWords(const std::vector<std::string>& words, const OwnFlags& own,
                               absl::Span<const OtherFlag> table) {
  return Translation(words, own, table).Do();
}

TranslatedWords TranslateSetting(const std::string& name, const std::vector<std::string>& values) {
  return Translation({}, OwnTrainFlags(), kTrainFlags).DoOne(name, values);
}

std::string OwnFlagOf(const std::string& name) {
  const OtherFlag* const other = FindTrainFlag(name) ? nullptr : FindOtherFlag(kTrainFlags, name);
  // --use_peft only says defaults.
  if (other == nullptr || other->field == &F::use_peft) return name;
  for (const OtherFlag& flag : kTrainFlags) {  // those of one field say it in one of their texts
    if (&flag != other && (flag.field == nullptr || flag.field != other->field)) continue;
    for (const absl::string_view word : absl::StrSplit(flag.text, absl::ByAnyChar(" ,;:()"))) {
      if (FindTrainFlag(word) != nullptr) return std::string(word);
    }
  }
  return name;
}

}  // namespace spillway
