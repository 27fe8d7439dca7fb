// A module from its text: what stands outside of functions' bodies.
#include <algorithm>
#include <utility>

#include "common/error.h"
#include "ptx/body.h"
#include "ptx/constant.h"
#include "ptx/declaration.h"
#include "ptx/lexer.h"
#include "ptx/module.h"
#include "ptx/name_table.h"

namespace heddle::ptx {

namespace {

constexpr std::uint32_t kNewestVersion = 9;  // of PTX; its minor versions only add
constexpr std::uint32_t kArchitecture = 90;  // of the machine: sm_90a

const std::vector<std::string>& module_directives() {
  static const std::vector<std::string> kNames = {
      ".version", ".target", ".address_size", ".file",    ".section", ".pragma", ".global", ".const", ".shared",
      ".entry",   ".func",   ".alias",        ".visible", ".extern",  ".weak",   ".common", ".tex"};
  return kNames;
}

// What stands between a function's parameters and its body, and how many numbers go with it.
struct FunctionDirective {
  const char* name;
  std::size_t most;
  bool of_kernels;  // else of functions alone
};
constexpr FunctionDirective kFunctionDirectives[] = {
    {"maxntid", 3, true},         {"reqntid", 3, true},        {"minnctapersm", 1, true},
    {"maxnctapersm", 1, true},    {"maxnreg", 1, true},        {"reqnctapercluster", 3, true},
    {"explicitcluster", 0, true}, {"maxclusterrank", 1, true}, {"blocksareclusters", 0, true},
    {"noreturn", 0, false},       {"abi_preserve", 1, false},  {"abi_preserve_control", 1, false},
};

bool same_type(const Variable& a, const Variable& b) {
  return a.type == b.type && a.vector == b.vector && a.extents == b.extents && a.opaque == b.opaque;
}

bool same_types(const std::vector<Variable>& a, const std::vector<Variable>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_type);
}

class ModuleReader {
 public:
  ModuleReader(const std::string& text, const std::string& name)
      : tokens_(text, name), constants_(tokens_), declarations_(tokens_, names_), bodies_(tokens_, names_) {
    module_.name = name;
  }

  Module read() {
    read_version();
    read_target();
    while (tokens_.peek().kind != TokenKind::end) read_top();
    return std::move(module_);
  }

 private:
  // .version 9.0
  void read_version() {
    if (!tokens_.accept_directive("version")) {
      tokens_.refuse(tokens_.peek().place, "a module of PTX begins with .version", "is this the output of nvcc -ptx?");
    }
    const Token version = tokens_.take();
    const std::size_t point = version.text.find('.');
    const bool plain = version.kind == TokenKind::real && point != std::string_view::npos && point > 0 &&
                       point + 1 < version.text.size() && version.text.size() < 10 &&
                       version.text.find_first_not_of("0123456789.") == std::string_view::npos;
    if (!plain) tokens_.refuse_token(version, "a version of PTX: 9.0");
    module_.major = static_cast<std::uint32_t>(std::stoul(std::string(version.text.substr(0, point))));
    module_.minor = static_cast<std::uint32_t>(std::stoul(std::string(version.text.substr(point + 1))));
    if (module_.major > kNewestVersion) {
      tokens_.refuse(version.place, "PTX " + std::string(version.text) + " is newer than what is read",
                     "versions up to " + std::to_string(kNewestVersion) + ".x are: take nvcc 13");
    }
    if (module_.major == 0) tokens_.refuse(version.place, "there is no PTX " + std::string(version.text), "write 9.0");
  }

  // .target sm_90a, debug
  void read_target() {
    if (!tokens_.accept_directive("target")) {
      tokens_.refuse_token(tokens_.peek(), ".target behind .version: .target sm_90a");
    }
    do {
      const Token option = tokens_.expect_name("a target: sm_90a");
      if (option.text.substr(0, 3) == "sm_" || option.text.substr(0, 8) == "compute_") {
        if (!module_.target.empty()) {
          tokens_.refuse(option.place, "a second target " + in_words(option), "name one architecture");
        }
        check_target(option);
        module_.target = std::string(option.text);
      } else {
        check_option(option);
        module_.target_options.emplace_back(option.text);
      }
    } while (tokens_.accept_symbol(","));
    if (module_.target.empty())
      tokens_.refuse(tokens_.peek().place, ".target names no architecture", "write .target sm_90a");
  }

