/* SPDX-License-Identifier: Apache-2.0 */
/* The reasons why an entry or an event failed: REASON(NAME, text). A text says what was seen and
 * what to do. It shows the figures of the record in their order: %u in decimal, %x in hexadecimal,
 * %e as the name of an errno of either sign, %l likewise for an errno of this process, with the
 * limit that it met, %d as an errno in the low 16 bits with the device's own codes in the bits
 * above, %o as an opcode's name, %f as flags of an entry, %F as a field of an entry by its offset
 * (from 64 on: in its second half), %q as the text that the remaining figures hold, %k as the kind
 * of a handle, %t as transports by bit, %v as two ranges of versions, %g as an error of
 * getaddrinfo(). %a shows an address: the first two figures, with the port in the low 16 bits of
 * the third. Beside it, %h shows the errno in bits 32 to 47 of the third figure, or %p the errors
 * of rails in its upper 48 bits. */
/* clang-format off */
REASON(OPCODE,		"opcode %u is not known to this version: prepare entries with urccl_prep_*()")
REASON(UNPREPARED,	"entry was taken and never prepared: call urccl_prep_*() after urccl_get_sqe()")
REASON(UNSUPPORTED,	"this version does not carry out %o yet")
REASON(FLAG,		"this version does not carry out flags %f: clear them")
REASON(FLAG_INVALID,	"flags %f mean nothing on %o: clear them")
REASON(CLASS,		"class %u is not known to this version: URCCL_CLASS_BULK, _LATENCY and _CONTROL are "
			"0 to 2")
REASON(FIELD,		"field %F is not used by this operation and must be 0, not %x: prepare the "
			"entry anew")
REASON(EXT_FIELD,	"this version does not carry out field %F: set it to 0")
REASON(EXT_WORD,	"the word at %x, to wait for or to set, must have an address, on a multiple of 8")
REASON(EVENT_NULL,	"the event to wait for is NULL: pass a CUevent or cudaEvent_t")
REASON(EVENT_GPU,	"the entry waits for an event of CUDA, and this context uses no GPU: register memory of one, or "
			"pinned memory, before")
REASON(EVENT,		"the event at %x that the entry waits for gives CUDA error %u: record it again, and destroy it "
			"only when the entry has ended")
REASON(GPU_WORD,	"the word at %x in memory of a GPU cannot be read or set: CUDA error %u. Where the program has met "
			"it too, only a new process helps")
REASON(DEVICE_ORDER,	"the entry is on memory of a GPU and does not say when that is ready, which device_order=explicit "
			"asks for: urccl_sqe_set_wait(), urccl_sqe_set_wait_event() or urccl_sqe_set_ready()")
REASON(WORD_RIGHTS,	"the word at %x is in no memory that is known to be readable and, to be set, writable: "
			"register it with URCCL_RIGHT_READ or URCCL_RIGHT_WRITE")
REASON(PUSHED,		"a device ring does not take this %o: kernels push READ, WRITE, FETCH_ADD, NOP and NOTIFY without "
			"payload, with flags FENCE, NOTIFY, CHECKSUM, ACKED and NO_REPLAY, a class, and group 0")
REASON(DTYPE,		"compression as type %u is not carried out by this version: set dtype to 0")
REASON(NOTE_LEN,	"a notification of %u bytes is above the limit of %u: shorten it, or write it "
			"to memory of the peer's")
REASON(NOTE_NULL,	"the notification has %u bytes and no address")
REASON(HANDLE_KIND,	"this is %k; %k is wanted: look at the order of the arguments")
REASON(HANDLE_NONE,	"the handle is 0, which names nothing; %k is wanted: look whether it was set")
REASON(PEER_STALE,	"peer handle %x names no connected peer: it was closed, or is of an "
			"earlier connection. Use the one of the newest CONNECT or PEER event")
