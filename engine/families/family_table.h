// The table of model families: how to read a config.json, the names of architectures, and the
// variants of tensor names in files. Plain values.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/families/config_reader.h"
#include "engine/families/model_task.h"
#include "engine/families/resnet_config.h"
#include "engine/families/transformer_config.h"

namespace spillway {

// A head that models of a family can have on top of their layers.
struct Head {
  std::string architecture;
  ModelTask task;
  // Prefixes of tensor names: `others` belong to other heads and are ignored, `own` may be missing
  // in the file of a model with another head.
  std::vector<std::string> others, own;
};

struct Family {
  // Null in families of vision models.
  void (*read)(ConfigReader& reader, TransformerConfig& config);
  // The model for `task`. The first one is exported; the others have the same tensors, or all but
  // the head's. Empty if `heads` has all architectures of the family.
  std::vector<std::string> architectures = {};
  // The prefix of tensor names that is absent in files of the model without its head.
  std::string base_prefix = "";
  // Suffixes of tensor names that are no parameters: causal masks and frequencies, which old
  // versions of transformers saved with the weights.
  std::vector<std::string> ignored = {};
  // Other names of parameters: {name in files, name in the model}.
  std::map<std::string, std::string> aliases = {};
  bool trained = true;
  // Other heads of the family, each with its architecture.
  std::vector<Head> heads = {};
  // Files may have a parameter under its aliases as well as under its name.
  bool repeats = false;
  // Tensors that a file may have if they are all zero.
  std::vector<std::string> zeros = {};
  // As in Head, for the model that `architectures` name, if --task names the head.
  std::vector<std::string> others = {}, own = {};
  // The prefix that files of some other heads have in place of base_prefix; "": there is none.
  std::string other_prefix = "";
  void (*read_pictures)(ConfigReader& reader, ResNetConfig& config) = nullptr;
  ModelTask task = ModelTask::kCausalLm;  // the task of the model that `architectures` name
};

// All families, by the model_type of their config.json.
const std::map<std::string, Family>& Families();

std::vector<std::string> ArchitecturesOf(const Family& family);
// The tasks of a family's heads, without duplicates.
std::vector<ModelTask> TasksOf(const Family& family);

}  // namespace spillway
