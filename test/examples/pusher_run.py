# SPDX-License-Identifier: Apache-2.0
"""What the tests of kvcache_pusher share: its two ends as processes, and what they say."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading

LIMIT = 100         # seconds for one process, far more than any needs

BINARY = sys.argv[1]
TRANSPORT = sys.argv[2] if len(sys.argv) > 2 else None


def check(held, *what):
    if not held:
        print("failed:", *what, file=sys.stderr)
        sys.exit(1)


def command(*args, binary=BINARY):
    line = [binary, *map(str, args)]
    return line + ["--transport", TRANSPORT] if TRANSPORT else line


class End:
    """One process; its stderr is read as it comes, so that a test can wait for a line."""

    def __init__(self, *args, stdout=subprocess.PIPE, binary=BINARY):
        self.process = subprocess.Popen(command(*args, binary=binary), stdin=subprocess.DEVNULL,
                                        text=True, stdout=stdout, stderr=subprocess.PIPE)
        self.said, self.news, self.over = "", threading.Condition(), False
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            with self.news:
                self.said += line
                self.news.notify_all()
        with self.news:
            self.over = True
            self.news.notify_all()

    def wait_for(self, pattern):
        with self.news:
            self.news.wait_for(lambda: re.search(pattern, self.said) or self.over, LIMIT)
            check(re.search(pattern, self.said), f"no \"{pattern}\" in:\n{self.said}")

    def send(self, sig):
        os.kill(self.process.pid, sig)

    def end(self, status=0):
        """Waits, checks the exit status, returns stdout."""
        try:
            out = self.process.stdout.read()
            self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            check(False, "did not end:\n" + self.said)
        self.reader.join(LIMIT)
        check(self.process.returncode == status,
              f"exit status {self.process.returncode}, not {status}: {self.process.args}\n{self.said}{out}")
        return out


class Decode(End):
    """--serve on any port; self.at is what --push takes."""

    def __init__(self, *args):
        self.folder = tempfile.TemporaryDirectory()
        self.metadata = pathlib.Path(self.folder.name) / "metadata"
        self.at = "@" + str(self.metadata)
        super().__init__("--serve", "127.0.0.1:0", "--metadata", self.metadata, *args)
        # Which port it is only the metadata says.
        self.wait_for("decode listens for --push " + re.escape(self.at))


def demo(*args, status=0):
    """Runs --demo --json and returns the object and what was said."""
    end = End("--demo", "--json", *args)
    out = end.end(status)
    return json.loads(out), end.said


def model(folder, **config):
    """A config.json of a small model."""
    base = {"num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 32,
            "torch_dtype": "bfloat16"}
    path = pathlib.Path(folder) / "config.json"
    path.write_text(json.dumps({**base, **config}))
    return path


def trace(folder, *requests):
    """A trace of these: when each is due, in ms, and its blocks."""
    path = pathlib.Path(folder) / f"{len(os.listdir(folder))}.jsonl"
    path.write_text("".join(json.dumps({"timestamp": due, "input_length": 512 * len(blocks),
                                        "output_length": 1, "hash_ids": blocks}) + "\n"
                            for due, blocks in requests))
    return path


def all_right(result, aborted=0):
    requests, verify = result["requests"], result["verify"]
    check(requests["wrong"] == 0 and requests["failed"] == 0, requests)
    check(requests["right"] + requests["aborted"] + requests["refused"] == requests["total"], requests)
    check(requests["aborted_quiet"] == requests["aborted"], requests)
    check((requests["aborted"] > 0) == bool(aborted), requests)
    check(verify["on"] and verify["wrong"] == 0 and verify["pages"] > 0, verify)
    check(result["bytes"] > 0 and result["gb_per_s"] > 0, result)
    if TRANSPORT:
        check(TRANSPORT.split(":")[0] in result["path"], result["path"])
