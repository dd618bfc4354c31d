// The self-contained page: one HTML file with its style, script, pictures and data inside. It opens from a
// file, asks the network for nothing and runs no script but its own (its policy forbids both), and can be read without its script.
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
  std::string style =
      {};               // rules beyond page.css: the page has no style attributes, which its policy forbids
  nlohmann::json data;  // what the script reads (page.js)
  nlohmann::json
      viewer;  // what the viewer reads, which then stands in the element of id "app"; null: there is none
  std::string footer;  // text
};

// Whether the program has the viewer in it.
bool has_viewer();

std::string render_page(const Page& page);

}  // namespace openwork
