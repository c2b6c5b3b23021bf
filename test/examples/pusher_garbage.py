#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peers that send hellos, questions and notes as no pusher does: each is refused or dropped for
the right reason, and a good pusher beside them does not notice."""
import json
import re
import signal
import subprocess
import sys

from pusher_run import LIMIT, TRANSPORT, Decode, End, all_right, check

ASK, TABLE, LAYER, DONE, ABORT, FETCHED, BYE = 3, 4, 5, 6, 7, 8, 10
STRANGE = "it said something that is not of this protocol"
SENSELESS = "its question makes no sense"
REFUSED = [
    ("hello magic 1", "no kvcache_pusher --push of this version"),
    ("hello len 0", "no kvcache_pusher --push of this version"),
    ("hello len 17", "no kvcache_pusher --push of this version"),
    ("hello slots 0", "0 requests under way"),
    ("hello slots 65", "65 requests under way"),
    ("hello pages 0", "over 0 pages cannot be"),
]
DROPPED = [
    ("ask id 2", SENSELESS),
    ("ask tokens 0", SENSELESS),
    ("ask tokens 80", SENSELESS),
    (f"ask tokens {2**32 - 1}", SENSELESS),
    ("ask block_tokens 0", SENSELESS),
    ("ask block_tokens 17", SENSELESS),
    ("ask nblocks 0", SENSELESS),
    (f"ask nblocks {2**32 - 1}", SENSELESS),
    ("ask npages 3", SENSELESS),
    (f"ask npages {2**32 - 1}", SENSELESS),
    ("twice", SENSELESS),
    ("pull page", SENSELESS),
    (f"note {DONE} 0 2 0", "it speaks of a request that it did not ask for"),
    (f"note {LAYER} 0 1 4", "it computes layers that there are not"),
    (f"pull note {LAYER} 0 1 4", "it computes layers that there are not"),
    (f"pull note {LAYER} 0 1 3", STRANGE),
    (f"pull note {DONE} 0 1 0", STRANGE),
    (f"note {ABORT} 0 1 256", STRANGE),
    (f"note {DONE} 3 1 0", STRANGE),
    (f"note {DONE} {2**24 - 1} 1 0", STRANGE),
    (f"note {TABLE} 0 1 0", STRANGE),
    (f"note {FETCHED} 0 1 8", STRANGE),
    (f"note {BYE} 0 0 0", STRANGE),
    ("note 255 0 1 9", STRANGE),
    ("mailbox", "the peer refused|its advert|rights"),
    ("broken", "a word of its will not come"),
    ("pull aborts", STRANGE),
]


def garbage(what):
    end = subprocess.run([sys.argv[3], TRANSPORT, decode.metadata, *what.split()], timeout=LIMIT,
                         text=True, capture_output=True)
    check(end.returncode == 0, what, end.stdout, end.stderr, decode.said)
    return end.stdout


decode = Decode("--pool", "256M", "--json")
good = End("--push", decode.at, "--cache", "128M", "--requests", 25, "--prefill-rate", 20000, "--json")
decode.wait_for("pusher 1 ")
for number, (what, why) in enumerate(REFUSED + DROPPED, 2):
    said = garbage(what)
    decode.wait_for(f"pusher {number} .*({'is refused' if what.startswith('hello') else 'is dropped'}.*)({why})")
    check(not what.startswith("hello") or re.search(why, said), what, said)
all_right(json.loads(good.end()))
decode.send(signal.SIGINT)
result = json.loads(decode.end(130))
check(result["vanished"] == len(REFUSED + DROPPED) and result["wrong"] == 0, result)
