/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of one process is mapped in another, by legacy handle and by descriptor, and both see the
 * bytes. Memory that cannot be shared is refused, as is a length beyond the allocation. */
#include <sys/socket.h>
#include <sys/wait.h>

#include "gpu_rig.h"

int case_gpu_share(void);

#define LEN (2u << 20)

struct offer {
	struct gpu_share share;
	uint64_t off;
};

static void send_offer(int to, const struct offer *o)
{
	struct iovec iov = {(void *)(uintptr_t)o, sizeof(*o)};
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;

	if (o->share.fd >= 0) {
		m.msg_control = control;
		m.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &o->share.fd, sizeof(int));
	}
	CHECK_EQ(sendmsg(to, &m, 0), sizeof(*o));
}

static void receive_offer(int from, struct offer *o)
{
	struct iovec iov = {o, sizeof(*o)};
	char control[CMSG_SPACE(sizeof(int))];
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};

	CHECK_EQ(recvmsg(from, &m, 0), sizeof(*o));
	o->share.fd = -1;
	if (m.msg_controllen)
		memcpy(&o->share.fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
}

/* Reads 'a's and writes 'b's. */
static void use_offer(struct gpu_rig *r, struct gpu_dev *dev, const struct offer *o)
{
	struct gpu_share longer = {.how = o->share.how, .fd = -1, .len = LEN + 1};
	struct gpu_import *imp = rig_import(dev, &o->share);
	uint8_t *host = rig_pinned(r, 4096);

	memcpy(longer.handle, o->share.handle, sizeof(longer.handle));
	rig_import_refused(dev, &longer);
	CHECK_EQ(imp->code, 0);
	CHECK_EQ(imp->res, 0);
	rig_copy(r, dev, GPU_OUT, rig_addr(host), imp->addr + o->off, 4096);
	CHECK(host[0] == 'a' && host[4095] == 'a');
	memset(host, 'b', 4096);
	rig_copy(r, dev, GPU_IN, imp->addr + o->off, rig_addr(host), 4096);
	gpu_unimport(dev, imp);
}

static int importer(int sock)
{
	struct offer o;
	struct gpu_rig r;
	uint8_t n;
	int i;

	rig_open(&r, 0);
	for (i = 0; i < 2; i++) {
		receive_offer(sock, &o);
		use_offer(&r, rig_dev(&r, 0), &o);
		CHECK_EQ(write(sock, &n, 1), 1);
	}
	CHECK_EQ(gpu_close(r.gpu), 0);
	return 0;
}

static void offer(struct gpu_rig *r, int sock, uint64_t base, uint64_t off, enum gpu_share_how how)
{
	uint8_t host[4096], n;
	struct offer o = {.off = off};
	int code;

	memset(host, 'a', sizeof(host));
	rig_put(r, base + off, host, sizeof(host));
	CHECK_EQ(gpu_export(rig_dev(r, 0), base + off, &o.share, &code), 0);
	CHECK_EQ(o.share.how, how);
	CHECK_EQ(o.share.base, base);
	CHECK_EQ(o.share.len, LEN);
	CHECK(!memcmp(o.share.uuid, gpu_about(rig_dev(r, 0))->uuid, 16));
	send_offer(sock, &o);
	CHECK_EQ(read(sock, &n, 1), 1);
	CHECK_EQ(r->cuMemcpyDtoH_v2(host, base + off, sizeof(host)), 0);
	CHECK(host[0] == 'b' && host[4095] == 'b');
	if (o.share.fd >= 0)
		close(o.share.fd);
}

static uint64_t mapped(struct gpu_rig *r, int handles)
{
	const struct {
		int type, handles, location, device;
		void *win32;
		uint64_t flags;
	} prop = {1, handles, 1, 0, NULL, 0};
	const int access[] = {1, 0, 3};
	uint64_t at, handle;

	CHECK_EQ(r->cuMemAddressReserve(&at, LEN, 0, 0, 0), 0);
	CHECK_EQ(r->cuMemCreate(&handle, LEN, &prop, 0), 0);
	CHECK_EQ(r->cuMemMap(at, LEN, 0, handle, 0), 0);
	CHECK_EQ(r->cuMemSetAccess(at, LEN, access, 1), 0);
	return at;
}

int case_gpu_share(void)
{
	struct gpu_share share;
	struct gpu_rig r;
	int sock[2], status, code;
	pid_t pid;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sock), 0);
	pid = fork();
	if (!pid) {
		close(sock[0]);
		test_end(importer(sock[1]));
	}
	close(sock[1]);
	rig_open(&r, 0);
	offer(&r, sock[0], rig_alloc(&r, 0, LEN), 8192, GPU_SHARE_LEGACY);
	offer(&r, sock[0], mapped(&r, 1), 8192, GPU_SHARE_FD);
	CHECK_EQ(gpu_export(rig_dev(&r, 0), mapped(&r, 0), &share, &code), -EOPNOTSUPP);
	CHECK_EQ(gpu_export(rig_dev(&r, 0), rig_addr(&share), &share, &code), -EOPNOTSUPP);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	CHECK_EQ(gpu_close(r.gpu), 0);
	return 0;
}
