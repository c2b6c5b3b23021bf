/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: registered here, or described by a peer's public data. */
#include "plugin.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static constexpr uint64_t FORMAT = 1;

struct public_memory {
	uint64_t format, base, len;
	urccl_advert advert;
};
static_assert(sizeof(public_memory) == 88, "agents of several builds exchange it");

status urccl_engine::register_memory(const blob_range &what, const segment_type &type, memory *&out)
{
	std::unique_ptr<known_memory> m(new known_memory);
	urccl_region region = {};
	struct urccl_range range = URCCL_RANGE(what.addr, what.len);
	uint32_t rights = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE;

	if (type != DRAM && type != VRAM)
		return NOT_SUPPORTED;
	/* The program's text may name the file that is mapped there, which agents of this host then
	 * map too. */
	if (type == DRAM)
		sscanf(what.blob.c_str(), "fd=%" SCNd32 ",offset=%" SCNu64, &range.fd, &range.fd_off);
	int res = urccl_register(ctx, &range, 1, rights, &region);
	if (res == -EACCES)
		res = urccl_register(ctx, &range, 1, rights = URCCL_RIGHT_READ, &region);
	if (!res)
		res = urccl_advertise(ctx, region, 0, what.len, rights, 0, &m->advert);
	if (res) {
		say(URCCL_LOG_ERROR, "cannot register %zu bytes at 0x%zx: %s", what.len,
		    (size_t)what.addr, urccl_errmsg());
		urccl_unregister(ctx, region);
		return status_of(res);
	}
	m->id = region.id;
	m->base = what.addr;
	m->len = what.len;
	out = m.release();
	return SUCCESS;
}

/* NIXL ignores the result and the program frees the memory: returns when no transfer of ours uses
 * it, and no peer's, but for a frozen process that has it mapped. */
status urccl_engine::deregister_memory(memory *given)
{
	std::unique_ptr<known_memory> m(static_cast<known_memory *>(given));
	uint64_t until = now_ns() + (params.dead_after_ms + 2000ull) * 1000000u;
	int res;

	if (is_dead())
		return SUCCESS;
	do
		res = urccl_unregister(ctx, urccl_region{m->id});
	while (res == -ETIMEDOUT && now_ns() < until);
	if (res)
		say(URCCL_LOG_ERROR, "memory at 0x%zx may still be used by a peer: %s",
		    (size_t)m->base, urccl_errmsg());
	return status_of(res);
}

status urccl_engine::public_data(const memory *given, std::string &out) const
{
	auto m = static_cast<const known_memory *>(given);
	public_memory p = {FORMAT, m->base, m->len, m->advert};

	out.assign(reinterpret_cast<char *>(&p), sizeof(p));
	return SUCCESS;
}

status urccl_engine::load_remote(const blob_range &what, const segment_type &type,
				 const std::string &name, memory *&out)
{
	std::unique_ptr<known_memory> m(new known_memory);
	public_memory p;
	lock l(state);

	m->owner = find(name);
	if (type != DRAM && type != VRAM)
		return NOT_SUPPORTED;
	if (!m->owner)
		return NOT_FOUND;
	if (what.blob.size() != sizeof(p))
		return MISMATCH;
	memcpy(&p, what.blob.data(), sizeof(p));
	if (p.format != FORMAT || p.len != p.advert.length || p.base + p.len < p.base)
		return MISMATCH;
	m->id = (uint32_t)m->owner->slots.size();
	m->base = p.base;
	m->len = p.len;
	m->owner->slots.push_back({p.advert, {}});
	out = m.release();
	return SUCCESS;
}

/* A copy: NIXL may unload it after it deregistered the memory. */
status urccl_engine::load_local(memory *in, memory *&out)
{
	out = new known_memory(*static_cast<known_memory *>(in));
	return SUCCESS;
}

status urccl_engine::unload(memory *m)
{
	delete m;
	return SUCCESS;
}

status urccl_engine::connection_info(std::string &out) const
{
	char blob[URCCL_METADATA_MAX];
	int len = urccl_metadata(ctx, blob, sizeof(blob));

	out.assign(blob, (size_t)std::max(len, 0));
	return status_of(len);
}
