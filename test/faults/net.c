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

static int connect_them(pid_t peers)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "exec 2>&1 >/dev/null; ip link set lo up && "
		 "ip link add fa type veth peer name fb netns %d && "
		 "ip addr add " NET_OURS "/24 dev fa && ip link set fa up && "
		 "nsenter -t %d -n sh -c 'ip link set lo up && ip addr add " NET_PEER "/24 dev fb && "
		 "ip link set fb up'",
		 (int)peers, (int)peers);
	return net_shell(text);
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
