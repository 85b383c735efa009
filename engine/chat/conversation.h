// A conversation of the data, as a chat template takes it.
#pragma once

#include <cstddef>
#include <set>

#include "engine/chat/py_value.h"

namespace spillway {

struct Conversation {
  // {"role", "content", ...} each, with all that the data says of it; null: it is no conversation.
  JinjaValue messages;
  // What else the row gives the template: "tools", "documents", what is in "chat_template_kwargs".
  JinjaValue variables = JinjaValue::object();
  // Messages of the assistant that are read and not learnt.
  std::set<size_t> unlearnt = {};
};

}  // namespace spillway
