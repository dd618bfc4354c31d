// What `run --generate` is asked for, and text printed as it is made.
#pragma once
#include <string>
#include <vector>

#include "analyze/generated_text.h"
#include "shell/common.h"

namespace openwork {

void add_text_options(CLI::App& verb, TextSettings& settings);

// One prompt's text is printed as it is made, several when each is done, in order.
class TextPrinter {
 public:
  TextPrinter(const CommonOptions& common, size_t prompts);

  void show(size_t n, const std::string& piece, const GeneratedText& so_far);

 private:
  bool shows_;
  size_t prompts_, next_ = 0;  // next_: the first prompt not yet printed
  std::vector<std::string> ready_;
};

}  // namespace openwork
