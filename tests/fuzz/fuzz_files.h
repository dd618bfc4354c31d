// For fuzzers of what reads files: one file that every input is written to, and the small tokenizer.
#pragma once
#include <unistd.h>

#include <fstream>
#include <string>

#include "fuzz/fuzz_input.h"
#include "io/json.h"
#include "text/tokenizer.h"

namespace openwork {

// A file of that name in a folder of its own, which goes when the program ends.
class InputFile {
 public:
  explicit InputFile(const std::string& name)
      : folder_(std::filesystem::temp_directory_path() /
                ("openwork-fuzz-" + std::to_string(::getpid()) + "-" + name)),
        path_(folder_ / name) {
    std::filesystem::create_directories(folder_);
  }
  ~InputFile() { std::filesystem::remove_all(folder_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  const std::filesystem::path& path() const { return path_; }
  void write(const uint8_t* data, size_t size) const {
    std::ofstream out(path_, std::ios::binary);
    out << as_text(data, size);
    if (!out.flush()) std::abort();  // an input that is not there is tried by nobody
  }

 private:
  std::filesystem::path folder_, path_;
};

inline const Tokenizer& small_tokenizer() {
  static const Tokenizer instance =
      Tokenizer::from_json(read_json_file("tests/data/text/small_tokenizer.json"), "small");
  return instance;
}

}  // namespace openwork