REASON(PEER_LOST,	"the peer was lost %u ms ago: connect again")
REASON(PEER_RESTARTED,	"the peer was lost %u ms ago, and another incarnation answers at its address now: "
			"use the handle of the newer CONNECT or PEER event, and close this one")
REASON(REMOTE_STALE,	"remote handle %x names no imported memory: it was ended by urccl_unimport(), "
			"or its peer closed. Import its advert again")
REASON(REGION_STALE,	"region handle %x names no registered memory: it was unregistered. "
			"Register it again, or name none to have the address looked up")
REASON(REGION_GONE,	"region handle %x names no registered memory: nothing is left to take back. Drop the "
			"handle when its first urccl_unregister() succeeds")
REASON(REGION_NONE,	"no region holds the %u bytes at %x: register them first")
REASON(REGION_RANGE,	"%u bytes at %x are not all inside region %x: name the region that has "
			"them, or none to have them looked up")
REASON(REGION_OFFSET,	"%u bytes at offset %u pass the end of the local region, which has %u: "
			"correct local_off or the strides")
REASON(REMOTE_RANGE,	"%u bytes at offset %u pass the end of the remote, which has %u: "
			"shorten it, or import an advert of more")
REASON(SEGS,		"%u segments are above the limit of %u: raise max_segs or split the entry")
REASON(SEG_PEER,	"segment %u names memory of another peer: one entry moves data of one peer, "
			"so split it")
REASON(PAGED_SIZE,	"descriptor %u has size %u, expected %u: set it to "
			"sizeof(struct urccl_paged)")
REASON(PAGED_DIMS,	"descriptor %u has %u dimensions, from 1 to %u are possible: split it")
REASON(PAGED_BLOCKS,	"more than %u blocks in one entry: raise max_blocks or split it")
REASON(PAGED_BYTES,	"the bytes of all blocks do not fit 64 bits at descriptor %u, of %u blocks of %u "
			"bytes: correct its block and counts")
REASON(PAGED_LOCAL,	"descriptor %u leads to an offset of the local region that is below 0 or does not "
			"fit 64 bits: correct local_off, the strides or local_index")
REASON(PAGED_REMOTE,	"descriptor %u leads to an offset of the remote that is below 0 or does not fit "
			"64 bits: correct remote_off, the strides or remote_index")
REASON(ADDR_NULL,	"the entry points to nothing where it needs %u bytes")
REASON(CHAIN,		"an earlier entry of its chain failed with %e: see the CQE of that one, and submit "
			"the chain anew from there")
REASON(FENCE,		"of the entries that the fence waits for %u failed: see the CQEs of those, and submit "
			"them again, and this one behind them")
REASON(FENCE_LOST,	"an entry that the fence may wait for failed, and more failed than are "
			"kept apart; or it ended acknowledged only, and its rail broke. Submit again what "
			"this one is to follow, and it behind that")
REASON(CANCELLED,	"cancelled")
REASON(REPLACED,	"a newer entry of the same kind took over")
REASON(CLOSING,		"the ring or the context is being closed")
REASON(PEER_CLOSED,	"this side closed the peer")
REASON(FORGOTTEN,	"remote %x was ended by urccl_unimport() while the entry was unfinished: call that when "
			"its entries have ended")
REASON(UNREGISTERED,	"region %x was unregistered while the entry was unfinished: unregister it "
			"when its entries have ended")
REASON(REVOKED,		"the peer revoked the region of remote %x while the entry was unfinished: ask it for "
			"a newer advert")
REASON(ARRAY_NONE,	"the array has no elements, or no address: there is nothing to register or "
			"import")
REASON(RANGES,		"%u ranges are above the limit of %u")
REASON(RANGE_RESERVED,	"range %u: reserved must be 0")
REASON(RANGE_ADDR,	"range %u has no address")
REASON(RANGE_LEN,	"range %u has no length")
REASON(RANGE_FD,	"range %u has a file descriptor (%u), of a dma-buf, which %t cannot reach: open a "
			"context whose transport is ib alone, with rdma-core 34 or later; of other memory "
			"set fd to -1 and addr to the mapping")
