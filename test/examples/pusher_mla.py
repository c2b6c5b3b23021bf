#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MLA: one latent a token, no planes and no heads."""
import tempfile

from pusher_run import End, all_right, check, demo, model

with tempfile.TemporaryDirectory() as folder:
    config = model(folder, kv_lora_rank=512, qk_rope_head_dim=64)
    result, said = demo("--model", config, "--page-size", 64, "--requests", 20, "--pool", "128M",
                        "--cache", "128M")
    all_right(result)
    check(result["shape"]["planes"] == 1 and result["shape"]["head_dim"] == 576, result["shape"])
    check(result["shape"]["bytes_per_token"] == 6 * 576 * 2, result["shape"])

    result, said = demo("--model", config, "--kv-dtype", "fp8", "--requests", 5, "--pool", "128M",
                        "--cache", "128M")
    all_right(result)
    check(result["shape"]["bytes_per_token"] == 6 * 576, result["shape"])

    end = End("--demo", "--model", config, "--tp", "2:1")
    end.end(status=2)
    check("MLA" in end.said, end.said)
