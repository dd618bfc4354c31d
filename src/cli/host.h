// The program's verbs inside another program: what `openwork VERB ...` does, the result handed over rather than
// written. The Python package is such a host; its bindings (src/python) call nothing else of the command line.
//   enter_host({.models = "/site-packages/openwork/models"});
//   const VerbResult result = call_verb({"ablate", "openwork-8m", "--task", "copy"}, {});
#pragma once
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/progress.h"
#include "draw/figure.h"
#include "model/transformer.h"

namespace openwork {

struct Host {
  std::filesystem::path models;    // where built-in models are
  ProgressWatcher watch_progress;  // told of long work; what it throws ends it
  std::function<int()> stop;       // asked between the steps of a training run or a sweep: a signal, or 0
};

// Once, before anything else here.
void enter_host(const Host& host);

// A path that --out takes and no file is written to: the figure comes back in the result.
inline constexpr const char* kFigureInMemory = "/openwork-figure-in-memory.svg";

struct VerbResult {
  nlohmann::json json;  // as --json has it; null of a verb that gave none
  std::vector<draw::Figure> figures;
};

// `arguments` as on the command line, without the program's name; `lent` are models that are open already, by the
// names that stand in the arguments. One call at a time: another thread's waits. Throws Error, Interrupted
// (shell/common.h), and what the host's functions throw.
VerbResult call_verb(std::vector<std::string> arguments,
                     const std::vector<std::pair<std::string, const Transformer*>>& lent);

}  // namespace openwork
