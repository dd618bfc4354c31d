// Opening is not reading: a file far larger than what the test may use opens without its weights being held.
#include "io/safetensors.h"
#include "io/test_files.h"
#include "sanitized.h"

namespace openwork {
namespace {

constexpr uint64_t kHuge = uint64_t{4} << 30;

// Pages of this process that are in memory now, in bytes.
uint64_t resident_bytes() {
  uint64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

// A sparse file: a header that claims one F32 tensor of 4 GB, and as many bytes that take no disk.
std::filesystem::path write_huge(const TestFolder& folder) {
  const std::string header = R"({"w":{"dtype":"F32","shape":[)" + std::to_string(kHuge / 4) +
                             R"(],"data_offsets":[0,)" + std::to_string(kHuge) + "]}}";
  const auto path = folder.write("huge.safetensors", pack<uint64_t>(header.size()) + header);
  std::filesystem::resize_file(path, 8 + header.size() + kHuge);
  return path;
}

TEST(Memory, DoesNotGrowWhenALargeFileIsOpened) {
  if (!std::filesystem::exists("/proc/self/statm")) GTEST_SKIP() << "no /proc on this system";
  const TestFolder folder;
  const auto path = write_huge(folder);
  const uint64_t before = resident_bytes();
  const auto file = open_weights(path);
  EXPECT_EQ(file->at("w").bytes.size(), kHuge);
  EXPECT_LT(resident_bytes(), before + (uint64_t{4} << 20));
}

TEST(Memory, IsGivenBackWhenAnEntryIsReleased) {
  if (kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer keeps a shadow of what was read";
  if (!std::filesystem::exists("/proc/self/statm")) GTEST_SKIP() << "no /proc on this system";
  const TestFolder folder;
  const auto file = open_weights(write_huge(folder));
  TensorEntry part = file->at("w");
  part.bytes = part.bytes.first(uint64_t{64} << 20);
  part.shape = {int64_t{16} << 20};
  const uint64_t before = resident_bytes();
  unsigned sum = 0;
  for (size_t i = 0; i < part.bytes.size(); i += 4096) sum += std::to_integer<unsigned>(part.bytes[i]);
  EXPECT_EQ(sum, 0u);
  EXPECT_GT(resident_bytes(), before + (uint64_t{48} << 20));
  file->release(part);
  EXPECT_LT(resident_bytes(), before + (uint64_t{8} << 20));
}

// A lazily produced tensor larger than the memory the test may grow by.
TEST(Memory, StaysSmallWhileALargeFileIsWritten) {
  if (!std::filesystem::exists("/proc/self/statm")) GTEST_SKIP() << "no /proc on this system";
  const TestFolder folder;
  const std::string piece(size_t{1} << 20, 'x');
  OutputTensor tensor{"w", DType::kU8, {int64_t{64} << 20}};
  const uint64_t before = resident_bytes();
  uint64_t highest = before;
  tensor.produce = [&](const ByteSink& sink) {
    for (int i = 0; i < 64; ++i) sink(as_span(piece));
    highest = std::max(highest, resident_bytes());
  };
  write_safetensors(folder / "out", {tensor});
  EXPECT_LT(highest, before + (uint64_t{8} << 20));
}

}  // namespace
}  // namespace openwork
