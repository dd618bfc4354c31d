// What is said when something cannot be written, by one rule for files, folders and renames: a full disk, a
// quota, a size limit or a broken disk is a failure (exit 1), a place that cannot be written is bad input (2).
#pragma once
#include <filesystem>
#include <string_view>

namespace openwork {

// `doing` completes "cannot ...": "write the file", "make the folder". `error` is errno's.
[[noreturn]] void fail_to_write(std::string_view doing, const std::filesystem::path& path, int error);

// Whether the disk, the quota or the file-size limit is used up.
bool is_full_disk(int error);

}  // namespace openwork
