// OpenSSL's EVP digests behind four functions. Files are read by plain read() in pieces of 1 MiB: a map would
// turn a file that shrinks under us into a crash.
#include "io/sha256.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"

namespace openwork {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

class Digest {
 public:
  explicit Digest(const EVP_MD* kind) : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    check(context_ != nullptr && EVP_DigestInit_ex(context_.get(), kind, nullptr) == 1);
  }

  void update(const void* data, size_t size) { check(EVP_DigestUpdate(context_.get(), data, size) == 1); }

  std::string finish() {
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned int count = 0;
    check(EVP_DigestFinal_ex(context_.get(), bytes, &count) == 1);
    std::string text;
    for (unsigned int i = 0; i < count; ++i) text += fmt::format("{:02x}", bytes[i]);
    return text;
  }

 private:
  static void check(bool done) {
    if (!done) fail("cannot compute a hash", "OpenSSL", "check the OpenSSL installation");
  }

  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

class ReadOnlyFile {
 public:
  explicit ReadOnlyFile(const std::filesystem::path& path)
      : path_(path), descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) report();
  }
  ~ReadOnlyFile() { close(descriptor_); }
  ReadOnlyFile(const ReadOnlyFile&) = delete;
  ReadOnlyFile& operator=(const ReadOnlyFile&) = delete;

  uint64_t size() const {
    struct stat status;
    if (fstat(descriptor_, &status) != 0) report();
    return static_cast<uint64_t>(status.st_size);
  }

  // Feeds every byte to the digest; says how many there were.
  uint64_t feed(Digest& digest) const {
    std::vector<char> piece(kPieceBytes);
    uint64_t total = 0;
    while (true) {
      const ssize_t count = read(descriptor_, piece.data(), piece.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) report();
      if (count == 0) return total;
      digest.update(piece.data(), static_cast<size_t>(count));
      total += static_cast<uint64_t>(count);
    }
  }

 private:
  [[noreturn]] void report() const {
    fail_input(fmt::format("cannot read the file: {}", std::strerror(errno)), path_.string(),
               "check its name and permissions");
  }

  const std::filesystem::path& path_;
  int descriptor_;
};

void begin_git_blob(Digest& digest, uint64_t size) {
  const std::string header = fmt::format("blob {}", size);
  digest.update(header.c_str(), header.size() + 1);  // the closing zero byte is part of it
}

}  // namespace

std::string sha256_of_bytes(std::string_view bytes) {
  Digest digest(EVP_sha256());
  digest.update(bytes.data(), bytes.size());
  return digest.finish();
}

std::string git_blob_sha1_of_bytes(std::string_view bytes) {
  Digest digest(EVP_sha1());
  begin_git_blob(digest, bytes.size());
  digest.update(bytes.data(), bytes.size());
  return digest.finish();
}

std::string sha256_of_file(const std::filesystem::path& path) {
  const ReadOnlyFile file(path);
  Digest digest(EVP_sha256());
  file.feed(digest);
  return digest.finish();
}

std::string git_blob_sha1_of_file(const std::filesystem::path& path) {
  const ReadOnlyFile file(path);
  const uint64_t size = file.size();
  Digest digest(EVP_sha1());
  begin_git_blob(digest, size);
  if (file.feed(digest) != size) {
    fail("the file changed while it was read", path.string(), "run the command again");
  }
  return digest.finish();
}

bool is_hex_hash(std::string_view text, size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace openwork
