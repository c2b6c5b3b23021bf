#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fabric2.sh ROOT PROGRAM ARGUMENTS...: runs the program by the loader, and with the libraries, of
# the Debian packages that lie unpacked in ROOT. Their libfabric has no need of ofi_rxm above its
# tcp.
root=$1
shift
for argument; do
	shift
	case $argument in
	"--transport=fabric:tcp;ofi_rxm"*) argument=--transport=fabric:tcp${argument#*rxm} ;;
	esac
	set -- "$@" "$argument"
done
set -- "$root"/usr/lib/*-linux-gnu/ "$@"
exec "$root"/usr/lib*/ld-linux-*.so.? --library-path "$@"
