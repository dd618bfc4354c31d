// Pieces of HTML: text made safe, tables, pictures that need no other file.
//   Table table({"model", "#nats/token"});      // a leading # marks a column of numbers
//   table.add({"openwork-8m", "3.246"});
//   page += table.html();
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/base64.h"

namespace openwork {

// For text and for attributes in double quotes. Bytes that are not UTF-8 become U+FFFD.
std::string escape_html(std::string_view text);

std::string data_url(std::string_view kind, std::string_view bytes);  // kind: image/png, image/svg+xml

class HtmlTable {
 public:
  explicit HtmlTable(std::vector<std::string> headings, std::string classes = "");
  void add(const std::vector<std::string>& cells);  // text; escaped here
  std::string html() const;

 private:
  std::string head_, body_;
  std::vector<bool> numbers_;
};

// A figure as a data: picture with its caption.
std::string picture_html(const std::string& svg, const std::string& alternative, const std::string& caption);

}  // namespace openwork