  void check_target(const Token& token) const {
    const std::string_view text = token.text.substr(token.text.find('_') + 1);
    const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
    const std::string_view suffix = text.substr(end);
    if (end < 2 || end > 4 || (!suffix.empty() && suffix != "a" && suffix != "f")) {
      tokens_.refuse(token.place, in_words(token) + " is no architecture", "write .target sm_90a");
    }
    const unsigned long number = std::stoul(std::string(text.substr(0, end)));
    if (number > kArchitecture) {
      tokens_.refuse(token.place, in_words(token) + " is newer than the machine, which is sm_90a",
                     "compile with nvcc -arch=sm_90a");
    }
    if (!suffix.empty() && (number != kArchitecture || suffix != "a")) {
      tokens_.refuse(token.place, in_words(token) + " is for that architecture alone, and the machine is sm_90a",
                     "compile with nvcc -arch=sm_90a");
    }
  }

  void check_option(const Token& token) const {
    static const std::vector<std::string> kOptions = {"debug", "texmode_unified", "texmode_independent"};
    const std::string option(token.text);
    if (std::find(kOptions.begin(), kOptions.end(), option) != kOptions.end()) return;
    if (option == "map_f64_to_f32") {
      tokens_.refuse(token.place, "map_f64_to_f32 is for machines without doubles", "take it out");
    }
    tokens_.refuse(token.place, in_words(token) + " is no target and no option of .target",
                   suggestion(option, kOptions));
  }

  void read_top() {
    const Token& token = tokens_.peek();
    if (tokens_.accept_symbol(";")) return;
    if (token.kind != TokenKind::dotted)
      tokens_.refuse_token(token, "a directive of the module: .entry, .func, .global …");
    if (tokens_.accept_directive("address_size")) {
      read_address_size();
    } else if (tokens_.accept_directive("file")) {
      module_.files.push_back(read_file(tokens_));
    } else if (tokens_.accept_directive("section")) {
      skip_section(tokens_);
    } else if (tokens_.accept_directive("pragma")) {
      skip_pragma(tokens_);
    } else if (tokens_.accept_directive("alias")) {
      read_alias();
    } else {
      read_linked();
    }
  }

  void read_address_size() {
    const TextPlace place = tokens_.peek().place;
    const std::uint64_t bits = constants_.read_count("an address size", 64);
    if (bits != 64) {
      tokens_.refuse(place, "addresses of " + std::to_string(bits) + " bits",
                     "the machine has addresses of 64: compile with -m64");
    }
  }

  // .alias f, g;
  void read_alias() {
    const Token alias = tokens_.expect_name("the other name of a function");
    tokens_.expect_symbol(",", "between the two names of .alias");
    const Token target = tokens_.expect_name("the name of a function");
    tokens_.expect_symbol(";", "behind .alias");
    const Function& to = need_function(target);
    const Function& from = need_function(alias);
    if (from.body.has_value()) {
      tokens_.refuse(alias.place, in_words(alias) + " has a body, and cannot stand for " + in_words(target),
                     "take the body out");
    }
    if (!to.body.has_value() || to.entry || from.entry) {
      tokens_.refuse(target.place, in_words(target) + " is no .func with a body",
                     "an alias stands for one that is defined before");
    }
    check_signature(from, to, alias.place);
    if (!module_.aliases.emplace(std::string(alias.text), std::string(target.text)).second) {
      tokens_.refuse(alias.place, in_words(alias) + " is an alias already", "take one of them out");
    }
  }

  const Function& need_function(const Token& name) const {
    const auto at = function_index_.find(std::string(name.text));
    if (at == function_index_.end()) {
      tokens_.refuse(name.place, in_words(name) + " is no function", names_.suggest(name.text));
    }
    return module_.functions[at->second];
  }

