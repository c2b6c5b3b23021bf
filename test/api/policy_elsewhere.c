/* SPDX-License-Identifier: Apache-2.0 */
/* A required transport binds towards whom it reaches and nobody else: of two contexts whose kernels
 * seem to be two, shm does not come up and tcp takes its place although shm is required; of two on
 * one kernel nothing does. */
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>
#include "meet.h"
#include "ns.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

static struct pair p;

/* A mount namespace of our own, while there is one thread. */
static void leave(void)
{
	if (ns_enter(CLONE_NEWNS, 0))
		SKIP("a user namespace cannot be set up here");
}

/* From now on contexts take this for another machine. */
static void move(void)
{
	char path[] = "/tmp/boot_id-XXXXXX";
	static const char id[] = "00000000-0000-4000-8000-000000000000\n";
	int fd = mkstemp(path), err;

	CHECK(fd >= 0);
	CHECK_EQ(write(fd, id, sizeof(id) - 1), (int)sizeof(id) - 1);
	close(fd);
	err = mount(path, BOOT_ID, NULL, MS_BIND, NULL);
	unlink(path);
	if (err)
		SKIP("no file may be mounted over the kernel's boot ID here");
}

static struct urccl_cqe dial(struct side *from, struct side *to)
{
	uint8_t blob[URCCL_METADATA_MAX];
	int len = urccl_metadata(to->ctx, blob, sizeof(blob));

	CHECK_GE(len, 1);
	return side_dialled(from, to, blob, (uint32_t)len, 20000000);
}

int main(int argc, char **argv)
{
	struct urccl_peer_info info = {.size = sizeof(info)};
	struct side near_by, elsewhere;
	struct urccl_cqe cqe;

	pair_options(&p, argc, argv);
	leave();
	p.params.transport = "shm!,tcp";
	side_open(&p, &p.a);
	/* In a folder that a does not have: shm does not come up with either. */
	p.params.transport = "shm,tcp";
	p.params.socket_dir = "/tmp";
	side_open(&p, &near_by);
	move();
	side_open(&p, &elsewhere);
	side_accept(&near_by, 1);
	side_accept(&elsewhere, 1);

	cqe = dial(&p.a, &near_by);
	CHECK_EQ(cqe.res, -EHOSTUNREACH);
	check_sentence(&p.a, &cqe, "did not come up: shm: ");
	cqe = dial(&p.a, &elsewhere);
	CHECK_EQ(cqe.res, 0);
	CHECK_EQ(urccl_get_peer_info(p.a.ctx, (struct urccl_peer){(uint32_t)cqe.handle}, &info), 0);
	CHECK_EQ(info.transport, URCCL_TRANSPORT_TCP);
	side_close(&elsewhere);
	side_close(&near_by);
	side_close(&p.a);
	return 0;
}
