// The page's files as replies: bytes of the program (assets/viewer_assets.h), compressed once for those who take it
// so, and not sent again to those who have them. Names are looked up, never opened: no path leaves the program.
#pragma once
#include <map>
#include <string>

#include "serve/reply.h"

namespace openwork::serve {

struct FileWish {
  std::string name;  // below viewer/dist
  std::string have;  // If-None-Match
  bool takes_gzip = false;
};

class PageFiles {
 public:
  PageFiles();
  Reply reply(const FileWish& wish) const;  // 200, 304 or 404

 private:
  struct File {
    std::string type, tag;
    std::shared_ptr<const std::string> plain, compressed;
  };
  std::map<std::string, File, std::less<>> files_;
};

std::string gzip(std::string_view bytes);

}  // namespace openwork::serve
