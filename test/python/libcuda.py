# SPDX-License-Identifier: Apache-2.0
"""Memory of GPU 0 for tests, by the CUDA driver or what LIBURCCL_CUDA_SO names (test/cuda)."""
import ctypes
import os
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

NON_BLOCKING = 1
GREATER_OR_EQUAL = 0
DLPACK_CUDA = 2


class Cuda:
    def __init__(self):
        self.so = ctypes.CDLL(os.environ.get("LIBURCCL_CUDA_SO", "libcuda.so.1"),
                              ctypes.RTLD_GLOBAL)
        self.context = c_void_p()
        self.call("cuInit", c_uint(0))
        self.call("cuDevicePrimaryCtxRetain", byref(self.context), c_int(0))
        self.call("cuCtxSetCurrent", self.context)

    def call(self, name, *arguments):
        """Each number with its type of ctypes."""
        error = getattr(self.so, name)(*arguments)
        if error:
            raise OSError(f"{name}: CUDA error {error}")

    def alloc(self, size):
        address = c_uint64()
        self.call("cuMemAlloc_v2", byref(address), c_size_t(size))
        return address.value

    def free(self, address):
        self.call("cuMemFree_v2", c_uint64(address))

    def put(self, address, data):
        self.call("cuMemcpyHtoD_v2", c_uint64(address), bytes(data), c_size_t(len(data)))

    def get(self, address, size):
        data = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", data, c_uint64(address), c_size_t(size))
        return data.raw


class Array:
    """As CuPy's: bytes of a GPU with __cuda_array_interface__."""

    def __init__(self, cuda, size, shape=None, typestr="|u1", strides=None, readonly=False):
        self.cuda, self.size, self.address = cuda, size, cuda.alloc(size)
        self.__cuda_array_interface__ = {
            "data": (self.address, readonly), "shape": shape or (size,), "typestr": typestr,
            "strides": strides, "version": 3, "stream": 1}

    def put(self, data):
        self.cuda.put(self.address, data)

    def get(self):
        return self.cuda.get(self.address, self.size)

    def free(self):
        self.cuda.free(self.address)


class Torch:
    """As PyTorch's tensors: over the same memory."""

    def __init__(self, array):
        self.array = array

    def data_ptr(self):
        return self.array.address

    def numel(self):
        return self.array.size // 4

    def element_size(self):
        return 4

    def is_contiguous(self):
        return True

    def __dlpack_device__(self):
        return (DLPACK_CUDA, 0)


class DLTensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int), ("device_id", c_int), ("ndim", c_int),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", c_uint64),
                ("manager", c_void_p), ("deleter", c_void_p)]


class Jax:
    """As JAX's arrays: DLPack alone. Rows of 8 bytes, each `stride` items behind the one before."""

    def __init__(self, address, rows, device=DLPACK_CUDA, stride=8):
        self.device, self.streams = device, []
        self.shape = (ctypes.c_int64 * 2)(rows, 8)
        self.strides = (ctypes.c_int64 * 2)(stride, 1)
        self.tensor = DLTensor(address - 16, device, 0, 2, 1, 8, 1, self.shape, self.strides, 16)

    def __dlpack_device__(self):
        return (self.device, 0)

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [c_void_p, ctypes.c_char_p, c_void_p]
        return make(ctypes.addressof(self.tensor), b"dltensor", None)


class Event:
    """As PyTorch's: its handle is 0 until it is recorded."""
    cuda_event = 0


class Stream:
    """As PyTorch's."""

    def __init__(self, cuda):
        self.cuda, self.handle = cuda, c_void_p()
        cuda.call("cuStreamCreate", byref(self.handle), c_uint(NON_BLOCKING))

    def record_event(self):
        handle, event = c_void_p(), Event()
        self.cuda.call("cuEventCreate", byref(handle), c_uint(0))
        self.cuda.call("cuEventRecord", handle, self.handle)
        event.cuda_event = handle.value
        return event

    def wait(self, word, value):
        """What is given to the stream after this begins when the word of a GPU is >= value."""
        self.cuda.call("cuStreamWaitValue64_v2", self.handle, c_uint64(word), c_uint64(value),
                       c_uint(GREATER_OR_EQUAL))

    def copy(self, to, source, size):
        self.cuda.call("cuMemcpyAsync", c_uint64(to), c_uint64(source), c_size_t(size), self.handle)
