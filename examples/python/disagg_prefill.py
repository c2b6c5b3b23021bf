#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
disagg_prefill.py [--layers N] [--tokens N] [--new N] [--transport T] [--device cpu|cuda]:
disaggregated prefill with Hugging Face transformers.

A prefill process computes the KV cache of a prompt and pushes it layer by layer while it computes
the next layer; a decode process, whose memory the KV lands in, goes on from there. The tokens
must equal those of one process alone. The model has Qwen3-0.6B's sizes with fewer layers and
tokens and random weights: nothing is downloaded. With --device cuda both processes compute on GPU
0, and the KV moves from tensors of one into tensors of the other.
"""
import argparse
import multiprocessing
import struct
import time

import liburccl

FIRST = struct.Struct("<Q")             # the token that prefill computed, behind the last layer
LIMIT = 600


def make_model(args):
    """The same random weights in each process."""
    import torch
    import transformers

    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    sizes = {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": args.layers,
             "num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 8192,
             "max_position_embeddings": 4096, "tie_word_embeddings": True}
    if hasattr(transformers, "Qwen3Config"):
        config = transformers.Qwen3Config(head_dim=128, **sizes)
        model = transformers.Qwen3ForCausalLM(config)
    else:
        config = transformers.Qwen2Config(**sizes)
        model = transformers.Qwen2ForCausalLM(config)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // 16
    prompt = torch.randint(0, config.vocab_size, (1, args.tokens))
    shape = (args.layers, 2, 8, args.tokens, head_dim)
    return model.eval().to(args.device), prompt.to(args.device), shape


def make_pool(ctx, args, shape):
    """A tensor for the KV of all layers. In memory of the host, peers on this machine map it."""
    import torch

    if args.device == "cuda":
        return torch.empty(shape, device="cuda")
    memory = ctx.alloc(4 * torch.Size(shape).numel())
    return torch.from_numpy(memory.numpy("float32")).view(shape)


def layer_of(cache, i):
    """Keys and values of a layer, each [1, heads, tokens, head_dim], in each form of the cache."""
    if hasattr(cache, "layers"):
        return cache.layers[i].keys, cache.layers[i].values
    if hasattr(cache, "key_cache"):
        return cache.key_cache[i], cache.value_cache[i]
    return cache[i]


def find_cache(values):
    """The cache among the arguments of a layer (torch 2) or in its output (before)."""
    for value in values:
        if hasattr(value, "layers") or hasattr(value, "key_cache"):
            return value
        inside = value.values() if isinstance(value, dict) else value
        found = find_cache(inside) if isinstance(value, (dict, tuple)) else None
        if found is not None:
            return found
    return None


def make_cache(layers):
    from transformers import DynamicCache

    cache = DynamicCache()
    for i, (keys, values) in enumerate(layers):
        cache.update(keys, values, i)
    return cache


def decode(model, token, cache, count):
    """count tokens, the first of which is given."""
    import torch

    tokens = [token]
    while len(tokens) < count:
        last = torch.tensor([[tokens[-1]]], device=model.device)
        out = model(last, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        tokens.append(int(out.logits[0, -1].argmax()))
    return tokens


def run_prefill(args, pipe):
    import torch

    model, prompt, shape = make_model(args)
    with liburccl.Context(args.transport) as ctx, ctx.ring() as ring:
        metadata, advert = pipe.recv()
        remote = ctx.import_(ring.connect(metadata).result(LIMIT), advert)
        staging = make_pool(ctx, args, shape)
        size, ops, started = staging[0].numel() * 4, [], []
        region = ctx.register(staging, "")
        ring.warm(remote.peer).result(LIMIT)
        after = {}
        if args.device == "cuda":
            model(prompt)                               # the first run loads kernels
            torch.cuda.synchronize()
            after = {"stream": torch.cuda.current_stream()}     # writes start behind its copies

        def push(i, keys, values, payload=b""):
            staging[i][0].copy_(keys[0])
            staging[i][1].copy_(values[0])
            started.append(time.perf_counter())
            ops.append(ring.write(remote, staging[i], i * size, notify=(i, payload), **after))

        def after_layer(i):
            # The last layer goes with the first token, which is known only later.
            def hook(_module, *rest):
                if i + 1 < args.layers:
                    push(i, *layer_of(find_cache(rest), i))
            return hook
        with_kwargs = torch.__version__ >= "2"
        for i, layer in enumerate(model.model.layers):
            layer.register_forward_hook(after_layer(i), **({"with_kwargs": True} if with_kwargs
                                                           else {}))
        begin = time.perf_counter()
        out = model(prompt, use_cache=True)
        token = int(out.logits[0, -1].argmax())
        last = args.layers - 1
        push(last, *layer_of(out.past_key_values, last), FIRST.pack(token))
        computed = time.perf_counter()
        moved = sum(op.result(LIMIT) for op in ops)
        done = time.perf_counter()
        region.unregister()
        print(f"prefill on {args.device}: {args.layers} layers, {moved / 1e6:.1f} MB in "
              f"{(computed - begin) * 1e3:.1f} ms of computing; exposed "
              f"{(done - computed) * 1e3:.2f} ms; last layer at "
              f"{size / (done - started[-1]) / 1e9:.2f} GB/s", flush=True)
        pipe.recv()                                     # decode is done with us


def run_decode(args, pipe, results):
    model, _, shape = make_model(args)
    with liburccl.Context(args.transport) as ctx, ctx.ring() as ring:
        pool = make_pool(ctx, args, shape)
        region = ctx.register(pool, "w")
        ring.accept()
        events = ring.events()
        pipe.send((ctx.metadata, region.advertise(rights="w")))
        arrived, token = set(), None
        while len(arrived) < args.layers:
            event = events.next(LIMIT)
            assert isinstance(event, liburccl.Note) and event.error is None, event
            arrived.add(event.tag)
            if event.payload:
                (token,) = FIRST.unpack(event.payload)
        cache = make_cache([(kv[0:1], kv[1:2]) for kv in pool])
        tokens = decode(model, token, cache, args.new)
        pipe.send(None)
        results.put(tokens)


def alone(args):
    model, prompt, _ = make_model(args)
    out = model(prompt, use_cache=True)
    return decode(model, int(out.logits[0, -1].argmax()), out.past_key_values, args.new)


def main():
    parser = argparse.ArgumentParser(description="disaggregated prefill over liburccl")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--new", type=int, default=8)
    parser.add_argument("--transport", default="shm")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    args = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    near, far = spawn.Pipe()
    results = spawn.Queue()
    processes = [spawn.Process(target=run_prefill, args=(args, near)),
                 spawn.Process(target=run_decode, args=(args, far, results))]
    for process in processes:
        process.start()
    try:
        tokens = results.get(timeout=LIMIT)
        for process in processes:
            process.join(LIMIT)
    finally:
        for process in processes:
            process.kill()
    want = alone(args)
    print(f"decode: {tokens}")
    assert tokens == want, f"one process alone gives {want}"
    print("one process alone gives the same tokens")


if __name__ == "__main__":
    main()
