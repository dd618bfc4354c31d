#include "report/page.h"

#include <fmt/format.h>

#include "report/html.h"
#include "report/page_assets.h"

namespace openwork {
namespace {

// Nothing may be loaded from anywhere; pictures are data: URLs, style and script stand in the page.
constexpr const char* kPolicy =
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

// JSON inside a script element: "</" would end it.
std::string embed_json(const nlohmann::json& data) {
  std::string text = data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), out;
  for (const char c : text) out += c == '<' ? "\\u003c" : std::string(1, c);
  return out;
}

}  // namespace

std::string render_page(const Page& page) {
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n<link rel=\"icon\" href=\"data:,\">\n"
      "<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n",
      kPolicy, escape_html(page.title), kPageStyle);
  out += fmt::format("<header><div><h1>{}</h1><p class=\"lead\">{}</p></div></header>\n<nav><ul>",
                     escape_html(page.title), escape_html(page.lead));
  for (const PageSection& section : page.sections)
    out += fmt::format("<li><a href=\"#{}\">{}</a></li>", section.id, escape_html(section.title));
  out += "</ul></nav>\n<main>\n";
  for (const PageSection& section : page.sections) {
    out += fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n", section.id,
                       escape_html(section.title), section.html);
  }
  out += fmt::format("</main>\n<footer><div>{}</div></footer>\n", escape_html(page.footer));
  out +=
      "<dialog id=\"large\"><button>close</button><h3></h3><div class=\"views\"></div><p "
      "class=\"line\"></p></dialog>\n";
  out += fmt::format(
      "<script type=\"application/json\" id=\"data\">{}</script>\n<script>\n{}</script>\n</body>\n</html>\n",
      embed_json(page.data), kPageScript);
  return out;
}

}  // namespace openwork
