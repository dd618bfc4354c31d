// The comparison page in headless Chromium, opened from a file: it says nothing on the console, asks the
// network for nothing, and pointing at a head shows the value that the model computed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <regex>

#include "cli/command.h"

namespace openwork {
namespace {

using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

std::string find_browser() {
  for (const char* name : {"/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"}) {
    if (fs::exists(name)) return name;
  }
  return "";
}

struct Browsed {
  std::string dom, log, network;  // the page after its script, the browser's log, every request it made
};

// Opens the page and returns what it became. `width` is the window's.
Browsed browse(const std::string& browser, const std::string& page, const ScratchFolder& scratch,
               int width = 1400) {
  const std::string dom = scratch / "dom.html", log = scratch / "log.txt", network = scratch / "network.json";
  const std::string command =
      browser +
      " --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-background-networking" +
      " --disable-component-update --disable-sync --no-first-run --enable-logging=stderr --v=0" +
      " --user-data-dir=" + (scratch / "profile") + " --log-net-log=" + network +
      " --window-size=" + std::to_string(width) + ",1200 --virtual-time-budget=10000 --dump-dom file://" +
      page + " >" + dom + " 2>" + log;
  const int status = std::system(command.c_str());
  EXPECT_EQ(status, 0) << read_file(log);
  return {read_file(dom), read_file(log), read_file(network)};
}

// Requests that a page made, by the network log: the browser's own (updates, time) have no origin.
int64_t requests_of_page(const Browsed& shown) {
  const std::regex initiator("\"initiator\":\"(?!not an origin)[^\"]*\"");
  return std::distance(std::sregex_iterator(shown.network.begin(), shown.network.end(), initiator),
                       std::sregex_iterator());
}

class ComparisonInBrowser : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    browser_ = find_browser();
    if (browser_.empty()) return;
    made_ = new ScratchFolder;
    std::ofstream(*made_ / "prompts.txt")
        << "The cat sat on the mat and the cat slept.\nOne, two, three, one, two, three.\n";
    const ProgramResult made =
        run_openwork({"compare", "openwork-8m", "openwork-8m", "--prompts", *made_ / "prompts.txt",
                      "--prompt", kPrompt, "--task", "none", "--generate", "4", "--no-interactions",
                      "--threads", "1", "--out", *made_ / "report"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }

  static void TearDownTestSuite() {
    delete made_;
    made_ = nullptr;
  }

  void SetUp() override {
    if (browser_.empty()) GTEST_SKIP() << "no Chromium here: the page is not opened";
  }

  static std::string page() { return *made_ / "report/index.html"; }

  static constexpr const char* kPrompt = "When Mary and <b>John</b> went to the store";
  static inline std::string browser_;
  static inline ScratchFolder* made_ = nullptr;  // of the suite: the page is the same for all
  const ScratchFolder scratch_;
};

TEST_F(ComparisonInBrowser, IsSilentAndAsksTheNetworkForNothing) {
  const Browsed page_shown = browse(browser_, page(), scratch_);
  EXPECT_THAT(page_shown.dom, HasSubstr("class=\"js\"")) << "the script has run";
  EXPECT_THAT(page_shown.log, Not(HasSubstr("CONSOLE")));
  EXPECT_EQ(requests_of_page(page_shown), 0);
  EXPECT_THAT(page_shown.dom, Not(HasSubstr("<b>John</b> went"))) << "a prompt is text, not markup";
}

TEST_F(ComparisonInBrowser, WouldBeCaughtMakingARequest) {
  const std::string other = scratch_ / "other.html";
  std::ofstream(other) << "<img src='http://127.0.0.1:9/x.png'><script>console.log('said')</script>";
  const Browsed shown = browse(browser_, other, scratch_);
  EXPECT_GE(requests_of_page(shown), 1);
  EXPECT_THAT(shown.log, HasSubstr("CONSOLE"));
}

TEST_F(ComparisonInBrowser, RunsNoScriptAndTakesNoStyleButItsOwn) {
  std::string html = read_file(page());
  const std::string policy = html.substr(html.find("<meta http-equiv"), 1000);
  EXPECT_THAT(policy.substr(0, policy.find('>')), Not(HasSubstr("unsafe")));
  EXPECT_THAT(html, Not(HasSubstr(" style=\"")));
  html.replace(html.find("</body>"), 0, "<script>document.body.dataset.other = 'ran'</script>");
  const std::string altered = scratch_ / "altered.html";
  std::ofstream(altered) << html;
  const Browsed shown = browse(browser_, altered, scratch_);
  EXPECT_THAT(shown.dom, Not(HasSubstr("data-other=\"ran\"")));
  EXPECT_THAT(shown.log, HasSubstr("Content Security Policy"));
}

TEST_F(ComparisonInBrowser, ShowsTheModelsOwnValueUnderThePointer) {
  // The same page with a hand that points: query 5, key 2 of L5H6, after everything is decoded.
  std::string html = read_file(page());
  html.replace(html.find("</body>"), 0, R"(<script>
    addEventListener("load", async () => {
      const image = document.querySelector('img[data-model="0"][data-head="L5H6"]');
      await Promise.all([...document.querySelectorAll('img[data-head="L5H6"]')].map((one) => one.decode()));
      const box = image.getBoundingClientRect(), cell = image.clientWidth / image.naturalWidth;
      image.dispatchEvent(new MouseEvent("mousemove", { clientX: box.left + image.clientLeft + 4.5 * cell, clientY: box.top + image.clientTop + 5.5 * cell }));
      document.title = "pointed " + document.getElementById("reading").textContent;
      image.click();
      document.body.dataset.large = document.querySelectorAll("dialog[open] img").length;
    });
  </script>)");
  // The page's own policy allows no script but its own.
  html = std::regex_replace(html, std::regex("<meta http-equiv[^>]*>\n"), "");
  const std::string pointed = scratch_ / "pointed.html";
  std::ofstream(pointed) << html;
  const Browsed shown = browse(browser_, pointed, scratch_);
  EXPECT_THAT(shown.log, Not(HasSubstr("CONSOLE")));
  EXPECT_THAT(shown.dom, HasSubstr("data-large=\"2\"")) << "a click opens both models' pictures";

  const ProgramResult run =
      run_openwork({"run", "openwork-8m", kPrompt, "--save", scratch_ / "pass.safetensors", "--what",
                    "attention", "--json", scratch_ / "run.json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::string bytes = read_file(scratch_ / "pass.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  const nlohmann::json entry = nlohmann::json::parse(bytes.substr(8, length))["attention.5"];
  const size_t T = entry["shape"][2], start = entry["data_offsets"][0];
  float wanted = 0;
  std::memcpy(&wanted, bytes.data() + 8 + length + start + 4 * ((6 * T + 5) * T + 4), 4);

  std::smatch values;
  const std::regex line(
      "<title>pointed L5H6 .* 5 ← .* 4 .*openwork-8m ([0-9.]+) .*openwork-8m' ([0-9.]+)</title>");
  ASSERT_TRUE(std::regex_search(shown.dom, values, line)) << shown.dom.substr(0, 2000);
  EXPECT_NEAR(std::stod(values[1]), wanted, 1.0 / 255 + 5e-4);
  EXPECT_EQ(values[1], values[2]) << "one model beside itself";
}

}  // namespace
}  // namespace openwork
