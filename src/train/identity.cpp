#include "train/identity.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/progress.h"

namespace openwork {
namespace {

bool was_unsaid(int version, const std::string& key) {
  return version < 2 || (version < 3 && (key == "config" || key == "adapter"));
}

// Only a run that has ended has its length in its identity.
const char* what_to_do(const std::string& key) {
  if (key == "steps" || key == "minutes")
    return "it has ended, and a control is as long as its run: resume with that length, or delete "
           "result.json there to train it on";
  return "resume with the options of the run, or choose another --out";
}

}  // namespace

void check_identity(const nlohmann::json& record, const nlohmann::json& identity,
                    const std::filesystem::path& folder, const std::string& name) {
  const nlohmann::json saved = record.value("identity", nlohmann::json::object());
  const int version = record.value("version", 1);
  nlohmann::json both = saved;  // a key that only one of them has counts too
  both.update(identity);
  for (const auto& [key, ignored] : both.items()) {
    if (!saved.contains(key) && was_unsaid(version, key)) continue;
    const nlohmann::json before = saved.value(key, nlohmann::json()),
                         value = identity.value(key, nlohmann::json());
    if (before != value && key == "learning_rate") {
      note(fmt::format("{}: the learning rate was {} and is now {}", name, before.dump(), value.dump()));
    } else if (before != value) {
      fail_input(fmt::format("{} is {}, but the run to resume has {}", key, value.dump(), before.dump()),
                 folder.string(), what_to_do(key));
    }
  }
}

}  // namespace openwork