  // .visible .global …, .weak .func …
  void read_linked() {
    Linkage linkage;
    const Token first = tokens_.peek();
    while (true) {
      if (tokens_.accept_directive("visible")) {
        linkage.is_visible = true;
      } else if (tokens_.accept_directive("extern")) {
        linkage.is_extern = true;
      } else if (tokens_.accept_directive("weak")) {
        linkage.is_weak = true;
      } else if (tokens_.accept_directive("common")) {
        linkage.is_common = true;
      } else {
        break;
      }
    }
    if (int{linkage.is_visible} + int{linkage.is_extern} + int{linkage.is_weak} + int{linkage.is_common} > 1) {
      tokens_.refuse(first.place, "more than one of .visible, .extern, .weak and .common", "choose one");
    }
    const Token& token = tokens_.peek();
    if (token.kind != TokenKind::dotted) tokens_.refuse_token(token, "what is linked: .entry, .func, .global …");
    if (token.text == "entry" || token.text == "func") {
      read_function(linkage);
    } else if (token.text == "tex") {
      tokens_.refuse(token.place, ".tex has been replaced in PTX 1.5", "declare a .texref in .global");
    } else if (is_state_space(token.text)) {
      for (Variable& variable : declarations_.read(linkage)) add_variable(std::move(variable));
    } else {
      tokens_.refuse(token.place, in_words(token) + " is no directive of PTX",
                     suggestion("." + std::string(token.text), module_directives()));
    }
  }

  void add_variable(Variable variable) {
    variable.module = module_.name;
    const auto [at, added] = variable_index_.emplace(variable.name, module_.variables.size());
    if (added) {
      module_.variables.push_back(std::move(variable));
      return;
    }
    Variable& there = module_.variables[at->second];
    if (!there.is_extern && !variable.is_extern) {
      tokens_.refuse(variable.place,
                     "'" + variable.name + "' is declared already, in line " + std::to_string(there.place.line),
                     "take one of them out");
    }
    if (there.space != variable.space ||
        bytes_of(there.type) * there.vector != bytes_of(variable.type) * variable.vector) {
      tokens_.refuse(variable.place,
                     "'" + variable.name + "' is another variable than in line " + std::to_string(there.place.line),
                     "declare both alike");
    }
    const Variable& defined = there.is_extern ? variable : there;
    if (!defined.is_extern && !defined.is_visible && !defined.is_weak && !defined.is_common) {
      tokens_.refuse(variable.place, "'" + variable.name + "' is .extern, and its definition is of the module alone",
                     "define it .visible");
    }
    if (there.is_extern) there = std::move(variable);
  }

  void read_function(const Linkage& linkage) {
    Function function;
    function.entry = tokens_.take().text == "entry";
    function.is_visible = linkage.is_visible;
    function.is_extern = linkage.is_extern;
    function.is_weak = linkage.is_weak;
    if (linkage.is_common) tokens_.refuse(tokens_.peek().place, ".common is of variables", "write .weak");
    if (tokens_.accept_directive("attribute") && declarations_.read_attributes()) {
      tokens_.refuse(tokens_.peek().place, ".managed is of variables", "take it out");
    }
    names_.open();
    if (tokens_.at_symbol("(")) {
      const TextPlace place = tokens_.peek().place;
      if (function.entry) tokens_.refuse(place, "a kernel has no results", "write through a pointer");
      function.results = declarations_.read_parameters(true);
    }
    const Token name = tokens_.expect_name("the name of a function");
    function.name = std::string(name.text);
    function.place = name.place;
    function.module = module_.name;
    if (tokens_.at_symbol("(")) function.parameters = declarations_.read_parameters(true);
    read_function_directives(function);
    const bool has_body = tokens_.at_symbol("{");
    if (!has_body) tokens_.expect_symbol(";", "or '{' behind a function's head");
    if (has_body && function.is_extern) {
      tokens_.refuse(name.place, in_words(name) + " is .extern, and has a body", "take one of them out");
    }
    check_parameters(function);
    // Its name is the module's, and known in its body.
    const std::size_t index = add_function(function, has_body);
    if (has_body) module_.functions[index].body = bodies_.read_body();
    names_.close();
  }

  void check_parameters(const Function& function) const {
    if (!function.entry) return;
    for (const Variable& parameter : function.parameters) {
      if (parameter.space != StateSpace::param) {
        tokens_.refuse(parameter.place, "'" + parameter.name + "' is a register, and kernels have none as parameters",
                       "declare it in .param");
      }
      if (parameter.array && parameter.bytes() == 0 && parameter.extents[0] == 0) {
        tokens_.refuse(parameter.place, "nobody says how large '" + parameter.name + "' is", "give its extent");
      }
      if (parameter.name == "_")
        tokens_.refuse(parameter.place, "a parameter of a kernel without a name", "give it one");
    }
  }

