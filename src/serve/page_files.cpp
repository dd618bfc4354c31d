#include "serve/page_files.h"

#include <fmt/format.h>
#include <zlib.h>

#include "assets/viewer_assets.h"
#include "base/error.h"

namespace openwork::serve {

std::string gzip(std::string_view bytes) {
  constexpr int kGzip = 16, kWindow = 15, kMemory = 8;
  z_stream stream = {};
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kWindow + kGzip, kMemory, Z_DEFAULT_STRATEGY) !=
      Z_OK)
    fail("no memory to compress in", "page", "free some");
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int end = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (end != Z_STREAM_END) fail("could not be compressed", "page", "build the program again");
  return out;
}

PageFiles::PageFiles() {
  for (const ViewerAsset& asset : viewer_assets()) {
    files_[std::string(asset.path)] = {.type = std::string(asset.type),
                                       .tag = fmt::format("\"{}\"", asset.hash),
                                       .plain = std::make_shared<const std::string>(asset.bytes),
                                       .compressed = std::make_shared<const std::string>(gzip(asset.bytes))};
  }
}

Reply PageFiles::reply(const FileWish& wish) const {
  const auto found = files_.find(wish.name);
  if (found == files_.end()) return error_reply(404, "no such file; address; open /");
  const File& file = found->second;
  Reply reply{.status = 200, .answer = {file.type, wish.takes_gzip ? file.compressed : file.plain}};
  reply.headers = {{"ETag", file.tag}, {"Cache-Control", "no-cache"}, {"Vary", "Accept-Encoding"}};
  if (wish.takes_gzip) reply.headers["Content-Encoding"] = "gzip";
  if (wish.have == file.tag) {
    reply.status = 304;
    reply.answer.body = std::make_shared<const std::string>();
    reply.headers.erase("Content-Encoding");
  }
  return reply;
}

}  // namespace openwork::serve
