// A conversation from the data, in the form that chat templates take.
#pragma once

#include <cstddef>
#include <set>

#include "engine/chat/py_value.h"

namespace spillway {

struct Conversation {
  // {"role", "content", ...} each, with all other keys of the data; null: no conversation.
  JinjaValue messages;
  // Other values of the row for the template: "tools", "documents", those in
  // "chat_template_kwargs".
  JinjaValue variables = JinjaValue::object();
  // Messages of the assistant without loss.
  std::set<size_t> unlearnt = {};
};

}  // namespace spillway
