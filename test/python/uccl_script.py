# SPDX-License-Identifier: Apache-2.0
"""A script written for UCCL: run by test_compat.py with `python -m liburccl.compat`."""
import array
import multiprocessing
import sys

from uccl import p2p

SIZE = 4096


def memory(fill):
    """The array, and where it lies: UCCL takes addresses as numbers."""
    it = array.array("B", bytes([fill]) * SIZE)
    return it, it.buffer_info()[0]


def done(ep, transfer_id):
    while True:
        ok, is_done = ep.poll_async(transfer_id)
        assert ok
        if is_done:
            return


def serve(pipe):
    ep = p2p.Endpoint(0)
    buffers = [memory(1) for _ in range(3)]
    ids = [ep.reg(ptr, SIZE) for _, ptr in buffers]
    assert all(ok for ok, _ in ids)
    ok, blobs = ep.advertisev([i for _, i in ids], [p for _, p in buffers], [SIZE] * 3, 3)
    assert ok and all(len(blob) == 64 for blob in blobs)
    pipe.send((ep.get_metadata(), blobs))
    ok, ip, gpu, conn_id = ep.accept()
    assert ok and ip and gpu == 0 and conn_id
    ok, bdf, local = ep.accept_local()
    assert ok and bdf == "0000:00:00.0" and local != conn_id
    ok, info = ep.advertise_ipc(local, buffers[0][1], SIZE)
    pipe.send(info)
    assert pipe.recv() == "written"
    assert [b[0][0] for b in buffers] == [9, 7, 7]
    assert all(ep.dereg(i) for _, i in ids) and not ep.dereg(ids[0][1])
    print("server: all right")


def use(ep, metadata, blobs, pipe):
    ip, port, bdf = p2p.Endpoint.parse_metadata(metadata)
    ok, conn_id = ep.connect(ip, bdf, remote_port=port)
    assert ok
    here, ptr = memory(7)
    ok, mr_id = ep.reg(ptr, SIZE, p2p.FloatType.kUndefined)
    assert ok and ep.write(conn_id, mr_id, ptr, SIZE, blobs[0])
    ok, transfer_id = ep.writev_async(conn_id, [mr_id] * 2, [ptr] * 2, [SIZE] * 2, blobs[1:], 2)
    assert ok
    done(ep, transfer_id)
    done(ep, transfer_id)               # a finished one stays finished
    here[0] = 0
    assert ep.read(conn_id, mr_id, ptr, SIZE, blobs[2]) and here[0] == 7
    ok, local = ep.connect_local(bdf)
    assert ok
    info = pipe.recv()
    here[:] = array.array("B", b"\x09" * SIZE)
    assert ep.write_ipc(local, ptr, SIZE, info)
    assert ep.remove_remote_endpoint(conn_id) and not ep.remove_remote_endpoint(conn_id)
    return conn_id, mr_id, ptr


def raises(error, words, call, *arguments):
    try:
        call(*arguments)
    except error as e:
        assert words in str(e), e
        return
    raise AssertionError(f"no {error}")


def main():
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,))
    server.start()
    theirs.close()          # recv() fails if the server ends
    metadata, blobs = ours.recv()
    assert len(metadata) == 19
    ep = p2p.Endpoint()
    conn_id, mr_id, ptr = use(ep, metadata, blobs, ours)
    raises(RuntimeError, "Invalid conn_id", ep.write, conn_id, mr_id, ptr, SIZE, blobs[0])
    raises(RuntimeError, "64 bytes", ep.write, 2, mr_id, ptr, SIZE, b"short")
    raises(KeyError, "999", ep.poll_async, 999)
    raises(RuntimeError, "cut off", ep.deserialize_descs, b"\1\0\0\0\0\0\0\0")
    assert ep.reg(8, SIZE) == (False, 0) and ep.last_error
    ours.send("written")
    server.join(60)
    ep.close()
    assert server.exitcode == 0
    print("client: all right")


if __name__ == "__main__":
    main()
    sys.stdout.flush()
