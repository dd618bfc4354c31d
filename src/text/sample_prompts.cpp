// The prompts that come with the program: what `--prompts sample` and `compare` use. Changing one changes published
// numbers; add at the end instead.
#include <fmt/format.h>

#include "base/error.h"
#include "text/prompt_file.h"

namespace openwork {

const std::vector<std::string>& sample_prompts() {
  static const std::vector<std::string> prompts = {
      "When Mary and John went to the store, John gave a drink to Mary, and Mary gave a book to John before "
      "they walked home together.",
      "The city of Paris is the capital of France, and the city of Rome is the capital of Italy. The river "
      "that flows through Paris is the Seine.",
      "It was a cold morning in the early part of March, and the farmer was already out in the field, "
      "looking at the sky and wondering when the rain would come.",
      "\"Where have you been?\" said the old woman. \"I have been to the market,\" said the girl, \"and I "
      "have brought you some bread and some cheese.\"",
      "The committee met on Monday to discuss the new road. The committee decided that the new road would be "
      "built in the north of the county.",
      "One, two, three, four, five, six, seven, eight, nine, ten. One, two, three, four, five, six, seven, "
      "eight, nine, ten.",
      "The war began in the year 1812 and ended in the year 1815. The treaty was signed in Vienna by the "
      "ministers of five nations.",
      "He opened the door slowly, and there, in the middle of the room, stood a man whom he had never seen "
      "before in his life.",
      "To make the soup, first cut the onions and the carrots. Then put them into a large pot with water, "
      "salt and pepper, and let them boil for an hour.",
      "The ship sailed from the harbour at dawn with forty men on board. By evening the wind had risen, and "
      "the captain ordered the sails to be taken in.",
      "In this chapter we shall consider the nature of light. Light travels in straight lines, and it "
      "travels faster than anything else that is known to us.",
      "My dear Anne, I received your letter yesterday and read it with great pleasure. I hope that your "
      "mother is better and that we shall see you both in June.",
      "The teacher asked the children to name the seasons. Spring, said the first; summer, said the second; "
      "autumn, said the third; winter, said the last.",
      "If the price of wheat rises, the price of bread will rise as well; and if the price of bread rises, "
      "the poor will have less money for everything else.",
      "The king had three sons. The eldest was strong, the second was clever, and the youngest was kind. The "
      "king loved the youngest best of all.",
      "Mr. Brown walked into the office, took off his hat, and sat down at his desk. There was a letter on "
      "the desk, and the letter was addressed to Mr. Brown.",
      "The forest was dark and silent. Nothing moved among the trees, and no bird sang. Only the snow fell, "
      "softly and without end, upon the frozen ground.",
      "There are many kinds of birds in the garden: robins, sparrows, blackbirds and finches. The robins "
      "sing in the morning and the blackbirds sing at night.",
      "She was born in London in 1870, the daughter of a doctor, and was educated at home. She published her "
      "first novel in 1895 and died in 1932.",
      "\"I do not believe it,\" he said at last. \"You may believe it or not,\" she answered, \"but it is "
      "true, and every man in the village knows that it is true.\"",
      "The law says that no man shall be judge in his own cause. For if a man were judge in his own cause, "
      "he would seldom find himself in the wrong.",
      "Iron is heavier than wood, and gold is heavier than iron. Wood floats upon water, but iron and gold "
      "sink to the bottom.",
      "The train left the station at half past nine. It passed the old bridge, the mill and the church, and "
      "came to the sea a little before noon.",
      "Once upon a time there was a little boy who lived with his grandmother in a small house at the edge "
      "of a great wood. Every day the little boy went into the wood.",
  };
  return prompts;
}

std::vector<std::vector<int32_t>> encode_sample_prompts(const Tokenizer& tokenizer,
                                                        const std::vector<int64_t>& beginning,
                                                        int64_t context, int64_t vocabulary) {
  std::vector<std::vector<int32_t>> encoded;
  for (const std::string& prompt : sample_prompts()) {
    std::vector<int32_t> ids(beginning.begin(), beginning.end());
    const std::vector<int32_t> text = tokenizer.encode(prompt);
    ids.insert(ids.end(), text.begin(), text.end());
    ids.resize(std::min(ids.size(), static_cast<size_t>(context)));
    for (const int32_t id : ids) {
      if (id < 0 || id >= vocabulary)
        fail_input(fmt::format("token id {}", id), "sample prompts",
                   "the tokenizer and the model do not belong together");
    }
    encoded.push_back(std::move(ids));
  }
  return encoded;
}

}  // namespace openwork
