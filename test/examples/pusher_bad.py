#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What cannot be is refused in one clear line, with the exit status for it."""
import pathlib
import tempfile

from pusher_run import LIMIT, Decode, End, check, demo, model


def refused(status, *args, words):
    end = End(*args)
    out = end.end(status)
    check(out == "", out)
    for word in words:
        check(word in end.said, f"no \"{word}\" in:\n{end.said}")
    return end.said


CACHE = "--cache", "64M"
GOOD = '{"timestamp": 0, "input_length": 20, "output_length": 1, "hash_ids": [1]}\n'

with tempfile.TemporaryDirectory() as folder:
    trace = pathlib.Path(folder) / "trace.jsonl"
    trace.write_text(GOOD * 6 + '{"timestamp": 0, "input_length": "x"}\n' + GOOD)
    refused(2, "--demo", "--trace", trace, words=["trace.jsonl:7:", "input_length"])
    refused(2, "--demo", "--trace", folder + "/none", words=["/none"])
    refused(2, "--demo", "--model", folder + "/none", words=["/none"])
    refused(2, "--demo", "--model", trace, words=["trace.jsonl"])
    refused(2, "--demo", "--model", model(folder, layer_types=["linear_attention"]), words=["linear_attention"])
    refused(2, "--demo", "--tp", "4:1", words=["2 KV heads", "4 ranks of prefill"])
    refused(2, "--demo", "--tp", "4", words=["--tp"])
    refused(2, "--demo", "--pool", "4K", words=["--pool"])
    refused(2, "--demo", "--kv-dtype", "int7", words=["int7"])
    # A trace's blocks are of 512 tokens: of whole pages, or its requests would be others.
    for page in 0, 48, 1024:
        refused(2, "--demo", "--requests", 1, "--page-size", page, words=["--page-size", str(page)])
    refused(2, "--demo", "--nonsense", words=["--nonsense"])
    refused(2, words=["--demo", "--serve", "--push"])
    refused(2, "--serve", "--pull", words=["--pull is for --push"])
    refused(2, "--push", "--pool", "1G", words=["--pool is for --serve"])
    refused(2, "--push", "@" + folder + "/none", words=["/none"])
    refused(2, "--serve", "127.0.0.1:0", words=["127.0.0.1:0", "--metadata"])
    refused(1, "--push", "127.0.0.1:1", "--requests", 1, *CACHE, words=["cannot connect"])
    for more in [], ["--pull"]:
        refused(1, "--push", "127.0.0.1:1", "--no-verify", "--page-size", 512, "--cache", "16T", *more,
                words=["no memory for a cache of 16384"])

    # Both ends must mean the same thing.
    decode = Decode("--pool", "64M")
    refused(1, "--push", decode.at, "--page-size", 32, "--requests", 1, *CACHE, words=["decode refuses", "pages of 32"])
    refused(1, "--push", decode.at, "--tp", "2:1", "--requests", 1, *CACHE, words=["decode refuses", "--tp 1:1"])
    refused(1, "--push", decode.at, "--no-verify", "--requests", 1, *CACHE, words=["decode refuses", "--no-verify"])
    decode.wait_for("pusher 3 .* refused")
    decode.send(2)
    decode.end(130)

# Entries of rings, of which a deep model needs more.
with tempfile.TemporaryDirectory() as folder:
    deep = ("--model", model(folder, num_hidden_layers=80, num_key_value_heads=1, head_dim=8), "--requests", 1,
            *CACHE)
    decode = Decode(*deep[:2], "--pool", "64M")
    refused(1, "--push", decode.at, *deep, "--pull", "--parallel", 64,
            words=["decode refuses", "64 requests", "80 layers", "--parallel 48 at most"])
    End("--push", decode.at, *deep, "--pull", "--parallel", 48).end()
    decode.send(2)
    decode.end(130)
    deeper = model(folder, num_hidden_layers=504, num_key_value_heads=1, head_dim=8)
    refused(2, "--demo", "--model", deeper, "--requests", 1, "--parallel", 64,
            words=["--parallel 64", "504 layers", "63 requests"])
    demo("--model", deeper, "--requests", 1, "--parallel", 63, "--pool", "64M", *CACHE)

# What is there to choose from fits a terminal.
check(all(len(line) <= 80 for line in End("--help").end().splitlines()), "--help is too wide")

# A result that nobody gets is no success.
for form in ["--quiet", "--json"]:
    with open("/dev/full", "w") as full:
        end = End("--demo", "--requests", 1, "--pool", "64M", *CACHE, form, stdout=full)
        end.process.wait(LIMIT)
        end.reader.join(LIMIT)
        check(end.process.returncode == 1 and "cannot be written" in end.said, end.said)

# Requests longer than the pool are refused by name and counted; the others go on.
result, said = demo("--pool", "64M", *CACHE, "--requests", 40)
check(result["requests"]["refused"] == len(result["requests"]["refused_lines"]) > 0, result["requests"])
check(f"line {result['requests']['refused_lines'][0]}: refused" in said, said)
check(result["requests"]["right"] + result["requests"]["refused"] == 40, result["requests"])
