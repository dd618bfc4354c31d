#include "io/unfinished.h"

#include <unistd.h>

#include <array>
#include <atomic>

namespace openwork {
namespace {

// A signal handler may neither lock nor allocate.
struct Place {
  std::atomic<int> state = 0;  // 0 free, 1 being written, 2 names a path
  std::array<char, 4096> path{};
};
std::array<Place, 32> places;

}  // namespace

void note_unfinished(const std::string& path) {
  for (Place& place : places) {
    int free = 0;
    if (path.size() >= place.path.size() || !place.state.compare_exchange_strong(free, 1)) continue;
    path.copy(place.path.data(), path.size());
    place.path[path.size()] = '\0';
    place.state = 2;
    return;
  }
}

void forget_unfinished(const std::string& path) {
  for (Place& place : places) {
    if (place.state == 2 && path == place.path.data()) place.state = 0;
  }
}

void remove_unfinished() {
  for (const Place& place : places) {
    if (place.state == 2 && ::unlink(place.path.data()) != 0) ::rmdir(place.path.data());
  }
}

}  // namespace openwork
