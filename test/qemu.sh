#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# qemu.sh ROOT PROGRAM...: runs a program for aarch64 on one CPU. On two, qemu-user 7.2 on x86 lets
# a sequentially consistent load overtake such a store before it, which no aarch64 does and which
# loses wake-ups. So memory order is not what is tested here.
root=$1
shift
exec taskset -c $(($$ % $(nproc))) qemu-aarch64 -L "$root" "$@"
