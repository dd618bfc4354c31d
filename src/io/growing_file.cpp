#include "io/growing_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "io/write_error.h"

namespace openwork {

std::optional<uint64_t> parse_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

ContentRange parse_content_range(std::string_view text) {
  ContentRange range;
  if (!text.starts_with("bytes ")) return range;
  text.remove_prefix(6);
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return range;
  range.start = parse_number(text.substr(0, std::min(text.find('-'), slash)));
  range.total = parse_number(text.substr(slash + 1));
  return range;
}

GrowingFile::GrowingFile(const std::filesystem::path& path)
    : path_(path), descriptor_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644)) {
  if (descriptor_ < 0) report(errno);
  struct stat status;
  if (fstat(descriptor_, &status) != 0 || lseek(descriptor_, 0, SEEK_END) < 0) report(errno);
  if (!S_ISREG(status.st_mode)) report(EINVAL);  // never a device or a pipe
  size_ = static_cast<uint64_t>(status.st_size);
}

GrowingFile::~GrowingFile() {
  close(descriptor_);
}

void GrowingFile::empty() {
  if (ftruncate(descriptor_, 0) != 0 || lseek(descriptor_, 0, SEEK_SET) != 0) report(errno);
  size_ = 0;
}

bool GrowingFile::begin(long status, std::string_view content_range) {
  if (status != 200) return parse_content_range(content_range).start == size_;
  if (size_ > 0) empty();
  return true;
}

void GrowingFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) report(errno);
    bytes.remove_prefix(static_cast<size_t>(count));
    size_ += static_cast<uint64_t>(count);
  }
}

void GrowingFile::report(int error) const {
  if (is_full_disk(error)) unlink(path_.c_str());
  fail_to_write("write the file", path_, error);
}

}  // namespace openwork
