#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
manners.py LIBRARY: the library is a guest. It needs libc and liburccl alone, has no call that ends
the process, touches signals or prints, none that depends on the locale or on the wall clock, and no
variable that two contexts would share.
"""
import re
import sys

from public import check, run

RUDE = {"abort", "exit", "_exit", "_Exit", "quick_exit", "atexit", "__assert_fail", "raise", "kill",
        "signal", "sigaction", "sigprocmask", "sigqueue", "pthread_kill", "tgkill",
        "pthread_exit", "timer_create", "err", "errx", "verr", "warn", "warnx", "error",
        "system", "setenv", "putenv", "unsetenv",
        "dprintf", "vdprintf", # raise SIGPIPE
        "printf", "puts", "putchar", "perror", "stdout", "stderr", "stdin", "syslog",
        "__printf_chk", "pthread_atfork", "__register_atfork", "malloc_hook"}
# They read or write by the program's locale, or wait by the clock that people set.
CHANGING = {"strtod", "strtof", "strtold", "atof", "toupper", "tolower", "__ctype_b_loc",
            "__ctype_toupper_loc", "__ctype_tolower_loc", "strcasecmp", "strncasecmp", "strcoll",
            "strerror", "__xpg_strerror_r", "strerror_r", "gai_strerror", "setlocale", "localeconv",
            "pthread_timedjoin_np", "pthread_cond_timedwait", "pthread_mutex_timedlock",
            "sem_timedwait", "gettimeofday", "time", "ftime"}
# What the compiler's start files bring along.
START_FILES = {"completed.0", "__dso_handle", "__TMC_END__", ".bss", ".data"}

library = sys.argv[1]
needed = set(re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", library)))
check(needed <= {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "liburccl.so.0"},
      f"needs {sorted(needed)}")
loaded = {line.split()[0].split("/")[-1] for line in run("ldd", library).splitlines()
          if "(0x" in line}
strange = {n for n in loaded if not re.match(r"linux-(vdso|gate)|libc\.so|ld-linux|liburccl\.so", n)}
check(not strange, f"loads {sorted(strange)}")

undefined = {line.split()[-1].split("@")[0]
             for line in run("nm", "-D", "--undefined-only", library).splitlines()}
check(not undefined & RUDE, f"uses {sorted(undefined & RUDE)}")
check(not undefined & CHANGING, f"uses {sorted(undefined & CHANGING)}")

for line in run("objdump", "-t", library).splitlines():
    field = line.split()
    if len(field) >= 5 and field[-3] in (".data", ".bss") and field[-1] not in START_FILES:
        check(False, f"a variable of the whole process: {field[-1]}")
