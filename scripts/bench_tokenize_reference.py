#!/usr/bin/env python3
"""Speed of Hugging Face's tokenizers package on one thread, for `openwork bench tokenize`.

Usage: bench_tokenize_reference.py TOKENIZER_JSON TEXT_FILE
The text is split at <|endoftext|> and each document is encoded on its own, by `encode` and by `encode_batch_fast`
(which leaves out offsets, as openwork does); the best of three passes counts.
Prints one JSON object: {"mb_per_s" (the faster way's), "encode_mb_per_s", "batch_mb_per_s", "tokens", "documents",
"bytes", "version"}.
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


def best_seconds(work) -> float:
    best = float("inf")
    for _ in range(PASSES):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    tokenizer = tokenizers.Tokenizer.from_file(sys.argv[1])
    with open(sys.argv[2], encoding="utf-8", newline="") as file:
        documents = [document for document in file.read().split(MARKER) if document]
    size = sum(len(document.encode()) for document in documents)

    def encode() -> int:
        return sum(len(tokenizer.encode(document, add_special_tokens=False)) for document in documents)

    def encode_batch() -> int:
        batches = (documents[i:i + 64] for i in range(0, len(documents), 64))
        return sum(len(encoding) for batch in batches
                   for encoding in tokenizer.encode_batch_fast(batch, add_special_tokens=False))

    speed = size / best_seconds(encode) / 1e6
    batch_speed = size / best_seconds(encode_batch) / 1e6 if hasattr(tokenizer, "encode_batch_fast") else 0.0
    print(json.dumps({"mb_per_s": max(speed, batch_speed), "encode_mb_per_s": speed, "batch_mb_per_s": batch_speed,
                      "tokens": encode(), "documents": len(documents), "bytes": size,
                      "version": tokenizers.__version__}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
