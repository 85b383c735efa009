// Hugging Face Trainer's names of train's flags (engine/run_config.h).
#include "engine/run_config.h"

namespace spillway {

const std::vector<FlagAlias>& TrainerFlagAliases() {
  static const std::vector<FlagAlias>& aliases = *new std::vector<FlagAlias>{
      {"--model_name_or_path", "--model"},
      {"--tokenizer_name", "--tokenizer"},
      {"--train_file", "--data"},
      {"--validation_file", "--eval-data"},
      {"--output_dir", "--output"},
      {"--deepspeed", "--config"},
      {"--block_size", "--seq-len"},
      {"--max_seq_length", "--seq-len"},
      {"--max_steps", "--steps"},
      {"--num_train_epochs", "--epochs"},
      {"--per_device_train_batch_size", "--micro-batch"},
      {"--gradient_accumulation_steps", "--accumulate"},
      {"--learning_rate", "--lr"},
      {"--weight_decay", "--weight-decay"},
      {"--adam_epsilon", "--eps"},
      {"--max_grad_norm", "--clip"},
      {"--warmup_steps", "--warmup"},
      {"--lr_scheduler_type", "--schedule"},
      {"--optim", "--optimizer"},
      {"--save_steps", "--commit-every"},
      {"--save_total_limit", "--keep"},
      {"--eval_steps", "--eval-every"},
  };
  return aliases;
}

}  // namespace spillway
