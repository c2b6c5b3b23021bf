# SPDX-License-Identifier: Apache-2.0
"""Modules with the interface of other libraries.

    python -m liburccl.compat SCRIPT ARGUMENTS...

runs a script that was written for `from uccl import p2p`, with liburccl.compat.uccl_p2p in its
place.
"""
