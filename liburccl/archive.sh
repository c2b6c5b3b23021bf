#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# archive.sh IN OUT AR OBJCOPY LIBURING CC...: makes one relocatable object of the archive IN and
# the members of liburing.a that it needs, hides every symbol of it but urccl_* and __urccl_*, and
# puts it into the archive OUT. So a program may link another liburing beside it. LIBURING is the
# linker's option for it, or empty.
set -e
in=$1 out=$2 ar=$3 objcopy=$4 liburing=$5
shift 5
object=$(dirname "$out")/liburccl-all.o
"$@" -r -nostdlib -o "$object" -Wl,--whole-archive "$in" -Wl,--no-whole-archive $liburing
"$objcopy" --wildcard --keep-global-symbol='urccl_*' --keep-global-symbol='__urccl_*' "$object"
rm -f "$out"
"$ar" rcsD "$out" "$object"
rm -f "$object"
