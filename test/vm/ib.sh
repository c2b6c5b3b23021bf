# SPDX-License-Identifier: Apache-2.0
# suite's part with RDMA devices: that the rails are what the tests over them take them for, then
# transport ib over them: conformance and api tests, the fault matrix, the pusher between two hosts.
# It uses what suite has.

# What crosses the rails is counted outside RDMA: bytes that the links' ends sent. Fewer are ARP's,
# which sends 42 at a time.
QUIET=1000
# More are data.
BUSY=1000000

crosses() {
	local device=$1 other=$2 before beside

	shift 2
	before=$(sent "$device")
	beside=$(sent "$other")
	"$@" || return
	before=$(($(sent "$device") - before))
	beside=$(($(sent "$other") - beside))
	echo "$device sent $before bytes, $other $beside"
	[ "$before" -gt "$BUSY" ] && [ "$beside" -lt "$QUIET" ]
}

# A link that is down carries nothing, and the other rail does not notice.
other_rail_down() {
	local status

	link_down w0 || return
	crosses v0 w0 "${raw[@]}" --device rxe_v0,rxe_v1 --mode write
	status=$?
	link_up w0 && return "$status"
}

# A fault that nothing meets, ARP neither.
elsewhere() {
	local out

	out=$(test/vm/with "w0 delay 1ms" -- "${raw[@]}" --device rxe_v0,rxe_v1 --mode write 2>&1) && return 1
	echo "$out"
	[[ $out == *"the fault did not happen: w0"* ]]
}

ib_rails() {
	local rail raw=(timeout 60 "$build/bench/raw_verbs" --duration 0.3)

	for rail in v w; do
		try "rail $rail" crosses "${rail}0" "$([ $rail = v ] && echo w0 || echo v0)" \
			"${raw[@]}" --device "rxe_${rail}0,rxe_${rail}1" --mode write
	done
	try "rail v, packets lost" test/vm/with "v0 loss 1%" -- \
		"${raw[@]}" --device rxe_v0,rxe_v1 --mode write
	try "a fault elsewhere is told" elsewhere
	try "rail v while w is down" other_rail_down
	try "rail w, back again" "${raw[@]}" --device rxe_w0,rxe_w1
}

# says TEXT PATTERN...: it has a line for each.
says() {
	local text=$1 pattern

	shift
	for pattern; do
		grep -qE "$pattern" <<<"$text" && continue
		echo "nothing is like \"$pattern\" in"
		echo "$text"
		return 1
	done
}

# What is said of the devices, whatever else the guest lacks.
doctor_sees() {
	local text

	text=$("$info" --doctor --transport ib)
	says "$text" '^rdma +ok +4 RDMA devices, 4 uverbs nodes' '^memlock +ok ' '^rdma limits +ok ' \
		'^library +ok +a context opens with ib, ib' \
		'^ib +ok +two contexts of this process met'
}

plan_sees() {
	local text

	text=$("$info" --plan --transport ib) || return
	says "$text" '^ +[1-4]\. ib: peers that rxe_v0 port 1 reaches \(GID ' \
		'^ +[1-4]\. ib: peers that rxe_w1 port 1 reaches \(GID ' \
		'^ +[1-4]\. rxe_v0 port 1: ' '^ +[1-4]\. rxe_w1 port 1: '
}

# Of those that are named none is left out, but with "?"; of those that are not, the others are used.
named_is_down() {
	local text status=0 tries

	link_down w0 || return
	for tries in $(seq 100); do
		grep -q ACTIVE /sys/class/infiniband/rxe_w0/ports/1/state || break
		sleep 0.1
	done
	text=$("$info" --plan --transport ib) || status=1
	says "$text" 'peers that rxe_v0 port 1 reaches' 'rxe_w0 port 1.*the port is down' || status=1
	text=$(URCCL_RDMA_DEV==rxe_v0,rxe_w0 "$info" --transport ib 2>&1) && status=1
	says "$text" 'no context can be opened: ib: rxe_w0, which rdma_dev names, has no active' ||
		status=1
	text=$(URCCL_RDMA_DEV==rxe_v0,rxe_9 "$info" --transport ib 2>&1) && status=1
	says "$text" 'no context can be opened: ib: there is no RDMA device "rxe_9"' || status=1
	text=$(URCCL_RDMA_DEV==rxe_v0,rxe_w0,rxe_9 "$info" --transport 'ib?') || status=1
	says "$text" 'peers that rxe_v0 port 1 reaches' 'no RDMA device "rxe_9"' \
		'rxe_w0, which rdma_dev names, has no active port' || status=1
	link_up w0 && return "$status"
}