REASON(RANGE_FD_PAGE,	"range %u has a file descriptor, and addr and fd_off are not alike modulo 4096: "
			"choose an addr that is as fd_off")
REASON(RANGE_FD_RIGHTS,	"range %u has a file descriptor, of a dma-buf, which processors need not reach: "
			"URCCL_RIGHT_ATOMIC and URCCL_REG_PREFAULT are for other memory")
REASON(RANGE_FD_SIZE,	"range %u passes the end of its file, which has %u bytes: ftruncate() it before")
REASON(RANGE_FD_MAPPED,	"range %u: what is mapped at %x is not its part of the file, shared: mmap() it there, "
			"MAP_SHARED, or give an address where nothing is mapped")
REASON(RANGE_FD_MAP,	"range %u: its file could not be mapped at %x: %e")
REASON(RANGE_FD_DUP,	"the descriptor %u of a range cannot be duplicated: %l")
REASON(RANGE_FD_NONE,	"range %u: without a file descriptor fd is -1 and fd_off 0")
REASON(RANGE_GPU_MIXED,	"range %u begins or ends in memory of a GPU, and is not of one allocation from %x on: "
			"register each allocation as a range of its own")
REASON(RANGE_GPU_CONTEXT, "range %u is memory of GPU %u, but not of its primary context, the one that the CUDA "
			"runtime uses: allocate it there")
REASON(RANGE_GPU_RIGHTS, "range %u is memory of GPU %u: URCCL_RIGHT_ATOMIC is for memory of the host")
REASON(GPU,		"GPU %u cannot be used: CUDA error %u (%e). Where the program has met it too, only a new "
			"process helps")
REASON(STAGING,		"there are no %u bytes of pinned memory for copies from and to GPUs (staging_bytes): %e, "
			"CUDA error %u")
REASON(RANGE_WRAPS,	"range %u passes the end of memory")
REASON(RANGE_UNMAPPED,	"range %u: %u bytes at %x are not all mapped: register them when they are, "
			"and unmap them after unregistering")
REASON(RANGE_STALE,	"range %u: another mapping lies at %x than when a region that is still registered "
			"was made of that memory: unregister that region first")
REASON(RANGE_HOLES,	"range %u: the file that is mapped at %x lacks pages there, and touching them may "
			"fail: fallocate() them, or register the range with URCCL_REG_PREFAULT")
REASON(RANGE_SLOW,	"range %u: pages at %x come from a file or from userfaultfd and may be slow to have, "
			"which resident=check forbids: copy them into memory of urccl_alloc()")
REASON(RANGE_READ_ONLY,	"range %u is mapped read-only at %x: map it PROT_WRITE, or register it with "
			"URCCL_RIGHT_READ alone")
REASON(RANGE_UNREADABLE, "range %u is mapped PROT_NONE at %x: map it PROT_READ before peers are given "
			"rights to it")
REASON(RANGE_UNKNOWN,	"/proc/self/maps, which tells whether memory is writable, cannot be opened: "
			"%l")
REASON(RANGES_SUM,	"the ranges together pass 64 bits")
REASON(RIGHTS,		"this version does not carry out rights %x")
REASON(ATOMIC_NATIVE,	"URCCL_REG_ATOMIC_NATIVE needs a device that carries atomics out by itself, and "
			"no transport here has one: register with URCCL_RIGHT_ATOMIC alone")
REASON(REG_MEMLOCK,	"%t cannot pin %u bytes: there is no memory, or the limit for locked memory, "
			"%u KiB, is passed (ulimit -l, LimitMEMLOCK= of systemd, --ulimit memlock=-1 "
			"of a container)")
REASON(REG_DMABUF,	"%t cannot register the dma-buf that fd of a range is to be: %e. Device, driver and "
			"rdma-core must each be able to")
