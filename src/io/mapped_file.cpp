#include "io/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "io/unfinished.h"

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

// What is mapped where, for a signal handler to read: it may neither lock nor allocate. A map that finds no free
// place is read like the others, but cannot be named.
struct MapPlace {
  std::atomic<uintptr_t> begin = 0, end = 0;  // end 0: being written
  std::array<char, 512> path{};
};
std::array<MapPlace, 1024> map_places;

void note_map(std::span<const std::byte> bytes, const std::string& path) {
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  for (MapPlace& place : map_places) {
    uintptr_t free = 0;
    if (!place.begin.compare_exchange_strong(free, begin)) continue;
    const size_t length = path.copy(place.path.data(), place.path.size() - 1);
    place.path[length] = '\0';
    place.end = begin + bytes.size();
    return;
  }
}

void forget_map(std::span<const std::byte> bytes) {
  for (MapPlace& place : map_places) {
    if (place.begin != reinterpret_cast<uintptr_t>(bytes.data())) continue;
    place.end = 0;
    place.begin = 0;
    return;
  }
}

void say(std::string_view text) {
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

// Calls nothing that a signal handler may not.
void end_with_line(int signal, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  constexpr uintptr_t kPage = 65536;  // the last page of a map reaches beyond the file
  for (const MapPlace& place : map_places) {
    if (place.end == 0 || address < place.begin || address >= place.end + kPage) continue;
    say("openwork: error: the file was cut short, or its disk failed, while it was read; ");
    say(place.path.data());
    say("; leave the file as it is meanwhile, and run the command again\n");
    remove_unfinished();
    ::_exit(1);
  }
  ::signal(signal, SIG_DFL);  // not ours: the instruction runs again and ends the program as it would have
}

}  // namespace

void explain_lost_pages() {
  struct sigaction action {};
  action.sa_sigaction = end_with_line;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

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
  // No memory is set aside for pages that may be written to; where the system would still ask for it, none may.
  void* map = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.value(), 0);
  if (map == MAP_FAILED) map = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value(), 0);
  if (map == MAP_FAILED) {
    fail(std::string("cannot map (") + std::strerror(errno) + ")", path.string(),
         "check memory limits (ulimit -v)");
  }
  bytes_ = {static_cast<const std::byte*>(map), size};
  note_map(bytes_, path.string());
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  forget_map(bytes_);
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
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
