#include "engine/chat/jinja_render.h"

#include <csignal>

#include "engine/base/stop_signal.h"
#include "engine/chat/jinja_syntax.h"
#include "tests/engine/format_testing.h"

namespace spillway {
namespace {

using absl::StatusCode;

const absl::CivilSecond kDay(2026, 2, 3, 4, 5, 6);  // of tests/golden/make_chat.py

const JinjaValue kWithMessages = {{"messages",
                                   {{{"role", "user"}, {"content", "Hi\u00a0you\u3000 all"}},
                                    {{"role", "assistant"}, {"content", "Yes"}}}}};

absl::StatusOr<std::string> Rendered(const std::string& source,
                                     const JinjaValue& variables = kWithMessages) {
  const auto parsed = ParseJinja(source, "t");
  if (!parsed.ok()) return parsed.status();
  const auto made = RenderJinja(*parsed, variables, kDay, "t");
  if (!made.ok()) return made.status();
  return made->text;
}

std::string ChatGolden(const std::string& name) {
  return ReadFile(std::string(SPILLWAY_SOURCE_DIR) + "/tests/golden/chat/" + name);
}

// VARIABLES of tests/golden/make_chat.py.
const char kVariables[] = R"({
  "messages": [{"role": "user", "content": "Hi\u00a0you\u3000 all"},
               {"role": "assistant", "content": "Yes"}],
  "tools": null, "documents": null, "add_generation_prompt": false,
  "data": {"b": 2, "A": 1, "c": [1, 2.5, null, true, "é'\n"], "items": "own",
           "é": {"x": {"y": "deep"}}},
  "words": ["Beta", "alpha", "Gamma", "alpha"], "text": "  one two  three ", "none_value": null,
  "n": 7, "f": 2.5,
  "rows": [{"k": "b", "v": 2, "w": {"z": 1}}, {"k": "a", "v": 1, "w": {"z": 3}},
           {"k": "b", "v": 3}]})";

// Every expression, filter, test, method and statement: the same text, or an error where Jinja
// has one.
TEST(JinjaRender, EqualsJinja) {
  const JinjaValue variables = JinjaValue::parse(kVariables);
  const auto expressions = nlohmann::json::parse(ChatGolden("expressions.json"));
  EXPECT_GE(expressions.size(), 240u);
  for (const auto& one : expressions) {
    const std::string source = one[0].get<std::string>();
    const auto text = Rendered(source, variables);
    if (one[1].is_null()) {
      EXPECT_FALSE(text.ok()) << source << ": " << *text;
    } else if (text.ok()) {
      EXPECT_EQ(*text, one[1].get<std::string>()) << source;
    } else {
      // What is not built is said, and nothing else is.
      EXPECT_EQ(text.status().code(), StatusCode::kUnimplemented)
          << source << ": " << text.status() << ", not " << one[1];
      EXPECT_EQ(source, "{{ namespace }}") << text.status();
    }
  }
}

// What transformers 5's Jinja (3.1) writes.
struct Written {
  const char *source, *text;
};
void ExpectWritten(std::initializer_list<Written> cases) {
  for (const auto& [source, text] : cases) {
    const auto made = Rendered(source);
    ASSERT_TRUE(made.ok()) << source << ": " << made.status();
    EXPECT_EQ(*made, text) << source;
  }
}

struct Refused {
  const char* source;
  StatusCode code;
  const char* why;
};
void ExpectRefused(std::initializer_list<Refused> cases) {
  for (const auto& [source, code, why] : cases) {
    SCOPED_TRACE(source);
    ExpectError(Rendered(source).status(), code, {why});
  }
}