REASON(REG_REGIONS,	"%t cannot register the memory: there is none to do it with, or none is left of the "
			"%u memory regions that the device can have (max_mr), of which this context has "
			"%u: register fewer, larger ranges")
REASON(REG_DEVICE,	"no memory or no room in a device to register the region: %e")
REASON(UNPIN,		"a device does not give the %u bytes of the region back: %e. Peers may reach what "
			"they were granted of them: try again, or close the context")
REASON(PREFAULT,	"the pages could not be had: %e at address %x")
REASON(PREFAULT_THREAD,	"no thread could be had to ask for the pages: %e")
REASON(HANDLES,		"all %u handles of this kind are taken: unregister regions, or forget remotes, that "
			"are done with")
REASON(RANDOM,		"no random bytes for the region's key: %e")
REASON(REGION_TAKEN,	"another call or entry unregisters region %x")
REASON(REGION_BUSY,	"region %x is still in use: an entry on it has not ended, or a peer that has "
			"it mapped has not let go. Its memory must stay: try again")
REASON(ADVERTS,		"%u adverts are above the limit of %u")
REASON(ADVERT_VERSION,	"advert %u is of version %u, known here is %u: both ends need a "
			"liburccl that knows it")
REASON(ADVERT_DAMAGED,	"advert %u is not what urccl_advertise() gave: it was damaged. Pass on its 64 "
			"bytes as they are")
REASON(ADVERT_STALE,	"advert %u is of another context than the peer, or of an earlier "
			"incarnation of it: ask it for a newer one")
REASON(ADVERTS_SUM,	"the adverts together pass 64 bits")
REASON(WARM_KEYS,	"remote %x has no keys: the peer answered %e. Forget it, and ask the peer for a "
			"newer advert")
REASON(WARM_MEMORY,	"remote %x has no keys: the peer cannot pin its memory for this side, as it has none left, "
			"no memory region of its device is, or its limit for locked memory is passed (ulimit "
			"-l). Its log has the figures: raise that there, or import less")
REASON(DEADLINE,	"not finished after %u us; %u of %u bytes were known to be placed, and the peer has not "
			"acknowledged the rest. See whether its process runs, or set a later deadline")
REASON(DEADLINE_RAIL,	"not finished after %u us; %u of %u bytes were known to be placed, and no rail to the peer is "
			"up for the rest. See urccl_dump() and the links, or set a later deadline")
REASON(DEADLINE_ROOM,	"not finished after %u us; %u of %u bytes were known to be placed, and the device has no room "
			"for more: entries before it use its window. Submit less at a time, or set a later deadline")
REASON(DEADLINE_LONG,	"not finished after %u us; %u bytes of %u segments were known to be placed, and the peer "
			"has not acknowledged the rest. See whether its process runs, or set a later deadline")
REASON(DEADLINE_WORD,	"not finished after %u us; it waits for its start word at %x to reach %u. Store that with "
			"release, or set a later deadline")
REASON(DEADLINE_EVENT,	"not finished after %u us; it waits for the CUDA event at %x. See whether its stream runs, or "
			"set a later deadline")
REASON(DEADLINE_SIGNAL,	"not finished after %u us; its bytes are placed, and a GPU has not set its word at %x. See "
			"whether the GPU runs, or set a later deadline")
REASON(DEADLINE_CHAIN,	"not finished after %u us; it waits for an earlier entry of its chain. See urccl_dump() for "
			"what that waits for, or set a later deadline")
REASON(DEADLINE_DRAIN,	"not finished after %u us; URCCL_SQE_DRAIN waits for %u earlier entries of the ring. See "
			"urccl_dump() for what they wait for, or set a later deadline")
REASON(DEADLINE_FENCE,	"not finished after %u us; URCCL_SQE_FENCE waits for %u earlier entries to the peer. See "
			"urccl_dump() for what they wait for, or set a later deadline")
