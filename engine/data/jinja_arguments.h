// What filters and methods of a template are given, and which of it they take here.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/data/jinja_lexer.h"
#include "engine/data/jinja_syntax.h"

namespace spillway {

// Of a call, after the value that it is made on.
struct JinjaArguments {
  std::vector<JinjaValue> values;
  std::map<std::string, JinjaValue> named;

  // That of this place or name; undefined for none.
  JinjaValue Get(size_t place, const std::string& name) const;
};

// An argument that would change the text and is not built is kUnimplemented, and not passed over.
// Of what is not there any are taken.
absl::Status CheckFilterArguments(const std::string& name, const JinjaArguments& arguments,
                                  const JinjaPlace& at);
absl::Status CheckMethodArguments(const std::string& name, const JinjaArguments& arguments,
                                  const JinjaPlace& at);

}  // namespace spillway
