#include "io/write_error.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace openwork {
namespace {

struct Reason {
  Error::Kind kind;
  std::string_view words, advice;
};

Reason explain(int error) {
  using Kind = Error::Kind;
  constexpr std::string_view kSpace = "free some space, or write elsewhere";
  switch (error) {
    case ENOSPC:
      return {Kind::kFailure, "no space left on the disk", kSpace};
    case EDQUOT:
      return {Kind::kFailure, "disk quota reached", kSpace};
    case EFBIG:
      return {Kind::kFailure, "file size limit reached",
              "raise the limit (ulimit -f), free some space, or write elsewhere"};
    case ENOTDIR:
      return {Kind::kInput, "a part of the path is not a folder", "name another place"};
    case EISDIR:
      return {Kind::kInput, "a folder where an output file is wanted", "name a file in it"};
    case ENOENT:
      return {Kind::kInput, "no such folder", "create the folder first, or name another place"};
    case EEXIST:
      return {Kind::kInput, "something else has that name", "name another place"};
    case EACCES:
    case EPERM:
    case EROFS:
      return {Kind::kInput, "it may not be written", "name a place you may write to"};
    case ENAMETOOLONG:
    case ELOOP:
      return {Kind::kInput, std::strerror(error), "name another place"};
    default:
      return {Kind::kFailure, std::strerror(error), "check the disk"};
  }
}

}  // namespace

bool is_full_disk(int error) {
  return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

void fail_to_write(std::string_view doing, const std::filesystem::path& path, int error) {
  const Reason reason = explain(error);
  throw Error(reason.kind, fmt::format("cannot {}: {}", doing, reason.words), path.string(), reason.advice);
}

}  // namespace openwork