TEST(JinjaRender, WordsAndNumbersAreThoseOfPython) {
  ExpectWritten({
      {R"({{ "they're foo_bar 1st x-y (z" | title }})", "They're Foo_bar 1st X-Y (Z"},
      {R"({{ "they're foo_bar 1st x-y (z".title() }})", "They'Re Foo_Bar 1St X-Y (Z"},
      {"{{ '3.7' | int }} {{ '1e2' | int }} {{ true | int }} {{ '1_0' | int }} {{ -3.9 | int }}",
       "3 100 1 10 -3"},
      {"{{ '1__0' | int }} {{ '0x10' | int }} {{ 'inf' | int }} {{ none | int }} {{ [] | int }}",
       "0 0 0 0 0"},
      {"{{ '\\u00a012 ' | int }} {{ true + 1 }} {{ true < 2 }} {{ [4, 5][true] }}", "12 2 True 5"},
      {"{{ messages[0].content.split() | join('|') }}", "Hi|you|all"},
  });
  ExpectRefused({
      {"{{ x | int }}", StatusCode::kInvalidArgument, "t:1: int of what is undefined"},
      {"{{ '1e30' | int }}", StatusCode::kUnimplemented, "no place in 64 bits"},
      {"{{ '\\u0663' | int }}", StatusCode::kUnimplemented, "int of characters beyond ASCII"},
      {"{{ 'a' < 1 }}", StatusCode::kInvalidArgument, "a string < a number"},
  });
}

TEST(JinjaRender, EqualListsAndDictionariesHaveEqualElements) {
  ExpectWritten({
      {"{{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }} {{ {'a': 1} == {'a': 1, 'b': 2} }}",
       "True False"},
      {"{{ [true] == [1] }} {{ [1] == [1, 2] }} {{ [{'a': true}] == [{'a': 1}] }}",
       "True False True"},
      {"{{ messages == messages }} {{ {'a': [1]} in [{'a': [true]}] }}", "True True"},
  });
}

TEST(JinjaRender, ALoopsElseRunsWhereNoBodyCameToItsEnd) {
  ExpectWritten({
      {"{% for i in [1] %}{% break %}{% else %}E{% endfor %}", "E"},
      {"{% for i in [1, 2] %}{% continue %}{% else %}E{% endfor %}", "E"},
      {"{% for i in [1, 2] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% else %}E{% endfor %}",
       "1"},
      {"{% for i in [7] %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}", "10"},
  });
}

TEST(JinjaRender, WhatIsSetWithinStaysWithin) {
  ExpectWritten({
      {"{% for i in [] %}{% else %}{% set q = 1 %}{{ q }}{% endfor %}[{{ q }}]", "1[]"},
      {"{% set q = 1 %}{% generation %}{% set q = 2 %}{{ q }}{% endgeneration %}{{ q }}", "21"},
      {"{% for i in [1] %}{% set x %}a{% break %}{% endset %}{% endfor %}[{{ x }}]", "[]"},
  });
  ExpectRefused({{"{% for i in [1] %}{% generation %}{% break %}{% endgeneration %}{% endfor %}",
                  StatusCode::kInvalidArgument, "\"break\" outside a loop"}});
}

TEST(JinjaRender, ANamespaceIsOneByEveryName) {
  ExpectWritten({
      {"{% set a = namespace(x=1) %}{% set b = a %}{% set b.x = 2 %}{{ a.x }}{{ a['x'] }}", "22"},
      {"{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}",
       "12False"},
      {"{% set ns = namespace(messages[0]) %}{% set ns.role = 'z' %}{{ messages[0].role }}",
       "user"},
      {"{% set ns = namespace() %}{% set ns.me = ns %}{% set ns.x = 3 %}{{ ns.me.me.x }}", "3"},
      {"{{ namespace() == namespace() }} {{ namespace() is mapping }}", "False False"},
  });
  ExpectRefused({
      {"{% set d = {'x': 1} %}{% set d.x = 2 %}", StatusCode::kInvalidArgument,
       "\"d\" is no namespace"},
      {"{{ namespace([['a', 1]]) }}", StatusCode::kUnimplemented, "namespace() of anything but"},
      {"{{ namespace() }}", StatusCode::kUnimplemented, "writing a namespace"},
      {"{{ namespace() | tojson }}", StatusCode::kInvalidArgument, "a namespace"},
  });
}

TEST(JinjaRender, WhatSelectsAndMapsIsGoneThroughOnce) {
  const std::string set = "{% set g = messages | selectattr('role', 'equalto', 'tool') %}";
  ExpectWritten({
      {(set + "{% if g %}yes{% endif %}{{ g | list | length }}").c_str(), "yes0"},
      {"{% if [] | reverse %}yes{% endif %}{{ [1, 2] | reverse | join }}", "yes21"},
      {"{% set g = messages | map(attribute='role') %}{% for r in g %}{{ r }}{{ loop.last }}{% "
       "endfor %}",
       "userFalseassistantTrue"},
      {"{{ 'user' in messages | map(attribute='role') }}", "True"},
      {"{{ messages | map(attribute='role') | reverse | list | length }}", "2"},
      {"{{ (messages | selectattr('role', 'equalto', 'assistant') | first).content }}", "Yes"},
  });
  ExpectRefused({
      {(set + "{{ g }}").c_str(), StatusCode::kUnimplemented, "writing a generator"},
      {"{% set g = [1, 2] | map('string') %}{% for x in g %}{% break %}{% endfor %}{{ g | first }}",
       StatusCode::kUnimplemented, "a generator that a loop has left"},
      {(set + "{{ g | length }}").c_str(), StatusCode::kInvalidArgument, "has no length"},
      {(set + "{{ g | last }}").c_str(), StatusCode::kInvalidArgument, "last of a generator"},
      {(set + "{{ [g] | tojson }}").c_str(), StatusCode::kInvalidArgument, "a generator"},
  });
}

TEST(JinjaRender, JsonIsIndentedByANumberOrAText) {
  ExpectWritten({
      {"{{ {'a': [1]} | tojson(indent='--') }}", "{\n--\"a\": [\n----1\n--]\n}"},
      {"{{ [1] | tojson(indent=1) }}{{ [1] | tojson(indent=-1) }}{{ [1] | tojson(indent=none) }}",
       "[\n 1\n][\n1\n][1]"},
  });
  ExpectRefused({
      {"{{ [1] | tojson(indent=1.5) }}", StatusCode::kInvalidArgument, "a number as indent"},
      {"{{ [1] | tojson(indent=1001) }}", StatusCode::kUnimplemented, "an indent beyond 1000"},
      {"{{ [{'a': x}] | tojson }}", StatusCode::kInvalidArgument, "undefined"},
  });
}

TEST(JinjaRender, AnAttributesPathLeadsInward) {
  ExpectWritten({
      {"{{ [{'a': [{'b': 5}]}] | map(attribute='a.0.b') | join }}", "5"},
      {"{{ [[1, 2], [3, 4]] | map(attribute='1') | join }}", "24"},
      {"{{ [[1, 2], [3, 4]] | map(attribute=0) | join }}", "13"},
      {"{{ [{'a': {'b': 1}}, {'a': {'b': 0}}] | selectattr('a.b') | list | length }}", "1"},
  });
}

TEST(JinjaRender, StringsHavePythonsEscapes) {
  ExpectWritten({
      {R"({{ "\a\b\f\v\/\101\18\x41\u00e9" }})",
       "\a\b\f\v\\/A\x01"
       "8A\u00e9"},
      {"{{ 'a\\\nb' }}", "ab"},
  });
  EXPECT_EQ(*Rendered(R"({{ "\0" }})"), std::string(1, '\0'));
  ExpectRefused({
      {R"({{ "\N{BULLET}" }})", StatusCode::kUnimplemented, R"(\N in a string)"},
      {R"({{ "\x4" }})", StatusCode::kInvalidArgument, "no character"},
      {R"({{ "\x+1" }})", StatusCode::kInvalidArgument, "no character"},
      {"{{ é }}", StatusCode::kUnimplemented, "t:1: the character é in a tag"},
      {"{{ 0x10 }}", StatusCode::kUnimplemented, "the number 0x..."},
  });
}

TEST(JinjaRender, TagsTrimTheWhiteSpaceOfUnicode) {
  ExpectWritten({
      {"a\u3000{%- if true -%}\u00a0b\u2028{%- endif -%}\x1c"
       "c",
       "abc"},
      {"x\n\u00a0{% if true %}y{% endif %}", "x\ny"},
      {"{{\u00a0 1\u3000}}", "1"},
      {"a {#-#} b", "a b"},
      {"a {#--#} b", "ab"},
      {"a {#+ x +#}\nb", "a \nb"},
  });
}

// Chains nest to the left, parentheses to the right, macros while they run: none of them may take
// more of the stack than there is.
TEST(JinjaRender, DepthHasABound) {
  const auto chain = [](const std::string& first, const std::string& link, size_t times) {
    std::string source = "{{ " + first;
    for (size_t i = 0; i < times; ++i) source += link;
    return source + " }}";
  };
  const char* const links[][2] = {{"1", "+1"},        {"1", "*1"},        {"1", "**1"},
                                  {"'a'", "|upper"},  {"messages", ".a"}, {"messages", "[0]"},
                                  {"messages", "()"}, {"1", " and 1"},    {"1", " or 0"},
                                  {"1", " is odd"},   {"1", " if 1"},     {"1", "|string"}};
  for (const auto& [first, link] : links) {
    SCOPED_TRACE(link);
    ExpectError(Rendered(chain(first, link, 10'000)).status(), StatusCode::kInvalidArgument,
                {"too deeply nested"});
  }
  // What does not nest may be long.
  EXPECT_EQ(Rendered(chain("1", "~1", 10'000))->size(), 10'001u);
  EXPECT_EQ(*Rendered(chain("1", " == 1", 10'000)), "True");
  EXPECT_EQ(*Rendered(chain("1", "+1", 200)), "201");
  const auto nested = [](const std::string& open, const std::string& close) {
    std::string source;
    for (size_t i = 0; i < 10'000; ++i) source += open;
    source += "1";
    for (size_t i = 0; i < 10'000; ++i) source += close;
    return source;
  };
  const char* const values[][2] = {{"(", ")"},   {"[", "]"},  {"{1: ", "}"}, {"-", ""},
                                   {"not ", ""}, {"f(", ")"}, {"a[", "]"},   {"1 if 1 else ", ""}};
  for (const auto& [open, close] : values) {
    SCOPED_TRACE(open);
    ExpectError(Rendered("{{ " + nested(open, close) + " }}").status(),
                StatusCode::kInvalidArgument, {"too deeply nested"});
  }
  const char* const blocks[][2] = {{"{% if 1 %}", "{% endif %}"},
                                   {"{% for x in [1] %}", "{% endfor %}"},
                                   {"{% set x %}", "{% endset %}"},
                                   {"{% macro f() %}", "{% endmacro %}"},
                                   {"{% if 0 %}{% elif 1 %}", "{% endif %}"},
                                   {"{% with %}", "{% endwith %}"},
                                   {"{% filter upper %}", "{% endfilter %}"}};
  for (const auto& [open, close] : blocks) {
    SCOPED_TRACE(open);
    ExpectError(Rendered(nested(open, close)).status(), StatusCode::kInvalidArgument,
                {"too deeply nested"});
  }
  const auto target = std::string(10'000, '(') + "x" + std::string(10'000, ')');
  ExpectError(Rendered("{% for " + target + " in [1] %}{% endfor %}").status(),
              StatusCode::kInvalidArgument, {"too deeply nested"});
  for (const char* endless :
       {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% macro f(n) %}{% for i in [1] %}{% if n %}{{ g(n) }}{% endif %}{% endfor %}{% endmacro "
        "%}"
        "{% macro g(n) %}{% set x %}{{ f(n + 1) }}{% endset %}{% endmacro %}{{ f(1) }}",
        "{% macro f(x=f()) %}{% endmacro %}{{ f() }}",
        "{% macro f() %}{{ caller() }}{% endmacro %}"
        "{% macro g() %}{% call f() %}{{ g() }}{% endcall %}{% endmacro %}{{ g() }}"}) {
    SCOPED_TRACE(endless);
    ExpectError(Rendered(endless).status(), StatusCode::kInvalidArgument,
                {"a macro without an end"});
  }
  EXPECT_EQ(Rendered("{% macro f(n) %}{{ n }}{% if n %}{{ f(n - 1) }}{% endif %}{% endmacro %}"
                     "{{ f(40) }}")
                ->size(),
            72u);
  // Values that hold one another, and what is left of them at the end.
  ExpectError(Rendered("{% set ns = namespace(l=[]) %}{% for i in range(1000) %}"
                       "{% set ns.l = [ns.l] %}{% endfor %}")
                  .status(),
              StatusCode::kInvalidArgument, {"lists in lists"});
  EXPECT_EQ(*Rendered("{% set s = namespace(n=1) %}{% for i in range(3000) %}"
                      "{% set s.n = namespace(n=s.n, me=s) %}{% endfor %}"),
            "");
}

// A template's work is counted, whatever does it, and a text has a bound.
TEST(JinjaRender, WorkHasABound) {
  JinjaValue variables = kWithMessages;
  variables["t"] = std::string(100'000, 'a');
  variables["l"] = JinjaValue::array();
  for (int i = 0; i < 10'000; ++i) variables["l"].push_back(i % 7);
  for (const char* work : {"{% set x = 'ab' in t %}",
                           "{% set x = t.split('aa') %}",
                           "{% set x = t.replace('a', 'b') %}",
                           "{% set x = t * 100 %}",
                           "{% set x = l | sort %}",
                           "{% set x = l | tojson %}",
                           "{% set x = t[::-1] %}",
                           "{% set x = l[:-1] %}",
                           "{% set x = t.rfind('b') %}",
                           "{% set x = t.count('a') %}",
                           "{% set x = t.strip('b') %}",
                           "{% set x = l | string %}",
                           "{% set x = l == l[:] %}",
                           "{% set x = 9 in l %}",
                           "{% set x = t.upper() %}",
                           "{% set x = t | indent %}",
                           "{{ t }}",
                           "x",
                           "",
                           "{% set x = l | map('string') | list %}",
                           "{% set x = l * 9 %}",
                           "{% set x = t ~ t %}",
                           "{% set x = t + t %}",
                           "{% set x = t | list %}",
                           "{% set x = l | unique | list %}",
                           "{% set x = namespace(a=l) %}",
                           "{% set x = dict(a=1) %}",
                           "{% set x = '%s' % t %}"}) {
    SCOPED_TRACE(work);
    ExpectError(Rendered("{% for i in range(99999) %}{% for j in range(99999) %}" +
                             std::string(work) + "{% endfor %}{% endfor %}",
                         variables)
                    .status(),
                StatusCode::kInvalidArgument, {"t:1: "});
  }
  for (const char* large :
       {"{{ 'ab' * 1000000000 }}", "{{ [1] * 1000000000 }}", "{{ t.replace('', t) }}",
        "{{ t.center(1000000000) }}", "{{ 'a'.ljust(9000000000) }}", "{{ l | join(t) }}",
        "{{ t.replace('a', t) }}", "{{ (l | tojson(indent=1000)) * 1000 }}",
        "{% set ns = namespace(t='a') %}{% for i in range(60) %}{% set ns.t = ns.t + ns.t %}"
        "{% endfor %}",
        "{% set ns = namespace(l=[1]) %}{% for i in range(100) %}{% set ns.l = [ns.l, ns.l] %}"
        "{% endfor %}{{ ns.l }}"}) {
    SCOPED_TRACE(large);
    ExpectError(Rendered(large, variables).status(), StatusCode::kInvalidArgument, {"t:1: "});
  }
  EXPECT_EQ(*Rendered("{{ 2 ** 62 }} {{ 1 ** 9000000000000000000 }} {{ (-1) ** 900000000000001 }}"),
            "4611686018427387904 1 -1");
  ExpectError(Rendered("{{ 3 ** 9000000000000000000 }}").status(), StatusCode::kInvalidArgument,
              {"a number is too large"});
}

TEST(JinjaRender, ASignalEndsIt) {
  const StopSignal signals;
  StopSignal::Receive(SIGTERM);
  JinjaValue variables = kWithMessages;
  variables["t"] = std::string(100'000, 'a');
  for (const char* work :
       {"{{ 'ab' in t }}", "{% set x = t | upper %}", "{% set x = t.split() %}"}) {
    ExpectError(
        Rendered("{% for i in range(99999) %}" + std::string(work) + "{% endfor %}", variables)
            .status(),
        StatusCode::kCancelled, {"stopped by SIGTERM"});
  }
}

// Without a day a template may still ask whether there is one.
TEST(JinjaRender, ADayIsWhatItIsGiven) {
  const auto parsed = ParseJinja(
      "{% if strftime_now is defined %}{{ strftime_now('%d.%m.%Y') }}"
      "{% else %}none{% endif %}",
      "t");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(parsed->reads_clock);
  EXPECT_EQ(RenderJinja(*parsed, kWithMessages, kDay, "t")->text, "03.02.2026");
  EXPECT_EQ(RenderJinja(*parsed, kWithMessages, {}, "t")->text, "none");
  EXPECT_FALSE(ParseJinja("{{ 'strftime_now' }}", "t")->reads_clock);
}

}  // namespace
}  // namespace spillway