REASON(DEADLINE_PATH,	"not finished after %u us; it waits for the connection, whose data path is not up. See "
			"urccl_dump() on both sides, or set a later deadline")
REASON(DEADLINE_KEYS,	"not finished after %u us; it waits for the peer's keys for remote %x. See whether the peer's "
			"process runs, or set a later deadline")
REASON(DEADLINE_WINDOW,	"not finished after %u us; it waits for one of the %u before it that the peer has not "
			"answered: no more are sent at a time. See whether its program takes its events, or set a "
			"later deadline")
REASON(DEADLINE_NOTE,	"not finished after %u us; the peer has not acknowledged the notification with tag %u. See "
			"whether its program takes its events, or set a later deadline")
REASON(DEADLINE_ANSWER,	"not finished after %u us; the peer has not answered the atomic. See whether its process "
			"runs, or set a later deadline")
REASON(DEADLINE_SLOTS,	"not finished after %u us; it waits for an event slot of ring %u. Take that ring's CQEs, or "
			"give it more event_slots")
REASON(DEADLINE_ENTRIES, "not finished after %u us; it waits for %u entries that it cancelled. See urccl_dump() for "
			"them, or set a later deadline")
REASON(DEADLINE_OTHER,	"not finished after %u us; see urccl_dump() for its state, or set a later deadline")
REASON(NOTE_HELD,	"the peer's library answers, but no ring there watches us, or its event slots are full: let the "
			"peer's program CONNECT or ACCEPT with URCCL_SQE_WATCH, or WATCH, and take its events")
REASON(NOTE_SILENT,	"the peer's library has said nothing for %u ms: it is frozen, cut off or slow. See its "
			"process with urccl_info, or raise the deadline")
REASON(DEVICE,		"the device gave %d; %u of %u bytes were known to be placed. Try again, and if it "
			"stays connect anew; urccl_dump() shows the connection")
REASON(DEVICE_LONG,	"the device gave %d; %u bytes of %u segments were known to be placed. Try again, "
			"and if it stays connect anew; urccl_dump() shows the connection")
REASON(CHECKSUM,	"the %u bytes that came are not those that were sent: their checksums differ. "
			"Memory that is written while it moves does that too; else look for a device "
			"that damages data, and send them again")
REASON(NO_REPLAY,	"rail %u broke, and the entry is not to be sent again on another path: what of "
			"it was placed is not known. Submit it again if that does no harm, and then "
			"leave URCCL_SQE_NO_REPLAY out")
REASON(REPLAYS,		"a piece of the entry was on its way when a rail broke, %u times in turn: perhaps "
			"it is what breaks them. Look at the peer's rails by urccl_dump()")
REASON(CHECKSUM_NONE,	"this transport compares no checksums: leave URCCL_SQE_CHECKSUM out, or use tcp "
			"or shm")
REASON(PEER_REFUSED,	"the peer refused the access to %u bytes with %e: the advert was revoked, has "
			"expired or does not give the right: ask the peer for one that does")
REASON(READ_ONLY,	"%u bytes could not be placed at %x: not all of that memory can be written to, as "
			"it is mapped read-only, or memory of either end was unmapped. Map it "
			"PROT_WRITE, and register it then")
REASON(ATOMIC_SPLIT,	"the word at offset %u of the remote lies in two adverts: an atomic acts "
			"on 8 bytes of one")
REASON(ATOMIC_ALIGN,	"the word at offset %u of the remote is not 8 bytes of one range, on a "
			"multiple of 8, in the peer's memory: place it there")
REASON(RING_STALE,	"ring id %u names no open ring of this context: use urccl_ring_id() of one that is")
REASON(BOUNCE,		"the bytes would go through memory of the library, which bounce=no "
			"forbids: they move directly where the remote is memory of urccl_alloc() "
			"that this side could map")
REASON(BOUNCE_GPU,	"%t does not reach memory of a GPU itself, and bounce=no forbids the way through "
			"memory of the library")
