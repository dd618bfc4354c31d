#!/usr/bin/env python3
"""Speed of Hugging Face's tokenizers package on one thread, for `openwork bench tokenize`.

Usage: bench_tokenize_reference.py TOKENIZER_JSON TEXT_FILE
The text is split at <|endoftext|> and each document is encoded on its own; the best of three passes counts.
Prints one JSON object: {"mb_per_s", "tokens", "documents", "bytes", "version"}.
"""
import json
import os
import sys
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
import tokenizers  # noqa: E402  (its thread count is read at import)

MARKER = "<|endoftext|>"
PASSES = 3


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    tokenizer = tokenizers.Tokenizer.from_file(sys.argv[1])
    with open(sys.argv[2], encoding="utf-8", newline="") as file:
        text = file.read()
    documents = [document for document in text.split(MARKER) if document]
    size = sum(len(document.encode()) for document in documents)
    best = float("inf")
    for _ in range(PASSES):
        start = time.perf_counter()
        tokens = sum(len(tokenizer.encode(document, add_special_tokens=False)) for document in documents)
        best = min(best, time.perf_counter() - start)
    print(json.dumps({"mb_per_s": size / best / 1e6, "tokens": tokens, "documents": len(documents),
                      "bytes": size, "version": tokenizers.__version__}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
