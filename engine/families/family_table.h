// The families of models that there are: how a config.json is read, what the architecture is
// called, and how names of tensors in files may differ. Plain values.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/families/config_reader.h"
#include "engine/families/model_task.h"
#include "engine/families/resnet_config.h"
#include "engine/families/transformer_config.h"

namespace spillway {

// What of a family's models stands behind their layers.
struct Head {
  std::string architecture;
  ModelTask task;
  // Beginnings of names: of tensors that other heads have; of parameters that a file of the model
  // with another head does not have.
  std::vector<std::string> others, own;
};

struct Family {
  // Null of a model of pictures.
  void (*read)(ConfigReader& reader, TransformerConfig& config);
  // The first is what is exported; the others have the same tensors, or all but the head.
  std::vector<std::string> architectures = {};
  // What files of the model without its head leave out of its tensors' names.
  std::string base_prefix = "";
  // Ends of names of tensors that are no parameters: causal masks and frequencies that old
  // versions of transformers saved with the weights.
  std::vector<std::string> ignored = {};
  // A parameter under another name: {in files, ours}.
  std::map<std::string, std::string> aliases = {};
  bool trained = true;
  // Of texts, of tokens and of masked ones, of which a model has one; the architectures are theirs.
  // Empty where the family has one head, which `architectures` name.
  std::vector<Head> heads = {};
  // Files may have a parameter under its aliases as well as under its name.
  bool repeats = false;
  // Tensors that a file may have where they are zero.
  std::vector<std::string> zeros = {};
  // Without `heads`: beginnings of names of tensors that files with another head have and of
  // parameters that such files lack, where --task says which head is meant.
  std::vector<std::string> others = {}, own = {};
  // What files of some other heads have in the place of base_prefix; "": nothing else.
  std::string other_prefix = "";
  void (*read_pictures)(ConfigReader& reader, ResNetConfig& config) = nullptr;
  ModelTask task = ModelTask::kCausalLm;  // where heads do not say it
};

// By the model_type of their config.json.
const std::map<std::string, Family>& Families();

std::vector<std::string> ArchitecturesOf(const Family& family);
// Without doubles.
std::vector<ModelTask> TasksOf(const Family& family);

}  // namespace spillway
