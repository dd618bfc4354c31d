#include "report/page.h"

#include <fmt/format.h>

#include "assets/viewer_assets.h"
#include "base/base64.h"
#include "io/sha256.h"
#include "report/html.h"
#include "report/page_assets.h"

namespace openwork {
namespace {

// JSON inside a script element: "</" would end it.
std::string embed_json(const nlohmann::json& data) {
  std::string text = data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), out;
  for (const char c : text) out += c == '<' ? "\\u003c" : std::string(1, c);
  return out;
}

constexpr std::string_view kViewerStyle = "assets/index.css", kViewerScript = "assets/index.js";

// A script inside a page ends at the first "</script": in a string, which is where it can be, "<\\/script" says the same.
std::string embed_script(std::string_view script) {
  std::string out(script);
  constexpr std::string_view kEnd = "</script";
  for (size_t at = out.find(kEnd); at != std::string::npos; at = out.find(kEnd, at)) out.insert(at + 1, "\\");
  return out;
}

// The name that a policy gives a piece of script or style: of the very bytes between its tags.
std::string hash_source(std::string_view piece) {
  const std::string digits = sha256_of_bytes(piece);
  std::string bytes;
  for (size_t n = 0; n < digits.size(); n += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(n, 2), nullptr, 16));
  return fmt::format("'sha256-{}'", encode_base64(bytes));
}

// Style and script that stand in the page. Whatever else finds its way into it is not run.
struct Pieces {
  std::vector<std::string> styles, scripts, modules;

  // Nothing may be loaded from anywhere; pictures are data: URLs, the viewer's exports blobs.
  std::string policy() const {
    std::string style_hashes, script_hashes;
    for (const std::string& style : styles) style_hashes += " " + hash_source(style);
    for (const std::string& script : scripts) script_hashes += " " + hash_source(script);
    for (const std::string& script : modules) script_hashes += " " + hash_source(script);
    return fmt::format(
        "default-src 'none'; img-src data: blob:; style-src{}; script-src{}; base-uri 'none'; form-action "
        "'none'",
        style_hashes, script_hashes);
  }
};

Pieces collect_pieces(const Page& page, bool viewer) {
  Pieces pieces{{fmt::format("\n{}{}", kPageStyle, page.style)}, {fmt::format("\n{}", kPageScript)}, {}};
  if (!viewer) return pieces;
  pieces.styles.push_back(fmt::format("\n{}", find_viewer_asset(kViewerStyle)->bytes));
  pieces.modules.push_back("\n" + embed_script(find_viewer_asset(kViewerScript)->bytes));
  return pieces;
}

}  // namespace

bool has_viewer() {
  return find_viewer_asset(kViewerStyle) != nullptr && find_viewer_asset(kViewerScript) != nullptr;
}

std::string render_page(const Page& page) {
  const bool viewer = !page.viewer.is_null() && has_viewer();
  const Pieces pieces = collect_pieces(page, viewer);
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n<link rel=\"icon\" href=\"data:,\">\n"
      "<title>{}</title>\n",
      pieces.policy(), escape_html(page.title));
  for (const std::string& style : pieces.styles) out += fmt::format("<style>{}</style>\n", style);
  out += "</head>\n<body>\n";
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
  out += fmt::format("<script type=\"application/json\" id=\"data\">{}</script>\n", embed_json(page.data));
  for (const std::string& script : pieces.scripts) out += fmt::format("<script>{}</script>\n", script);
  if (viewer) {
    out += fmt::format("<script type=\"application/json\" id=\"openwork-data\">{}</script>\n",
                       embed_json(page.viewer));
  }
  for (const std::string& script : pieces.modules)
    out += fmt::format("<script type=\"module\">{}</script>\n", script);
  return out + "</body>\n</html>\n";
}

}  // namespace openwork
