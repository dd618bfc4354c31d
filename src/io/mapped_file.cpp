#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/error.h"

namespace openwork {
namespace {

// Closes the descriptor at the end of the scope; a map outlives its descriptor.
class Descriptor {
 public:
  explicit Descriptor(const std::filesystem::path& path)
      // O_NONBLOCK: opening a named pipe must not wait for a writer before it is refused.
      : value_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int value() const { return value_; }

 private:
  int value_;
};

[[noreturn]] void refuse_open(const std::filesystem::path& path, int error) {
  if (error == ENOENT || error == ENOTDIR) {
    fail_input("no such file", path.string(), "check the path");
  }
  if (error == EACCES || error == EPERM) {
    fail_input("permission denied", path.string(), "allow reading it, or name another file");
  }
  fail(std::string("cannot open (") + std::strerror(error) + ")", path.string(),
       "check the file and the disk");
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  const Descriptor file(path);
  if (file.value() < 0) refuse_open(path, errno);
  struct stat status {};
  if (::fstat(file.value(), &status) != 0) refuse_open(path, errno);
  if (S_ISDIR(status.st_mode))
    fail_input("a folder where a file is wanted", path.string(), "name the file in it");
  if (!S_ISREG(status.st_mode)) fail_input("not a regular file", path.string(), "copy it to a file first");
  if (status.st_size == 0) return;
  const auto size = static_cast<size_t>(status.st_size);
  void* map = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value(), 0);
  if (map == MAP_FAILED) {
    fail(std::string("cannot map (") + std::strerror(errno) + ")", path.string(),
         "check memory limits (ulimit -v)");
  }
  bytes_ = {static_cast<const std::byte*>(map), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::release(std::span<const std::byte> part) const {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(part.data());
  const size_t skipped = (page - begin % page) % page;  // up to the first whole page
  if (part.size() < skipped + page) return;
  const size_t whole = (part.size() - skipped) / page * page;
  ::madvise(const_cast<std::byte*>(part.data() + skipped), whole, MADV_DONTNEED);
}

}  // namespace openwork
