// The names that tensors can have in a model's files. Plain values.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/model/parameter.h"

namespace spillway {

struct TensorNames {
  // Shapes of every parameter and buffer, by its name in a whole model's file.
  std::map<std::string, std::vector<uint64_t>> shapes;
  // Names of tensors with whole numbers, stored as int64.
  std::set<std::string> whole;
  // How layers multiply by these tensors.
  std::map<std::string, LinearWeight> linear;
  // The prefix that files of the model without its head leave out; "": none.
  std::string base_prefix;
  // The prefix that files of the model with another head have in its place; "": the same one.
  std::string other_prefix;
  // Suffixes of names of tensors that are no parameters.
  std::vector<std::string> ignored;
  // Prefixes of names: `other_heads` are ignored; `new_head` may be missing, because the file may
  // be of another head.
  std::vector<std::string> other_heads, new_head;
  // Other whole names of parameters; `repeats`: names that a file may have as well as the
  // parameter's own.
  std::map<std::string, std::string> aliases;
  std::set<std::string> repeats;
  // Tensors that are no parameters, and that a file may have if they are all zero.
  std::set<std::string> zeros;
  // The matrix of logits, and the parameter to which the model ties it ("": untied). A file may
  // have either of two tied names, or both.
  std::string head, tied_to;
  // Parameters of which files may have fewer rows; new rows are the mean of the file's.
  std::set<std::string> grown;
  // A tensor of another shape than its parameter is ignored, and the parameter is initialised
  // (--ignore-mismatched-sizes); otherwise it is an error.
  bool ignores_sizes = false;
  // The parameter that initialises the matrix of logits if files lack it; "": none.
  std::string untied_from;
};

}  // namespace spillway