  std::size_t add_function(Function& function, bool has_body) {
    const auto at = function_index_.find(function.name);
    if (at == function_index_.end()) {
      if (const NameEntry* there = names_.declare_in_module(
              function.name, {NameKind::function, function.place, 0, 0, StateSpace::generic, Type::none})) {
        tokens_.refuse(function.place,
                       "'" + function.name + "' is declared already, in line " + std::to_string(there->place.line),
                       "give one of them another name");
      }
      function_index_.emplace(function.name, module_.functions.size());
      module_.functions.push_back(std::move(function));
      return module_.functions.size() - 1;
    }
    Function& there = module_.functions[at->second];
    if (has_body && there.body.has_value()) {
      tokens_.refuse(function.place,
                     "'" + function.name + "' has a body already, in line " + std::to_string(there.place.line),
                     "take one of them out");
    }
    check_signature(function, there, function.place);
    if (has_body || !there.body.has_value()) {
      function.no_return = function.no_return || there.no_return;
      there = std::move(function);
    }
    return at->second;
  }

  void check_signature(const Function& function, const Function& other, TextPlace place) const {
    if (function.entry == other.entry && same_types(function.results, other.results) &&
        same_types(function.parameters, other.parameters)) {
      return;
    }
    tokens_.refuse(place,
                   "'" + function.name + "' has other parameters than " +
                       (function.name == other.name ? "" : "'" + other.name + "' ") + "in line " +
                       std::to_string(other.place.line),
                   "declare both alike");
  }

  void read_function_directives(Function& function) {
    while (tokens_.peek().kind == TokenKind::dotted) {
      const Token token = tokens_.take();
      if (token.text == "pragma") {
        skip_pragma(tokens_);
        continue;
      }
      const auto* row = std::find_if(std::begin(kFunctionDirectives), std::end(kFunctionDirectives),
                                     [&token](const FunctionDirective& each) { return token.text == each.name; });
      if (row == std::end(kFunctionDirectives)) refuse_function_directive(token);
      if (row->of_kernels != function.entry) {
        tokens_.refuse(token.place,
                       in_words(token) + (row->of_kernels ? " is of kernels" : " is of functions that are called"),
                       "take it out");
      }
      std::vector<std::uint64_t> numbers;
      while (numbers.size() < row->most && (numbers.empty() || tokens_.accept_symbol(","))) {
        const TextPlace place = tokens_.peek().place;
        numbers.push_back(constants_.read_count("a number of " + in_words(token), 0xFFFFFFFFU));
        if (row->most == 3 && numbers.back() == 0) tokens_.refuse(place, in_words(token) + " of 0", "write 1 or more");
      }
      if (row->most == 3) numbers.resize(3, 1);
      if (token.text == "noreturn") {
        function.no_return = true;
        if (!function.results.empty()) {
          tokens_.refuse(token.place, "'.noreturn' of a function with results", "take one of them out");
        }
      } else if (!function.directives.emplace(std::string(token.text), std::move(numbers)).second) {
        tokens_.refuse(token.place, "a second " + in_words(token), "take one of them out");
      }
    }
    if (function.directives.count("blocksareclusters") != 0 &&
        (function.directives.count("reqntid") == 0 || function.directives.count("reqnctapercluster") == 0)) {
      tokens_.refuse(function.place,
                     ".blocksareclusters of '" + function.name + "' without .reqntid and .reqnctapercluster",
                     "write both");
    }
    if (function.directives.count("maxclusterrank") != 0 && function.directives.count("reqnctapercluster") != 0) {
      tokens_.refuse(function.place, "'" + function.name + "' has both .maxclusterrank and .reqnctapercluster",
                     "take one of them out");
    }
  }

  [[noreturn]] void refuse_function_directive(const Token& token) const {
    std::vector<std::string> names;
    for (const FunctionDirective& row : kFunctionDirectives) names.push_back("." + std::string(row.name));
    tokens_.refuse(token.place, in_words(token) + " is no directive of a function",
                   suggestion("." + std::string(token.text), names));
  }

  Module module_;
  TokenReader tokens_;
  NameTable names_;
  ConstantReader constants_;
  DeclarationReader declarations_;
  BodyReader bodies_;
  std::map<std::string, std::size_t> function_index_;
  std::map<std::string, std::size_t> variable_index_;
};

}  // namespace

Module parse_module(const std::string& text, const std::string& name) { return ModuleReader(text, name).read(); }

}  // namespace heddle::ptx
