# SPDX-License-Identifier: Apache-2.0
# suite's part with RDMA devices: that the rails are what the tests over them take them for. It uses
# what suite has.

# What crosses the rails is counted outside RDMA: bytes that the links' ends sent.
crosses() {
	local device=$1 other=$2 before beside

	shift 2
	before=$(sent "$device")
	beside=$(sent "$other")
	"$@" || return
	before=$(($(sent "$device") - before))
	beside=$(($(sent "$other") - beside))
	echo "$device sent $before bytes, $other $beside"
	[ "$before" -gt 1000000 ] && [ "$beside" = 0 ]
}

# A link that is down carries nothing, and the other rail does not notice.
other_rail_down() {
	local status

	link_down w0 || return
	crosses v0 w0 "${raw[@]}" --device rxe_v0,rxe_v1 --mode write
	status=$?
	link_up w0 && return "$status"
}

fails() {
	! "$@"
}

ib() {
	local rail raw=(timeout 60 "$build/bench/raw_verbs" --duration 0.3)

	if [ ! -x "$build/bench/raw_verbs" ]; then
		skipped=$((skipped + 1))
		echo "rails: skipped: built without libibverbs"
		return
	fi
	try "rails" rails_up
	for rail in v w; do
		try "rail $rail" crosses "${rail}0" "$([ $rail = v ] && echo w0 || echo v0)" \
			"${raw[@]}" --device "rxe_${rail}0,rxe_${rail}1" --mode write
	done
	try "rail v, packets lost" test/vm/with "v0 loss 1%" -- \
		"${raw[@]}" --device rxe_v0,rxe_v1 --mode write
	try "a fault elsewhere is told" fails test/vm/with "w0 loss 50%" -- \
		"${raw[@]}" --device rxe_v0,rxe_v1 --mode write
	try "rail v while w is down" other_rail_down
	try "rail w, back again" "${raw[@]}" --device rxe_w0,rxe_w1
}
