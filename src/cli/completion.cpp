// openwork completion: for bash, zsh and fish, and man pages.
#include <fmt/format.h>

#include <memory>

#include "cli/verbs.h"
#include "shell/completion.h"

namespace openwork {

void add_completion_verb(CLI::App& app) {
  struct Options {
    std::string what, verb;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb = add_verb(app, "completion");
  verb->add_option("WHAT", options->what, "bash, zsh, fish, or man for a man page")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish", "man"}).description(""));
  verb->add_option("--verb", options->verb, "with man: the page of one verb")->type_name("NAME");
  verb->footer(
      "Examples:\n"
      "  openwork completion bash > /etc/bash_completion.d/openwork\n"
      "  openwork completion man --verb run | man -l -");
  verb->callback([options, &app] { fmt::print("{}", make_completion(app, options->what, options->verb)); });
}

}  // namespace openwork
