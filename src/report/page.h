// The self-contained page: one HTML file with its style, script, pictures and data inside. It opens from a
// file, asks the network for nothing (its own policy forbids it) and can be read without its script.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace openwork {

struct PageSection {
  std::string id, title;  // the title also stands in the list of sections
  std::string html;
};

struct Page {
  std::string title, lead;  // text
  std::vector<PageSection> sections;
  nlohmann::json data;  // what the script reads (page.js)
  std::string footer;   // text
};

std::string render_page(const Page& page);

}  // namespace openwork