ib_info() {
	local info=$build/liburccl/info/urccl_info

	try "urccl_info --doctor, ib" doctor_sees
	try "urccl_info --plan, ib" plan_sees
	try "a NIC that is named is down, ib" named_is_down
}

# A case after the other; those of sim and of libfabric are their own. Some take their time on an
# emulated processor.
IB_LONG_CASES="addresses fair leak reopen sleep"
# On a device that is less than soft-RoCE is, or comes to an end: see ibv_shim.c.
IB_SHIMS="ib_room:cqe=8000 ib_spare:cqe=8000 ib_removed:remove=300 ib_removed:post=500 ib_silent:swallow=100"
IB_SHIMS="$IB_SHIMS ib_room:cqe=8000,resize=0 sizes:mr=65536 spans:mr=65536 placed:inline=0 quiet_write:reads=1 once:gids=0"
IB_SHIMS="$IB_SHIMS ib_opaque:opaque=1 ib_flushed:lose=2 ib_class:report=0 ib_stuck:mute=63 ib_grow:refuse=127"
IB_SHIMS="$IB_SHIMS ib_failed:fail=20:10 ib_failed:fail=20:11 spans:mr=65536,sge_rd=1"

ib_conformance() {
	local program=$build/test/conformance/conformance case shim

	for case in $("$program" --list | grep -vE '^(sim|ib|fabric)_|^cancel_beside$'); do
		[ "$full" = --full ] || [[ " $IB_LONG_CASES " != *" $case "* ]] || continue
		# A rail that is faster than the processor has moved all by the time it was posted.
		[ "$case" != fair ] || bad v0 rate 800mbit
		try "conformance $case, ib" timeout 200 "$program" --transport=ib --case="$case"
		[ "$case" != fair ] || good v0
	done
	for shim in $IB_SHIMS; do
		case=${shim%%:*} shim=${shim#*:}
		try "conformance $case, $shim" timeout 200 \
			env UCCL_IBV_SO="$PWD/$build/test/conformance/ibv_shim.so" SHIM="$shim" \
			"$program" --transport=ib --case="$case"
	done
	for case in ib_grow ib_unreached ib_unruly; do
		try "conformance $case" timeout 200 "$program" --transport=ib --case="$case"
	done
	try "conformance ib_moved" env MOVE="ip addr del 10.78.0.1/24 dev v0 && ip addr add 10.78.0.101/24 dev v0" \
		MOVE_BACK="ip addr del 10.78.0.101/24 dev v0 && ip addr add 10.78.0.1/24 dev v0" \
		timeout 200 "$program" --transport=ib --case=ib_moved
}

# Both ends in one process, on rxe_v0 and rxe_v1.
IB_TESTS="write vector paged notify cancel fence atomic region memlock revoke revoke_storm frozen random restart"
IB_TESTS="$IB_TESTS acked evict_idle unregister warm"
IB_TESTS_FULL="accept advert away both_dial connect connect_end deadline early event_slots"
IB_TESTS_FULL="$IB_TESTS_FULL evict evict_end evict_return frozen_others incast link lost losing"
IB_TESTS_FULL="$IB_TESTS_FULL observe owed random_order references ring_full rings_close settings"
IB_TESTS_FULL="$IB_TESTS_FULL slow_reader taken_back threads"

ib_api() {
	local test

	for test in $IB_TESTS; do
		try "$test, ib" timeout 120 "$build/test/api/api-$test" --transport=ib
	done
	[ "$full" = --full ] || return
	# A hub with 64 contexts takes its time there.
	for test in $IB_TESTS_FULL; do
		try "$test, ib" timeout 400 "$build/test/api/api-$test" --transport=ib
	done
	# One of 64 peers at a time.
	try "evict, ib, max_qps 4" timeout 400 "$build/test/api/api-evict" --max-qps=4 --transport=ib
	for test in $IB_TESTS $IB_TESTS_FULL; do
		[[ " $threaded " != *" $test "* ]] || continue
		try "$test, ib, inline" \
			timeout 400 "$build/test/api/api-$test" --transport=ib --inline
	done
}

# libfabric over the same devices. Its queues are for as many peers as it is told that there may be,
# and soft-RoCE has none for the 256 that it takes by itself. Not the api tests
# - that take hours or gigabytes of the guest (address_space, register_many, sizes), or go by the
#   clock to the millisecond (evict_lru, start_when_asleep);
# - whose children are forked, and do not have what librdmacm opened before (lost, sender_killed,
#   slow_gone);
# - that count what a provider keeps (dials_cold, fds, rounds);
# - to which a peer that nobody drives takes nothing, as its device does (shares, stalled);
# - that need IPv6 or a network of their own (addresses, connect).
# Nor, of the conformance cases, fabric_unruly: a READ of a region that is closed under it is not
# answered by soft-RoCE, in 150 s, and has no deadline there.
FABRIC_RXM="verbs;ofi_rxm"
FABRIC_SET="env FI_MR_CACHE_MONITOR=disabled FI_UNIVERSE_SIZE=85 FI_OFI_RXM_MSG_RX_SIZE=64 FI_OFI_RXM_MSG_TX_SIZE=64 FI_OFI_RXM_BUFFER_SIZE=1024"
FABRIC_CASES="placed message quiet_write cancel_now read_only"
FABRIC_TESTS="write notify cancel random deadline frozen restart register_rights"
FABRIC_TESTS="$FABRIC_TESTS canary:--bytes=8388608:--rounds=12"
FABRIC_TESTS_FULL="accept acked advert advert_bytes atomic atomic_stop atomic_sum both_dial"
FABRIC_TESTS_FULL="$FABRIC_TESTS_FULL cancel_count classes computes connect_end devices"
FABRIC_TESTS_FULL="$FABRIC_TESTS_FULL dials_many early ending epoll event_slots evict"
FABRIC_TESTS_FULL="$FABRIC_TESTS_FULL evict_end evict_idle evict_inline evict_return"
FABRIC_TESTS_FULL="$FABRIC_TESTS_FULL fairness fence fork fork_traffic frozen_others"
FABRIC_TESTS_FULL="$FABRIC_TESTS_FULL half_closed handshakes huge_pages incast link log"
FABRIC_TESTS_FULL="$FABRIC_TESTS_FULL losing malformed max_peers metadata midway"
FABRIC_TESTS_FULL="$FABRIC_TESTS_FULL misuse msg_ring narrow notes observe owed owed_up"
FABRIC_TESTS_FULL="$FABRIC_TESTS_FULL own_threads paged pieces policy prefault probe"
FABRIC_TESTS_FULL="$FABRIC_TESTS_FULL random_order references region register_file"
FABRIC_TESTS_FULL="$FABRIC_TESTS_FULL register_file_bad register_link revoke revoke_storm"
FABRIC_TESTS_FULL="$FABRIC_TESTS_FULL ring_full rings_close secret settings signal_when"
FABRIC_TESTS_FULL="$FABRIC_TESTS_FULL signal_when_fails slow_calls slow_late slow_lost"
FABRIC_TESTS_FULL="$FABRIC_TESTS_FULL slow_reader start_when start_when_ends"
FABRIC_TESTS_FULL="$FABRIC_TESTS_FULL start_when_many starved stranger_dials"
FABRIC_TESTS_FULL="$FABRIC_TESTS_FULL stranger_listens taken_back threads timed_out"
FABRIC_TESTS_FULL="$FABRIC_TESTS_FULL timeouts unregister unused_fields vector wait warm"
FABRIC_TESTS_FULL="$FABRIC_TESTS_FULL watch_first"
FABRIC_FAULTS=("SIGKILL")
FABRIC_FAULTS_FULL=("dropped, deadline" "SIGSTOP, deadline" "SIGSTOP, dead_after" "dropped, dead_after" revoked restarted)

# Between two processes of this host, of a device each: the second host has no address by which
# rdma_cm finds one.
pusher_over_rxm() {
	local before

	before=$(sent v0)
	PUSHER_SET=$FABRIC_SET PUSHER_REQUESTS=3 PUSHER_DECODE_TRANSPORT="fabric:$FABRIC_RXM@rxe_v1" \
		pusher --transport "fabric:$FABRIC_RXM@rxe_v0" || return
	before=$(($(sent v0) - before))
	echo "v0 sent $before bytes"
	[ "$before" -gt "$BUSY" ]
}

# fabric_api NAME[:OPTION]...: from one device to the other.
fabric_api() {
	local words

	IFS=: read -ra words <<<"$1"
	timeout 200 $FABRIC_SET "$build/test/api/api-${words[0]}" "${words[@]:1}" \
		"--transport=fabric:$FABRIC_RXM@rxe_v0" "--far=fabric:$FABRIC_RXM@rxe_v1"
}

# What its cache keeps could not be taken back.
cache_refused() {
	local text

	text=$("$build/liburccl/info/urccl_info" --transport "fabric:$FABRIC_RXM" 2>&1) && return 1
	says "$text" "no context can be opened: .*caches registrations.*FI_MR_CACHE_MONITOR=disabled"
}

ib_fabric() {
	local case fault tests=$FABRIC_TESTS cases=$FABRIC_CASES faults=("${FABRIC_FAULTS[@]}")
	local program=$build/test/conformance/conformance

	# 10 MiB that the emulated processor need not read in each process.
	FABRIC_SET+=" LD_PRELOAD=$PWD/$build/test/provider/kallsyms.so"
	if [ "$full" = --full ]; then
		cases=$("$program" --list | grep -vE '^(sim|ib)_|^fabric_unruly$')
		tests="$tests $FABRIC_TESTS_FULL"
		faults+=("${FABRIC_FAULTS_FULL[@]}")
	fi
	try "urccl_info, $FABRIC_RXM and its cache" cache_refused
	for case in $cases; do # leak takes 174 s of a processor that has nothing else to do
		try "conformance $case, $FABRIC_RXM" timeout 400 $FABRIC_SET \
			"$program" "--transport=fabric:$FABRIC_RXM" --case="$case"
	done
	for case in $tests; do
		try "${case%%:*}, $FABRIC_RXM" fabric_api "$case"
	done
	try "the pusher, $FABRIC_RXM" pusher_over_rxm
	for fault in "${faults[@]}"; do
		try "faults, $FABRIC_RXM: $fault" timeout 400 $FABRIC_SET \
			"$build/test/faults/faults" "--transport=fabric:$FABRIC_RXM" $full "--only=$fault"
		mend
	done
}

# Two hosts: data by the rail, all else by c.
pusher_over_ib() {
	local before beside

	before=$(sent v0)
	UCCL_P2P_RDMA_DEV==rxe_v0 PUSHER_DECODE_DEV==rxe_v1 PUSHER_REQUESTS=3 \
		pusher --transport ib || return
	beside=$(($(sent v0) - before))
	echo "v0 sent $beside bytes"
	[ "$beside" -gt "$BUSY" ]
}

# busy PID DEVICE...: while the process lives, until each of them has sent that much from now on. A
# rail that did not come up is tried again after up to half a minute.
busy() {
	local pid=$1 device until=$((SECONDS + 80))
	local -A goal

	shift
	for device; do
		goal[$device]=$(($(sent "$device") + BUSY))
	done
	for device; do
		until [ "$(sent "$device")" -gt "${goal[$device]}" ]; do
			kill -0 "$pid" || return
			if [ "$SECONDS" -ge "$until" ]; then
				echo "$device did not send $BUSY bytes"
				return 1
			fi
			sleep 0.1
		done
	done
}

# v alone: so long is looked at w, whose link is down.
v_alone() {
	local w

	w=$(sent w0)
	sleep 3
	busy "$1" v0 || return
	w=$(($(sent w0) - w))
	echo "w0 sent $w bytes"
	[ "$w" -lt "$QUIET" ]
}

# One is pulled under writes, and comes back: no write fails, which would end them, and each has its
# share while it can. 143: they were under way to the last.
two_rails() {
	local perf status=0

	timeout 300 "$build/bench/urccl_perf" --self --op write --size 1m --depth 8 --duration 200 \
		--transport ib --device =rxe_v0,rxe_w0 --server-device =rxe_v1,rxe_w1 &
	perf=$!
	busy "$perf" v0 w0 || status=1
	link_down w0 && v_alone "$perf" || status=1
	link_up w0 && busy "$perf" v0 w0 || status=1
	kill "$perf"
	wait "$perf"
	[ "$?" = 143 ] && return "$status"
}

two_hosts() {
	rails_up && far_host_up
}

ib_hosts() {
	try "rails v and w, and a second host" two_hosts
}

# A behaviour of several rails, or of the only one, while links go down and up.
rail_test() {
	local devices="=rxe_v0,rxe_w0;=rxe_v1,rxe_w1" status

	[ "$1" != rail_only ] || devices="=rxe_v0;=rxe_v1"
	# Where the processor is what bounds both a second one brings nothing, and has no share.
	[ "$1" != rail_back ] || { bad v0 rate 160mbit && bad w0 rate 160mbit; } || return
	timeout 400 "$build/test/api/api-$1" --transport=ib "--rdma=$devices" --pull=test/vm/pull
	status=$?
	mend
	return "$status"
}

# notes_in_trouble N: so many notifications while both rails lose packets, the queue pairs of one
# are killed, and the link of the other goes down and up.
notes_in_trouble() {
	local status flaps

	bad v0 loss 1% && bad w0 loss 1% || return
	while sleep 5; do
		link_down w0
		sleep 1
		link_up w0
	done &
	flaps=$!
	UCCL_IBV_SO=$PWD/$build/test/conformance/ibv_shim.so SHIM=kill=31:rxe_v0,report=1 \
		timeout 1000 "$build/test/api/api-notes" --transport=ib --notes="$1" --breaks=$(($1 / 5000 + 1)) \
		"--rdma==rxe_v0,rxe_w0;=rxe_v1,rxe_w1"
	status=$?
	kill "$flaps"
	wait "$flaps"
	# Either: a rail whose queue pairs were killed at once may have sent next to nothing.
	dropped v0 || dropped w0 || status=1
	mend
	return "$status"
}

ib_notes() {
	local n=2000

	[ "$full" != --full ] || n=100000
	try "$n notifications in trouble, ib" notes_in_trouble "$n"
}

# late_writes N: so many go again from a rail that is late, and whose queue pairs die.
late_writes() {
	local status

	UCCL_IBV_SO=$PWD/$build/test/conformance/ibv_shim.so SHIM=report=1 \
		timeout 3000 "$build/test/api/api-late_canary" --transport=ib --rounds="$1" \
		--late=test/vm/late "--rdma==rxe_v0,rxe_w0;=rxe_v1,rxe_w1"
	status=$?
	mend
	return "$status"
}

ib_late() {
	local n=300

	[ "$full" != --full ] || n=10000
	try "$n writes go again, ib" late_writes "$n"
}

ib_two_rails() {
	local test tests="rail_down"

	[ "$full" != --full ] || tests="$tests rail_back rail_only"
	for test in $tests; do
		try "$test, ib" rail_test "$test"
	done
	try "rails v and w at once, w pulled" two_rails
}

ib_pusher() {
	try "the pusher, ib between two hosts" pusher_over_ib
}

ib_faults() {
	local fault faults=(SIGKILL restarted "link down")

	[ "$full" != --full ] ||
		faults+=("SIGSTOP, deadline" "SIGSTOP, dead_after" "dropped, deadline"
			"dropped, dead_after" revoked)
	for fault in "${faults[@]}"; do
		try "faults, ib: $fault" timeout 400 \
			"$build/test/faults/faults" --transport=ib $full "--only=$fault"
		mend
	done
}

ib() {
	if [ ! -x "$build/bench/raw_verbs" ]; then
		skipped=$((skipped + 1))
		echo "rails: skipped: built without libibverbs"
		return
	fi
	ib_hosts
	ib_rails
	ib_info
	ib_conformance
	ib_api
	ib_fabric
	ib_two_rails
	ib_late
	ib_notes
	ib_pusher
	ib_faults
}
