// Tokens to text as they come: whole characters only, and nothing that may yet turn out to be a stop text.
//   TextStream stream(tokenizer, {"\n\n"});
//   for (id : ids) { out << stream.push(id);  if (stream.stopped()) break; }
//   out << stream.finish();
// What comes out, put together, is what Tokenizer::decode gives, up to the first stop text.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace openwork {

class TextStream {
 public:
  explicit TextStream(const Tokenizer& tokenizer, std::vector<std::string> stops = {});

  std::string push(int64_t id);
  std::string finish();  // what was held back
  bool stopped() const { return stopped_; }

 private:
  std::string take_characters(bool all);  // whole ones out of bytes_
  std::string release(bool all);          // what no stop text can begin in

  const Tokenizer& tokenizer_;
  std::vector<std::string> stops_;
  std::string bytes_, held_;  // bytes of an unfinished character; text that may begin a stop
  bool stopped_ = false;
};

}  // namespace openwork
