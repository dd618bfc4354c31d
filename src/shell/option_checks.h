// Checks that every verb's options share, put onto the whole table of verbs at once so that none is forgotten. They
// run while the command line is read, before any work:
//   output files (--json, --out, --csv, ...) and folders (of type DIR; "DIR, FILE with --other": files where --other is
//   given) must be places that can be written, and must not be the command's own inputs;
//   numbers must be finite; a seed must be a whole number that fits.
#pragma once

namespace CLI {
class App;
}

namespace openwork {

void add_option_checks(CLI::App& app);  // after all verbs are in it

}  // namespace openwork
