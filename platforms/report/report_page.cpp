#include "report/report_page.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string_view>
#include <system_error>

#include <nlohmann/json.hpp>

#include "common/error.h"

namespace heddle::report {
namespace {

constexpr std::string_view kMarker = "@@";
constexpr std::string_view kUntitled = "Heddle run";

void append_resource(std::string& out, std::string_view name) {
  const Resource* const found = std::find_if(resources_begin(), resources_end(),
                                             [name](const Resource& resource) { return resource.name == name; });
  HEDDLE_CHECK(found != resources_end(), "the page refers to a file that is not embedded: " + std::string(name));
  for (std::size_t i = 0; i < found->part_count; ++i) out += found->parts[i];
}

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// JSON that can stand in a script element. ASCII only, which takes care of U+2028 and of encodings; no '<' at all,
// because
// "</script" ends the element and "<!--" changes how its end is found. A '<' occurs within strings only.
std::string script_json(const nlohmann::json& data) {
  const std::string text = data.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size() + text.size() / 16);
  for (const char c : text) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

// The title as valid UTF-8.
std::string title_of(const nlohmann::json& data) {
  const auto found = data.find("title");
  if (found == data.end() || !found->is_string()) return std::string(kUntitled);
  const std::string quoted = found->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return nlohmann::json::parse(quoted).get<std::string>();
}

}  // namespace

std::string page_html(std::string_view name, const nlohmann::json& data) {
  if (!data.is_object()) {
    throw InputError("the data of a report must be a JSON object, not " + std::string(data.type_name()),
                     "give the report.json of a run");
  }
  std::string page;
  append_resource(page, name);

  // @@title@@, @@data@@ and @@file NAME@@ in the template are replaced in one pass: what is put in is not looked at
  // again.
  std::string out;
  std::string_view rest = page;
  while (true) {
    const std::size_t open = rest.find(kMarker);
    if (open == std::string_view::npos) break;
    const std::size_t close = rest.find(kMarker, open + kMarker.size());
    HEDDLE_CHECK(close != std::string_view::npos, std::string(name) + " has a marker without an end");
    const std::string_view what = rest.substr(open + kMarker.size(), close - open - kMarker.size());
    out += rest.substr(0, open);
    rest.remove_prefix(close + kMarker.size());
    constexpr std::string_view kFile = "file ";
    if (what == "title") {
      out += html_escaped(title_of(data));
    } else if (what == "data") {
      out += script_json(data);
    } else {
      HEDDLE_CHECK(what.substr(0, kFile.size()) == kFile,
                   std::string(name) + " has an unknown marker: " + std::string(what));
      append_resource(out, what.substr(kFile.size()));
    }
  }
  out += rest;
  return out;
}

std::string report_html(const nlohmann::json& data) { return page_html("page.html", data); }

void write_report(const std::filesystem::path& file, const nlohmann::json& data) {
  write_page("page.html", file, data);
}

void write_page(std::string_view name, const std::filesystem::path& file, const nlohmann::json& data) {
  const std::string html = page_html(name, data);
  errno = 0;
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out.write(html.data(), static_cast<std::streamsize>(html.size()));
  out.close();
  if (!out) {
    const std::string why = errno != 0 ? std::generic_category().message(errno) : "the write failed";
    throw InputError(SourcePos{file.string()}, "cannot write the report: " + why,
                     "give an output folder that exists, can be written to and has space left");
  }
}

}  // namespace heddle::report
