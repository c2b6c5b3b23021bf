# SPDX-License-Identifier: Apache-2.0
# The guest's networks and their faults, for bash scripts that run in the guest as root:
# `. test/vm/network.sh`.
#
#	first namespace                                      namespace far
#	rxe_v0 on v0 10.78.0.1 ====== v1 10.78.0.2 with rxe_v1
#	rxe_w0 on w0 10.79.0.1 ====== w1 10.79.0.2 with rxe_w1
#	          c0 10.77.0.1 --------------------------------- c1 10.77.0.2
#
# Both ends of the rails v and w lie in the first namespace, since rxe looks for routes in that one
# alone; their packets cross the links all the same. Whatever is opened on rxe_v0 and rxe_v1 talks
# over v0 and v1, and netem or a link that is down there acts on it. A second host is a process in
# namespace far, which may open rxe_v1 too (RDMA devices are in every namespace): its TCP crosses c.
# TCP between two addresses of the first namespace crosses no link.

# RoCE packets of 4096 bytes.
RAIL_MTU=4500
# Packets that a queue holds, more than all queue pairs of a test have under way: what netem delays,
# it does not drop.
NETEM_QUEUE=20000

network_fails() {
	echo "network: $*" >&2
	return 1
}

# rail_up NAME SUBNET: devices rxe_NAME0 and rxe_NAME1 at the ends of a link of their own.
rail_up() {
	local name=$1 subnet=$2 end

	ip link add "${name}0" type veth peer name "${name}1" || return
	for end in 0 1; do
		# Their GID tables are the same each time: the port's own, then the IPv4 address.
		echo 1 >"/proc/sys/net/ipv6/conf/$name$end/disable_ipv6"
		echo 0 >"/proc/sys/net/ipv4/conf/$name$end/rp_filter"
		ip link set "$name$end" mtu "$RAIL_MTU" up || return
		# What arrives is the second processor's work, as elsewhere it is a device's: else a
		# program that spins on the first has half of its time.
		echo 2 >"/sys/class/net/$name$end/queues/rx-0/rps_cpus"
		ip addr add "$subnet.$((end + 1))/24" dev "$name$end" || return
		rdma link add "rxe_$name$end" type rxe netdev "$name$end" || return
	done
	for end in 0 1; do
		rail_active "rxe_$name$end" || return
	done
}

# The port is active and has its address's GID: both come by events of the network, after the call.
rail_active() {
	local port=/sys/class/infiniband/$1/ports/1 tries

	for tries in $(seq 100); do
		grep -q ACTIVE "$port/state" 2>/dev/null &&
			grep -q ':ffff:' "$port/gids/1" 2>/dev/null && return
		sleep 0.1
	done
	network_fails "$1 did not become active"
}

# The rails v and w.
rails_up() {
	[ ! -e /sys/class/infiniband/rxe_v0 ] || return 0
	# What a hundred queued reads are answered with is more than the thousand packets that a
	# processor takes in by default.
	echo "$NETEM_QUEUE" >/proc/sys/net/core/netdev_max_backlog
	# Packets from an address of ours are taken in, for both ends are ours.
	echo 1 >/proc/sys/net/ipv4/conf/all/accept_local
	echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
	rail_up v 10.78.0 && rail_up w 10.79.0
}

# Namespace far, with a link c0-c1 to it.
far_host_up() {
	[ ! -e /run/netns/far ] || return 0
	ip netns add far &&
		ip link add c0 type veth peer name c1 netns far &&
		ip addr add 10.77.0.1/24 dev c0 &&
		ip link set c0 up &&
		ip -n far addr add 10.77.0.2/24 dev c1 &&
		ip -n far link set lo up &&
		ip -n far link set c1 up
}

# far COMMAND...: on the second host.
far() {
	ip netns exec far "$@"
}

# bad DEVICE NETEM...: what the device sends is lost, delayed, slowed down, as tc-netem(8) says.
bad() {
	local device=$1

	shift
	tc qdisc replace dev "$device" root netem limit "$NETEM_QUEUE" "$@"
}

good() {
	tc qdisc del dev "$1" root
}

# A fault that did not happen proves nothing: dropped and carried look at the counters of the
# device's own queue, so before good().

# dropped DEVICE: packets were lost there.
dropped() {
	tc -s qdisc show dev "$1" root | grep -oE 'dropped [1-9][0-9]*'
}

# carried DEVICE BYTES: at least so many were sent through it.
carried() {
	local sent

	sent=$(tc -s qdisc show dev "$1" root | sed -n 's/^ *Sent \([0-9]*\) bytes.*/\1/p')
	echo "$1 sent ${sent:-nothing}"
	[ "${sent:-0}" -ge "$2" ]
}

# sent DEVICE: bytes since it was made, whatever its queue is.
sent() {
	cat "/sys/class/net/$1/statistics/tx_bytes"
}

link_down() {
	ip link set "$1" down
}

# The ports at both of its ends were down.
link_up() {
	local end

	ip link set "$1" up || return
	for end in "${1%[01]}0" "${1%[01]}1"; do
		[ ! -e "/sys/class/infiniband/rxe_$end" ] || rail_active "rxe_$end" || return
	done
}

# Whatever a test left undone on the links is undone.
mend() {
	local device

	for device in c0 v0 v1 w0 w1 lo; do
		good "$device" 2>/dev/null
		ip link set "$device" up
	done
	far tc qdisc del dev c1 root 2>/dev/null
	for device in v0 v1 w0 w1; do
		rail_active "rxe_$device"
	done
}