REASON(STAGE_NONE,	"the remote is memory of a GPU, and the local memory is not pinned: %t needs memory of "
			"cudaHostAlloc() or cudaHostRegister(), or a region of GPU memory in this context, "
			"with which staging memory comes")
REASON(GPU_COPY,	"a copy of %u bytes from or to a GPU failed: CUDA error %u. The GPU is of no use to this "
			"process any more")
REASON(KEYS_GPU,	"the advert of remote %x is for memory of a GPU, which %t does not reach at the peer, and the "
			"peer's bounce=no forbids the way through memory of its library")
REASON(RELAY,		"the peer could not move the %u bytes from or to its GPU: %e. See what its program "
			"reports of the GPU, and whether its bounce=no forbids it")
REASON(KEYS,		"the peer answered %e instead of keys for the advert of remote %x: it was revoked, "
			"has expired, or was never the peer's. Ask the peer for a newer one")
REASON(KEYS_STALE,	"the peer has unregistered the region of the advert of remote %x: forget that, and "
			"ask it for an advert of what it has now")
REASON(KEYS_MEMORY,	"the peer cannot pin the memory of the advert for this side (%u bytes are "
			"imported): it has none left, no memory region of its device is, or its limit for "
			"locked memory is passed (ulimit -l, LimitMEMLOCK= of systemd, --ulimit memlock=-1 "
			"of a container). Its log has the figures: raise that there, or import less")
REASON(KEYS_FAILED,	"the peer could not give keys for the advert: %e")
REASON(DIAL_NONE,	"there is no address to dial, or one of no bytes: pass \"host:port\", or what "
			"urccl_metadata() gave at the peer")
REASON(DIAL_TEXT,	"the address to dial, %q, is no \"host:port\": give one, such as \"10.0.0.2:7777\", or "
			"what urccl_metadata() gave at the peer")
REASON(DIAL_BLOB,	"the metadata blob to dial, of %u bytes, is damaged: pass on what urccl_metadata() gave "
			"at the peer, with its length")
REASON(DIAL_LONG,	"the address to dial has %u bytes, %u are possible: pass \"host:port\" and its length, or "
			"what urccl_metadata() gave at the peer")
REASON(METADATA_VERSION,	"the metadata blob is of version %u, and this library reads version %u: both "
			"ends need versions of liburccl that know the same")
REASON(DIAL_SELF,	"the address %a is this context's own: dial another, or move bytes by "
			"memcpy()")
REASON(DIAL,		"%a cannot be reached: %h")
REASON(DIAL_SOCKET,	"no socket could be had to dial with: %l")
REASON(DIAL_REFUSED,	"nobody listens at %a: start the peer first, and look at the port in "
			"its listen")
REASON(DIAL_CLOSING,	"the context at %a is being closed: dial it when it has opened again")
REASON(DIAL_HUNG_UP,	"%a took the connection and closed it without an answer: it "
			"ends, or is not liburccl. Look at its log")
REASON(DIAL_SILENT,	"%a took the connection and does not answer: its process is stopped, or "
			"it is not liburccl. Look at the process with urccl_info")
REASON(DIAL_NAME,	"%g: the host name of %q was not resolved. Give one that this system knows, or an "
			"address")
REASON(DIAL_NAME_LATE,	"the system's resolver has not answered for the host name")
REASON(DIAL_RAIL,	"%a answers, but no transport that both sides have came up in time: see "
			"urccl_dump() on both sides")
REASON(DIAL_ACCEPT,	"%a answers, but its program has not taken the connection: it needs "
			"an ACCEPT entry and free event slots")
REASON(DIAL_OLD,	"an earlier connection of the two contexts has not ended")
REASON(DIAL_VERSION,	"protocol versions do not meet: %v. Update the older of the two")
REASON(RAIL_VERSION,	"versions of the transport's protocol do not meet: %v. Update the older of "
			"the two")
