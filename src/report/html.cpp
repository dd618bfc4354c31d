#include "report/html.h"

#include <fmt/format.h>

#include <cstdint>

#include "base/utf8.h"

namespace openwork {

std::string escape_html(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length_at(text, at);
    const char c = text[at];
    if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') {
      out += "\xEF\xBF\xBD";  // HTML has no place for other control characters
    } else {
      out.append(text, at, length);
    }
    at += length == 0 ? 1 : length;
  }
  return out;
}

std::string data_url(std::string_view kind, std::string_view bytes) {
  return fmt::format("data:{};base64,{}", kind, encode_base64(bytes));
}

HtmlTable::HtmlTable(std::vector<std::string> headings, std::string classes) {
  head_ = fmt::format("<div class=\"scroll\"><table class=\"{}\"><thead><tr>", classes);
  for (const std::string& heading : headings) {
    const bool number = heading.starts_with('#');
    numbers_.push_back(number);
    head_ += fmt::format("<th{}>{}</th>", number ? " class=\"number\"" : "",
                         escape_html(number ? heading.substr(1) : heading));
  }
  head_ += "</tr></thead><tbody>";
}

void HtmlTable::add(const std::vector<std::string>& cells) {
  body_ += "<tr>";
  for (size_t n = 0; n < cells.size(); ++n) {
    body_ += fmt::format("<td{}>{}</td>", numbers_[n] ? " class=\"number\"" : "", escape_html(cells[n]));
  }
  body_ += "</tr>\n";
}

std::string HtmlTable::html() const {
  return head_ + body_ + "</tbody></table></div>\n";
}

std::string picture_html(const std::string& svg, const std::string& alternative, const std::string& caption) {
  const std::string below =
      caption.empty() ? "" : fmt::format("<figcaption>{}</figcaption>", escape_html(caption));
  return fmt::format("<figure><img alt=\"{}\" src=\"{}\">{}</figure>\n", escape_html(alternative),
                     data_url("image/svg+xml", svg), below);
}

}  // namespace openwork
