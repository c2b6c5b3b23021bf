/* SPDX-License-Identifier: Apache-2.0 */
/* A context says on which addresses and port it listens, and who dials that text reaches it. */
#include "meet.h"

static struct pair p;

static void refused(struct urccl *ctx, uint32_t i, int err, const char *why)
{
	char text[64] = "";

	CHECK_EQ(urccl_listening(ctx, i, text, sizeof(text)), err);
	CHECK(strstr(urccl_errmsg(), why));
	CHECK_EQ(*text, 0);
}

int main(int argc, char **argv)
{
	char text[64], cut[5];
	int len;

	pair_options(&p, argc, argv);
	pair_sim(&p);
	p.params.listen = "";
	side_open(&p, &p.a);
	refused(p.a.ctx, 0, -EOPNOTSUPP, "does not listen");
	p.params.listen = "127.0.0.1:0,127.0.0.2:0";
	side_open(&p, &p.b);
	side_accept(&p.b, 1);
	len = urccl_listening(p.b.ctx, 1, text, sizeof(text));
	CHECK_EQ(len, (int)strlen(text));
	CHECK(!strncmp(text, "127.0.0.2:", 10) && text[10] != '0');
	CHECK_EQ(urccl_listening(p.b.ctx, 1, cut, sizeof(cut)), len);
	CHECK(!strcmp(cut, "127."));
	refused(p.b.ctx, 2, -ENOENT, "2 addresses");
	CHECK_EQ(urccl_listening(p.b.ctx, 0, NULL, 0), -EINVAL);
	CHECK_EQ(side_dialled(&p.a, &p.b, text, (uint32_t)len, 10000000).res, 0);
	pair_close(&p);
	return 0;
}
