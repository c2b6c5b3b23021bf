#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# inside.sh LIST: the part of confined.py that runs inside the namespaces. Each line of LIST is a
# time limit, a name and a command; what is neither 0 nor 77 is a failure. LIST.done says what each
# ended with.
ip link set lo up || exit 3
[ ! -d /dev/shm ] || mount -t tmpfs -o ro,size=4k none /dev/shm || exit 3
ulimit -l 64
failed=0 passed=0 skipped=0
while read -r limit name command; do
	# No capability, inside the namespace either.
	setpriv --inh-caps=-all --ambient-caps=-all --bounding-set=-all --no-new-privs \
		timeout "$limit" $command >"$1.out" 2>&1 </dev/null
	status=$?
	echo $status >>"$1.done"
	case $status in
	0) passed=$((passed + 1)) ;;
	77) skipped=$((skipped + 1)); echo "$name: $(tail -n 1 "$1.out")" ;;
	*)
		failed=$((failed + 1))
		echo "$name: failed: status $status"
		cat "$1.out"
		;;
	esac
done <"$1"
echo "confined: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
