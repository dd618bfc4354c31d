#include "shell/figure_options.h"

#include "draw/figure.h"
#include "io/atomic_file.h"

namespace openwork {

void add_figure_file(CLI::App& verb, FigureFile& file) {
  verb.add_option("--out", file.out, "the figure: .svg, .pdf or .png")
      ->type_name("FILE")
      ->capture_default_str();
  verb.add_option("--dpi", file.dpi, "pixels per inch of a .png")
      ->type_name("N")
      ->check(between(10.0, 2400.0))
      ->capture_default_str();
}

void add_figure_options(CLI::App& verb, FigureOptions& options, const std::string& out) {
  options.out = out;
  verb.add_option("MODEL... PROMPT", options.words, "one or more models, then the text")
      ->type_name("")
      ->required()
      ->expected(1, 64);
  add_prompt_source_options(verb, options.source);
  verb.get_option("--prompts")
      ->description("text file with a prompt per line, or JSONL, all of as many tokens");
  add_figure_file(verb, options);
}

void check_figure_output(const FigureFile& file) {
  draw::format_of(file.out);
  const AtomicFile probe(file.out);  // gone again at once: it was not committed
}

}  // namespace openwork
