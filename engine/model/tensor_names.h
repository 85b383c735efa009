// What the tensors of a model's files may be called. Plain values.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/model/parameter.h"

namespace spillway {

struct TensorNames {
  // Every parameter and buffer, by the name that a whole model's file has, with its shape.
  std::map<std::string, std::vector<uint64_t>> shapes;
  // Of those, what holds whole numbers, as int64.
  std::set<std::string> whole;
  // Of those that a layer multiplies by, how.
  std::map<std::string, LinearWeight> linear;
  // What files of the model without its head leave out at the start of the names; "": nothing.
  std::string base_prefix;
  // What files of the model with another head have in its place; "": the same.
  std::string other_prefix;
  // Ends of names of tensors that are no parameters.
  std::vector<std::string> ignored;
  // Beginnings of names: of tensors of other heads, which are left aside; of parameters that may be
  // missing, because the file is one of another head.
  std::vector<std::string> other_heads, new_head;
  // Other whole names of a parameter; `repeats`: those that a file may have beside its own.
  std::map<std::string, std::string> aliases;
  std::set<std::string> repeats;
  // Tensors that are no parameters, and that a file may have where all of them is zero.
  std::set<std::string> zeros;
  // The matrix of logits, and where the model ties it the parameter that it is ("": it does not):
  // then a file may have it too, or in that one's place.
  std::string head, tied_to;
  // Parameters of which files may have fewer rows: the others are the mean of those.
  std::set<std::string> grown;
  // A tensor of another shape than its parameter is left aside, and the parameter begun anew
  // (--ignore-mismatched-sizes); otherwise it is an error.
  bool ignores_sizes = false;
  // The parameter whose values the matrix of logits begins with where files lack it; "": none.
  std::string untied_from;
};

}  // namespace spillway
