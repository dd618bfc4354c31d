// What a run must have in common with the part of it that is already there: a checkpoint's state.json and the
// result.json of a control or point that has ended hold it as "identity", beside the "version" of its keys.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace openwork {

// What version 1 did not say is taken as agreed; version 2 did not say "config" and "adapter".
inline constexpr int kStateVersion = 3;

// Fails by the option's name where the record's identity is not `identity`. Another learning rate is noted: a
// run that went wrong is resumed with one. A record without an identity is of an older program and is taken.
void check_identity(const nlohmann::json& record, const nlohmann::json& identity,
                    const std::filesystem::path& folder, const std::string& name);

}  // namespace openwork
