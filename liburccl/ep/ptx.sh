#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ptx.sh NVCC SOURCES OUTPUTS: makes the PTX of the kernels for builds without nvcc. Its version is
# lowered to 8.0, the first with what the kernels use, so that drivers of CUDA 12 take it; hints of
# later versions, and names that depend on where the sources are, are left out.
set -e
for kernel in notify dispatch combine ll_dispatch ll_combine; do
	"$1" -ptx -arch=compute_90 -std=c++17 -O3 -o "$3/$kernel.tmp" "$2/$kernel.cu"
	{
		echo "// SPDX-License-Identifier: Apache-2.0"
		sed -e 's/^\.version .*/.version 8.0/' -e '/\.pragma "used_bytes_mask/d' \
			-e '/^[[:space:]]*\/\//d' \
			-e 's/_INTERNAL_[0-9a-f]\{8\}_/_INTERNAL_00000000_/g' "$3/$kernel.tmp"
	} >"$3/$kernel.ptx"
	rm "$3/$kernel.tmp"
done
