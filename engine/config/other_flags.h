// Flags of other programs (Hugging Face Trainer and its example scripts, TRL, PEFT, axolotl,
// LLaMA-Factory), and what becomes of each here: one table, from which the command line is
// translated and docs/CONFIG.md is checked.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/config/train_flags.h"

namespace spillway {

struct OtherFlag {
  enum class Kind {
    kAlias,     // `text` is the flag here, for the same values; or a flag with its value
    kSetting,   // goes into `field`, which TranslateTrainerFlags (trainer_flags.h) reads; `text`
                // says what it comes to
    kNoEffect,  // accepted and named in one notice; `text` says why it changes nothing
    kHint,      // likewise, and the notice has `text`
    kRefused,   // would change the result, and is not there: an error with the advice `text`
  };
  enum class Values {
    kSwitch,   // none, or a boolean, as HfArgumentParser reads them
    kOne,      // the next word
    kSeveral,  // all words up to the next flag
  };

  const char* name;  // with '_' between words, which on a command line may be '-'
  Kind kind;
  Values values;
  const char* text;
  // Values with which kRefused has no effect, between '|'; a switch is harmless when it is false.
  const char* harmless = "";
  TrainFlags::Text TrainFlags::*field = nullptr;
};

// For train and estimate; and for generate and predict.
absl::Span<const OtherFlag> OtherTrainFlags();
absl::Span<const OtherFlag> OtherTextFlags();

// Null where the table has no such name; '-' and '_' are one.
const OtherFlag* FindOtherFlag(absl::Span<const OtherFlag> table, absl::string_view name);

// A flag that a command has, with the number of words after it.
struct OwnFlag {
  std::string name;
  int least = 0, most = 0;
  bool list = false;  // several words are one value, joined by commas
};

struct OwnFlags {
  std::vector<OwnFlag> flags;
  bool takes_words = false;  // that belong to no flag
  std::string help;          // the command that lists them: "spillway train --help-all"
  std::string word_advice;   // where words belong that no flag takes; "@" stands for them
};

// Whether a value of this type, as help names it, is several separated by commas: "LIST",
// "PATH[,PATH...]".
bool IsListType(absl::string_view type);

// train's, from its table.
OwnFlags OwnTrainFlags();

struct TranslatedWords {
  std::vector<std::string> words;           // in flags that the command has
  std::vector<std::string> without_effect;  // "--logging_steps 10"
  std::vector<std::string> refused;         // what is in the way, and the remedy
};

// A command line in which '-' and '_' are one, `table`'s flags are accepted, and flags that take a
// list take it in several words, too.
TranslatedWords TranslateWords(const std::vector<std::string>& words, const OwnFlags& own,
                               absl::Span<const OtherFlag> table);

// One setting of train's, or of another program's, with its values.
TranslatedWords TranslateSetting(const std::string& name, const std::vector<std::string>& values);

// The flag of train's that a flag decides: "--lr" for "--learning_rate", "--dtype" for "--bf16";
// `name` itself where there is none.
std::string OwnFlagOf(const std::string& name);

}  // namespace spillway
