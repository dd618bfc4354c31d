// The picture of rooms in docs/walk.md held against what files of src/ include. The picture is a Mermaid chart of lines
// "upper --> lower"; a room may include whatever its arrows lead down to.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Arrows = std::map<std::string, std::set<std::string>>;  // from a room to rooms

struct Include {
  std::string file, line;  // the file's path, and what stands between the marks
  std::string from, to;    // rooms; `to` is empty for a header of a library
};

// src/analyze/heads/x.cpp -> heads, src/analyze/x.cpp -> analyze, src/io/x.h -> io; empty for files of no room.
std::string room_of(const fs::path& path) {
  const std::vector<std::string> parts(path.begin(), path.end());
  if (parts.size() < 2) return "";
  return parts[0] == "analyze" && parts.size() > 2 ? parts[1] : parts[0];
}

std::vector<Include> read_all_includes() {
  static const std::regex kInclude(R"re(^\s*#\s*include\s+["<]([^">]+)[">])re");
  std::vector<Include> includes;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator("src")) {
    static const std::set<std::string> kKinds = {".h", ".cpp", ".cu", ".cuh"};
    if (!kKinds.contains(entry.path().extension().string())) continue;
    std::ifstream file(entry.path());
    const std::string from = room_of(entry.path().lexically_relative("src"));
    for (std::string line; std::getline(file, line);) {
      std::smatch found;
      if (!std::regex_search(line, found, kInclude)) continue;
      const std::string header = found[1];
      const bool own = fs::is_directory(fs::path("src") / fs::path(header).begin()->string());
      includes.push_back({entry.path().string(), header, from, own ? room_of(header) : ""});
    }
  }
  return includes;
}

const std::vector<Include>& read_includes() {
  static const std::vector<Include> includes = read_all_includes();
  return includes;
}

Arrows read_picture() {
  static const std::regex kArrow(R"(^\s*(\w+) --> (\w+)\s*$)");
  std::ifstream file("docs/walk.md");
  Arrows arrows;
  for (std::string line; std::getline(file, line);) {
    std::smatch found;
    if (std::regex_match(line, found, kArrow)) arrows[found[1]].insert(found[2]);
  }
  return arrows;
}

void add_below(const Arrows& arrows, const std::string& room, std::set<std::string>& below) {
  const auto own = arrows.find(room);
  if (own == arrows.end()) return;
  for (const std::string& lower : own->second) {
    if (below.insert(lower).second) add_below(arrows, lower, below);
  }
}

std::set<std::string> rooms_below(const Arrows& arrows, const std::string& room) {
  std::set<std::string> below;
  add_below(arrows, room, below);
  return below;
}

TEST(Rooms, ThePictureHasNoArrowThatLeadsBack) {
  const Arrows picture = read_picture();
  ASSERT_GT(picture.size(), 10u);
  for (const auto& [room, lower] : picture) {
    EXPECT_FALSE(rooms_below(picture, room).contains(room)) << room << " is below itself in docs/walk.md";
  }
}

TEST(Rooms, NoFileIncludesARoomThatIsNotBelowItsOwn) {
  const Arrows picture = read_picture();
  std::map<std::string, std::set<std::string>> below;
  for (const Include& one : read_includes()) {
    if (one.to.empty() || one.from.empty() || one.from == one.to) continue;
    if (!below.contains(one.from)) below[one.from] = rooms_below(picture, one.from);
    EXPECT_TRUE(below[one.from].contains(one.to))
        << one.file << " includes " << one.line << ", and docs/walk.md has no way down from " << one.from
        << " to " << one.to;
  }
}

TEST(Rooms, EveryArrowOfThePictureIsAnInclude) {
  Arrows used;
  for (const Include& one : read_includes()) used[one.from].insert(one.to);
  for (const auto& [room, lower] : read_picture()) {
    for (const std::string& name : lower) {
      EXPECT_TRUE(used[room].contains(name)) << "docs/walk.md: no file of " << room << " includes " << name;
    }
  }
}

TEST(Rooms, TheOptionParserIsKnownToShellAndVerbsAlone) {
  for (const Include& one : read_includes()) {
    if (!one.line.starts_with("CLI/")) continue;
    EXPECT_THAT(one.from, testing::AnyOf("shell", "cli")) << one.file;
  }
}

TEST(Rooms, RoomsThatKnowNoTorchIncludeNoneOfIt) {
  const std::set<std::string> without = {"base", "io", "text", "draw", "assets"};
  for (const Include& one : read_includes()) {
    if (!without.contains(one.from)) continue;
    EXPECT_FALSE(one.line.starts_with("ATen/") || one.line.starts_with("c10/") ||
                 one.line.starts_with("torch"))
        << one.file << " includes " << one.line;
  }
}

TEST(Rooms, EveryFolderOfTheSourceIsARoomOfTheWalk) {
  std::ifstream file("docs/walk.md");
  const std::string walk{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  for (const fs::directory_entry& entry : fs::directory_iterator("src")) {
    if (!entry.is_directory()) continue;
    const std::string row = "\n| `" + entry.path().filename().string() + "` |";
    EXPECT_NE(walk.find(row), std::string::npos) << "docs/walk.md has no row for " << entry.path();
  }
}

}  // namespace