REASON(DIAL_DEVICE,	"no transport here can begin a connection; the last one said %l")
REASON(DIAL_COMMON,	"no transport in common: this side has %t, the peer %t. Let the setting "
			"transport of one name what the other has")
REASON(DIAL_NO_PATH,	"none of the allowed transports reaches %a: %p")
REASON(DIAL_REQUIRED,	"the peer is where %t reaches, which the policy requires there, and it "
			"offers no such way")
REASON(DIAL_REQUIRED_DOWN, "the transport that the policy requires with %a did not come up: %p")
REASON(DIAL_POLICY,	"the peer's policy requires %t with this context, which offers it %t: let the "
			"setting transport name that here, or require no other there")
REASON(DIAL_POLICY_DOWN, "the transport that the policy of %a requires with this context did not come up "
			"there: %p")
REASON(DIAL_GARBAGE,	"what answered at %a is not liburccl: dial the address in its metadata")
REASON(DIAL_STALE,	"%a now belongs to another incarnation than the metadata names: "
			"the process was started anew. Ask it for its new metadata")
REASON(DIAL_SECRET,	"%a wants a shared secret proved, and this context has none: set secret_file "
			"or secret to the peer's")
REASON(DIAL_NO_SECRET,	"%a has no shared secret, so it cannot prove who it is: give it this "
			"context's, or set none here")
REASON(DIAL_OTHER_SECRET, "%a has another shared secret than this context: give both the same")
REASON(DIAL_UNPROVED,	"%a did not prove that it has the shared secret: it is not who it should "
			"be")
REASON(DIAL_FULL,	"%a is full: raise its max_peers, or close a peer there")
REASON(DIAL_EXHAUSTED,	"%a cannot take another connection: it met %h. Raise that limit there")
REASON(PEERS_FULL,	"max_peers (%u) is reached: close peers, or raise it")
REASON(NO_MEMORY,	"no memory for %u bytes")
REASON(CANCEL_KEY,	"CANCEL by kind %u of key: the kind is not known, or it does not have the key %u. BY_ALL has "
			"the key 0, BY_GROUP a group from 1 to 2^32 - 1")
REASON(TIMEOUT_FLAGS,	"flags %x mean nothing on a TIMEOUT: URCCL_TIMEOUT_ETIME_SUCCESS or 0 is possible")
REASON(NO_LISTENER,	"the setting listen is \"\", so nobody can dial this context: open it with an address to "
			"listen on, such as \"127.0.0.1:0\"")
REASON(LINK_MULTISHOT,	"an entry that may end many times cannot start a chain")
REASON(SKIP_HANDLE,	"the handle that %o gives comes in its CQE, and with SKIP_SUCCESS there is none: "
			"leave that flag out")
REASON(FENCE_PEER,	"FENCE needs an entry that has a peer")
REASON(PEER_RESET,	"the connection broke with %e: the peer's process ended or a link was cut. "
			"Connect again")
REASON(PEER_GARBLED,	"the connection broke: a header that came is not the one that was sent, as its "
			"checksum differs or is missing. Look for a device that damages data, and connect "
			"again")
REASON(PEER_SILENT,	"nothing was heard of the peer for %u ms while it was awaited: it is frozen or cut "
			"off. Connect again when it is back, or raise dead_after_ms")
REASON(PORTS_DOWN,	"none of our ports by which the peer is reached is active: see to cables, switches "
			"and, of InfiniBand, the subnet manager, or bring the interface up (ip link), and try again")
REASON(PEER_GOODBYE,	"the peer closed the connection: connect again when it is back")
REASON(NOTE_FAILED,	"the notification with tag %u will not come: the entry that was to bring it failed at the peer "
			"with %e. Ask the peer's program for that entry's sentence")
REASON(PEER_DIED,	"the connection broke: the peer's process has ended. Connect again when there is a new one")
REASON(FAILED_NOTES,		"%u notifications to it failed and it took none of their failures: its program "
			"must take its events, or WATCH")
/* clang-format on */
