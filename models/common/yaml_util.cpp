#include "common/yaml_util.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>

namespace heddle {
namespace {

// Aliases let a file of a kilobyte stand for more nodes than memory holds; no honest configuration comes near this.
constexpr std::size_t kMaxNodes = 2'000'000;
constexpr std::size_t kMaxDepth = 200;

SourcePos position(const YAML::Mark& mark, const std::string& file) {
  SourcePos pos;
  pos.file = file;
  if (mark.line >= 0) {
    pos.line = mark.line + 1;
    pos.column = mark.column + 1;
  }
  return pos;
}

// Notes where documents begin and ignores what they hold.
class DocumentMarks : public YAML::EventHandler {
 public:
  std::vector<YAML::Mark> begins;

  void OnDocumentStart(const YAML::Mark& mark) override { begins.push_back(mark); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

// YAML::Load ignores what follows the first document, and YAML::LoadAll makes endless empty documents of text that
// begins with, say, a comma.
void check_single_document(const std::string& text, const std::string& file) {
  std::istringstream in(text);
  YAML::Parser parser(in);
  DocumentMarks marks;
  if (!parser.HandleNextDocument(marks) || !parser.HandleNextDocument(marks) || marks.begins.size() < 2) return;
  if (marks.begins[1].pos == marks.begins[0].pos) {
    throw InputError(position(marks.begins[0], file), "not valid YAML: nothing can begin with this character",
                     "text that begins so wants quotes");
  }
  throw InputError(
      position(marks.begins[1], file), "a second YAML document begins here",
      "remove the line \"---\" between them, or split the file; if there is none, look at the indentation");
}

// The parser's message for this, the most frequent mistake of all, names anything but the tab.
bool indented_with_tab(const std::string& text, int line) {
  std::size_t begin = 0;
  for (int i = 1; i < line && begin != std::string::npos; ++i) {
    begin = text.find('\n', begin);
    if (begin != std::string::npos) ++begin;
  }
  if (begin == std::string::npos) return false;
  const std::size_t end = text.find_first_not_of(" \t", begin);
  return text.substr(begin, end - begin).find('\t') != std::string::npos;
}

// The line of the last brace or bracket before `line` that is still open there; 0: none. One that is closed by another
// kind is open.
int open_since(const std::string& text, int line) {
  std::vector<std::pair<char, int>> open;
  int at = 1;
  char quote = 0;
  for (std::size_t i = 0; i < text.size() && at <= line; ++i) {
    const char c = text[i];
    const char before = i > 0 ? text[i - 1] : '\n';
    if (c == '\n') {
      ++at;
    } else if (quote != 0) {
      if (c == '\\' && quote == '"' && i + 1 < text.size() && text[i + 1] != '\n') ++i;
      if (c == quote) quote = 0;
    } else if ((c == '"' || c == '\'') && std::string_view(" \t\n[{,:").find(before) != std::string_view::npos) {
      quote = c;
    } else if (c == '#' && std::string_view(" \t\n").find(before) != std::string_view::npos) {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (c == '{' || c == '[') {
      open.emplace_back(c, at);
    } else if ((c == '}' || c == ']') && !open.empty()) {
      if (open.back().first != (c == '}' ? '{' : '[')) break;
      open.pop_back();
    }
  }
  return open.empty() ? 0 : open.back().second;
}

// What to do about the parser's message.
std::string syntax_remedy(const std::string& message, const std::string& text, int line) {
  if (indented_with_tab(text, line)) return "the line begins with a tab; YAML wants spaces";
  constexpr const char* kQuotes =
      "in {...} and [...] text with ? : { } [ ] # or a comma wants quotes: {set: {i: \"i > 3 ? 1 : 2\"}}, "
      "{grid: \"${n}\"}";
  const int since = open_since(text, line);
  if (since != 0 && since < line) {
    return fmt::format("a {{ or [ of line {} is not closed; or: {}", since, kQuotes);
  }
  if (since != 0 || message.find("flow") != std::string::npos) return kQuotes;
  if (message.find("end of map") != std::string::npos || message.find("end of sequence") != std::string::npos ||
      message.find("block entry") != std::string::npos) {
    return "the line stands in another column than the lines that it belongs to, or a dash is missing: entries of one "
           "map "
           "or list begin in the same column";
  }
  if (message.find("map value") != std::string::npos || message.find("mapping") != std::string::npos) {
    return "text with a colon and a blank in it wants quotes; or the line stands in the wrong column";
  }
  if (message.find("anchor") != std::string::npos) {
    return "write &name before what *name repeats; text that begins with * wants quotes";
  }
  for (const char* word : {"escape", "hex number", "unicode"}) {
    if (message.find(word) == std::string::npos) continue;
    return "a backslash between double quotes begins an escape; write two of them, or single quotes";
  }
  return "text that begins with @ ` % & * ! | > or a quote wants quotes around it";
}

// `<<: *base` and `<<: [*a, *b]`, the merge keys of YAML 1.1: what the maps have goes into the map that lacks it.
class Merger {
 public:
  explicit Merger(const std::string& file) : file_(file) {}

  void visit(YAML::Node node) {
    if (node.IsSequence()) {
      for (auto item : node) visit(item);
    } else if (node.IsMap()) {
      for (auto entry : node) visit(entry.second);
      merge(node);
    }
  }

 private:
  void merge(YAML::Node& map) {
    const YAML::Node& constant = map;
    const YAML::Node bases = constant["<<"];
    if (!bases.IsDefined()) return;
    std::vector<YAML::Node> list;
    if (bases.IsSequence()) {
      for (const auto& base : bases) list.push_back(base);
    } else {
      list.push_back(bases);
    }
    // What is merged comes first, in its order, and what the map says itself stays where a base has it, as PyYAML does
    // it: later entries of `let` and of parameters build on earlier ones.
    std::vector<std::pair<YAML::Node, YAML::Node>> merged;
    std::map<std::string, std::size_t> places;
    const auto put = [&](const YAML::Node& key, const YAML::Node& value) {
      const auto [place, fresh] = places.emplace(key.Scalar(), merged.size());
      if (fresh) {
        merged.emplace_back(key, value);
      } else {
        // A Node that is assigned to would change what it stands for.
        merged[place->second].first.reset(key);
        merged[place->second].second.reset(value);
      }
    };
    // The first one of several wins.
    for (auto it = list.rbegin(); it != list.rend(); ++it) {
      const YAML::Node& base = *it;
      if (!base.IsMap()) {
        throw InputError(heddle::position(base, file_), fmt::format("<< wants a map, found {}", kind_text(base)),
                         "as in: {<<: *base, name: other}, where &base stands before a map");
      }
      for (const auto& entry : base) put(entry.first, entry.second);
    }
    std::vector<YAML::Node> before;
    for (const auto& entry : map) {
      before.push_back(entry.first);
      if (entry.first.Scalar() != "<<") put(entry.first, entry.second);
    }
    for (const YAML::Node& key : before) map.remove(key);
    for (const auto& [key, value] : merged) map.force_insert(key, value);
  }

  const std::string& file_;
};

class TreeCheck {
 public:
  explicit TreeCheck(const std::string& file) : file_(file) {}

  // A tree that contains itself is one of unlimited depth, so that the limit catches cycles too.
  void visit(const YAML::Node& node, std::size_t depth) {
    if (++visited_ > kMaxNodes || depth > kMaxDepth) {
      throw InputError(heddle::position(node, file_),
                       depth > kMaxDepth ? "the nesting is too deep, or an alias contains itself"
                                         : "the file stands for too many values",
                       "write the values out instead of using YAML aliases (*name)");
    }
    if (node.IsSequence()) {
      for (const auto& item : node) visit(item, depth + 1);
    } else if (node.IsMap()) {
      visit_map(node, depth);
    }
  }

 private:
  void visit_map(const YAML::Node& map, std::size_t depth) {
    std::map<std::string, YAML::Node> seen;
    for (const auto& entry : map) {
      const YAML::Node& key = entry.first;
      if (!key.IsScalar()) {
        throw InputError(heddle::position(key, file_), fmt::format("a key must be text, found {}", kind_text(key)),
                         "as in: name: value");
      }
      const auto [first, inserted] = seen.emplace(key.Scalar(), key);
      if (!inserted) {
        throw InputError(heddle::position(key, file_),
                         fmt::format("the key \"{}\" stands twice in one map", key.Scalar()),
                         fmt::format("the first one is at line {}; remove one of them", first->second.Mark().line + 1));
      }
      visit(entry.second, depth + 1);
    }
  }

  const std::string& file_;
  std::size_t visited_ = 0;
};

}  // namespace

YAML::Node load_yaml(const std::string& text, const std::string& file) {
  YAML::Node node;
  try {
    node.reset(YAML::Load(text));
    check_single_document(text, file);
  } catch (const YAML::Exception& error) {
    const SourcePos where = position(error.mark, file);
    throw InputError(where, fmt::format("not valid YAML: {}", error.msg), syntax_remedy(error.msg, text, where.line));
  }
  TreeCheck(file).visit(node, 0);
  if (text.find("<<") != std::string::npos) Merger(file).visit(node);
  return node;
}

std::string read_text_file(const std::string& path) {
  std::error_code status;
  if (std::filesystem::is_directory(path, status))
    throw InputError(SourcePos{path, 0, 0}, "this is a folder, not a file", "name a file in it");
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    throw InputError(
        SourcePos{path, 0, 0},
        std::filesystem::exists(path, status) ? "the file cannot be opened for reading" : "there is no such file",
        "look at its name and folder, and at who may read it");
  }
  std::ostringstream text;
  text << in.rdbuf();
  if (in.bad()) throw InputError(SourcePos{path, 0, 0}, "reading the file failed");
  return text.str();
}

YAML::Node load_yaml_file(const std::string& path) { return load_yaml(read_text_file(path), path); }

SourcePos position(const YAML::Node& node, const std::string& file) { return position(node.Mark(), file); }

std::string kind_text(const YAML::Node& node) {
  if (!node.IsDefined() || node.IsNull()) return "nothing";
  if (node.IsMap()) return "a map";
  if (node.IsSequence()) return "a list";
  constexpr std::size_t kMaxShown = 60;
  const std::string& scalar = node.Scalar();
  return fmt::format("\"{}{}\"", scalar.substr(0, kMaxShown), scalar.size() > kMaxShown ? "…" : "");
}

std::vector<std::string> keys(const YAML::Node& map) {
  std::vector<std::string> result;
  for (const auto& entry : map) result.push_back(entry.first.Scalar());
  return result;
}

void emit_text(YAML::Emitter& out, const std::string& text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  const bool starts_with_letter =
      !text.empty() && ((text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z'));
  if (starts_with_letter && std::all_of(text.begin(), text.end(), plain) && text != "null" && text != "Null" &&
      text != "NULL") {
    out << text;
  } else {
    out << YAML::DoubleQuoted << text;
  }
}

}  // namespace heddle
