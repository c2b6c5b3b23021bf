#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ptx.sh FOLDER [NVCC]: makes the kernels' PTX there, for compute capability 8.0 and later. The
# version of the language is lowered to that of the instructions, as older drivers refuse later
# ones. The bytes are those of nvcc 13.0; exit status 77: this is another one, or there is none.
set -eu
nvcc=${2:-nvcc}
here=$(dirname "$0")
if ! "$nvcc" --version 2>/dev/null | grep -q 'release 13\.0,'; then
	echo "needs nvcc of CUDA 13.0"
	exit 77
fi
for name in gather; do
	"$nvcc" -ptx -arch=compute_80 -std=c++17 -O3 -Werror all-warnings -o "$1/$name.tmp" \
		"$here/$name.cu"
	sed 's/^\.version .*/.version 7.4/' "$1/$name.tmp" >"$1/$name.ptx"
	rm "$1/$name.tmp"
done
