// Any bytes as a user's task: prompts that the model can read, or one line.
#include "analyze/circuits/task.h"

#include "fuzz/fuzz_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace openwork;
  static const InputFile file("task.jsonl");
  file.write(data, size);
  return expect_error_at_worst([&] {
    const TaskVocabulary vocabulary{
        .tokenizer = &small_tokenizer(), .beginning = {}, .size = small_tokenizer().size(), .context = 64};
    const Task task = make_task(file.path().string(), vocabulary, 0, 1);
    check_task(task, vocabulary);
    if (task.prompts.empty() || task.first_read() < 0 || task.last_read() >= task.length()) std::abort();
  });
}
