/* SPDX-License-Identifier: Apache-2.0 */
/* A network of two namespaces and a link: packets can be dropped and the link taken down without
 * anybody else noticing. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include "faults.h"
#include "ns.h"

static int has_v6;
static char peers_ns[64] = RAILS_PEERS; /* until net_open() makes another */

/* Root of a namespace of its own, whoever it is outside. */
static int enter(void)
{
	if (!ns_enter(CLONE_NEWNET, 1))
		return 0;
	return getuid() ? -1 : unshare(CLONE_NEWNET);
}

int net_shell(const char *command)
{
	int status = system(command);

	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Keeps the peers' namespace for as long as this process lives. */
static pid_t hold(void)
{
	int ready[2];
	pid_t pid;
	char c;

	CHECK_EQ(pipe(ready), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ready[0]);
		if (unshare(CLONE_NEWNET))
			_exit(1);
		CHECK_EQ(write(ready[1], "r", 1), 1);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (read(ready[0], &c, 1) != 1)
		pid = -1;
	close(ready[0]);
	return pid;
}

/* ours and theirs: two ends of a link, with one address each. */
static int connect_by(pid_t peers, const char *ours, const char *at, const char *theirs,
		      const char *there)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "exec 2>&1 >/dev/null; ip link set lo up && "
		 "ip link add %s type veth peer name %s netns %d && "
		 "ip addr add %s/24 dev %s && ip link set %s up && "
		 "nsenter -t %d -n sh -c 'ip link set lo up && ip addr add %s/24 dev %s && "
		 "ip link set %s up'",
		 ours, theirs, (int)peers, at, ours, ours, (int)peers, there, theirs, theirs);
	return net_shell(text);
}

static int connect_them(pid_t peers)
{
	return connect_by(peers, "fa", NET_OURS, "fb", NET_PEER) ||
	       connect_by(peers, "ga", "10.78.0.1", "gb", NET_OTHER);
}

/* Addresses that stay while the link is down, and that are good at once. */
static int connect_v6(pid_t peers)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "exec 2>&1 >/dev/null; "
		 "echo 1 >/proc/sys/net/ipv6/conf/fa/keep_addr_on_down && "
		 "ip addr add fd77::1/64 dev fa nodad && nsenter -t %d -n sh -c '"
		 "echo 1 >/proc/sys/net/ipv6/conf/fb/keep_addr_on_down && "
		 "ip addr add fd77::2/64 dev fb nodad'",
		 (int)peers);
	return net_shell(text);
}

int net_v6(void)
{
	return has_v6;
}

const char *net_open(void)
{
	pid_t peers;

	setenv("PATH", "/usr/sbin:/sbin:/usr/bin:/bin", 1);
	if (net_shell("command -v ip >/dev/null && command -v nft >/dev/null && "
		      "command -v nsenter >/dev/null"))
		return "ip, nft or nsenter is not installed";
	if (enter())
		return "user and network namespaces are denied here";
	peers = hold();
	if (peers < 0)
		return "a second network namespace is denied here";
	snprintf(peers_ns, sizeof(peers_ns), "/proc/%d/ns/net", (int)peers);
	if (connect_them(peers))
		return "no veth pair may be made here";
	has_v6 = !connect_v6(peers);
	if (net_shell("nft add table inet probe 2>/dev/null && nft delete table inet probe"))
		return "nftables may not be used in a namespace here";
	return NULL;
}

void net_enter_peers(void)
{
	int fd = open(peers_ns, O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	CHECK_EQ(setns(fd, CLONE_NEWNET), 0);
	close(fd);
}

void net_drop(int on)
{
	CHECK_EQ(
		net_shell(
			on ? "nft 'add table inet cut; "
			     "add chain inet cut in { type filter hook input priority 0; policy drop; }; "
			     "add chain inet cut out { type filter hook output priority 0; policy drop; }'"
			   : "nft delete table inet cut"),
		0);
}

void net_link(int up)
{
	CHECK_EQ(net_shell(up ? "ip link set fa up" : "ip link set fa down"), 0);
}

void net_other(int up)
{
	CHECK_EQ(net_shell(up ? "ip link set ga up" : "ip link set ga down"), 0);
}

void net_carrier(int up)
{
	char text[128];

	snprintf(text, sizeof(text), "nsenter --net=%s ip link set fb %s", peers_ns,
		 up ? "up" : "down");
	CHECK_EQ(net_shell(text), 0);
}
