#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
pack.py BUILD OUT: makes the folder OUT, and OUT.tar.xz of it, with the tests for memory of GPUs of
a build and the programs that measure, for a machine that has a GPU and need not have a compiler

	run.py, tests.json	runs the tests
	gpu.py			measures: python3 gpu.py bin
	bin, lib, test		programs, stripped; libraries but those of the C library; scripts
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile

TESTS = re.compile(r"gpu_|unit-gpu$|ep_gpu_|urccl_perf gpu |raw_gpu$|pusher gpu")
TOOLS = ("bench/urccl_perf", "bench/raw_gpu", "bench/gpu/benchmark_local",
         "bench/gpu/benchmark_remote", "bench/ep/urccl_ep_perf", "liburccl/info/urccl_info",
         "examples/kvcache_pusher/kvcache_pusher")
SCRIPTS = ("test/gpu/run.py", "bench/gpu.py", "bench/compare.py", "bench/plot.py")
CUDA = ("URCCL_TEST_CUDA_SO", "URCCL_CUDA_SO")  # where a test looks for another driver
DROPPED = (*CUDA, "CUDA_DOUBLE", "LD_LIBRARY_PATH", "MALLOC_PERTURB_")
OF_THE_SYSTEM = re.compile(r"(libc|libm|libdl|libpthread|librt|ld-linux-x86-64|linux-vdso)\.")


class Pack:
    def __init__(self, build, out):
        self.build, self.out = os.path.abspath(build), os.path.abspath(out)
        self.source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        shutil.rmtree(self.out, ignore_errors=True)
        for name in "bin", "lib", "test":
            os.makedirs(os.path.join(self.out, name))

    def library(self, program):
        said = subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True, check=True).stdout
        for name, path in re.findall(r"(\S+) => (/\S+)", said):
            to = os.path.join(self.out, "lib", name)
            if not OF_THE_SYSTEM.match(name) and not os.path.exists(to):
                subprocess.run(["strip", "-o", to, os.path.realpath(path)], check=True)

    def program(self, path):
        to = os.path.join("bin", os.path.basename(path))
        if not os.path.exists(os.path.join(self.out, to)):
            subprocess.run(["strip", "-o", os.path.join(self.out, to), path], check=True)
            self.library(path)
        return to

    def script(self, path):
        """With the modules that lie beside it."""
        with open(path) as f:
            for name in re.findall(r"^(?:from|import) (\w+)", f.read(), re.M):
                beside = os.path.join(os.path.dirname(path), name + ".py")
                if os.path.exists(beside):
                    shutil.copy2(beside, os.path.join(self.out, "test"))
        to = os.path.join("test", os.path.basename(path))
        shutil.copy2(path, os.path.join(self.out, to))
        return to

    def word(self, word):
        """An argument of a test, or a value of its environment, as it is in the pack."""
        path = os.path.normpath(os.path.join(self.build, word))
        if not os.path.isfile(path):
            return word
        return self.program(path) if path.startswith(self.build + "/") else self.script(path)

    def test(self, test):
        env = {k: self.word(v) for k, v in test["env"].items() if k not in DROPPED}
        return {"name": test["name"], "args": [self.word(w) for w in test["cmd"]], "env": env,
                "cuda": next((k for k in CUDA if k in test["env"]), CUDA[0]),
                "timeout": test["timeout"]}

    def known(self, what):
        said = subprocess.run(["meson", "introspect", self.build, what], check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        return json.loads(said)

    def compile(self, tests):
        """Builds the tools, and the programs of tests, which may have paths from the root of it."""
        made = {os.path.relpath(f, self.build) for t in self.known("--targets")
                for f in t["filename"]}
        words = {os.path.relpath(os.path.join(self.build, w), self.build) for t in tests
                 for w in [*t["cmd"], *t["env"].values()]}
        subprocess.run(["ninja", "-C", self.build, *sorted(made & (words | set(TOOLS)))],
                       check=True)

    def tests(self):
        tests = [t for t in self.known("--tests")
                 if TESTS.match(t["name"]) and "liburccl:long" not in t["suite"]]
        self.compile(tests)
        tests = [self.test(t) for t in tests]
        with open(os.path.join(self.out, "tests.json"), "w") as f:
            json.dump(tests, f, indent=1)
        return len(tests)

    def make(self):
        n = self.tests()
        for tool in TOOLS:
            path = os.path.join(self.build, tool)
            if os.path.exists(path):
                self.program(path)
        for script in SCRIPTS:
            shutil.copy2(os.path.join(self.source, script), self.out)
        packed = self.out + ".tar.xz"
        with tarfile.open(packed, "w:xz") as tar:
            tar.add(self.out, os.path.basename(self.out))
        print(f"{packed}: {n} tests, {os.path.getsize(packed) / 2 ** 20:.1f} MiB")


Pack(*sys.argv[1:]).make()
