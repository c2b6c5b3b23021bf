/* SPDX-License-Identifier: Apache-2.0 */
/* urccl_info --probe: connects two contexts and measures the path between them. */
#include "info.h"

#include <errno.h>
#include <string.h>

#define CONNECT_MS 5000u

void end_close(struct end *e)
{
	urccl_close(e->ctx);
	e->ctx = NULL;
}

int end_open(struct end *e, const struct urccl_params *p)
{
	int err = urccl_open(p, &e->ctx);

	return err ? err : urccl_ring_open(e->ctx, NULL, &e->ring);
}

int end_dial(struct end *e, const void *to, uint32_t len, uint32_t ms, char *why, uint32_t why_len)
{
	struct urccl_wait_args args = {.size = sizeof(args), .timeout_ns = 2ull * ms * 1000000};
	struct urccl_sqe *sqe = urccl_get_sqe(e->ring);
	struct urccl_cqe *cqe = NULL;
	int res;

	urccl_prep_connect(sqe, to, len);
	urccl_sqe_set_deadline_us(sqe, ms * 1000);
	urccl_submit(e->ring);
	res = urccl_wait(e->ring, &cqe, &args);
	if (res < 0 || !cqe) {
		snprintf(why, why_len, "no answer of the library");
		return res < 0 ? res : -ETIME;
	}
	res = (int)cqe->res;
	if (res < 0)
		urccl_explain(e->ctx, cqe, why, why_len);
	else
		e->peer.id = (uint32_t)cqe->handle;
	urccl_cqe_seen(e->ring, cqe);
	return res;
}

int ends_connect(struct end *a, struct end *b, uint32_t ms, char *why, uint32_t why_len)
{
	uint8_t blob[URCCL_METADATA_MAX];
	int n = urccl_metadata(b->ctx, blob, sizeof(blob));

	if (n < 0) {
		snprintf(why, why_len, "%s", urccl_errmsg());
		return n;
	}
	urccl_prep_accept(urccl_get_sqe(b->ring));
	urccl_submit(b->ring);
	return end_dial(a, blob, (uint32_t)n, ms, why, why_len);
}

/* ---- measurements ---- */

static double gb_per_s(uint64_t bytes, uint64_t ns)
{
	return ns ? (double)bytes / (double)ns : 0;
}

/* The name of the transport that the entries took. */
static void name_of(struct urccl *ctx, uint32_t path, struct urccl_device *d)
{
	uint32_t i;

	for (i = 0; !urccl_devices(ctx, i, d); i++)
		if (d->transport == (path & URCCL_PATH_TRANSPORT))
			return;
	snprintf(d->name, sizeof(d->name), "?");
}

static void report(const char *name, const struct urccl_measurement *p, struct json *j)
{
	if (!j) {
		printf("%-9s  %-6s  %9.2f us  %9.2f us  %8.2f GB/s  %8.2f GB/s\n", name,
		       p->mapped ? "mapped" : "-", (double)p->rtt_median_ns / 1e3,
		       (double)p->rtt_min_ns / 1e3, gb_per_s(p->written, p->write_ns),
		       gb_per_s(p->read, p->read_ns));
		return;
	}
	json_open(j, NULL, '{');
	json_text(j, "transport", name);
	json_whole(j, "mapped", p->mapped);
	json_whole(j, "exchanges", p->exchanges);
	json_whole(j, "rtt_min_ns", (long long)p->rtt_min_ns);
	json_whole(j, "rtt_median_ns", (long long)p->rtt_median_ns);
	json_whole(j, "written", (long long)p->written);
	json_whole(j, "write_ns", (long long)p->write_ns);
	json_whole(j, "read", (long long)p->read);
	json_whole(j, "read_ns", (long long)p->read_ns);
	json_close(j, '}');
}

static int end_measure(struct end *e, struct json *j, char *why, uint32_t why_len)
{
	struct urccl_device d = {.size = sizeof(d)};
	struct urccl_measurement p = {.size = sizeof(p)};
	int err = urccl_measure(e->ctx, e->peer, NULL, &p);

	if (err) {
		snprintf(why, why_len, "%s", urccl_errmsg());
		return err;
	}
	name_of(e->ctx, p.path, &d);
	report(d.name, &p, j);
	return 0;
}

/* Measures the path to the listener at address, or (NULL) to a context of this process. */
static int probe_one(const struct urccl_params *p, const char *address, struct json *j)
{
	char why[512] = "";
	struct end a = {0}, b = {0};
	int err = end_open(&a, p);

	if (!err && !address)
		err = end_open(&b, p);
	if (err)
		snprintf(why, sizeof(why), "%s", urccl_errmsg());
	else if (address)
		err = end_dial(&a, address, (uint32_t)strlen(address), CONNECT_MS, why,
			       sizeof(why));
	else
		err = ends_connect(&a, &b, CONNECT_MS, why, sizeof(why));
	if (err >= 0)
		err = end_measure(&a, j, why, sizeof(why));
	if (err)
		fprintf(stderr, "urccl_info: %s: %s\n", address ? address : p->transport, why);
	end_close(&a);
	end_close(&b);
	return err;
}

/* The word of the list that names the transport: "fabric:tcp" in "shm,fabric:tcp". */
static void word_of(const char *asked, const char *name, char *to, size_t size)
{
	size_t n, len = strlen(name);

	snprintf(to, size, "%s", name);
	for (; asked && *asked; asked += n + (asked[n] == ',')) {
		n = strcspn(asked, ",");
		if (n > len && !strncmp(asked, name, len) && asked[len] == ':')
			snprintf(to, size, "%.*s", (int)n, asked);
	}
}

/* Measures each transport that opens here, by itself. Returns how many failed. */
static int probe_here(struct urccl_params *p, struct json *j)
{
	struct urccl_device d = {.size = sizeof(d)};
	const char *asked = p->transport;
	uint32_t i, last = URCCL_TRANSPORT_NONE;
	char word[256];
	struct urccl *ctx;
	int wrong = 0;

	for (i = 0;; i++) {
		p->transport = asked;
		if (urccl_open(p, &ctx)) {
			fprintf(stderr, "urccl_info: no context can be opened: %s\n",
				urccl_errmsg());
			return 1;
		}
		if (urccl_devices(ctx, i, &d) || d.state != URCCL_DEVICE_OPEN) {
			urccl_close(ctx);
			return wrong;
		}
		urccl_close(ctx);
		if (d.transport == last) /* another NIC of the same transport */
			continue;
		last = d.transport;
		word_of(asked, d.name, word, sizeof(word));
		p->transport = word;
		wrong += probe_one(p, NULL, j) != 0;
	}
}

int probe_run(const char *address, const char *transport, int as_json)
{
	struct urccl_params p = {.size = sizeof(p)};
	struct json out = {.to = stdout}, *j = as_json ? &out : NULL;
	int wrong;

	urccl_params_init(&p);
	if (urccl_params_from_env(&p)) {
		fprintf(stderr, "urccl_info: %s\n", urccl_errmsg());
		return INFO_WRONG;
	}
	if (transport)
		p.transport = transport;
	if (j) {
		json_open(j, NULL, '{');
		json_text(j, "to", address ? address : "this process");
		json_open(j, "ways", '[');
	} else {
		printf("transport  memory  8 bytes, median         least       writes         reads\n");
	}
	wrong = address ? probe_one(&p, address, j) != 0 : probe_here(&p, j);
	if (j) {
		json_close(j, ']');
		json_close(j, '}');
		printf("\n");
	}
	return wrong ? INFO_WRONG : 0;
}
