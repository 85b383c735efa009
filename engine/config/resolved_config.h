// What train is told, resolved into what the engine needs; every value remembers where it came
// from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/adapters/adapter_choice.h"
#include "engine/chat/jinja_render.h"
#include "engine/data/labelled_text.h"
#include "engine/data/text_pairs.h"
#include "engine/families/model_task.h"
#include "engine/media/picture_augmentation.h"
#include "engine/options/question_options.h"
#include "engine/options/sample_layout.h"
#include "engine/options/sampling_options.h"
#include "engine/options/train_options.h"
#include "engine/tokenizers/speech_tokens.h"
#include "engine/tuning/tuned_io.h"
#include "nlohmann/json.hpp"

namespace spillway {

// A value of config.resolved.json.
struct ResolvedValue {
  std::string name;  // the flag's name without dashes, or the DeepSpeed key's path
  nlohmann::json value;
  std::string source;  // "--lr", "ds.json:12", "default", "derived"
  // Where a flag won over the config file: what the file says, and where.
  nlohmann::json file_value = nullptr;
  std::string file_source = "";
};

// Of models that make texts from texts, or from sounds.
struct PairChoice {
  PairKeys keys;
  bool source_key_given = false, target_key_given = false;
  // Tokens that a text has at most; 0: not said.
  int64_t max_source_length = 0, max_target_length = 0;
  bool given = false;  // any of it
};

// Of models that classify pictures.
struct PictureChoice {
  std::optional<Augment> augment;  // none: as the data are
  int64_t side = 0;                // of what the model reads; 0: as its directory or the data say
  bool given() const { return augment.has_value() || side > 0; }
};

// Texts that evaluations make (--predict-with-generate).
struct EvaluationTextsChoice {
  bool made = false;
  SamplingFlags sampling;
  int64_t max_length = 0;  // tokens of a text with the one that it begins with; 0: not said
};

// Prompts that evaluations continue for people to read (--sample-prompts).
struct SamplePromptsChoice {
  std::string file;        // empty: none
  int64_t new_tokens = 0;  // of a text, at most
};

struct RunConfig {
  TrainOptions train;
  IoGiven io_given;

  std::string model;
  std::optional<ModelTask> task;  // none: what the model's files say
  // Parameters of other sizes than the files' tensors are begun anew, as a head for other labels.
  bool ignore_mismatched_sizes = false;
  std::vector<std::string> data;
  std::vector<std::string> eval_data;
  std::string tokenizer;  // "model", "chars", "bytes", a directory, or "": not said
  std::string eos_token;  // of a tokenizer.json; "": as the tokenizer's files say
  int64_t seq_len = 0;    // 0: the model's, at most 1024
  SampleLayout samples = SampleLayout::kByData;
  bool pad_to_max_length = false;  // where samples are padded
  // What strftime_now in a chat template writes: the beginning of a day (--chat-date). None: not
  // said; or, once the run's data is read, a run that began when templates had no strftime_now.
  ChatClock chat_clock = {};
  TextKeys text_keys;  // of texts that are classified
  QuestionOptions questions;
  PairChoice pairs;
  SpeechMode speech;
  bool speech_given = false;
  PictureChoice pictures;
  // Of the tokens of texts that a masked language model learns from; none: not said.
  std::optional<double> mask_probability;
  EvaluationTextsChoice evaluation_texts;
  SamplePromptsChoice sample_prompts;
  AdapterChoice adapter;
  bool no_export = false;
  std::optional<DType> export_dtype;  // none: the input model's

  // One line each, for the log.
  std::vector<std::string> notes;
  std::vector<std::string> warnings;
  std::vector<ResolvedValue> values;
  nlohmann::json
      given;  // all flags that were given (GivenFlags), for a run by config.resolved.json
};

}  // namespace spillway
