/* SPDX-License-Identifier: Apache-2.0 */
/* Address vectors: tables of names. */
#include <stdlib.h>
#include <unistd.h>
#include "prov.h"

static struct prov_av *av_of(struct fid_av *fid)
{
	return container_of(fid, struct prov_av, fid);
}

/* For a test to look up: how many names there are, in all vectors. */
__attribute__((visibility("default"))) extern uint32_t urccl_test_names;
uint32_t urccl_test_names;

const char *av_name(const struct prov_av *av, fi_addr_t addr)
{
	if (addr >= av->n || av->names[addr].gone)
		DIE("address %llu is not in the vector", (unsigned long long)addr);
	return av->names[addr].name;
}

static int room_for(struct prov_av *av, uint32_t n)
{
	void *more;

	if (n <= av->room)
		return 0;
	more = realloc(av->names, 2 * (size_t)n * sizeof(*av->names));
	if (!more)
		return -FI_ENOMEM;
	av->names = more;
	av->room = 2 * n;
	return 0;
}

static int av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *fi_addr,
		     uint64_t flags, void *context)
{
	struct prov_av *av = av_of(fid);
	const char *name = addr;
	uint64_t us = 0;
	size_t i;
	int err;

	(void)flags, (void)context;
	domain_enter(av->domain);
	if (words()->av_slow_us)
		us = domain_random(av->domain, words()->av_slow_us);
	domain_leave(av->domain);
	usleep((useconds_t)us);
	domain_enter(av->domain);
	err = room_for(av, av->n + (uint32_t)count);
	for (i = 0; !err && i < count; i++, name += strlen(name) + 1) {
		av->names[av->n] = (struct known){.gone = 0};
		strncpy(av->names[av->n].name, name, NAME_BYTES - 1);
		if (fi_addr)
			fi_addr[i] = av->n;
		av->n++;
		__atomic_add_fetch(&urccl_test_names, 1, __ATOMIC_RELAXED);
	}
	domain_leave(av->domain);
	return err ? err : (int)count;
}

/* Nothing is under way to it. */
static void check_unused(const struct prov_av *av, const char *name)
{
	struct list *pos;
	uint32_t i;

	list_for_each(pos, &av->domain->eps) {
		const struct prov_ep *ep = list_entry(pos, struct prov_ep, link);

		for (i = 0; ep->av == av && i < TX_SIZE; i++)
			if (ep->ops[i].type && !memcmp(ep->ops[i].to, name, NAME_BYTES))
				DIE("an operation is under way to %s, which is removed", name);
	}
}

static int av_remove(struct fid_av *fid, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
	struct prov_av *av = av_of(fid);
	size_t i;

	(void)flags;
	domain_enter(av->domain);
	for (i = 0; i < count; i++) {
		check_unused(av, av_name(av, fi_addr[i]));
		av->names[fi_addr[i]].gone = 1;
		__atomic_sub_fetch(&urccl_test_names, 1, __ATOMIC_RELAXED);
	}
	domain_leave(av->domain);
	return 0;
}

static int has(const struct prov_av *av, const char *name, int gone)
{
	uint32_t i;

	for (i = 0; i < av->n; i++)
		if (av->names[i].gone == gone && !strcmp(av->names[i].name, name))
			return 1;
	return 0;
}

int av_knows(const struct prov_av *av, const char *name)
{
	return has(av, name, 0);
}

int av_knew(const struct prov_av *av, const char *name)
{
	return has(av, name, 1);
}

static int av_close(struct fid *fid)
{
	struct prov_av *av = container_of(fid, struct prov_av, fid.fid);
	uint32_t i;

	domain_enter(av->domain);
	if (av->refused < words()->busy) {
		av->refused++;
		domain_leave(av->domain);
		return -FI_EBUSY;
	}
	if (av->eps)
		DIE("%u endpoints are bound to the vector", av->eps);
	av->domain->objects--;
	domain_leave(av->domain);
	for (i = 0; i < av->n; i++)
		__atomic_sub_fetch(&urccl_test_names, !av->names[i].gone, __ATOMIC_RELAXED);
	free(av->names);
	free(av);
	return 0;
}

static struct fi_ops av_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = av_close,
	.bind = no_bind,
	.control = no_control,
};

static struct fi_ops_av av_ops = {
	.size = sizeof(struct fi_ops_av),
	.insert = av_insert,
	.remove = av_remove,
};

int av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **out, void *context)
{
	struct prov_domain *d = container_of(fid, struct prov_domain, fid);
	struct prov_av *av;

	if (attr->type == FI_AV_MAP)
		return -FI_ENOSYS;
	av = calloc(1, sizeof(*av));
	if (!av)
		return -FI_ENOMEM;
	av->fid.fid = (struct fid){.fclass = FI_CLASS_AV, .context = context, .ops = &av_fid_ops};
	av->fid.ops = &av_ops;
	av->domain = d;
	domain_enter(d);
	d->objects++;
	domain_leave(d);
	*out = &av->fid;
	return 0;
}
