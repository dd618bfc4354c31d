#!/usr/bin/env bash
# The viewer's tests, as ctest calls them:  run.sh unit|build|browser|bench BUILD
#   unit     the page's pure functions
#   build    the committed viewer/dist is what the sources build
#   browser  the page in Chromium over the real `openwork serve`, and from a file; screenshots in BUILD/viewer-shots
#   bench    first view, new prompts, page size, frames while scrolling (no test)
# Ends with 77 and says why where node, its packages or a browser are missing (scripts/setup.sh test brings them).
set -euo pipefail
build=$(cd "$2" && pwd)
cd "$(dirname "$0")/.."

skip() { printf 'viewer: Skipped\n%s\n\n[  SKIPPED ] 1 test\n' "$1"; exit 77; }
command -v node >/dev/null || skip "no node here: the viewer is not tested"
[ -d node_modules/playwright-core ] || skip "no viewer/node_modules here: npm ci in viewer/"

case $1 in
  unit)
    node_modules/.bin/tsc -p tsconfig.test.json --outDir "$build/viewer-js"
    VIEWER_JS=$build/viewer-js node --test test/unit.test.mjs >"$build/viewer-unit.log" || { cat "$build/viewer-unit.log"; exit 1; }
    echo "[  PASSED  ] $(sed -n 's/^# pass //p' "$build/viewer-unit.log") tests."
    ;;
  build)
    [ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || skip "node $(node --version) is too old to build the viewer"
    node_modules/.bin/tsc --noEmit
    node_modules/.bin/vite build --outDir "$build/viewer-dist" --emptyOutDir --logLevel warn
    diff -r dist "$build/viewer-dist" || { echo "viewer/dist is not what viewer/src builds: npm ci && npm run build in viewer/"; exit 1; }
    ! grep -qE 'https?://|"resolved"' package-lock.json || { echo "viewer/package-lock.json names a host"; exit 1; }
    echo "[  PASSED  ] 1 test."
    ;;
  browser) node test/browser.mjs "$build/openwork" "$build/viewer-shots" ;;
  bench)
    node test/bench_live.mjs "$build/openwork"
    node test/bench.mjs "$build/viewer-bench"
    ;;
esac
