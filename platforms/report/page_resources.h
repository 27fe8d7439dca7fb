// The files of the page, embedded by embed.cmake. Internal to heddle_report.
#pragma once

#include <cstddef>
#include <string_view>

namespace heddle::report {

struct Resource {
  std::string_view name;          // file name without folder: "page.css"; Chart.js is always "chart.min.js"
  const std::string_view* parts;  // the content is these, one after the other
  std::size_t part_count;
};

const Resource* resources_begin();
const Resource* resources_end();

}  // namespace heddle::report
