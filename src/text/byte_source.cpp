#include "text/byte_source.h"

#include <fmt/format.h>
#include <lzma.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kMostDecoderMemory = uint64_t{1} << 30;  // an archive cannot ask for more
constexpr const char* kArchiveAdvice = "fetch or pack it again";

// The file as it lies on disk. Its first chunk is read at once, so that start() can be looked at.
class PlainSource : public ByteSource {
 public:
  explicit PlainSource(const fs::path& path)
      : name_(path.string()), file_(std::fopen(name_.c_str(), "rb"), &std::fclose) {
    if (!file_)
      fail_input(fmt::format("cannot open the file ({})", std::strerror(errno)), name_, "check its name");
    chunk_.resize(kReadAtOnce);
    refill();
    if (filled_ == 0) fail_input("the file is empty", name_, "name a file with text or token shards");
  }

  std::string_view start() const { return {chunk_.data(), filled_}; }
  const std::string& name() const { return name_; }

  // The next bytes without copying; empty at the end.
  std::string_view next_chunk() {
    if (used_ == filled_) refill();
    const std::string_view rest(chunk_.data() + used_, filled_ - used_);
    used_ = filled_;
    return rest;
  }

  size_t read(char* out, size_t capacity) override {
    if (used_ == filled_) refill();
    const size_t count = std::min(capacity, filled_ - used_);
    std::memcpy(out, chunk_.data() + used_, count);
    used_ += count;
    return count;
  }

 private:
  void refill() {
    used_ = 0;
    filled_ = std::fread(chunk_.data(), 1, chunk_.size(), file_.get());
    if (filled_ == 0 && std::ferror(file_.get()) != 0)
      fail(fmt::format("cannot read the file ({})", std::strerror(errno)), name_, "check the disk");
  }

  std::string name_;
  std::unique_ptr<std::FILE, decltype(&std::fclose)> file_;
  std::vector<char> chunk_;
  size_t used_ = 0, filled_ = 0;
};

class XzSource : public ByteSource {
 public:
  explicit XzSource(std::unique_ptr<PlainSource> packed) : packed_(std::move(packed)) {
    if (lzma_stream_decoder(&stream_, kMostDecoderMemory, LZMA_CONCATENATED) != LZMA_OK)
      fail("cannot start the xz decoder", packed_->name(), "close other programs");
  }
  ~XzSource() override { lzma_end(&stream_); }

  size_t read(char* out, size_t capacity) override {
    stream_.next_out = reinterpret_cast<uint8_t*>(out);
    stream_.avail_out = capacity;
    while (!ended_ && stream_.avail_out == capacity) step();
    return capacity - stream_.avail_out;
  }

 private:
  void step() {
    if (stream_.avail_in == 0 && !input_ended_) {
      const std::string_view chunk = packed_->next_chunk();
      stream_.next_in = reinterpret_cast<const uint8_t*>(chunk.data());
      stream_.avail_in = chunk.size();
      input_ended_ = chunk.empty();
    }
    const lzma_ret result = lzma_code(&stream_, input_ended_ ? LZMA_FINISH : LZMA_RUN);
    if (result == LZMA_STREAM_END) {
      ended_ = true;
    } else if (result == LZMA_BUF_ERROR) {
      fail_input("the xz file ends too early", packed_->name(), kArchiveAdvice);
    } else if (result == LZMA_MEMLIMIT_ERROR) {
      fail_input("the xz file needs more than 1 GiB to unpack", packed_->name(),
                 "pack it with a smaller dictionary");
    } else if (result == LZMA_MEM_ERROR) {
      fail("out of memory while unpacking", packed_->name(), "close other programs");
    } else if (result != LZMA_OK) {
      fail_input("the xz file is damaged", packed_->name(), kArchiveAdvice);
    }
  }

  std::unique_ptr<PlainSource> packed_;
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool input_ended_ = false, ended_ = false;
};

class ZstdSource : public ByteSource {
 public:
  explicit ZstdSource(std::unique_ptr<PlainSource> packed) : packed_(std::move(packed)) {
    if (!stream_) fail("cannot start the zst decoder", packed_->name(), "close other programs");
  }

  size_t read(char* out, size_t capacity) override {
    ZSTD_outBuffer output{out, capacity, 0};
    while (output.pos == 0) {
      if (input_.pos == input_.size && !more_to_come_) {
        const std::string_view chunk = packed_->next_chunk();
        if (chunk.empty()) {
          if (frame_open_) fail_input("the zst file ends too early", packed_->name(), kArchiveAdvice);
          return 0;
        }
        input_ = {chunk.data(), chunk.size(), 0};
      }
      const size_t left = ZSTD_decompressStream(stream_.get(), &output, &input_);
      if (ZSTD_isError(left) != 0)
        fail_input(fmt::format("the zst file is damaged ({})", ZSTD_getErrorName(left)), packed_->name(),
                   kArchiveAdvice);
      frame_open_ = left != 0;
      more_to_come_ = frame_open_ && output.pos == output.size;  // it may hold back what did not fit
    }
    return output.pos;
  }

 private:
  std::unique_ptr<PlainSource> packed_;
  std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> stream_{ZSTD_createDStream(), &ZSTD_freeDStream};
  ZSTD_inBuffer input_{nullptr, 0, 0};
  bool frame_open_ = false, more_to_come_ = false;
};

bool is_xz(std::string_view start) {
  using namespace std::literals;
  return start.starts_with(
      "\xfd"
      "7zXZ\0"sv);
}

// A frame, or one that is skipped, with which pzstd begins its files.
bool is_zstd(std::string_view start) {
  const bool skipped = start.size() >= 4 && (start[0] & 0xf0) == 0x50 && start.substr(1, 3) == "\x2a\x4d\x18";
  return skipped || start.starts_with("\x28\xb5\x2f\xfd");
}

}  // namespace

std::unique_ptr<ByteSource> open_byte_source(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    fail_input("this is a folder, not a data file", path.string(), "name the files in it");
  auto plain = std::make_unique<PlainSource>(path);
  if (is_xz(plain->start())) return std::make_unique<XzSource>(std::move(plain));
  if (is_zstd(plain->start())) return std::make_unique<ZstdSource>(std::move(plain));
  return plain;
}

void refuse_false_ending(const fs::path& path) {
  std::error_code ignored;
  const std::string ending = path.extension().string();
  if ((ending != ".xz" && ending != ".zst") || !fs::is_regular_file(path, ignored)) return;
  PlainSource plain(path);
  const std::string_view start = plain.start();
  if (start.empty() || is_xz(start) || is_zstd(start)) return;
  fail_input(fmt::format("its name ends in {}, but this is no {} file", ending, ending.substr(1)),
             path.string(), "fetch it again, or give it the name of what it is");
}

}  // namespace openwork
