#include "shell/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "base/error.h"
#include "shell/version.h"

namespace openwork {
namespace {

struct OptionText {
  std::vector<std::string> names;  // --batch-tokens; of a flag and its opposite both
  std::string value, help;         // N, tokens in a step
};

std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::vector<OptionText> options_of(const CLI::App& verb) {
  std::vector<OptionText> texts;
  for (const CLI::Option* option : verb.get_options()) {
    if (option->get_lnames().empty() || option->get_group().empty()) continue;
    const std::string value = option->get_expected_max() == 0 ? "" : option->get_type_name();
    OptionText& text = texts.emplace_back(OptionText{{}, value, option->get_description()});
    for (const std::string& name : option->get_lnames()) text.names.push_back("--" + name);
  }
  return texts;
}

std::vector<const CLI::App*> verbs_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* verb) { return verb->get_name() != "completion"; });
}

std::string make_bash(const CLI::App& app) {
  std::string names, cases;
  for (const CLI::App* verb : verbs_of(app)) {
    std::string options;
    for (const OptionText& option : options_of(*verb))
      for (const std::string& name : option.names) options += (options.empty() ? "" : " ") + name;
    names += verb->get_name() + " ";
    cases += fmt::format("    {}) options=\"{}\" ;;\n", verb->get_name(), options);
  }
  return "# bash completion of openwork: save as /etc/bash_completion.d/openwork, or source it\n"
         "_openwork() {\n"
         "  local word=\"${COMP_WORDS[COMP_CWORD]}\" options=\"\"\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "    COMPREPLY=($(compgen -W \"" +
         names +
         "help completion --help --version\" -- \"$word\"))\n"
         "    return\n"
         "  fi\n"
         "  case \"${COMP_WORDS[1]}\" in\n" +
         cases + "    help) options=\"" + names +
         "\" ;;\n"
         "    completion) options=\"bash zsh fish man\" ;;\n"
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
         "  case \"$word\" in -*) return ;; esac\n"
         "  local file\n"
         "  while IFS= read -r file; do COMPREPLY+=(\"$file\"); done < <(compgen -f -- \"$word\")\n"
         "}\n"
         "complete -o filenames -F _openwork openwork\n";
}

// Inside single quotes and square brackets.
std::string zsh_text(std::string text) {
  text = replace_all(std::move(text), "'", "'\\''");
  for (const char* special : {"[", "]", ":"})
    text = replace_all(std::move(text), special, std::string("\\") + special);
  return text;
}

std::string make_zsh(const CLI::App& app) {
  std::string verbs, cases;
  for (const CLI::App* verb : verbs_of(app)) {
    verbs += fmt::format("    '{}:{}'\n", verb->get_name(), zsh_text(verb->get_description()));
    cases += fmt::format("    {}) _arguments", verb->get_name());
    for (const OptionText& option : options_of(*verb)) {
      const std::string value = option.value.empty() ? "" : fmt::format(":{}:_files", zsh_text(option.value));
      for (const std::string& name : option.names)
        cases += fmt::format(" \\\n      '{}[{}]{}'", name, zsh_text(option.help), value);
    }
    cases += " \\\n      '*:file:_files' ;;\n";
  }
  return "#compdef openwork\n"
         "# zsh completion of openwork: save as _openwork in a folder of $fpath\n"
         "_openwork() {\n"
         "  local -a verbs\n"
         "  verbs=(\n" +
         verbs +
         "  )\n"
         "  if (( CURRENT == 2 )); then\n"
         "    _describe 'verb' verbs\n"
         "    return\n"
         "  fi\n"
         "  local verb=$words[2]\n"
         "  shift words\n"
         "  (( CURRENT-- ))\n"
         "  case $verb in\n" +
         cases +
         "    help) _describe 'verb' verbs ;;\n"
         "    completion) _values 'shell' bash zsh fish man ;;\n"
         "  esac\n"
         "}\n"
         "_openwork \"$@\"\n";
}

std::string make_fish(const CLI::App& app) {
  const auto quote = [](const std::string& text) {
    return "'" + replace_all(replace_all(text, "\\", "\\\\"), "'", "\\'") + "'";
  };
  std::string text = "# fish completion of openwork: save as ~/.config/fish/completions/openwork.fish\n";
  for (const CLI::App* verb : verbs_of(app)) {
    text += fmt::format("complete -c openwork -n __fish_use_subcommand -f -a {} -d {}\n", verb->get_name(),
                        quote(verb->get_description()));
    for (const OptionText& option : options_of(*verb)) {
      for (const std::string& name : option.names)
        text += fmt::format("complete -c openwork -n '__fish_seen_subcommand_from {}' -l {}{} -d {}\n",
                            verb->get_name(), name.substr(2), option.value.empty() ? "" : " -r",
                            quote(option.help));
    }
  }
  return text;
}

// Text of a man page: its own marks escaped, hyphens that can be typed.
std::string roff(std::string text) {
  text = replace_all(replace_all(std::move(text), "\\", "\\e"), "-", "\\-");
  std::string out;
  bool at_start = true;
  for (const char letter : text) {
    if (at_start && (letter == '.' || letter == '\'')) out += "\\&";
    at_start = letter == '\n';
    out += letter;
  }
  return out;
}

std::string make_man(const CLI::App& app, const std::string& verb_name) {
  const CLI::App* verb = verb_name.empty() ? &app : nullptr;
  for (const CLI::App* each : verbs_of(app)) {
    if (each->get_name() == verb_name) verb = each;
  }
  if (verb == nullptr)
    fail_input(fmt::format("no verb '{}'", printable(verb_name, 60)), "--verb", "see openwork --help");
  const std::string name = verb_name.empty() ? "openwork" : "openwork-" + verb_name;
  std::string title = name;
  std::transform(title.begin(), title.end(), title.begin(), [](unsigned char c) { return std::toupper(c); });
  std::string page = fmt::format(
      ".TH {} 1 \"\" \"openwork {}\"\n.SH NAME\n{} \\- {}\n", roff(title), kVersion, roff(name),
      roff(verb_name.empty() ? "attention that says which edges it uses" : verb->get_description()));
  page += fmt::format(".SH SYNOPSIS\n.B openwork {}\n", verb_name.empty() ? "VERB" : verb_name);
  std::string places;
  for (const CLI::Option* option : verb->get_options()) {
    if (!option->get_positional()) continue;
    std::string place = option->get_single_name();
    if (option->get_expected_max() > 1 && place.find("...") == place.npos) place += " ...";
    places += (option->get_required() ? place : "[" + place + "]") + " ";
  }
  page += roff(places + "[options]") + "\n";
  if (verb_name.empty()) {
    page += ".SH DESCRIPTION\n" + roff(app.get_description()) + "\n.SH VERBS\n";
    for (const CLI::App* each : verbs_of(app))
      page += fmt::format(".TP\n.B {}\n{}\n", each->get_name(), roff(each->get_description()));
  }
  page += ".SH OPTIONS\n";
  for (const OptionText& option : options_of(*verb))
    page += fmt::format(".TP\n.B {}{}\n{}\n", roff(fmt::format("{}", fmt::join(option.names, ", "))),
                        roff(option.value.empty() ? "" : " " + option.value), roff(option.help));
  return page + ".SH NOTES\n.nf\n" + roff(verb->get_footer()) + "\n.fi\n";
}

}  // namespace

std::string make_completion(const CLI::App& app, const std::string& what, const std::string& verb) {
  if (what != "man" && !verb.empty())
    fail_input(fmt::format("--verb with {}", what), "command line", "it is of man alone");
  return what == "bash"   ? make_bash(app)
         : what == "zsh"  ? make_zsh(app)
         : what == "fish" ? make_fish(app)
                          : make_man(app, verb);
}

}  // namespace openwork
